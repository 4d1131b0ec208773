//! One server while it is read: every key as it came, before it is known to be a process or an address.

use std::path::Path;

use http::HeaderName;

use super::Config;
use super::foreign;
use super::secret::{Secret, SecretUrl, Text};
use super::section::{Section, keys};
use super::server::{ProtocolPin, Root, ServerConfig, TransportConfig, UriMode};
use super::settings::{INITIALIZE_RUNNER, PROBE_STDIO, Restart, Timeouts, UpstreamLimits};
use super::tree::{Entry, Node};
use super::validate;
use super::walk::Walk;

/// `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Stdio,
    Http,
    Sse,
}

pub(super) struct Draft {
    kind: Option<Kind>,
    command: Option<Text>,
    args: Vec<Secret>,
    env: Vec<(String, Secret)>,
    cwd: Option<Text>,
    url: Option<SecretUrl>,
    headers: Vec<(HeaderName, Secret)>,
    ca_file: Option<Text>,
    title: Option<Text>,
    prefix: Option<String>,
    disabled: bool,
    enabled: bool,
    required: bool,
    protocol: ProtocolPin,
    uris: UriMode,
    instructions: bool,
    roots: Vec<Root>,
    timeouts: Timeouts,
    limits: UpstreamLimits,
    restart: Restart,
}

keys! {
    Draft {
        kind: "type" | "transport" | "transportType" as kind;
        command: "command" as text;
        args: "args" as secrets;
        env: "env" as variables;
        cwd: "cwd" as text;
        url: "url" | "serverUrl" | "httpUrl" as url;
        headers: "headers" as headers;
        ca_file: "caFile" as text;
        title: "title" as text;
        prefix: "prefix" as prefix;
        disabled: "disabled" as flag;
        enabled: "enabled" as flag;
        required: "required" as flag;
        protocol: "protocol" as protocol;
        uris: "uris" as uris;
        instructions: "instructions" as flag;
        roots: "roots" as roots;
        timeouts: "timeouts" as section;
        limits: "limits" as section;
        restart: "restart" as section;
    }
    foreign foreign::SERVER;
}

impl Draft {
    fn new(defaults: &Config) -> Self {
        Self {
            kind: None,
            command: None,
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            url: None,
            headers: Vec::new(),
            ca_file: None,
            title: None,
            prefix: None,
            disabled: false,
            enabled: true,
            required: false,
            protocol: ProtocolPin::Auto,
            uris: UriMode::Prefixed,
            instructions: true,
            roots: Vec::new(),
            timeouts: defaults.timeouts.clone(),
            limits: defaults.limits.upstream.clone(),
            restart: defaults.restart.clone(),
        }
    }
}

/// Reads one entry of `mcpServers`. What is wrong in it does not hide what the rules between keys will find.
/// `top` is the whole merged tree: it knows which times were written and which are defaults.
pub(super) fn read(
    entry: &Entry,
    top: &Node,
    defaults: &Config,
    folder: &Path,
    walk: &mut Walk<'_>,
) -> Option<ServerConfig> {
    let before = walk.problems.len();
    let mut draft = Draft::new(defaults);
    draft.read(&entry.node, walk);
    let broken = entry.node.is_broken();
    let failed = broken || walk.problems[before..].iter().any(|problem| problem.is_error());
    let kind = match validate::kind(draft.kind, draft.command.is_some(), draft.url.is_some()) {
        Ok(kind) => kind,
        Err(_) if failed => return None,
        Err((message, hint)) => {
            walk.error(&entry.origin, message, Some(hint.to_owned()));
            return None;
        }
    };
    warn_of_other_kind(kind, &entry.node, walk);
    if kind == Kind::Stdio {
        patient_with_processes(&mut draft, &entry.node, top);
    }
    let server = finish(draft, kind, &entry.key, folder);
    (!broken || !server.disabled).then_some(server)
}

fn finish(draft: Draft, kind: Kind, key: &str, folder: &Path) -> ServerConfig {
    let Draft { command, args, env, cwd, url, headers, ca_file, .. } = draft;
    let ca_file = ca_file.map(|path| beside(folder, path));
    let transport = match (kind, command, url) {
        (Kind::Sse, _, Some(url)) => TransportConfig::Sse { url, headers, ca_file },
        (_, _, Some(url)) => TransportConfig::Http { url, headers, ca_file },
        (_, command, None) => {
            let command = command.unwrap_or_else(|| Text::plain(""));
            let command = if command.expose().contains('/') { beside(folder, command) } else { command };
            TransportConfig::Stdio { command, args, env, cwd: cwd.map(|path| beside(folder, path)) }
        }
    };
    let mut server = ServerConfig::new(key, transport);
    if let Some(prefix) = draft.prefix {
        server.prefix = prefix;
    }
    server.title = draft.title;
    server.disabled = draft.disabled || !draft.enabled;
    server.required = draft.required;
    server.protocol = draft.protocol;
    server.uris = draft.uris;
    server.instructions = draft.instructions;
    server.roots = draft.roots;
    server.timeouts = draft.timeouts;
    server.limits = draft.limits;
    server.restart = draft.restart;
    server
}

/// A relative path means the folder of the file that names it, wherever the gateway was started.
fn beside(folder: &Path, path: Text) -> Text {
    let hidden = path.is_hidden();
    Text::new(folder.join(path.expose()).to_string_lossy(), hidden)
}

/// Keys that belong to the other kind of server do nothing, and files in the wild do have them.
fn warn_of_other_kind(kind: Kind, node: &Node, walk: &mut Walk<'_>) {
    let (others, owner): (&[&str], _) =
        if kind == Kind::Stdio { (&["headers", "caFile"], "`url`") } else { (&["args", "env", "cwd"], "`command`") };
    let says_something = |entry: &&Entry| others.contains(&entry.key.as_str()) && !entry.node.is_empty();
    for entry in node.entries().iter().filter(says_something) {
        walk.enter(&entry.key, |walk| {
            walk.warn(&entry.origin, format!("`{}` is ignored: it belongs to a server with {owner}", entry.key), None);
        });
    }
}

/// Programs that may download the server before they start it.
const RUNNERS: &[&str] =
    &["npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "bun", "deno", "uvx", "uv", "pipx", "docker", "podman", "nix"];

/// Two times have another default for processes; what is written anywhere wins.
fn patient_with_processes(draft: &mut Draft, server: &Node, top: &Node) {
    let written =
        |key| [server, top].into_iter().filter_map(|node| node.get("timeouts")).any(|entry| entry.node.writes(key));
    if !written("probe") {
        draft.timeouts.probe = PROBE_STDIO;
    }
    let command = draft.command.as_ref().map(|text| Path::new(text.expose()));
    let program = command.and_then(Path::file_stem).and_then(|stem| stem.to_str()).unwrap_or_default();
    if RUNNERS.contains(&program) && !written("initialize") {
        draft.timeouts.initialize = INITIALIZE_RUNNER;
    }
}

/// The keys of a server, for the test that keeps the reference file complete.
#[cfg(test)]
pub(super) fn server_keys() -> Vec<&'static str> {
    Draft::keys()
}
