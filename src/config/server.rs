//! One upstream as configured: everything `upstream` needs to dial it and `catalog` needs to name what it offers.
//!
//! Values are resolved: the top-level `timeouts`, `limits` and `restart` are already folded in, `${...}` is replaced,
//! relative paths are joined to the folder of the file. Two equal values mean that a reload has nothing to do.

use http::HeaderName;

use super::secret::{Secret, SecretUrl, Text};
use super::settings::{Restart, Timeouts, UpstreamLimits};
use crate::name::ServerName;

/// An entry of `mcpServers`.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// The key, as written.
    pub name: ServerName,
    /// Stands before every name of this server on `/mcp`, and is its path `/mcp/{prefix}`. Default: the slug of the key.
    /// Empty is an explicit choice: then names are bare and the path is the slug ([`ServerConfig::path_name`]).
    pub prefix: String,
    /// How to reach it.
    pub transport: TransportConfig,
    /// Default [`ProtocolPin::Auto`].
    pub protocol: ProtocolPin,
    /// Default [`UriMode::Prefixed`].
    pub uris: UriMode,
    /// Whether the gateway is ready only while this server is. Default false.
    pub required: bool,
    /// Known, but not started. Default false.
    pub disabled: bool,
    /// Resolved times.
    pub timeouts: Timeouts,
    /// Resolved limits.
    pub limits: UpstreamLimits,
    /// Resolved restart rule.
    pub restart: Restart,
    /// What we answer to `roots/list` when no downstream can be asked. Default none.
    pub roots: Vec<Root>,
    /// What people see instead of the key. Default none: the key.
    pub title: Option<Text>,
    /// Whether its instructions are merged into ours. Default true.
    pub instructions: bool,
}

impl ServerConfig {
    /// A server with everything but name and transport at its default.
    pub fn new(key: &str, transport: TransportConfig) -> Self {
        Self {
            name: ServerName::new(key),
            prefix: crate::name::slug(key),
            transport,
            protocol: ProtocolPin::Auto,
            uris: UriMode::Prefixed,
            required: false,
            disabled: false,
            timeouts: Timeouts::default(),
            limits: UpstreamLimits::default(),
            restart: Restart::default(),
            roots: Vec::new(),
            title: None,
            instructions: true,
        }
    }

    /// The last segment of this server's own endpoint, `/mcp/{name}`: the prefix, or the slug of the key when that is empty.
    pub fn path_name(&self) -> String {
        if self.prefix.is_empty() { crate::name::slug(self.name.as_str()) } else { self.prefix.clone() }
    }
}

/// How to reach an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportConfig {
    /// A child process that speaks lines over stdin and stdout.
    Stdio {
        /// A program in `PATH`, or a path. One that is relative and holds a `/` is taken from the folder of the file.
        command: Text,
        /// Its arguments. They never print: tokens are passed this way.
        args: Vec<Secret>,
        /// Variables added to the child's environment, in the order written.
        env: Vec<(String, Secret)>,
        /// Its working directory; a relative one is taken from the folder of the file. Default: ours.
        cwd: Option<Text>,
    },
    /// Streamable HTTP.
    Http {
        /// The endpoint, `http` or `https`, without a fragment.
        url: SecretUrl,
        /// Sent with every request, in the order written.
        headers: Vec<(HeaderName, Secret)>,
        /// PEM file with certificate authorities trusted besides the usual ones. Default none.
        ca_file: Option<Text>,
    },
    /// The HTTP+SSE transport of revision 2024-11-05.
    Sse {
        /// The address of the event stream.
        url: SecretUrl,
        /// Sent with every request, in the order written.
        headers: Vec<(HeaderName, Secret)>,
        /// PEM file with certificate authorities trusted besides the usual ones. Default none.
        ca_file: Option<Text>,
    },
}

/// `protocol`: which era to speak to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolPin {
    /// Probe once a connection.
    Auto,
    /// Per-request metadata, from 2026-07-28, without a probe.
    Modern,
    /// Handshake, up to 2025-11-25, without a probe.
    Legacy,
}

/// `uris`: how resource URIs of an upstream appear on `/mcp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UriMode {
    /// `prefix+<original>`.
    Prefixed,
    /// As the upstream has them. Two servers with the same URI then hide each other's.
    Verbatim,
}

/// A folder or place that an upstream may treat as its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// A URI; the specification wants `file://`.
    pub uri: Text,
    /// For people. Default none.
    pub name: Option<Text>,
}
