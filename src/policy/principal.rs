//! Who asks, reduced to what rules and isolation read.
//!
//! `downstream` makes one per request; sessions, sealed state and upstream connections are bound to it.

use std::fmt;
use std::sync::Arc;

/// A stable identity of a caller. Without authentication everyone is [`Principal::local`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
    /// The one principal of a gateway without authentication.
    pub fn local() -> Self {
        Self(Arc::from("local"))
    }

    /// Its stable id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Principal({})", self.0)
    }
}
