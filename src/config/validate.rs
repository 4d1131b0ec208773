//! The rules that hold between settings, or that need more than one value's own shape. Pure: settings in, findings out.

mod address;

use std::time::Duration;

use url::Url;

use self::address::{is_origin, is_ours, overlap};
use super::Config;
use super::draft::Kind;
use super::problem::Severity;
use super::server::{ServerConfig, TransportConfig};
use super::settings::{Limits, Restart, Timeouts, UpstreamLimits};

/// A rule that does not hold, at a key path.
#[derive(Debug, PartialEq)]
pub(super) struct Finding {
    pub severity: Severity,
    pub path: Vec<String>,
    pub message: String,
    pub hint: Option<String>,
}

/// Stands in a path for the map of servers, which a file may call by either of two names.
pub(super) const SERVER: &str = "mcpServers";

/// Longest time that can be set: beyond it clocks overflow, and nobody means it.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Characters of a sealing key, at least: 32 characters of Base64 hold 192 bits.
const SEALING_KEY_MIN: usize = 32;
const KIB: usize = 1 << 10;
const GIB: usize = 1 << 30;

/// Every finding, in the order of the settings.
pub(super) fn config(config: &Config) -> Vec<Finding> {
    let mut rules = Rules::default();
    rules.top(config);
    rules.timeouts(&config.timeouts);
    rules.limits(&config.limits);
    rules.restart(&config.restart);
    for (index, server) in config.servers.iter().enumerate() {
        rules.inside([SERVER, server.name.as_str()], |rules| {
            rules.server(server, config);
            rules.unlike(server, &config.servers[..index]);
        });
    }
    // What a server inherits is reported once, where it is written.
    let top: Vec<_> = rules
        .findings
        .iter()
        .filter(|f| f.path.first().is_none_or(|key| key != SERVER))
        .map(|f| (f.path.clone(), f.message.clone()))
        .collect();
    let inherited =
        |f: &Finding| top.iter().any(|(path, message)| f.path.get(2..) == Some(path) && f.message == *message);
    rules.findings.retain(|finding| !inherited(finding));
    rules.findings
}

/// Process or address: what `type` says, or what the other keys imply.
pub(super) fn kind(kind: Option<Kind>, command: bool, url: bool) -> Result<Kind, (&'static str, &'static str)> {
    match (kind, command, url) {
        (_, true, true) => Err(("a server has either `command` or `url`, not both", "keep the one that is meant")),
        (_, false, false) => Err((
            "neither `command` nor `url`: there is nothing to connect to",
            "give `command` for a local process, or `url` for a server over HTTP",
        )),
        (Some(Kind::Stdio), false, true) => {
            Err(("`type: stdio` needs `command`, not `url`", "write `type: http`, or leave `type` out"))
        }
        (Some(Kind::Http | Kind::Sse), true, false) => {
            Err(("this `type` needs `url`, not `command`", "write `type: stdio`, or leave `type` out"))
        }
        (Some(kind), ..) => Ok(kind),
        (None, true, false) => Ok(Kind::Stdio),
        (None, false, true) => Ok(Kind::Http),
    }
}

#[derive(Default)]
struct Rules {
    path: Vec<String>,
    findings: Vec<Finding>,
}

impl Rules {
    fn inside<const N: usize>(&mut self, keys: [&str; N], check: impl FnOnce(&mut Self)) {
        self.path.extend(keys.map(str::to_owned));
        check(self);
        self.path.truncate(self.path.len() - N);
    }

    fn find(&mut self, severity: Severity, key: &str, message: impl Into<String>, hint: &str) {
        let mut path = self.path.clone();
        path.extend(key.split('.').filter(|key| !key.is_empty()).map(str::to_owned));
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        self.findings.push(Finding { severity, path, message: message.into(), hint });
    }

    fn error(&mut self, key: &str, message: impl Into<String>, hint: &str) {
        self.find(Severity::Error, key, message, hint);
    }

    fn time(&mut self, key: &str, value: Duration, zero: bool) {
        if value.is_zero() && !zero {
            self.error(key, "must be longer than zero", "there is no \"never\" here; write a long time such as `1h`");
        } else if value > LONGEST {
            self.error(key, "is longer than a year", "");
        }
    }

    fn number(&mut self, key: &str, value: usize, least: usize, most: usize) {
        if value < least || value > most {
            self.error(key, "is out of range", &format!("from {least} to {most}"));
        }
    }

    fn ordered<T: PartialOrd>(&mut self, (less, a): (&str, T), (more, b): (&str, T)) {
        if a > b {
            self.error(less, format!("is more than `{more}`"), &format!("raise `{more}`, or lower this"));
        }
    }

