//! The task that owns one upstream: it dials, reads the lists, listens, and begins again when the connection is lost.
//!
//! ```text
//!              ┌──────────────────────────── dial ◄───────────────────────┐
//!              │ ok                            │ error                     │ wait over, or told to
//!              ▼                               ▼                           │
//!            serve ── connection lost ──► back off ────────────────────────┘
//!              └─────────── cancelled, in any phase ──► stop
//! ```
//!
//! It talks to: the catalog's keeper (contributions, stale, withdrawn), its [`Handle`]s (inbox in; status and connection
//! out), the hub's letterbox ([`Updates`]). The supervisor starts it, joins it, and is told nothing but its end.
//! State that only makes sense while connected lives in [`Serving`] and dies with the connection.

mod serving;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, info_span, warn};

use self::serving::{Exit, Serving};
use super::backoff::Backoff;
use super::dial::{Dialler, Live};
use super::error::DialError;
use super::handle::{Command, Handle, INBOX, Shared, SubscribeError};
use super::moment::until;
use super::notices::Notices;
use super::status::{Phase, Status};
use super::subscriptions::Subscriptions;
use super::updates::Updates;
use crate::catalog::{Catalog, Offer, PendingGuard, Source, Update};
use crate::config::ServerConfig;
use crate::protocol::level::Level;
use crate::telemetry::metrics::label::RestartReason;
use crate::telemetry::metrics::server::ServerMetrics;

/// What an actor is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The upstream's configuration.
    pub config: Arc<ServerConfig>,
    /// What the catalog knows it by.
    pub source: Arc<Source>,
    /// Where its offer goes.
    pub catalog: Catalog,
    /// Where changes of watched resources go.
    pub updates: Updates,
    /// What we say of ourselves: JSON text.
    pub client_info: Arc<str>,
    /// How long its entries stay listed after it is gone.
    pub stale_grace: Duration,
    /// Its counters.
    pub metrics: Arc<ServerMetrics>,
    /// Seed of the jitter.
    pub seed: u64,
}

/// The actor; see the module.
#[derive(Debug)]
pub struct Actor {
    plan: Plan,
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Command>,
    dialler: Dialler,
    backoff: Backoff,
    dice: u64,
    known_legacy: bool,
    /// Settles the catalog's wait for the first lists.
    starting: Option<PendingGuard>,
    /// When its entries are withdrawn, while it is gone.
    withdraw_at: Option<Instant>,
    subscriptions: Subscriptions,
    level: Option<Level>,
    /// What the last connection offered: where the next one cannot read a list, the last good one stays.
    offered: Option<Offer>,
}

impl Actor {
    /// An actor and its handle; the supervisor runs [`Actor::run`].
    pub fn new(plan: Plan) -> (Self, Handle) {
        let (sender, inbox) = mpsc::channel(INBOX);
        let (status, _) = watch::channel(Status::new(Phase::Starting, Instant::now()));
        let shared = Arc::new(Shared {
            source: plan.source.clone(),
            config: plan.config.clone(),
            current: arc_swap::ArcSwapOption::empty(),
            status,
            metrics: plan.metrics.clone(),
        });
        let handle = Handle { shared: shared.clone(), inbox: sender };
        let dialler = Dialler {
            config: plan.config.clone(),
            client_info: plan.client_info.clone(),
            notices: Arc::new(Notices::default()),
            metrics: plan.metrics.clone(),
            client: None,
        };
        let actor = Self {
            starting: Some(plan.catalog.pending(&plan.source.name)),
            backoff: Backoff::new(plan.config.restart.clone()),
            dice: plan.seed,
            known_legacy: false,
            withdraw_at: None,
            subscriptions: Subscriptions::default(),
            level: None,
            offered: None,
            plan,
            shared,
            inbox,
            dialler,
        };
        (actor, handle)
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let span = info_span!("upstream", server = %self.plan.source.name);
        async {
            while self.run_once(&cancel).await {}
            self.stopped();
        }
        .instrument(span)
        .await;
    }

    /// One round of dial, serve, back off. False: cancelled.
    async fn run_once(&mut self, cancel: &CancellationToken) -> bool {
        self.set(|s| (s.phase, s.pid) = (Phase::Starting, None));
        let (failure, served) = match self.dial(cancel).await {
            None => return false,
            Some(Ok(live)) => match self.serve(live, cancel).await {
                Exit::Cancelled => return false,
                Exit::Redial => return true,
                Exit::Lost(why) => (why, true),
            },
            Some(Err(error)) => {
                // A wrong guess about the era must not outlive a failed dial.
                self.known_legacy = false;
                (error.to_string(), false)
            }
        };
        self.gone(failure.as_str(), served).await;
        self.back_off(failure, cancel).await
    }

