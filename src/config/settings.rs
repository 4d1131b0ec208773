//! The blocks of settings that stand at the top of a file and, some of them, inside each server: times, limits,
//! restarts, log, sessions. `app` hands each part of the program the block that is its business.
//!
//! A field says its unit, its default and what it does; the reason for a default stands beside the number.

use std::net::SocketAddr;
use std::time::Duration;

use super::secret::Secret;
use super::section::keys;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// How long to wait for an upstream. Top level: defaults for every server; a server's own fields win, one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// To open a connection or start a process. Default 10 s: a TCP or TLS handshake that takes longer never ends well.
    pub connect: Duration,
    /// For the answer to the era probe (protocol.md §1.9). Default 10 s; for stdio servers 5 s unless written, because a
    /// legacy one may just stay silent and everyone waits it out.
    pub probe: Duration,
    /// For the handshake. Default 30 s; 60 s unless written when the command is a package runner (`npx`, `uvx`, ...),
    /// which may download the server first.
    pub initialize: Duration,
    /// For one page of a list. Default 30 s.
    pub list: Duration,
    /// Silence in a tool call: each progress message starts it anew. Default 120 s.
    pub call: Duration,
    /// The whole of a tool call, progress or not. Default 30 min: the specification asks for a hard maximum.
    pub call_max: Duration,
    /// For `resources/read` and `prompts/get`. Default 60 s.
    pub read: Duration,
    /// For `completion/complete`. Default 5 s: somebody is typing.
    pub completion: Duration,
    /// For the user's answer to one question of an upstream. Default 5 min.
    pub user_input: Duration,
    /// How long a resource stays watched at the upstream after the last subscriber left. Default 30 s: clients come back.
    pub unsubscribe: Duration,
    /// For a stdio child to leave, once after stdin is closed and once more after SIGTERM. Default 5 s each.
    pub shutdown: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            probe: Duration::from_secs(10),
            initialize: Duration::from_secs(30),
            list: Duration::from_secs(30),
            call: Duration::from_secs(120),
            call_max: Duration::from_secs(30 * 60),
            read: Duration::from_secs(60),
            completion: Duration::from_secs(5),
            user_input: Duration::from_secs(5 * 60),
            unsubscribe: Duration::from_secs(30),
            shutdown: Duration::from_secs(5),
        }
    }
}

/// [`Timeouts::probe`] of a stdio server, unless written.
pub const PROBE_STDIO: Duration = Duration::from_secs(5);
/// [`Timeouts::initialize`] of a stdio server behind a package runner, unless written.
pub const INITIALIZE_RUNNER: Duration = Duration::from_secs(60);

/// What one upstream may cost us. Top level: defaults for every server; a server's own fields win, one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamLimits {
    /// Longest message from an upstream, in bytes: a line of a stdio server, an HTTP answer, an event. Default 32 MiB:
    /// tools do answer with images and files. Beyond it that one request fails.
    pub message: usize,
    /// Requests in flight towards one upstream. Default 512. More wait in the queue.
    pub concurrency: usize,
    /// Requests that wait for their turn. Default 1024. When it is full, the next one is refused at once.
    pub queue: usize,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self { message: 32 * MIB, concurrency: 512, queue: 1024 }
    }
}

/// What a downstream may cost us, and the defaults for every upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest body of a downstream request, in bytes. Default 4 MiB.
    pub body: usize,
    /// All headers of a downstream request together, in bytes. Default 32 KiB.
    pub headers: usize,
    /// Messages in a batch (revision 2025-03-26 only). Default 50.
    pub batch: usize,
    /// Defaults for every server; written beside the others (`limits.message`).
    pub upstream: UpstreamLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body: 4 * MIB, headers: 32 * KIB, batch: 50, upstream: UpstreamLimits::default() }
    }
}