    fn top(&mut self, config: &Config) {
        if overlap(config.listen, config.admin.listen) {
            self.error("admin.listen", "is the same address as `listen`", "give the admin listener a port of its own");
        }
        for (index, host) in config.allowed_hosts.iter().enumerate() {
            if host.is_empty() || host.contains(['/', '@', ' ', '*']) {
                self.error(
                    "allowedHosts",
                    format!("entry {index} is not a host name"),
                    "write `gateway` or `gateway:8080`",
                );
            }
        }
        for (index, origin) in config.allowed_origins.iter().enumerate() {
            if !is_origin(origin) {
                self.error(
                    "allowedOrigins",
                    format!("entry {index} is not an origin"),
                    "write `https://app.example.com`",
                );
            }
        }
        self.time("startupWait", config.startup_wait, true);
        self.time("staleGrace", config.stale_grace, true);
        self.time("shutdownGrace", config.shutdown_grace, true);
        self.number("pageSize", config.page_size, 1, 1_000_000);
        self.number("nameLimit", config.name_limit, 16, 1024);
        self.time("sessions.idle", config.sessions.idle, false);
        self.time("sessions.absolute", config.sessions.absolute, false);
        self.ordered(("sessions.idle", config.sessions.idle), ("sessions.absolute", config.sessions.absolute));
        self.number("sessions.max", config.sessions.max, 1, 10_000_000);
        if config.sealing.keys.iter().any(|key| key.expose().trim().len() < SEALING_KEY_MIN) {
            let hint =
                "give 32 characters or more that nobody can guess, such as what `openssl rand -base64 32` prints";
            self.error("sealing.keys", "a key is too short", hint);
        }
        self.number("sessions.maxPerPrincipal", config.sessions.max_per_principal, 1, 10_000_000);
        self.number("sessions.subscriptions", config.sessions.subscriptions, 1, 1_000_000);
        self.number("sessions.replayEvents", config.sessions.replay_events, 1, 1_000_000);
        self.time("sessions.replayFor", config.sessions.replay_for, false);
    }

    fn timeouts(&mut self, times: &Timeouts) {
        self.inside(["timeouts"], |rules| {
            for (key, value) in [
                ("connect", times.connect),
                ("probe", times.probe),
                ("initialize", times.initialize),
                ("list", times.list),
                ("call", times.call),
                ("callMax", times.call_max),
                ("read", times.read),
                ("completion", times.completion),
                ("userInput", times.user_input),
                ("shutdown", times.shutdown),
            ] {
                rules.time(key, value, false);
            }
            rules.time("unsubscribe", times.unsubscribe, true);
            rules.ordered(("call", times.call), ("callMax", times.call_max));
        });
    }

    fn limits(&mut self, limits: &Limits) {
        self.inside(["limits"], |rules| {
            rules.number("body", limits.body, KIB, GIB);
            rules.number("headers", limits.headers, KIB, GIB);
            rules.number("batch", limits.batch, 1, 10_000);
        });
        self.upstream_limits(&limits.upstream);
    }

    fn upstream_limits(&mut self, limits: &UpstreamLimits) {
        self.inside(["limits"], |rules| {
            rules.number("message", limits.message, KIB, GIB);
            rules.number("concurrency", limits.concurrency, 1, 1_000_000);
            rules.number("queue", limits.queue, 1, 1_000_000);
        });
    }

    fn restart(&mut self, restart: &Restart) {
        self.inside(["restart"], |rules| {
            rules.time("backoffMin", restart.backoff_min, false);
            rules.time("backoffMax", restart.backoff_max, false);
            rules.time("resetAfter", restart.reset_after, false);
            rules.ordered(("backoffMin", restart.backoff_min), ("backoffMax", restart.backoff_max));
        });
    }

    fn server(&mut self, server: &ServerConfig, config: &Config) {
        let name = server.name.as_str();
        if name.is_empty() || name.chars().any(char::is_control) {
            self.error("", "a server needs a name of visible characters", "");
        }
        if server.required && server.disabled {
            self.find(Severity::Warning, "required", "a disabled server is not waited for", "remove one of the two");
        }
        self.timeouts(&server.timeouts);
        self.upstream_limits(&server.limits);
        self.restart(&server.restart);
        for root in &server.roots {
            if !root.uri.expose().starts_with("file://") {
                self.find(Severity::Warning, "roots", "a root is not a `file://` URI", "servers may ignore any other");
            }
        }
        match &server.transport {
            TransportConfig::Stdio { command, cwd, .. } => {
                self.process(command.expose(), cwd.as_ref().map(|cwd| cwd.expose()));
            }
            TransportConfig::Http { url, .. } | TransportConfig::Sse { url, .. } => self.url(url.expose(), config),
        }
    }

    fn process(&mut self, command: &str, cwd: Option<&str>) {
        if command.trim().is_empty() {
            self.error("command", "is empty", "name a program, such as `npx`");
        } else if command.split_whitespace().nth(1).is_some_and(|second| second.starts_with('-')) {
            self.find(
                Severity::Warning,
                "command",
                "looks like a command line; no shell splits it",
                "move the rest to `args`",
            );
        }
        for (key, path) in [("command", Some(command)), ("cwd", cwd)] {
            if path.is_some_and(|path| path.contains("/~/") || path.starts_with("~/")) {
                self.error(key, "`~` is a shell's shorthand; no shell reads it here", "write `${HOME}/...`");
            }
        }
    }

    fn url(&mut self, url: &Url, config: &Config) {
        if !matches!(url.scheme(), "http" | "https") {
            self.error(
                "url",
                "is neither `http` nor `https`",
                "write an address that begins with `https://` or `http://`",
            );
        } else if url.fragment().is_some() {
            self.error("url", "has a `#fragment`, which no server ever sees", "remove it");
        }
        if let Some(key) = [("listen", config.listen), ("admin.listen", config.admin.listen)]
            .into_iter()
            .find_map(|(key, address)| is_ours(url, address).then_some(key))
        {
            self.error(
                "url",
                format!("is this gateway's own address (`{key}`)"),
                "a gateway cannot be its own upstream",
            );
        }
    }

    /// The path `/mcp/{name}` and the names on `/mcp` must tell servers apart.
    fn unlike(&mut self, server: &ServerConfig, earlier: &[ServerConfig]) {
        let name = server.path_name();
        if let Some(twin) = earlier.iter().find(|other| other.path_name() == name) {
            let message =
                format!("servers {:?} and {:?} would both be `{name}`", twin.name.as_str(), server.name.as_str());
            self.error("", message, "rename one, or give it another `prefix`");
        }
    }
}

#[cfg(test)]
mod tests;
