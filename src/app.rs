//! Builds every part in floor order, puts the edges in front, runs, and takes all of it down again in order.
//!
//! The only file that sees all floors. `cli` calls [`serve`] and [`stdio`].

pub mod core;
pub mod facts;

use std::net::SocketAddr;

/// Why the gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} ({key}): {reason}")]
    Bind {
        /// The configuration key.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        reason: std::io::Error,
    },
    /// Everyone on the network could use every server.
    #[error(
        "{key} is {address}, which others can reach, and nobody has to say who they are: listen on 127.0.0.1, or give --insecure-no-auth"
    )]
    Exposed {
        /// The configuration key.
        key: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// Something that should not happen.
    #[error("the gateway could not start: {0}")]
    Internal(String),
}
