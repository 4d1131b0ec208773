//! Calls of modern clients that wait for input: the upstream's request stays open while the client fills in a form and
//! comes back with another request (protocol.md §5a).
//!
//! ```text
//!  running ── the upstream asks ──► held ── the client returns ──► attached ── finished or asked again
//!     │                              │ never returns                  │ hangs up
//!     └─ hangs up: cancelled         └─ cancelled after the wait      └─ cancelled
//! ```
//!
//! The service holds and attaches; each held call has a task of its own here, which owns the leg, so an answer, a
//! withdrawal or a time-out is noticed while no client is connected. Whoever may come back is decided by the sealed
//! state (`state`), not here.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use dashmap::DashMap;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::exchange::Exchange;
use crate::telemetry::metrics::{Held, Metrics};
use crate::upstream::error::CallError;

/// Calls that may wait at once: each holds a request open at an upstream.
const CALLS_MAX: usize = 1_000;

/// How long to wait for more questions after the first: servers ask several things at once (protocol.md §5a rule 1).
const GATHER: Duration = Duration::from_millis(50);

/// A leg that runs.
pub type Running = BoxFuture<'static, Result<Bytes, CallError>>;

/// The table; clones are the same one.
#[derive(Clone, Debug)]
pub struct Suspended(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    calls: DashMap<u64, Arc<Record>>,
    next: AtomicU64,
    tasks: Mutex<JoinSet<()>>,
    metrics: Arc<Metrics>,
}

/// One suspended call.
#[derive(Debug)]
struct Record {
    exchange: Arc<Exchange>,
    round: AtomicU32,
    /// Since when no client is attached; `None` while one is.
    alone: watch::Sender<Option<Instant>>,
    answer: Mutex<Option<Result<Bytes, CallError>>>,
    finished: CancellationToken,
    cancelled: CancellationToken,
    _counted: Held,
}

/// A client that waits for a suspended call. Dropping it is hanging up, which cancels the call (protocol.md §5a rule 12).
#[derive(Debug)]
pub struct Attached {
    table: Suspended,
    key: u64,
    record: Arc<Record>,
    leaving: bool,
}

/// What a waiting client gets.
#[derive(Debug)]
pub enum Came {
    /// The upstream's answer.
    Answer(Result<Bytes, CallError>),
    /// Questions.
    Asks(Attached),
}

/// There is no such call, or another client waits for it, or the state is of an earlier round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the suspended call cannot be continued")]
pub struct NotHeld;

impl Suspended {
    /// An empty table. Keys count from `first`, a random number: several processes may share the key that seals them, and
    /// a state must not name a call of another process, before a restart or at another instance.
    pub fn new(metrics: Arc<Metrics>, first: u64) -> Self {
        Self(Arc::new(Shared { calls: DashMap::new(), next: AtomicU64::new(first), tasks: Mutex::default(), metrics }))
    }

    /// Runs a leg, and holds it as soon as its upstream asks something. `patience` is how long a client may stay away.
    pub async fn run(&self, exchange: &Arc<Exchange>, mut running: Running, patience: Duration) -> Came {
        tokio::select! {
            biased;
            answer = &mut running => return Came::Answer(answer),
            () = exchange.asks.asked() => {}
        }
        match self.hold(exchange, running, patience) {
            Ok(attached) => attached.wait().await,
            Err(running) => {
                exchange.asks.give_up();
                Came::Answer(running.await)
            }
        }
    }

    fn hold(&self, exchange: &Arc<Exchange>, running: Running, patience: Duration) -> Result<Attached, Running> {
        if self.0.calls.len() >= CALLS_MAX {
            return Err(running);
        }
        let key = self.0.next.fetch_add(1, Ordering::Relaxed);
        let record = Arc::new(Record {
            exchange: exchange.clone(),
            round: AtomicU32::new(0),
            alone: watch::Sender::new(None),
            answer: Mutex::default(),
            finished: CancellationToken::new(),
            cancelled: CancellationToken::new(),
            _counted: self.0.metrics.suspended(),
        });
        self.0.calls.insert(key, record.clone());
        let mut tasks = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(keep(Arc::downgrade(&self.0), key, record.clone(), running, patience));
        drop(tasks);
        Ok(Attached { table: self.clone(), key, record, leaving: false })
    }

