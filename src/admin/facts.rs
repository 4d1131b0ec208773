//! What the admin listener knows, as values: filled by `app`, shown by the pages beside this file.
//!
//! The JSON field names are camelCase and part of the public interface: new ones may appear, none change their meaning.
//! Nothing here holds configuration text that could be a secret: no environment, headers, arguments or URLs.

use serde::Serialize;

pub use crate::telemetry::metrics::label::UpstreamState;

/// Whether traffic should be sent here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// Every required server has been ready once, the first list can be answered, and no shutdown has begun.
    pub ready: bool,
    /// A shutdown has begun: calls in flight still finish, new traffic should go elsewhere.
    pub draining: bool,
    /// Names of the servers that readiness waits for.
    pub waiting_for: Vec<String>,
}

/// How an upstream is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A child process, over its standard input and output.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// The HTTP+SSE transport of 2024.
    Sse,
}

/// One configured server.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerFacts {
    /// Its name in the configuration.
    pub name: String,
    /// What stands before `__` in the names of its entries; empty where it has none.
    pub prefix: String,
    /// Path under which it is served alone, for instance `/mcp/files`.
    pub endpoint: String,
    /// Where it is in its life.
    pub state: UpstreamState,
    /// Whole seconds since it entered that state.
    pub since_seconds: u64,
    /// `legacy` or `modern`; `null` until it was probed.
    pub era: Option<&'static str>,
    /// The revision spoken with it, for instance `2025-11-25`.
    pub revision: Option<&'static str>,
    /// How it is reached.
    pub transport: Transport,
    /// Process id of a child that runs now.
    pub pid: Option<u32>,
    /// Whether readiness waits for it.
    pub required: bool,
    /// What it contributes to the catalog now.
    pub entries: EntryCounts,
    /// How often it was started again after it had served.
    pub restarts: u64,
    /// Attempts to start or reach it that failed since it served last.
    pub failed_attempts: u64,
    /// What went wrong last, in a sentence; kept after a recovery.
    pub last_error: Option<String>,
    /// Milliseconds until the next attempt, while backing off.
    pub retry_in_ms: Option<u64>,
    /// What it says of itself.
    pub server_info: Option<ServerInfo>,
    /// Capabilities that it declared, by name.
    pub capabilities: Vec<String>,
    /// Breaches of the protocol that were noticed and got over, newest last.
    pub complaints: Vec<String>,
    /// Exposed names of entries of it that are hidden, because another entry has the same one.
    pub conflicts: Vec<String>,
}

/// An implementation as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerInfo {
    /// `serverInfo.name`.
    pub name: String,
    /// `serverInfo.version`; may be empty.
    pub version: String,
}

/// How many entries of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EntryCounts {
    /// Tools.
    pub tools: usize,
    /// Resources.
    pub resources: usize,
    /// Resource templates.
    pub templates: usize,
    /// Prompts.
    pub prompts: usize,
}

/// The current catalog snapshot.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogFacts {
    /// Its number; every change makes a new one.
    pub snapshot: u64,
    /// Tools, in the order in which they are listed.
    pub tools: Vec<EntryFacts>,
    /// Resources, by URI.
    pub resources: Vec<EntryFacts>,
    /// Resource templates, by URI template.
    pub templates: Vec<EntryFacts>,
    /// Prompts.
    pub prompts: Vec<EntryFacts>,
    /// Entries that are hidden because they would share a name.
    pub conflicts: Vec<ConflictFacts>,
}

/// One listed entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryFacts {
    /// Name or URI as downstreams see it on `/mcp`.
    pub exposed: String,
    /// Name or URI as its server calls it.
    pub original: String,
    /// The server that it comes from.
    pub server: String,
}

/// Entries that would share one exposed name: all of them are hidden.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConflictFacts {
    /// The name.
    pub exposed: String,
    /// Who claims it, as `server: original`.
    pub claims: Vec<String>,
}
