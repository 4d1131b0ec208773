//! First dials and refreshes under way, and the lists that wait for them.
//!
//! On the path of every list: when nothing is pending, one atomic load. Each wait is bounded by the age of what it waits for, not
//! of the list, so a server that hangs is waited for once and not by every list again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::catalog::diff::Changed;
use crate::catalog::kind::Endpoint;
use crate::name::ServerName;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing was pending, or no longer is.
    Yes,
    /// Something still is. What changes with it will be announced, also if it was announced before.
    TimedOut,
}

#[derive(Debug, Default)]
pub(super) struct Pending {
    /// How many waits there are, to be read without the lock.
    count: AtomicUsize,
    /// Held for the length of a look-up, never across an await.
    waits: Mutex<Waits>,
    /// Moves whenever something settles.
    settled: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Waits {
    next: u64,
    by_id: HashMap<u64, Wait>,
}

/// One dial or refresh.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) server: ServerName,
    announced: Changed,
    since: Instant,
    answered_early: bool,
}

impl Wait {
    /// What subscribers know already, and have not read too early.
    pub(super) fn told(&self) -> Changed {
        if self.answered_early { Changed::NONE } else { self.announced }
    }

    fn concerns(&self, endpoint: &Endpoint) -> bool {
        match endpoint {
            Endpoint::Merged => true,
            Endpoint::Server(name) => *name == self.server,
        }
    }
}

/// What a list should do now.
enum Next {
    Go,
    GoEarly,
    WaitUntil(Instant),
}

impl Pending {
    pub(super) fn begin(&self, server: &ServerName, announced: Changed) -> u64 {
        let wait = Wait { server: server.clone(), announced, since: Instant::now(), answered_early: false };
        let mut waits = self.lock();
        let id = waits.next;
        waits.next += 1;
        waits.by_id.insert(id, wait);
        self.count.store(waits.by_id.len(), Ordering::Release);
        id
    }

    /// Ends a wait; `None` if it has ended before.
    pub(super) fn settle(&self, id: u64) -> Option<Wait> {
        let wait = {
            let mut waits = self.lock();
            let wait = waits.by_id.remove(&id)?;
            self.count.store(waits.by_id.len(), Ordering::Release);
            wait
        };
        self.settled.send_modify(|n| *n += 1);
        Some(wait)
    }

    pub(super) async fn settled(&self, endpoint: &Endpoint, limit: Duration) -> Settled {
        if self.count.load(Ordering::Acquire) == 0 {
            return Settled::Yes;
        }
        let mut settled = self.settled.subscribe();
        loop {
            match self.next(endpoint, limit, Instant::now()) {
                Next::Go => return Settled::Yes,
                Next::GoEarly => return Settled::TimedOut,
                // Woken or timed out, the next look decides.
                Next::WaitUntil(deadline) => drop(timeout_at(deadline, settled.changed()).await),
            }
        }
    }

    fn next(&self, endpoint: &Endpoint, limit: Duration, now: Instant) -> Next {
        let mut waits = self.lock();
        let concerned = waits.by_id.values_mut().filter(|w| w.concerns(endpoint));
        let (mut any, mut deadline) = (false, None::<Instant>);
        let mut late: Vec<&mut Wait> = Vec::new();
        for wait in concerned {
            any = true;
            let until = wait.since + limit;
            if until > now {
                deadline = Some(deadline.map_or(until, |d| d.min(until)));
            } else {
                late.push(wait);
            }
        }
        match deadline {
            Some(deadline) => Next::WaitUntil(deadline),
            None if any => {
                late.into_iter().for_each(|wait| wait.answered_early = true);
                Next::GoEarly
            }
            None => Next::Go,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waits> {
        // Nothing that holds it can panic half-way through a change.
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
