//! Decides where each message of a downstream goes and carries it there.
//!
//! `downstream` (HTTP and stdio) hands over parsed requests with who asks; answers come back as finished JSON-RPC
//! text, and whatever happens before the end (progress, logs, questions) goes into the exchange's [`Outlet`].

pub mod outlet;
pub mod session;

use std::sync::Arc;

use bytes::Bytes;

use crate::catalog::Endpoint;
use crate::policy::principal::Principal;
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::jsonrpc::{Notification, Request};
use crate::protocol::level::Level;
use crate::protocol::method::Method;
use crate::protocol::object::Object;

use outlet::Outlet;
use session::Session;

/// The gateway; clones are the same one.
#[derive(Clone, Debug)]
pub struct Gateway {}

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

/// What one modern request says of its sender.
#[derive(Clone, Debug, Default)]
pub struct ModernPeer {
    /// Declared for this request.
    pub capabilities: ClientCapabilities,
    /// Log messages wanted for this request; `None` means none.
    pub log_level: Option<Level>,
}

/// The end of an exchange.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The error's code, where the answer is a JSON-RPC error: the edge derives a status from it.
    pub error: Option<i64>,
    /// The whole response message.
    pub text: Bytes,
}

impl Gateway {
    /// The endpoint of `/mcp` (`None`) or `/mcp/{name}`; `None` where no server of that prefix is configured.
    pub fn endpoint(&self, name: Option<&str>) -> Option<Endpoint> {
        let _ = name;
        None
    }

    /// `initialize`: makes the session (the edge keeps it, under `id`) and the result's reply text. The hub pushes changes to the
    /// session as long as it lives; drop the last `Arc` or call [`Session::end`] to end it.
    pub fn initialize(
        &self,
        request: &Request<'_>,
        endpoint: Endpoint,
        principal: Principal,
        session_id: Box<str>,
    ) -> Result<(Arc<Session>, Reply), Reply> {
        let _ = (request, endpoint, principal, session_id);
        todo!()
    }

    /// Any other request, `subscriptions/listen` too (which runs until it is dropped or the gateway drains).
    /// Dropping the future cancels the exchange and its upstream leg.
    pub async fn handle(&self, method: Method, request: &Request<'_>, caller: &Caller, outlet: &Outlet) -> Reply {
        let _ = (method, request, caller, outlet);
        todo!()
    }

    /// A notification of a legacy client other than `notifications/cancelled` and `notifications/initialized`, which the edge
    /// gives to the session itself.
    pub fn notify(&self, session: &Arc<Session>, notification: &Notification<'_>) {
        let _ = (session, notification);
    }

    /// The implementation object that the gateway shows of itself (for error bodies and tests).
    pub fn server_info(&self) -> Object<'static> {
        Object::default()
    }
}