/// When an upstream that failed is tried again. Top level: defaults for every server; a server's own fields win, one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// First wait; each further failure doubles it. Default 1 s.
    pub backoff_min: Duration,
    /// Longest wait. Default 60 s.
    pub backoff_max: Duration,
    /// Time without a failure after which the next wait is the first again. Default 5 min.
    pub reset_after: Duration,
}

impl Default for Restart {
    fn default() -> Self {
        Self {
            backoff_min: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            reset_after: Duration::from_secs(5 * 60),
        }
    }
}

/// The admin listener: health, metrics, status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Default `127.0.0.1:9090`. Port 0 takes a free one.
    pub listen: SocketAddr,
}

impl Default for Admin {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 9090)) }
    }
}

/// How log lines look, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Default `text`.
    pub format: LogFormat,
    /// A level (`error`, `warn`, `info`, `debug`, `trace`) or a list of `target=level`. Default `info`.
    pub level: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned() }
    }
}

/// `log.format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

/// How what a client carries for us is sealed: `requestState`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sealing {
    /// Texts of 32 characters or more, from which keys are made. The first seals, all open. Default none: one key of the
    /// gateway's own, kept in its state folder. Several instances behind one address need the same keys.
    pub keys: Vec<Secret>,
}

/// Legacy sessions (`Mcp-Session-Id`); modern requests have none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    /// A session without traffic ends after this. Default 30 min.
    pub idle: Duration,
    /// A session ends after this in any case. Default 24 h.
    pub absolute: Duration,
    /// Sessions at once, of all downstreams. Default 10,000. Beyond it a new one is refused.
    pub max: usize,
    /// Sessions at once of one principal. Default 10,000, as many as of all: without authentication everyone is one.
    pub max_per_principal: usize,
    /// Resources that one session may watch. Default 1,000: each costs an upstream something.
    pub subscriptions: usize,
    /// Events of its streams that a session keeps for a client that reconnects. Default 1,000: minutes of lively progress.
    pub replay_events: usize,
    /// The same in bytes. Default 4 MiB: a result of common size still fits. A larger message is sent, but not kept.
    pub replay_bytes: usize,
    /// How long a stream that has ended can still be read again. Default 5 min: time to change networks.
    pub replay_for: Duration,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(30 * 60),
            absolute: Duration::from_secs(24 * 60 * 60),
            max: 10_000,
            max_per_principal: 10_000,
            subscriptions: 1_000,
            replay_events: 1_000,
            replay_bytes: 4 * MIB,
            replay_for: Duration::from_secs(5 * 60),
        }
    }
}

keys! {
    Timeouts {
        connect: "connect" as duration;
        probe: "probe" as duration;
        initialize: "initialize" as duration;
        list: "list" as duration;
        call: "call" as duration;
        call_max: "callMax" as duration;
        read: "read" as duration;
        completion: "completion" as duration;
        user_input: "userInput" as duration;
        unsubscribe: "unsubscribe" as duration;
        shutdown: "shutdown" as duration;
    }
}

keys! {
    UpstreamLimits {
        message: "message" as bytes;
        concurrency: "concurrency" as count;
        queue: "queue" as count;
    }
}

keys! {
    Limits {
        body: "body" as bytes;
        headers: "headers" as bytes;
        batch: "batch" as count;
    }
    flatten upstream: UpstreamLimits;
}

keys! {
    Restart {
        backoff_min: "backoffMin" as duration;
        backoff_max: "backoffMax" as duration;
        reset_after: "resetAfter" as duration;
    }
}

keys! { Admin { listen: "listen" as address; } }

keys! { Log { format: "format" as log_format; level: "level" as level; } }

keys! { Sealing { keys: "keys" as secrets; } }

keys! {
    Sessions {
        idle: "idle" as duration;
        absolute: "absolute" as duration;
        max: "max" as count;
        max_per_principal: "maxPerPrincipal" as count;
        subscriptions: "subscriptions" as count;
        replay_events: "replayEvents" as count;
        replay_bytes: "replayBytes" as bytes;
        replay_for: "replayFor" as duration;
    }
}
