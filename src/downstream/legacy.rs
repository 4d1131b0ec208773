//! Messages of a legacy conversation, the same over HTTP and stdio: requests, notifications, answers, batches.
//!
//! `converse` and `stdio` call it with the session that the handshake made. Rules: protocol.md §2.3, §3.10, §3.11.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;

use super::refusal;
use crate::gateway::outlet::Outlet;
use crate::gateway::session::Session;
use crate::gateway::{Caller, Gateway, Peer, Reply};
use crate::protocol::classify::{self, Refusal};
use crate::protocol::jsonrpc::{self, Id, Message, Notification, Reading, Request};
use crate::protocol::method::{Method, notification};
use crate::protocol::revision::Era;

/// One session's side of the gateway.
#[derive(Clone, Debug)]
pub struct Conversation {
    gateway: Gateway,
    session: Arc<Session>,
    caller: Caller,
}

impl Conversation {
    /// Of this session.
    pub fn new(gateway: Gateway, session: Arc<Session>) -> Self {
        let caller = Caller {
            endpoint: session.endpoint.clone(),
            principal: session.principal.clone(),
            peer: Peer::Legacy(Arc::clone(&session)),
        };
        Self { gateway, session, caller }
    }

    /// Whose it is.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Serves a request; `None` when it was withdrawn or its session ended, and nothing may be answered.
    pub async fn request(&self, request: &Request<'_>, outlet: &Outlet) -> Option<Reply> {
        if request.method == Method::Initialize.as_str() {
            // Alone it begins a session and never comes here; with others it may not come (protocol.md §3.11).
            let refusal =
                Refusal::invalid("initialized", "a batch cannot initialize; its session is initialized already");
            return Some(refused(&refusal, Some(request.id.as_raw())));
        }
        let Some(method) = served(&request.method) else {
            return Some(self.refuse(&classify::method_unknown(Era::Legacy), Some(request.id.as_raw())));
        };
        if method != Method::Ping {
            self.session.set_initialized();
        }
        // A client may send a request again after its connection broke, while the first one still runs: both are served,
        // and only the first one can be withdrawn by id.
        let in_flight = self.session.begin(request.id);
        let cancelled = in_flight.as_ref().map_or(&self.session.ended, |f| &f.cancelled);
        tokio::select! {
            biased;
            () = cancelled.cancelled() => None,
            reply = self.gateway.handle(method, request, &self.caller, None, outlet) => Some(reply),
        }
    }

    /// Takes a notification; unknown ones are dropped by the gateway.
    pub fn notified(&self, notification: &Notification<'_>) {
        match notification.method.as_ref() {
            notification::INITIALIZED => self.session.set_initialized(),
            notification::CANCELLED => {
                if let Some(id) = cancelled_id(notification) {
                    self.session.cancel(id);
                }
            }
            _ => self.gateway.notify(&self.session, notification),
        }
    }

    /// Serves a batch: its requests at once, everything else in order. `None` where nothing has to be answered.
    ///
    /// # Errors
    /// The refusal of the whole batch.
    pub async fn batch(&self, text: &str, limit: usize, outlet: &Outlet) -> Result<Option<Bytes>, Refusal> {
        if !self.session.revision.has_batches() {
            return Err(classify::no_batches());
        }
        let elements = jsonrpc::batch(text).map_err(|e| Refusal::from(&e))?;
        if elements.is_empty() || elements.len() > limit {
            let message = format!("a batch has 1 to {limit} messages");
            return Err(Refusal::invalid("batch_size", message));
        }
        let answers = join_all(elements.iter().map(|element| self.element(element.get(), outlet))).await;
        Ok(array(answers.into_iter().flatten()))
    }

    async fn element(&self, text: &str, outlet: &Outlet) -> Option<Reply> {
        match jsonrpc::parse(text, Reading::Strict) {
            Ok(Message::Request(request)) => self.request(&request, outlet).await,
            Ok(Message::Notification(notification)) => {
                self.notified(&notification);
                None
            }
            Ok(Message::Response(response)) => {
                self.session.answer(&response);
                None
            }
            Err(error) => Some(self.refuse(&Refusal::from(&error), error.id.as_deref())),
        }
    }

    fn refuse(&self, refusal: &Refusal, id: Option<&str>) -> Reply {
        self.gateway.metrics().refusal(refusal::label(refusal));
        refused(refusal, id)
    }
}

/// The method, where a session may use it; `initialize` came before.
fn served(name: &str) -> Option<Method> {
    Method::parse(name).filter(|m| m.exists_in(Era::Legacy) && *m != Method::Initialize)
}

/// The request that `notifications/cancelled` withdraws.
pub fn cancelled_id<'a>(notification: &Notification<'a>) -> Option<Id<'a>> {
    Id::parse(notification.params.object()?.get("requestId")?)
}

/// A refusal as the reply to one request.
pub fn refused(refusal: &Refusal, id: Option<&str>) -> Reply {
    Reply::error(refusal.code, refusal.body(id))
}

fn array(replies: impl Iterator<Item = Reply>) -> Option<Bytes> {
    let mut out = Vec::new();
    for reply in replies {
        out.push(if out.is_empty() { b'[' } else { b',' });
        out.extend_from_slice(&reply.text);
    }
    if out.is_empty() {
        return None;
    }
    out.push(b']');
    Some(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_answered_with_one_array_or_with_nothing() {
        let reply = |text: &'static str| Reply::result(Bytes::from_static(text.as_bytes()));
        assert_eq!(array([].into_iter()), None);
        assert_eq!(array([reply("1")].into_iter()).unwrap(), "[1]");
        assert_eq!(array([reply("{}"), reply("{}")].into_iter()).unwrap(), "[{},{}]");
    }

    #[test]
    fn sessions_have_legacy_methods_without_the_handshake() {
        assert_eq!(served("ping"), Some(Method::Ping));
        for name in ["initialize", "server/discover", "no/such"] {
            assert_eq!(served(name), None, "{name}");
        }
    }

    #[test]
    fn a_cancel_names_its_request_with_the_type_of_the_id() {
        for (params, want) in [
            (r#"{"requestId":7}"#, Some("7")),
            (r#"{"requestId":"7"}"#, Some("\"7\"")),
            (r#"{"requestId":{}}"#, None),
            ("{}", None),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
            let Ok(Message::Notification(n)) = jsonrpc::parse(&text, Reading::Strict) else { panic!() };
            assert_eq!(cancelled_id(&n).map(Id::as_raw), want);
        }
    }
}
