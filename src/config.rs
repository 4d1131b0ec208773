//! Configuration: what an operator asked for, as values that are checked, resolved and safe to print.
//!
//! `app` loads it, hands each floor its part, and diffs it on a reload; `cli` prints its problems.

mod codec;
mod draft;
mod environment;
mod find;
mod foreign;
mod interpolate;
mod layers;
mod load;
mod problem;
mod read;
mod secret;
mod section;
mod server;
mod settings;
mod tree;
mod validate;
mod walk;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

pub use codec::address_of;
pub use environment::variables;
pub use find::{Found, PLACES, find};
pub use interpolate::{Lookup, System};
pub use load::{Loaded, load, parse};
pub use problem::{Place, Problem, Severity, render};
pub use secret::{MASK, Secret, SecretUrl, Text};
pub use server::{ProtocolPin, Root, ServerConfig, TransportConfig, UriMode};
pub use settings::{Admin, Limits, Log, LogFormat, Restart, Sealing, Sessions, Timeouts, UpstreamLimits};
pub use walk::nearest;

/// A whole configuration, every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The MCP listener. Default `127.0.0.1:8080`. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The admin listener.
    pub admin: Admin,
    /// Names, with or without a port, accepted in `Host` besides loopback and the listen address. Default none.
    pub allowed_hosts: Vec<String>,
    /// Origins (`https://app.example.com`) accepted in `Origin` besides loopback. Default none.
    pub allowed_origins: Vec<String>,
    /// How long a first list waits for servers that are still starting. Default 5 s: longer than most take, shorter
    /// than hosts wait.
    pub startup_wait: Duration,
    /// How long the entries of a lost server stay listed. Default 60 s: a restart should not make lists flap.
    pub stale_grace: Duration,
    /// How long calls in flight may take to end at shutdown. Default 20 s: below the 30 s after which orchestrators kill.
    pub shutdown_grace: Duration,
    /// Entries on one page of a list. Default 1000: cursors appear only where a list would be unwieldy.
    pub page_size: usize,
    /// Longest exposed name, in characters. Default 64: what the strictest hosts accept.
    pub name_limit: usize,
    /// Log lines.
    pub log: Log,
    /// Legacy sessions.
    pub sessions: Sessions,
    /// Keys for what clients carry for us.
    pub sealing: Sealing,
    /// What downstreams may cost, and defaults for every server.
    pub limits: Limits,
    /// Defaults for every server.
    pub timeouts: Timeouts,
    /// Defaults for every server.
    pub restart: Restart,
    /// The upstreams, in the order of the file.
    pub servers: Vec<ServerConfig>,
}

section::keys! {
    Config {
        listen: "listen" as address;
        admin: "admin" as section;
        allowed_hosts: "allowedHosts" as words;
        allowed_origins: "allowedOrigins" as words;
        startup_wait: "startupWait" as duration;
        stale_grace: "staleGrace" as duration;
        shutdown_grace: "shutdownGrace" as duration;
        page_size: "pageSize" as count;
        name_limit: "nameLimit" as count;
        log: "log" as section;
        sessions: "sessions" as section;
        sealing: "sealing" as section;
        limits: "limits" as section;
        timeouts: "timeouts" as section;
        restart: "restart" as section;
    }
    foreign foreign::TOP;
    besides servers;
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin: Admin::default(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            startup_wait: Duration::from_secs(5),
            stale_grace: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(20),
            page_size: 1000,
            name_limit: crate::name::EXPOSED_MAX,
            log: Log::default(),
            sessions: Sessions::default(),
            sealing: Sealing::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            restart: Restart::default(),
            servers: Vec::new(),
        }
    }
}

/// A listener that others can reach although nobody has to authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exposed {
    /// The key that says so: `listen` or `admin.listen`.
    pub key: &'static str,
    /// Its address.
    pub address: SocketAddr,
}

impl Config {
    /// What runs when no file is found: two small servers inside this program, each a child `{exe} demo-server --name ...`.
    pub fn demo(exe: &Path) -> Self {
        let servers = ["alpha", "beta"].map(|name| {
            let args = ["demo-server", "--name", name].map(Secret::new).to_vec();
            let command = Text::plain(exe.to_string_lossy());
            let transport = TransportConfig::Stdio { command, args, env: Vec::new(), cwd: None };
            ServerConfig::new(name, transport)
        });
        let mut config = Self { servers: servers.to_vec(), ..Self::default() };
        config.share_defaults();
        config
    }

    /// Gives the demo's servers what the environment may have changed at the top.
    fn share_defaults(&mut self) {
        for server in &mut self.servers {
            let probe = self.timeouts.probe.min(settings::PROBE_STDIO);
            server.timeouts = Timeouts { probe, ..self.timeouts.clone() };
            server.limits = self.limits.upstream.clone();
            server.restart = self.restart.clone();
        }
    }

    /// The first listener beyond loopback. There is no authentication yet, so `app` refuses to start unless told otherwise.
    pub fn is_exposed(&self) -> Option<Exposed> {
        [("listen", self.listen), ("admin.listen", self.admin.listen)]
            .into_iter()
            .find(|(_, address)| !address.ip().to_canonical().is_loopback())
            .map(|(key, address)| Exposed { key, address })
    }
}

#[cfg(test)]
mod tests;
