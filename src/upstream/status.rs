//! How an upstream stands: published by its actor on a watch, read by `gateway`, `admin` and readiness.

use tokio::time::Instant;

use crate::protocol::revision::Revision;
use crate::telemetry::metrics::label::UpstreamState;

/// The phase an upstream is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Being dialled for the first time, or again.
    Starting,
    /// Serving.
    Ready,
    /// Failed; tried again at the given moment.
    BackingOff {
        /// When.
        until: Instant,
    },
    /// Not running: disabled, or the gateway is shutting down.
    Stopped,
}

impl Phase {
    /// As metrics and status pages name it.
    pub const fn label(&self) -> UpstreamState {
        match self {
            Self::Starting => UpstreamState::Starting,
            Self::Ready => UpstreamState::Ready,
            Self::BackingOff { .. } => UpstreamState::BackingOff,
            Self::Stopped => UpstreamState::Stopped,
        }
    }
}

/// Everything the actor tells about its upstream. The actor alone writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The phase.
    pub phase: Phase,
    /// When it began.
    pub since: Instant,
    /// What is spoken, while it serves.
    pub revision: Option<Revision>,
    /// The child's process id, for stdio, while it runs.
    pub pid: Option<u32>,
    /// The upstream's implementation object as it wrote it.
    pub server_info: Option<Box<str>>,
    /// Its capabilities as it wrote them.
    pub capabilities: Option<Box<str>>,
    /// How often it was started again after it had served.
    pub restarts: u64,
    /// Attempts to start or reach it that failed since it served last.
    pub failed_attempts: u64,
    /// The last failure, for the operator.
    pub last_error: Option<Box<str>>,
    /// Items of its lists that could not be used, one sentence each.
    pub complaints: Vec<String>,
    /// The last dial failed or the last connection was lost, and it does not serve yet: nobody should wait for it.
    pub failing: bool,
}

impl Status {
    /// Before the first dial.
    pub fn new(phase: Phase, now: Instant) -> Self {
        Self {
            phase,
            since: now,
            revision: None,
            pid: None,
            server_info: None,
            capabilities: None,
            restarts: 0,
            failed_attempts: 0,
            last_error: None,
            complaints: Vec::new(),
            failing: false,
        }
    }
}
