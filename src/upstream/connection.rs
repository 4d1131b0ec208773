//! A connection that is open: what callers hold while they use an upstream.
//!
//! The actor publishes one in the [`Handle`](super::handle::Handle); `gateway` takes it per call and opens legs on it.

use std::sync::Arc;

use super::leg::Leg;
use super::transport::Link;
use super::wire::{Observer, Wire};
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::meta::Stamp;
use crate::protocol::opening::Hello;
use crate::protocol::revision::{Era, Revision};

/// An open connection and what the upstream said of itself.
#[derive(Debug)]
pub struct Connection {
    pub(super) wire: Arc<Wire>,
    /// What was agreed and what the upstream offers.
    pub hello: Hello,
    /// The upstream counts as legacy only because it did not answer the probe in time.
    pub provisional: bool,
    client_info: Arc<str>,
    /// What our own requests declare, as the upstream's revision spells it.
    own_capabilities: Box<str>,
}

impl Connection {
    pub(super) fn new(wire: Arc<Wire>, hello: Hello, provisional: bool, client_info: Arc<str>) -> Self {
        let own_capabilities = capabilities_text(&ClientCapabilities::bridged(), hello.revision);
        Self { wire, hello, provisional, client_info, own_capabilities }
    }

    /// The revision spoken.
    pub fn revision(&self) -> Revision {
        self.hello.revision
    }

    /// The era spoken.
    pub fn era(&self) -> Era {
        self.hello.revision.era()
    }

    /// Whether `Mcp-*` headers matter.
    pub fn is_http(&self) -> bool {
        matches!(self.wire.link, Link::Http(_))
    }

    /// Takes an id for a request; the message is written with it and given to [`Leg::run`].
    pub fn open(&self, observer: Arc<dyn Observer>) -> Leg {
        Leg::open(&self.wire, observer)
    }

    /// What a request in the name of a downstream declares to a modern upstream; `None` for a legacy one, which was
    /// told in the handshake.
    pub fn stamp<'a>(&'a self, capabilities: &'a str, log_level: Option<&'a str>) -> Option<Stamp<'a>> {
        (self.era() == Era::Modern).then(|| Stamp {
            version: self.hello.revision.as_str(),
            client_info: &self.client_info,
            capabilities,
            log_level,
        })
    }

    /// What our own requests declare.
    pub fn own_stamp(&self) -> Option<Stamp<'_>> {
        self.stamp(&self.own_capabilities, None)
    }

    /// Ended once the connection is.
    pub fn is_closed(&self) -> bool {
        self.wire.closed().is_cancelled()
    }

    /// Ends it; the actor shakes hands anew at once. For a caller that learnt that the upstream lost the session.
    pub fn renew(&self) {
        self.wire.renew();
    }

    /// Requests in flight on it.
    pub fn in_flight(&self) -> usize {
        self.wire.in_flight()
    }
}

/// Capabilities as JSON text.
pub fn capabilities_text(capabilities: &ClientCapabilities, revision: Revision) -> Box<str> {
    let mut out = Vec::new();
    capabilities.write(&mut out, revision);
    String::from_utf8_lossy(&out).into()
}