    /// `None`: cancelled.
    async fn dial(&mut self, cancel: &CancellationToken) -> Option<Result<Live, DialError>> {
        let known_legacy = self.known_legacy;
        let dialling = self.dialler.dial(known_legacy);
        tokio::pin!(dialling);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return None,
                Some(command) = self.inbox.recv() => {
                    while_away(&mut self.subscriptions, &mut self.level, command);
                }
                () = until(self.withdraw_at) => withdraw(&self.plan, &mut self.withdraw_at).await,
                live = &mut dialling => return Some(live),
            }
        }
    }

    async fn serve(&mut self, mut live: Live, cancel: &CancellationToken) -> Exit {
        let connection = live.connection.clone();
        self.known_legacy = !connection.hello.is_modern() && !connection.provisional;
        self.withdraw_at = None;
        let pid = live.child.as_ref().and_then(super::transport::process::Child::id);
        self.shared.current.store(Some(connection.clone()));
        info!(revision = %connection.revision(), pid, "connected");
        let mut serving = Serving::new(connection.clone(), self.offered.take());
        let exit = serving.run(self, &mut live, pid, cancel).await;
        self.offered = Some(serving.close(&mut self.subscriptions).await);
        self.shared.current.store(None);
        self.leave(live, &exit).await;
        exit
    }

    /// Ends a connection politely: the session at the upstream, then the wire, then the process.
    async fn leave(&self, mut live: Live, exit: &Exit) {
        if let super::transport::Link::Http(link) = &live.connection.wire.link
            && !matches!(exit, Exit::Lost(_))
        {
            link.end_session(&live.connection.wire).await;
        }
        if !live.connection.wire.is_renewing() {
            live.connection.wire.close();
        }
        if let Some(child) = live.child.take() {
            child.end(&self.plan.source.name, self.plan.config.timeouts.shutdown).await;
        }
        live.drivers.shutdown().await;
    }

    /// Tells everybody that it is gone; its entries stay for the grace period.
    async fn gone(&mut self, why: &str, served: bool) {
        let now = Instant::now();
        match served {
            true => self.plan.metrics.restart(RestartReason::Closed),
            false => self.plan.metrics.failed_attempt(),
        }
        self.set(|s| {
            s.last_error = Some(why.into());
            *(if served { &mut s.restarts } else { &mut s.failed_attempts }) += 1;
            s.failing = true;
            (s.revision, s.pid) = (None, None);
        });
        if self.withdraw_at.is_none() {
            self.withdraw_at = Some(now + self.plan.stale_grace);
        }
        let told = match self.starting.take() {
            Some(guard) => guard.publish(Update::Stale).await,
            None => self.plan.catalog.publish(self.plan.source.name.clone(), Update::Stale).await,
        };
        if told.is_err() {
            info!("the catalog is closed already");
        }
    }

    /// Waits before the next dial; told to refresh, it tries at once. False: cancelled.
    async fn back_off(&mut self, why: String, cancel: &CancellationToken) -> bool {
        let now = Instant::now();
        self.dice = next_dice(self.dice);
        let wait = self.backoff.failed(now, self.dice);
        let until_then = now + wait;
        warn!(error = %why, retry_in_ms = wait.as_millis(), failures = self.backoff.failures(), "the server is not available");
        self.set(|s| s.phase = Phase::BackingOff { until: until_then });
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return false,
                Some(command) = self.inbox.recv() => {
                    if while_away(&mut self.subscriptions, &mut self.level, command) {
                        return true;
                    }
                }
                () = until(self.withdraw_at) => withdraw(&self.plan, &mut self.withdraw_at).await,
                () = sleep_until(until_then) => return true,
            }
        }
    }

    fn stopped(&mut self) {
        self.set(|s| {
            s.phase = Phase::Stopped;
            (s.revision, s.pid) = (None, None);
        });
    }

    /// Changes the status; a new phase begins now.
    fn set(&self, change: impl FnOnce(&mut Status)) {
        self.shared.status.send_modify(|status| {
            let before = status.phase.label();
            change(status);
            if status.phase.label() != before {
                status.since = Instant::now();
            }
            self.plan.metrics.set_state(status.phase.label());
        });
    }
}

/// A command while there is no connection. True: it asks for a dial now.
fn while_away(subscriptions: &mut Subscriptions, level: &mut Option<Level>, command: Command) -> bool {
    match command {
        Command::Refresh => return true,
        // Nothing is read while there is nothing to read from; a dial reads every list.
        Command::Outdated(_) => {}
        Command::Subscribe { done, .. } => drop(done.send(Err(SubscribeError::Unavailable))),
        Command::Unsubscribe { uri } => subscriptions.remove(&uri, Instant::now()),
        Command::Level { level: wanted, .. } => *level = Some(level.map_or(wanted, |l| l.min(wanted))),
    }
    false
}

async fn withdraw(plan: &Plan, at: &mut Option<Instant>) {
    *at = None;
    info!("gone for too long; its entries are withdrawn");
    if plan.catalog.publish(plan.source.name.clone(), Update::Withdraw).await.is_err() {
        info!("the catalog is closed already");
    }
}

/// A xorshift step: jitter needs spread, not secrecy.
fn next_dice(seed: u64) -> u64 {
    let mut x = seed | 1;
    x ^= x << 13;
    x ^= x >> 7;
    x ^ (x << 17)
}
