//! Decides where each message of a downstream goes and carries it there.
//!
//! `downstream` (HTTP and stdio) hands over parsed requests with who asks; answers come back as finished JSON-RPC
//! text, and whatever happens before the end (progress, logs, questions) goes into the exchange's [`Outlet`].
//!
//! ```text
//! downstream ── Gateway::handle ──► local    (handshake, discovery, lists: from the snapshot)
//!                                ├─► service  (one upstream owns it: leg on its connection)
//!                                │     └─► input (it wants to ask something: four ways between two eras)
//!                                └─► watching (subscriptions) ──► hub ◄── catalog, actors
//! ```

pub mod answer;
pub mod asks;
pub mod error;
pub mod exchange;
pub mod hub;
mod input;
mod local;
pub mod outlet;
pub mod rounds;
mod service;
pub mod session;
pub mod state;
pub mod suspended;
pub mod target;
mod watching;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::HeaderMap;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Catalog, Endpoint};
use crate::policy::principal::Principal;
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::jsonrpc::{Notification, Request};
use crate::protocol::level::Level;
use crate::protocol::method::Method;
use crate::protocol::revision::{Era, Revision};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::label;
use crate::upstream::directory::Directory;

use error::GatewayError;
use hub::Hub;
use outlet::Outlet;
use session::Session;
use state::Sealer;
use suspended::Suspended;

/// How long `logging/setLevel` waits for upstreams to hear of it.
const LEVEL_WAIT: Duration = Duration::from_secs(2);

/// The gateway; clones are the same one.
#[derive(Clone, Debug)]
pub struct Gateway(Arc<Parts>);

/// What a gateway is made of.
#[derive(Debug)]
pub struct Parts {
    /// The merged offer.
    pub catalog: Catalog,
    /// The upstreams.
    pub directory: Directory,
    /// Who hears of changes.
    pub hub: Hub,
    /// Seals `requestState`.
    pub sealer: Sealer,
    /// Calls that wait for a modern client's input.
    pub suspended: Suspended,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Limits.
    pub settings: Settings,
    /// Cancelled when the gateway begins to go away.
    pub draining: CancellationToken,
    /// Our implementation object, JSON text.
    pub server_info: Arc<str>,
    /// The wall clock: sealed states mean the same after a restart, and at another instance.
    pub wall: fn() -> SystemTime,
}

/// Limits of the gateway itself.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a list waits for servers that start or are being read again.
    pub startup_wait: Duration,
    /// Resources that one legacy session may watch.
    pub subscriptions: usize,
    /// Entries of a page.
    pub page_size: usize,
}

/// Who asks, for which endpoint, in which era.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Which server or servers the request is for.
    pub endpoint: Endpoint,
    /// Who asks.
    pub principal: Principal,
    /// How it speaks.
    pub peer: Peer,
}

/// A downstream's side of the conversation.
#[derive(Clone, Debug)]
pub enum Peer {
    /// It said `initialize`; its state is in a session.
    Legacy(Arc<Session>),
    /// It says everything with each request.
    Modern(ModernPeer),
}

impl Peer {
    /// What it can be asked and can show.
    pub fn capabilities(&self) -> &ClientCapabilities {
        match self {
            Self::Legacy(session) => &session.capabilities,
            Self::Modern(peer) => &peer.capabilities,
        }
    }
}

/// What one modern request says of its sender.
#[derive(Clone, Debug, Default)]
pub struct ModernPeer {
    /// Declared for this request.
    pub capabilities: ClientCapabilities,
    /// Log messages wanted for this request; `None` means none.
    pub log_level: Option<Level>,
}

impl Caller {
    /// The era that it speaks.
    pub fn era(&self) -> Era {
        self.revision().era()
    }

    /// What it can be asked and can show.
    pub fn capabilities(&self) -> &ClientCapabilities {
        self.peer.capabilities()
    }

    /// The revision that it speaks.
    pub fn revision(&self) -> Revision {
        match &self.peer {
            Peer::Legacy(session) => session.revision,
            Peer::Modern(_) => Revision::NEWEST_MODERN,
        }
    }
}

/// When a client that was turned away may come again: long enough to matter, short enough for a restart behind a
/// balancer.
pub const COME_AGAIN: Duration = Duration::from_secs(5);

/// The end of an exchange.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The error's code, where the answer is a JSON-RPC error: the edge derives a status from it.
    pub error: Option<i64>,
    /// The whole response message.
    pub text: Bytes,
    /// The gateway turned the request away because it is shutting down or has too much to do: it may come again.
    pub turned_away: bool,
}

