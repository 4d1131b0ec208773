//! Every limit of the edge, with its unit, its default and the reason for it. `app` fills them from the configuration.

use std::time::Duration;

/// What one HTTP exchange may take, and who may start one.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of a request body; more is 413. 4 MiB: a large file as base64 in a tool's arguments still fits, and
    /// a hundred such bodies at once still fit into the memory of a sidecar.
    pub body_limit: usize,
    /// Bytes of all header names and values together; more is 431. 32 KiB: mirrored arguments can be long.
    pub header_limit: usize,
    /// From the headers to the end of the body; later is 408. 30 s: 4 MiB over a slow mobile link.
    pub body_timeout: Duration,
    /// How long a stream stays silent before a comment is sent. 15 s: below the idle limits of common proxies (60 s),
    /// with room for a lost packet.
    pub keep_alive: Duration,
    /// How long a reply may stay undecided between JSON and a stream. 5 s: late enough for a proper status of almost
    /// every error, early enough for proxies that wait for headers.
    pub undecided: Duration,
    /// Messages in a batch; more is refused. 50: what 2025-03-26 clients send is a handful.
    pub batch_limit: usize,
    /// Host names beside loopback and IP addresses under which we are reached: `name` (any port) or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages beside loopback ones that may send requests, as browsers write them: `https://name[:port]`.
    pub allowed_origins: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            body_limit: 4 << 20,
            header_limit: 32 << 10,
            body_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            undecided: Duration::from_secs(5),
            batch_limit: 50,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
        }
    }
}

/// How long legacy sessions live, and how many.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Without a request or an open stream. 30 min: a host left alone over lunch comes back to a 404 and starts anew,
    /// which it must be able to do anyway; most clients never say goodbye.
    pub idle: Duration,
    /// Whatever happens. 24 h: bounds what a client that keeps its stream open for ever can hold.
    pub absolute: Duration,
    /// Sessions at once; more get 503. 10,000: some tens of MB.
    pub most: usize,
    /// Sessions of one principal at once; more get 429. As many as [`SessionLimits::most`], because without
    /// authentication everyone is one principal.
    pub most_of_one: usize,
    /// What each keeps for clients that come back.
    pub replay: ReplayLimits,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(30 * 60),
            absolute: Duration::from_secs(24 * 60 * 60),
            most: 10_000,
            most_of_one: 10_000,
            replay: ReplayLimits::default(),
        }
    }
}

/// What a session keeps of its event streams, for a client that reconnects with `Last-Event-ID`.
#[derive(Clone, Copy, Debug)]
pub struct ReplayLimits {
    /// Events of all its streams together. 1,000: minutes of lively progress in several calls.
    pub events: usize,
    /// Bytes of their messages together. 4 MiB: a result of common size, or thousands of small messages. A message that
    /// is larger than this is sent, but not kept.
    pub bytes: usize,
    /// How long a stream that has ended is kept. 5 min: a laptop that changes networks is back by then.
    pub keep: Duration,
}

impl Default for ReplayLimits {
    fn default() -> Self {
        Self { events: 1_000, bytes: 4 << 20, keep: Duration::from_secs(5 * 60) }
    }
}

/// What connections of one listener may take.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections at once; more wait in the kernel's queue. 10,000: below common limits on open files.
    pub most: usize,
    /// From the start of a connection, or the end of an exchange on it, to the end of the next request's headers. 30 s:
    /// slow writers and idle connections give their place back.
    pub header_timeout: Duration,
    /// How long a write may make no progress. 30 s: a reader that took nothing for so long is dead or stuck.
    pub write_stall: Duration,
    /// From the wish to stop to the end of what still runs. 10 s: the usual patience of process supervisors is 30.
    pub grace: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            most: 10_000,
            header_timeout: Duration::from_secs(30),
            write_stall: Duration::from_secs(30),
            grace: Duration::from_secs(10),
        }
    }
}

/// What a conversation over stdin and stdout may take.
#[derive(Clone, Copy, Debug)]
pub struct StdioSettings {
    /// Bytes of a line; a longer one is answered with an error and skipped. 4 MiB, as over HTTP.
    pub line_limit: usize,
    /// Messages in a batch, as over HTTP.
    pub batch_limit: usize,
    /// Requests served at once; more are refused, so that answers and cancels are still read. 256: a host has a few.
    pub concurrent: usize,
    /// How long stdout may take nothing before we give up. 60 s: hosts suspend, but not for ever.
    pub write_stall: Duration,
    /// How long calls in flight may go on after stdin has ended. 5 s: what hosts wait before they kill.
    pub grace: Duration,
}

impl Default for StdioSettings {
    fn default() -> Self {
        Self {
            line_limit: 4 << 20,
            batch_limit: 50,
            concurrent: 256,
            write_stall: Duration::from_secs(60),
            grace: Duration::from_secs(5),
        }
    }
}
