//! What the admin pages show, gathered from the parts that know it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admin::Facts;
use crate::admin::facts::{
    CatalogFacts, ConflictFacts, EntryCounts, EntryFacts, Readiness, ServerFacts, ServerInfo, Transport, UpstreamState,
};
use crate::catalog::{Catalog, Kind, Part, Snapshot};
use crate::config::{Config, ServerConfig, TransportConfig};
use crate::protocol::object::Object;
use crate::telemetry::metrics::Metrics;
use crate::upstream::directory::Directory;
use crate::upstream::status::{Phase, Status};

/// The parts that know.
#[derive(Debug)]
pub struct Gathered {
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The upstreams.
    pub directory: Directory,
    /// The merged offer.
    pub catalog: Catalog,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// The start-up wait is over, or every first dial is.
    pub started: Arc<AtomicBool>,
    /// A shutdown has begun.
    pub draining: CancellationToken,
}

impl Gathered {
    fn status(&self, server: &ServerConfig) -> Status {
        let status = self.directory.get(&server.name).map(|handle| handle.status());
        status.unwrap_or_else(|| Status::new(Phase::Stopped, Instant::now()))
    }

    fn server(&self, server: &ServerConfig, snapshot: &Snapshot) -> ServerFacts {
        let status = self.status(server);
        let now = Instant::now();
        let retry_in = match status.phase {
            Phase::BackingOff { until } => Some(until.saturating_duration_since(now)),
            _ => None,
        };
        let name = server.name.as_str();
        ServerFacts {
            name: name.to_owned(),
            prefix: server.prefix.clone(),
            endpoint: format!("/mcp/{}", server.path_name()),
            state: if server.disabled { UpstreamState::Disabled } else { status.phase.label() },
            since_seconds: now.duration_since(status.since).as_secs(),
            era: status.revision.map(|r| r.era().as_str()),
            revision: status.revision.map(crate::protocol::revision::Revision::as_str),
            transport: match server.transport {
                TransportConfig::Stdio { .. } => Transport::Stdio,
                TransportConfig::Http { .. } => Transport::Http,
                TransportConfig::Sse { .. } => Transport::Sse,
            },
            pid: status.pid,
            required: server.required,
            entries: snapshot.part(name).map(counts).unwrap_or_default(),
            restarts: status.restarts,
            failed_attempts: status.failed_attempts,
            last_error: status.last_error.map(String::from),
            retry_in_ms: retry_in.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            server_info: status.server_info.as_deref().and_then(server_info),
            capabilities: status.capabilities.as_deref().map(keys).unwrap_or_default(),
            complaints: status.complaints,
            conflicts: conflicts_of(snapshot, name),
        }
    }
}

impl Facts for Gathered {
    fn servers(&self) -> Vec<ServerFacts> {
        let snapshot = self.catalog.load();
        self.config.servers.iter().map(|server| self.server(server, &snapshot)).collect()
    }

    fn catalog(&self) -> CatalogFacts {
        let snapshot = self.catalog.load();
        CatalogFacts {
            snapshot: snapshot.number(),
            tools: entries(&snapshot, Kind::Tools),
            resources: entries(&snapshot, Kind::Resources),
            templates: entries(&snapshot, Kind::Templates),
            prompts: entries(&snapshot, Kind::Prompts),
            conflicts: snapshot
                .conflicts()
                .iter()
                .map(|c| ConflictFacts {
                    exposed: c.name.to_string(),
                    claims: c.servers.iter().map(ToString::to_string).collect(),
                })
                .collect(),
        }
    }

    /// Ready when the start-up wait is over and every required server is up.
    fn readiness(&self) -> Readiness {
        let required = self.config.servers.iter().filter(|s| s.required && !s.disabled);
        let waiting_for: Vec<String> =
            required.filter(|s| self.status(s).phase != Phase::Ready).map(|s| s.name.to_string()).collect();
        let draining = self.draining.is_cancelled();
        let started = self.started.load(Ordering::Acquire);
        Readiness { ready: started && waiting_for.is_empty() && !draining, draining, waiting_for }
    }

    fn metrics(&self) -> String {
        let snapshot = self.catalog.load();
        self.metrics.snapshot(snapshot.number(), snapshot.conflicts().len());
        self.metrics.render()
    }
}

fn counts(part: &Part) -> EntryCounts {
    let of = |kind| part.contribution.entries(kind).len();
    EntryCounts {
        tools: of(Kind::Tools),
        resources: of(Kind::Resources),
        templates: of(Kind::Templates),
        prompts: of(Kind::Prompts),
    }
}

fn entries(snapshot: &Snapshot, kind: Kind) -> Vec<EntryFacts> {
    snapshot
        .parts()
        .flat_map(|part| part.contribution.entries(kind).iter().map(move |entry| (part, entry)))
        .map(|(part, entry)| EntryFacts {
            exposed: entry.exposed().to_string(),
            original: entry.original().to_string(),
            server: part.source.name.to_string(),
        })
        .collect()
}

fn conflicts_of(snapshot: &Snapshot, server: &str) -> Vec<String> {
    let claims = |c: &&crate::catalog::Conflict| c.servers.iter().any(|s| s.as_str() == server);
    snapshot.conflicts().iter().filter(claims).map(|c| c.name.to_string()).collect()
}

fn server_info(raw: &str) -> Option<ServerInfo> {
    let info = Object::parse(raw).ok()?;
    let text = |key| info.string(key).map(std::borrow::Cow::into_owned).unwrap_or_default();
    Some(ServerInfo { name: text("name"), version: text("version") })
}

fn keys(raw: &str) -> Vec<String> {
    Object::parse(raw).map(|o| o.iter().map(|(k, _)| k.to_owned()).collect()).unwrap_or_default()
}
