//! Everything below the edges, running: catalog, upstreams, gateway, hub.
//!
//! `app` starts one, puts edges in front of it, and stops it last.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::StartError;
use super::facts::Gathered;
use super::sealing;
use crate::catalog::{Catalog, Endpoint, Keeper};
use crate::config::Config;
use crate::gateway::hub::Hub;
use crate::gateway::suspended::Suspended;
use crate::gateway::{Gateway, Parts, Settings};
use crate::supervisor::Supervisor;
use crate::telemetry::metrics::Metrics;
use crate::upstream::directory::Directory;
use crate::upstream::updates::Updates;

/// What we say of ourselves, upstream and downstream.
const IMPLEMENTATION: &str = concat!("{\"name\":\"manifold\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");

/// The running core.
#[derive(Debug)]
pub struct Core {
    /// What edges call.
    pub gateway: Gateway,
    /// What admin pages show.
    pub facts: Arc<Gathered>,
    suspended: Suspended,
    /// Cancelled when draining begins.
    draining: CancellationToken,
    /// Ends the actors.
    upstreams: CancellationToken,
    /// Ends keeper and hub.
    rest: CancellationToken,
    actors: JoinSet<()>,
    tasks: JoinSet<()>,
}

impl Core {
    /// Starts it. Every server is known to the catalog when this returns, so the first list finds all of them to wait for.
    /// `state` is the folder for what outlives a restart.
    pub async fn start(config: Arc<Config>, state: Option<&Path>) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::new().map_err(|e| StartError::Internal(e.to_string()))?);
        let (keeper, catalog) = Keeper::new();
        let (directory, updates) = (Directory::default(), Updates::default());
        let hub = Hub::new(directory.clone());
        let (draining, upstreams, rest) =
            (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(keeper.run(rest.clone()));
        tasks.spawn(hub.clone().run(catalog.clone(), updates.clone(), endpoints(&config), rest.clone()));
        let mut actors = JoinSet::new();
        let supervisor = Supervisor {
            directory: directory.clone(),
            catalog: catalog.clone(),
            updates,
            metrics: metrics.clone(),
            client_info: IMPLEMENTATION.into(),
            seed: random()?,
        };
        let (known, all_known) = tokio::sync::oneshot::channel();
        let (for_supervisor, stop) = (config.clone(), upstreams.clone());
        actors.spawn(async move {
            let ready = || {
                let _ = known.send(());
            };
            supervisor.run(&for_supervisor, ready, stop).await;
        });
        all_known.await.map_err(|_| StartError::Internal("the supervisor did not start".into()))?;
        let started = Arc::new(AtomicBool::new(false));
        tasks.spawn(note_start(catalog.clone(), config.clone(), started.clone(), rest.clone()));
        let facts = Gathered {
            config: config.clone(),
            directory: directory.clone(),
            catalog: catalog.clone(),
            metrics: metrics.clone(),
            started,
            draining: draining.clone(),
        };
        let settings = Settings {
            startup_wait: config.startup_wait,
            subscriptions: config.sessions.subscriptions,
            page_size: config.page_size,
        };
        let sealer = sealing::sealer(&config.sealing.keys, state)?;
        let suspended = Suspended::new(metrics.clone(), random()?);
        let gateway = Gateway::new(Parts {
            catalog,
            directory,
            hub,
            sealer,
            suspended: suspended.clone(),
            metrics,
            settings,
            draining: draining.clone(),
            server_info: IMPLEMENTATION.into(),
            wall: wall_clock(),
        });
        Ok(Self { gateway, facts: Arc::new(facts), suspended, draining, upstreams, rest, actors, tasks })
    }

    /// Readiness falls, listen streams end, nothing new is opened.
    pub fn drain(&self) {
        self.draining.cancel();
        self.suspended.cancel_all();
    }

    /// Ends every server now: its process group is killed.
    pub async fn kill(&mut self) {
        self.actors.shutdown().await;
    }

    /// Ends upstreams, then the rest. A child that does not leave is killed within its own grace.
    pub async fn stop(&mut self, grace: std::time::Duration) {
        self.upstreams.cancel();
        let leaving = async { while self.actors.join_next().await.is_some() {} };
        if timeout(grace, leaving).await.is_err() {
            warn!("not every server left in time; they are killed");
            self.actors.shutdown().await;
        }
        self.rest.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Ready to be asked once every first dial is over, or the start-up wait is.
async fn note_start(catalog: Catalog, config: Arc<Config>, started: Arc<AtomicBool>, cancel: CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        _ = catalog.settled(&Endpoint::Merged, config.startup_wait) => started.store(true, Ordering::Release),
    }
}

fn endpoints(config: &Config) -> Vec<Endpoint> {
    let servers = config.servers.iter().map(|s| Endpoint::Server(s.name.clone()));
    std::iter::once(Endpoint::Merged).chain(servers).collect()
}

#[expect(clippy::disallowed_methods, reason = "the one place where the gateway gets the clock of sealed states from")]
fn wall_clock() -> fn() -> SystemTime {
    SystemTime::now
}

fn random() -> Result<u64, StartError> {
    getrandom::u64().map_err(|e| StartError::Internal(format!("no randomness: {e}")))
}
