//! What the rest of the program holds of one upstream: its status, its connection while it serves, and an inbox.
//!
//! `gateway` takes the connection and calls on it from its own task; only what changes the actor's state (refresh,
//! subscriptions, log level) goes through the inbox.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::connection::Connection;
use super::status::{Phase, Status};
use crate::catalog::{Kind, Source};
use crate::config::ServerConfig;
use crate::protocol::level::Level;
use crate::telemetry::metrics::server::ServerMetrics;

/// Commands that may wait for an actor: one listen request may watch a thousand resources at once, and leave them at once.
pub(super) const INBOX: usize = 4096;

/// What an actor is asked to do.
#[derive(Debug)]
pub(super) enum Command {
    /// Read all lists again.
    Refresh,
    /// Somebody asked for this list, and its time has run out.
    Outdated(Kind),
    /// Watch a resource; one more subscriber.
    Subscribe { uri: Box<str>, done: oneshot::Sender<Result<(), SubscribeError>> },
    /// One subscriber less.
    Unsubscribe { uri: Box<str> },
    /// Somebody wants log messages from this level on.
    Level { level: Level, done: oneshot::Sender<()> },
}

/// Why a resource cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The upstream does not offer subscriptions.
    #[error("the server does not support subscriptions")]
    Unsupported,
    /// The upstream refused this one.
    #[error("the server refused the subscription")]
    Refused,
    /// The upstream is not there, or has too much to do.
    #[error("the server is not available")]
    Unavailable,
}

/// An upstream is not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// When it is tried again; `None` while it is being dialled.
    pub retry_in: Option<Duration>,
}

/// The handle; clones are the same upstream.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) shared: Arc<Shared>,
    pub(super) inbox: mpsc::Sender<Command>,
}

/// What actor and handles share. The actor alone writes.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) source: Arc<Source>,
    pub(super) config: Arc<ServerConfig>,
    pub(super) current: ArcSwapOption<Connection>,
    pub(super) status: watch::Sender<Status>,
    pub(super) metrics: Arc<ServerMetrics>,
}

impl Handle {
    /// What the catalog knows it by.
    pub fn source(&self) -> &Arc<Source> {
        &self.shared.source
    }

    /// Its configuration.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.shared.config
    }

    /// Its counters.
    pub fn metrics(&self) -> &ServerMetrics {
        &self.shared.metrics
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        self.shared.status.borrow().clone()
    }

    /// How it stands, and every change of it.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// Its connection, or when there may be one again.
    pub fn connection(&self) -> Result<Arc<Connection>, Unavailable> {
        match self.shared.current.load_full() {
            Some(connection) if !connection.is_closed() => Ok(connection),
            _ => Err(self.unavailable(Instant::now())),
        }
    }

    fn unavailable(&self, now: Instant) -> Unavailable {
        match self.shared.status.borrow().phase {
            Phase::BackingOff { until } => Unavailable { retry_in: Some(until.saturating_duration_since(now)) },
            _ => Unavailable { retry_in: None },
        }
    }

    /// Its connection. Waits up to `limit` while it starts, or shakes hands anew; not for one that is down.
    pub async fn connected(&self, limit: Duration) -> Result<Arc<Connection>, Unavailable> {
        self.wait_for_connection(limit, |status| !status.failing && status.phase != Phase::Stopped).await
    }

    /// The connection that follows `old`, which broke or lost its session: waits for the actor to dial, up to `limit`.
    pub async fn next_connection(
        &self,
        old: &Arc<Connection>,
        limit: Duration,
    ) -> Result<Arc<Connection>, Unavailable> {
        if !old.is_closed() {
            old.renew();
        }
        self.wait_for_connection(limit, |status| status.phase != Phase::Stopped).await
    }

    async fn wait_for_connection(
        &self,
        limit: Duration,
        may_come: impl Fn(&Status) -> bool,
    ) -> Result<Arc<Connection>, Unavailable> {
        let mut status = self.watch();
        let waiting = async {
            loop {
                let now = self.connection();
                let is_hopeless = !may_come(&status.borrow_and_update());
                if now.is_ok() || is_hopeless || status.changed().await.is_err() {
                    return now;
                }
            }
        };
        timeout(limit, waiting).await.unwrap_or_else(|_| self.connection())
    }

    /// Reads all lists again, soon.
    pub fn refresh(&self) {
        // A full inbox means that the actor has plenty to do, a refresh among it in all likelihood.
        let _ = self.inbox.try_send(Command::Refresh);
    }

    /// Somebody asked for a list whose time has run out: the actor reads it again, unless it just did.
    pub fn outdated(&self, kind: Kind) {
        let _ = self.inbox.try_send(Command::Outdated(kind));
    }

    /// Watches a resource of this upstream until as many [`Handle::unsubscribe`] calls were made.
    pub async fn subscribe(&self, uri: &str) -> Result<(), SubscribeError> {
        let (done, answer) = oneshot::channel();
        let command = Command::Subscribe { uri: uri.into(), done };
        self.inbox.try_send(command).map_err(|_| SubscribeError::Unavailable)?;
        answer.await.unwrap_or(Err(SubscribeError::Unavailable))
    }

    /// One subscriber of a resource less.
    pub fn unsubscribe(&self, uri: &str) {
        let _ = self.inbox.try_send(Command::Unsubscribe { uri: uri.into() });
    }

    /// Makes sure that a legacy upstream sends log messages from `level` on; returns once it was told.
    pub async fn want_level(&self, level: Level) {
        let (done, told) = oneshot::channel();
        if self.inbox.try_send(Command::Level { level, done }).is_ok() {
            // The actor drops the sender when it is told, when it cannot be, and when it ends.
            let _ = told.await;
        }
    }
}
