//! What can go wrong towards an upstream: while dialling it, and during one leg.
//!
//! The phase is in the type: a [`DialError`] decides the backoff, a [`CallError`] becomes what a downstream reads.

use std::time::Duration;

/// Why a leg has no answer from the upstream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Concurrency and queue are full; nothing was sent.
    #[error("too many requests are waiting for this server")]
    Busy,
    /// The connection broke. `sent` tells whether the upstream may have begun.
    #[error("the connection to the server was lost")]
    Lost {
        /// Whether the request had left before.
        sent: bool,
    },
    /// No answer in time; the leg was cancelled upstream.
    #[error("the server did not answer within {}", humantime::format_duration(*after))]
    Timeout {
        /// The limit that was reached.
        after: Duration,
    },
    /// The upstream does not know its session any more; the request did not run.
    #[error("the server lost its session")]
    SessionGone,
    /// An HTTP status without a JSON-RPC answer in the body.
    #[error("the server answered with HTTP status {0}")]
    Status(u16),
    /// 401 or 403.
    #[error("the server refuses our credentials")]
    Unauthorized,
    /// The answer breaks the protocol; the text says how, without quoting it.
    #[error("the server's answer is not valid: {0}")]
    Violation(&'static str),
    /// The answer is longer than the configured limit.
    #[error("the server's answer is larger than {0} bytes")]
    TooLarge(usize),
}

impl CallError {
    /// Whether the upstream cannot have run the request, so that sending it again is safe.
    pub fn never_ran(&self) -> bool {
        matches!(self, Self::Busy | Self::SessionGone | Self::Lost { sent: false })
    }
}

/// Why an upstream could not be reached or talked to. `Display` is for the operator: it may name commands and addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// The process could not be started.
    #[error("cannot start {command:?}: {reason}")]
    Spawn {
        /// The command, without arguments.
        command: String,
        /// What the system said.
        reason: String,
    },
    /// The process ended before it spoke.
    #[error("the process ended before it answered{0}")]
    Exited(String),
    /// No TCP or TLS connection.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// 401 or 403.
    #[error("it refuses our credentials (HTTP status {0}): check headers in its configuration")]
    Unauthorized(u16),
    /// It answered, but not as an MCP server that we can talk to.
    #[error("the handshake failed: {0}")]
    Handshake(String),
    /// It did not answer in time.
    #[error("no answer to the handshake within {}", humantime::format_duration(*.0))]
    Silent(Duration),
    /// The configuration cannot work.
    #[error("{0}")]
    Config(String),
}