impl Reply {
    /// A response with a result.
    pub fn result(text: impl Into<Bytes>) -> Self {
        Self { error: None, text: text.into(), turned_away: false }
    }

    /// A response with an error of this code.
    pub fn error(code: i64, text: impl Into<Bytes>) -> Self {
        Self { error: Some(code), text: text.into(), turned_away: false }
    }
}

impl Gateway {
    /// A gateway of these parts.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// The endpoint of `/mcp` (`None`) or `/mcp/{name}`; `None` where no server of that prefix is configured.
    pub fn endpoint(&self, name: Option<&str>) -> Option<Endpoint> {
        match name {
            None => Some(Endpoint::Merged),
            Some(name) => self.0.catalog.load().endpoint(name),
        }
    }

    /// `initialize`: makes the session (the edge keeps it, under `session_id`) and the reply. It hears of changes until it ends.
    pub fn initialize(
        &self,
        request: &Request<'_>,
        endpoint: Endpoint,
        principal: Principal,
        session_id: Box<str>,
    ) -> Result<(Arc<Session>, Reply), Reply> {
        let fail = |e| Err(self.failed(&e, request, Method::Initialize, Era::Legacy));
        if self.0.draining.is_cancelled() {
            return fail(GatewayError::Draining);
        }
        let params = request.params.object();
        let Some(asked) = params.and_then(|p| p.string("protocolVersion")) else {
            return fail(GatewayError::Params("protocolVersion is missing or not a string"));
        };
        let revision = Revision::negotiate_legacy(&asked);
        let declared = params.and_then(|p| p.get("capabilities")).map(ClientCapabilities::parse);
        let session = Session::new(session_id, revision, declared.unwrap_or_default(), endpoint, principal);
        let session = Arc::new(session);
        session.register(self.0.hub.add_session(&session));
        let text = self.initialize_result(request.id, &session.endpoint, revision);
        Ok((session, Reply::result(text)))
    }

    /// Any other request, `subscriptions/listen` too (which runs until it is dropped or the gateway drains).
    /// `headers` are those of a modern HTTP request. Dropping the future cancels the exchange and its upstream leg.
    pub async fn handle(
        &self,
        method: Method,
        request: &Request<'_>,
        caller: &Caller,
        headers: Option<&HeaderMap>,
        outlet: &Outlet,
    ) -> Reply {
        match method {
            Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead | Method::Complete => {
                self.route(method, request, caller, headers, outlet).await
            }
            _ => self.answer(method, request, caller, outlet).await,
        }
    }

    async fn answer(&self, method: Method, request: &Request<'_>, caller: &Caller, outlet: &Outlet) -> Reply {
        let record = self.0.metrics.own.begin(method, caller.era(), Instant::now());
        let answered = match method {
            Method::Ping => Ok(local::empty(request.id)),
            Method::Discover => Ok(self.discover(request.id, &caller.endpoint)),
            Method::SetLevel => self.set_level(request, caller).await,
            Method::Subscribe => self.subscribe(request, caller).await,
            Method::Unsubscribe => self.unsubscribe(request, caller).await,
            Method::Listen => self.listen(request, caller, outlet).await,
            _ => match local::listed(method) {
                Some(kind) => self.list(kind, request, caller).await.map(Reply::result),
                None => Err(GatewayError::Method),
            },
        };
        let (reply, outcome) = match answered {
            Ok(reply) => (reply, label::Outcome::Ok),
            Err(e) => (self.failed(&e, request, method, caller.era()), e.outcome()),
        };
        record.end(outcome, Instant::now());
        reply
    }

    /// A notification of a legacy client other than `notifications/cancelled` and `notifications/initialized`, which the
    /// edge gives to the session itself. None of them crosses a shared connection (protocol.md §2.3).
    pub fn notify(&self, session: &Arc<Session>, notification: &Notification<'_>) {
        tracing::debug!(session = session.key, method = %notification.method, "a notification was ignored");
    }

    /// The reply to a request that got no answer; counted where it was turned away.
    fn failed(&self, error: &GatewayError, request: &Request<'_>, method: Method, era: Era) -> Reply {
        if let Some(reason) = error.refusal() {
            self.0.metrics.refusal(reason);
        }
        error.reply(request.id.as_raw(), method, era, &self.0.server_info)
    }

    /// Cancelled when the gateway begins to go away.
    pub fn draining(&self) -> &CancellationToken {
        &self.0.draining
    }

    /// The counters.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }
}