    /// A client comes back with the state of `round`. One at a time, and never with an older state.
    pub fn attach(&self, key: u64, round: u32) -> Result<Attached, NotHeld> {
        let record = self.0.calls.get(&key).map(|r| r.value().clone()).ok_or(NotHeld)?;
        let alone = record.alone.send_if_modified(|alone| alone.take().is_some());
        if !alone {
            return Err(NotHeld);
        }
        let attached = Attached { table: self.clone(), key, record, leaving: false };
        if attached.record.round.load(Ordering::Acquire) != round {
            attached.step_back();
            return Err(NotHeld);
        }
        Ok(attached)
    }

    /// Calls that wait.
    pub fn len(&self) -> usize {
        self.0.calls.len()
    }

    /// None waits.
    pub fn is_empty(&self) -> bool {
        self.0.calls.is_empty()
    }

    /// Cancels all of them: the gateway goes away.
    pub fn cancel_all(&self) {
        self.0.calls.iter().for_each(|record| record.cancelled.cancel());
    }
}

/// Owns the leg of a suspended call until its end has been fetched, or nobody will.
async fn keep(table: std::sync::Weak<Shared>, key: u64, record: Arc<Record>, mut running: Running, patience: Duration) {
    let mut alone = record.alone.subscribe();
    let answer = tokio::select! {
        biased;
        () = record.cancelled.cancelled() => None,
        answer = &mut running => Some(answer),
        () = too_long(&mut alone, patience) => None,
    };
    // Dropped before the questions are answered: first the request is cancelled upstream.
    drop(running);
    match answer {
        Some(answer) => {
            *record.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            record.finished.cancel();
            tokio::select! {
                () = record.cancelled.cancelled() => {}
                () = too_long(&mut alone, patience) => {}
            }
        }
        None => record.exchange.asks.give_up(),
    }
    if let Some(table) = table.upgrade() {
        table.calls.remove(&key);
    }
}

/// Ends when no client has been attached for `patience`.
async fn too_long(alone: &mut watch::Receiver<Option<Instant>>, patience: Duration) {
    loop {
        let since = *alone.borrow_and_update();
        let changed = async {
            if alone.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        match since {
            None => changed.await,
            Some(since) => tokio::select! {
                () = sleep_until(since + patience) => return,
                () = changed => {}
            },
        }
    }
}

impl Attached {
    /// The exchange of the call.
    pub fn exchange(&self) -> &Arc<Exchange> {
        &self.record.exchange
    }

    /// Waits for the answer, or for questions that are still open when no more come.
    pub async fn wait(mut self) -> Came {
        loop {
            tokio::select! {
                biased;
                () = self.record.finished.cancelled() => return Came::Answer(self.fetch()),
                () = self.record.exchange.asks.asked() => {}
            }
            tokio::select! {
                biased;
                () = self.record.finished.cancelled() => return Came::Answer(self.fetch()),
                () = sleep(GATHER) => {}
            }
            if self.record.exchange.asks.is_open() {
                return Came::Asks(self);
            }
        }
    }

    fn fetch(&mut self) -> Result<Bytes, CallError> {
        self.leaving = true;
        self.record.cancelled.cancel();
        let answer = self.record.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        answer.unwrap_or(Err(CallError::Lost { sent: true }))
    }

    /// The client goes, with questions to answer: gives the key and the round that it must come back with.
    pub fn leave(mut self) -> (u64, u32) {
        self.leaving = true;
        let round = self.record.round.fetch_add(1, Ordering::AcqRel) + 1;
        self.record.alone.send_replace(Some(Instant::now()));
        (self.key, round)
    }

    /// The client's answers could not be used: the state that it came with stays good.
    pub fn step_back(mut self) {
        self.leaving = true;
        self.record.alone.send_replace(Some(Instant::now()));
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.leaving {
            self.record.cancelled.cancel();
            self.table.0.calls.remove(&self.key);
        }
    }
}
