//! What a POST says, and the exchange that follows from it.
//!
//! `endpoint` hands over what arrived; the future of [`Posted::converse`] owns it all, parses the body once and borrows
//! from it until the gateway has answered. On the way it tells its [`Ticket`] what it is, so that the reply and a
//! disconnect are treated as its era wants.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;

use super::endpoint::Edge;
use super::guard::{self, Accepts};
use super::legacy::Conversation;
use super::pending::{Answer, Ticket};
use super::record::Standing;
use super::session::{NotAdmitted, Visit};
use crate::catalog::Endpoint;
use crate::gateway::outlet::Outlet;
use crate::gateway::{Caller, ModernPeer, Peer};
use crate::policy::principal::Principal;
use crate::protocol::classify::{self, ModernCall, Refusal, request_id};
use crate::protocol::code;
use crate::protocol::jsonrpc::{self, Id, Message, Reading, Request};
use crate::protocol::method::Method;
use crate::protocol::revision::Era;

/// A POST that passed the guards.
pub struct Posted {
    pub edge: Arc<Edge>,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub endpoint: Endpoint,
    pub principal: Principal,
    pub accepts: Accepts,
    pub outlet: Outlet,
    pub ticket: Ticket,
}

impl Posted {
    /// Serves it.
    pub async fn converse(self) -> Answer {
        let Ok(text) = std::str::from_utf8(&self.body) else {
            return refused(
                Refusal::new(StatusCode::BAD_REQUEST, code::PARSE_ERROR, "utf8", "the body is not UTF-8"),
                None,
            );
        };
        if jsonrpc::first_byte(text.as_bytes()) == Some(b'[') {
            return self.batch(text).await;
        }
        let message = match jsonrpc::parse(text, Reading::Strict) {
            Ok(message) => message,
            Err(error) => return refused(Refusal::from(&error), error.id.as_deref()),
        };
        let id = request_id(&message).map(Id::as_raw);
        match (classify::classify_http(&self.headers, &message), &message) {
            (Err(refusal), _) => refused(refusal, id),
            (Ok(classify::Posted::Modern(call)), Message::Request(request)) => self.modern(call, request).await,
            (Ok(classify::Posted::Handshake { session }), Message::Request(request)) => {
                self.handshake(request, session)
            }
            (Ok(classify::Posted::InSession(session)), _) => match self.visit(session) {
                Some(visit) => self.in_session(&visit, &message).await,
                None => refused(classify::session_unknown(), id),
            },
            (Ok(_), _) => Answer::Accepted,
        }
    }

    /// Dropped when the peer disconnects, which is how a modern client cancels.
    async fn modern(&self, call: ModernCall, request: &Request<'_>) -> Answer {
        let ModernCall { method, capabilities, log_level } = call;
        self.stand(Era::Modern, method.as_str());
        if method == Method::Listen && !self.accepts.stream {
            let refusal = guard::not_acceptable("a subscription needs text/event-stream in Accept");
            return refused(refusal, Some(request.id.as_raw()));
        }
        let caller = Caller {
            endpoint: self.endpoint.clone(),
            principal: self.principal.clone(),
            peer: Peer::Modern(ModernPeer { capabilities, log_level }),
        };
        let reply = self.edge.gateway.handle(method, request, &caller, Some(&self.headers), &self.outlet).await;
        Answer::Reply { era: Era::Modern, reply, session: None }
    }

    fn handshake(&self, request: &Request<'_>, claimed: Option<&str>) -> Answer {
        self.stand(Era::Legacy, &request.method);
        let id = Some(request.id.as_raw());
        if claimed.is_some_and(|session| self.visit(session).is_some()) {
            return refused(Refusal::invalid("initialized", "this session is initialized already"), id);
        }
        let admission = match self.edge.sessions.admit(&self.principal) {
            Ok(admission) => admission,
            Err(why) => return refused(not_admitted(why), id),
        };
        let gateway = &self.edge.gateway;
        match gateway.initialize(request, self.endpoint.clone(), self.principal.clone(), admission.id().into()) {
            Ok((session, reply)) => {
                let id = Some(admission.id().into());
                admission.keep(session, gateway.metrics().session());
                Answer::Reply { era: Era::Legacy, reply, session: id }
            }
            Err(reply) => Answer::Reply { era: Era::Legacy, reply, session: None },
        }
    }

    async fn in_session(&self, visit: &Visit, message: &Message<'_>) -> Answer {
        self.ticket.visits(visit);
        let conversation = self.conversation(visit);
        match message {
            Message::Request(request) => {
                self.stand(Era::Legacy, &request.method);
                match conversation.request(request, &self.outlet).await {
                    Some(reply) => Answer::Reply { era: Era::Legacy, reply, session: None },
                    None => Answer::Withdrawn,
                }
            }
            Message::Notification(notification) => {
                self.stand_as("notification");
                conversation.notified(notification);
                Answer::Accepted
            }
            Message::Response(response) => {
                self.stand_as("response");
                visit.session().answer(response);
                Answer::Accepted
            }
        }
    }

    async fn batch(&self, text: &str) -> Answer {
        let visit = match classify::classify_batch(&self.headers).map(|session| self.visit(session)) {
            Ok(Some(visit)) => visit,
            Ok(None) => return refused(classify::session_unknown(), None),
            Err(refusal) => return refused(refusal, None),
        };
        self.ticket.visits(&visit);
        self.stand_as("batch");
        match self.conversation(&visit).batch(text, self.edge.settings.batch_limit, &self.outlet).await {
            Ok(Some(answers)) => Answer::Batch(answers),
            Ok(None) => Answer::Accepted,
            Err(refusal) => refused(refusal, None),
        }
    }

    fn visit(&self, session: &str) -> Option<Visit> {
        self.edge.sessions.find(session, &self.principal, &self.endpoint)
    }

    fn conversation(&self, visit: &Visit) -> Conversation {
        Conversation::new(self.edge.gateway.clone(), Arc::clone(visit.session()))
    }

    fn stand(&self, era: Era, method: &str) {
        self.ticket.stands(Standing::of(era, method));
    }

    fn stand_as(&self, method: &'static str) {
        self.ticket.stands(Standing { era: Era::Legacy, method, may_stream: true });
    }
}

fn refused(refusal: Refusal, id: Option<&str>) -> Answer {
    Answer::Refused { refusal, id: id.map(Box::from) }
}

fn not_admitted(why: NotAdmitted) -> Refusal {
    let (status, reason) = match why {
        NotAdmitted::Full => (StatusCode::SERVICE_UNAVAILABLE, "limit"),
        NotAdmitted::FullForOne => (StatusCode::TOO_MANY_REQUESTS, "limit"),
        NotAdmitted::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        NotAdmitted::NoRandomness => (StatusCode::SERVICE_UNAVAILABLE, "internal"),
    };
    let refusal = Refusal::new(status, code::INTERNAL_ERROR, reason, why.to_string());
    Refusal { data: Some(format!("{{\"reason\":\"{reason}\"}}")), ..refusal }
}
