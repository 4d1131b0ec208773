//! Owns the actors of all upstreams: starts them, joins them, and starts one anew that panicked.
//!
//! `app` starts it with the configuration; it fills the [`Directory`] that `gateway` reads, and tells the catalog which
//! servers to expect. It knows no protocol. A panic is one server's failure, counted and restarted; never the daemon's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::catalog::{Catalog, Source, Update, Uris};
use crate::config::{Config, ServerConfig, UriMode};
use crate::name::ServerName;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::label::{RestartReason, UpstreamState};
use crate::upstream::actor::{Actor, Plan};
use crate::upstream::directory::Directory;
use crate::upstream::updates::Updates;

/// Wait before an actor that panicked is started again: a bug that strikes at once must not become a hot loop.
const PANIC_WAIT: Duration = Duration::from_secs(1);

/// The owner of all actors.
#[derive(Debug)]
pub struct Supervisor {
    /// Where handles are found.
    pub directory: Directory,
    /// Where offers go.
    pub catalog: Catalog,
    /// Where updates of resources go.
    pub updates: Updates,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What we say of ourselves to upstreams: JSON text.
    pub client_info: Arc<str>,
    /// Seed of all jitter.
    pub seed: u64,
}

/// What the catalog must know of a server.
fn source(config: &ServerConfig, order: usize, name_limit: usize) -> Source {
    Source {
        name: config.name.clone(),
        prefix: config.prefix.clone(),
        order,
        title: config.title.as_ref().map(|t| t.expose().to_owned()),
        uris: match config.uris {
            UriMode::Prefixed => Uris::Prefixed,
            UriMode::Verbatim => Uris::Verbatim,
        },
        name_limit,
        instructions: config.instructions,
    }
}

impl Supervisor {
    /// Makes every actor known before any runs, so that the first list finds all of them to wait for; then runs them
    /// until cancelled, and returns when the last one has ended.
    pub async fn run(self, config: &Config, ready: impl FnOnce(), cancel: CancellationToken) {
        let mut actors = JoinSet::new();
        let mut plans: HashMap<Id, Plan> = HashMap::new();
        for (order, server) in config.servers.iter().enumerate() {
            let plan = self.plan(config, server, order);
            if self.catalog.publish(server.name.clone(), Update::Expect(plan.source.clone())).await.is_err() {
                break;
            }
            if server.disabled {
                plan.metrics.set_state(UpstreamState::Disabled);
                continue;
            }
            self.start(&mut actors, &mut plans, plan, &cancel, Duration::ZERO);
        }
        ready();
        while let Some(ended) = actors.join_next_with_id().await {
            self.ended(&mut actors, &mut plans, ended, &cancel);
        }
    }

    fn plan(&self, config: &Config, server: &ServerConfig, order: usize) -> Plan {
        Plan {
            config: Arc::new(server.clone()),
            source: Arc::new(source(server, order, config.name_limit)),
            catalog: self.catalog.clone(),
            updates: self.updates.clone(),
            metrics: self.metrics.server(server.name.as_str()),
            client_info: self.client_info.clone(),
            stale_grace: config.stale_grace,
            seed: self.seed.wrapping_add(order as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    fn start(
        &self,
        actors: &mut JoinSet<()>,
        plans: &mut HashMap<Id, Plan>,
        plan: Plan,
        cancel: &CancellationToken,
        wait: Duration,
    ) {
        let (actor, handle) = Actor::new(plan.clone());
        self.directory.insert(handle);
        let token = cancel.child_token();
        let task = actors.spawn(async move {
            tokio::select! {
                biased;
                () = token.cancelled() => {}
                () = sleep(wait) => actor.run(token.clone()).await,
            }
        });
        plans.insert(task.id(), plan);
    }

    fn ended(
        &self,
        actors: &mut JoinSet<()>,
        plans: &mut HashMap<Id, Plan>,
        ended: Result<(Id, ()), JoinError>,
        cancel: &CancellationToken,
    ) {
        let (id, panicked) = match ended {
            Ok((id, ())) => (id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let Some(plan) = plans.remove(&id) else { return };
        if panicked && !cancel.is_cancelled() {
            let server: &ServerName = &plan.source.name;
            error!(server = %server, "the server's actor panicked, which is a bug of the gateway; starting it again");
            plan.metrics.restart(RestartReason::Panic);
            self.start(actors, plans, plan, cancel, PANIC_WAIT);
        }
    }
}
