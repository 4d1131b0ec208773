//! The one task of the catalog, and the handle that everybody else holds.
//!
//! ```text
//! upstream actors ── publish(server, Update) ──► Keeper ── merge ──► Snapshot ──► load(), snapshots()
//!                 ── announce(server, lists) ─────────── at once ──────────────► subscribe(endpoint)
//! gateway lists   ── settled(endpoint, limit): waits while a first dial or a refresh is under way
//! ```
//!
//! What changes is decided in pure neighbours (`merge`, `diff`, [`Parts`]); here it is stored and told. An upstream's notice is
//! passed on before its lists are read again, and is never taken back, even if the lists turn out equal (protocol.md §5e).
//! The next list waits for that read, so nobody reads the old list after the notice.

mod board;
mod parts;
mod pending;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use self::board::Board;
use self::parts::Parts;
use self::pending::{Pending, Wait};
use super::contribution::Contribution;
use super::diff::{Changed, diff};
use super::kind::Endpoint;
use super::merge::merge;
use super::snapshot::Snapshot;
use super::source::Source;
use crate::name::ServerName;

pub use self::board::Subscription;
pub use self::pending::Settled;

/// Updates that may wait for the keeper. It needs milliseconds for all of them together, so this is only ever full if it is stuck.
const INBOX: usize = 256;

/// Something new about one server.
#[derive(Clone, Debug)]
pub enum Update {
    /// It is configured, or configured anew. Comes first; entries stay if they keep their names.
    Expect(Arc<Source>),
    /// Its lists were read.
    Offer(Arc<Contribution>),
    /// It is gone; its entries stay for now.
    Stale,
    /// It was gone for too long; its entries go, its place stays.
    Withdraw,
    /// It is no longer configured.
    Remove,
}

/// The keeper has ended: the process is shutting down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the catalog is closed")]
pub struct Closed;

/// The handle. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Catalog {
    shared: Arc<Shared>,
    inbox: mpsc::Sender<Message>,
}

#[derive(Debug)]
struct Shared {
    current: ArcSwap<Snapshot>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    board: watch::Sender<Board>,
    pending: Pending,
}

#[derive(Debug)]
struct Message {
    server: ServerName,
    update: Update,
    guard: Option<PendingGuard>,
}

/// The task.
#[derive(Debug)]
pub struct Keeper {
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Message>,
    parts: Parts,
}

/// Says that a first dial or a refresh of one server is under way. Dropping it, or publishing with it, settles that.
#[derive(Debug)]
pub struct PendingGuard {
    catalog: Catalog,
    server: ServerName,
    id: u64,
}

impl Catalog {
    /// The current snapshot.
    pub fn load(&self) -> Arc<Snapshot> {
        self.shared.current.load_full()
    }

    /// Every snapshot, or the newest where one comes after another.
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.shared.snapshots.subscribe()
    }

    /// Changes of the lists of `endpoint` from now on.
    pub fn subscribe(&self, endpoint: Endpoint) -> Subscription {
        Subscription::new(self.shared.board.subscribe(), endpoint)
    }

    /// Gives the keeper something new about a server. Where a guard is at hand, [`PendingGuard::publish`].
    pub async fn publish(&self, server: ServerName, update: Update) -> Result<(), Closed> {
        self.send(Message { server, update, guard: None }).await
    }

    /// An upstream says that lists of it changed: subscribers are told now, and lists wait until the guard is gone.
    #[must_use = "the guard ends the wait when the lists were read again"]
    pub fn announce(&self, server: &ServerName, changed: Changed) -> PendingGuard {
        // The guard first: whoever hears the notice and lists at once must find something to wait for.
        let guard = self.guard(server, changed);
        self.shared.board.send_modify(|board| board.tell_server(server, changed));
        guard
    }

    /// A first dial, or a refresh that nobody announced, begins.
    #[must_use = "the guard ends the wait when the dial or refresh is over"]
    pub fn pending(&self, server: &ServerName) -> PendingGuard {
        self.guard(server, Changed::NONE)
    }

    /// Waits until nothing of `endpoint` is pending, but for each dial or refresh no longer than `limit` after it began.
    /// Costs one atomic load when nothing is pending anywhere.
    pub async fn settled(&self, endpoint: &Endpoint, limit: Duration) -> Settled {
        self.shared.pending.settled(endpoint, limit).await
    }

    fn guard(&self, server: &ServerName, announced: Changed) -> PendingGuard {
        let id = self.shared.pending.begin(server, announced);
        PendingGuard { catalog: self.clone(), server: server.clone(), id }
    }

    async fn send(&self, message: Message) -> Result<(), Closed> {
        self.inbox.send(message).await.map_err(|_| Closed)
    }
}

impl PendingGuard {
    /// Publishes the outcome, and settles once it is in the catalog.
    pub async fn publish(self, update: Update) -> Result<(), Closed> {
        let inbox = self.catalog.inbox.clone();
        let message = Message { server: self.server.clone(), update, guard: Some(self) };
        inbox.send(message).await.map_err(|_| Closed)
    }

    fn settle(self) -> Option<Wait> {
        self.catalog.shared.pending.settle(self.id)
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.catalog.shared.pending.settle(self.id);
    }
}

impl Keeper {
    /// An empty catalog, snapshot 0, and the task that keeps it.
    pub fn new() -> (Self, Catalog) {
        let empty = Arc::new(merge(Vec::new(), 0));
        let shared = Arc::new(Shared {
            current: ArcSwap::new(empty.clone()),
            snapshots: watch::Sender::new(empty),
            board: watch::Sender::new(Board::default()),
            pending: Pending::default(),
        });
        let (sender, inbox) = mpsc::channel(INBOX);
        let catalog = Catalog { shared: shared.clone(), inbox: sender };
        (Self { shared, inbox, parts: Parts::default() }, catalog)
    }

    /// Runs until it is cancelled or every handle is gone.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut batch = Vec::with_capacity(INBOX);
        loop {
            let received = tokio::select! {
                biased;
                () = cancel.cancelled() => 0,
                received = self.inbox.recv_many(&mut batch, INBOX) => received,
            };
            if received == 0 {
                return;
            }
            // Everything that waits becomes one snapshot: two hundred servers that start together do not make two hundred.
            self.apply(std::mem::take(&mut batch));
        }
    }

    fn apply(&mut self, batch: Vec<Message>) {
        let mut touched: Vec<ServerName> = Vec::new();
        let mut guards = Vec::new();
        for Message { server, update, guard } in batch {
            guards.extend(guard);
            if !self.parts.apply(&server, update) {
                tracing::debug!(%server, "an update of the catalog changes nothing");
            } else if !touched.contains(&server) {
                touched.push(server);
            }
        }
        if touched.is_empty() {
            return;
        }
        let old = self.shared.current.load_full();
        let new = Arc::new(merge(self.parts.to_vec(), old.number() + 1));
        report_conflicts(&old, &new);
        self.shared.current.store(new.clone());
        self.shared.snapshots.send_replace(new.clone());
        let settled: Vec<Wait> = guards.into_iter().filter_map(PendingGuard::settle).collect();
        self.tell(&old, &new, &touched, &settled);
    }

    /// Tells subscribers what differs, except what they were told when it was announced and could not read too early.
    fn tell(&self, old: &Snapshot, new: &Snapshot, touched: &[ServerName], settled: &[Wait]) {
        let (mut changed, mut untold) = (Changed::NONE, Vec::new());
        for server in touched {
            let own = diff(old, new, &Endpoint::Server(server.clone()));
            let told = settled.iter().filter(|w| w.server == *server).fold(Changed::NONE, |all, w| all | w.told());
            changed = changed | own;
            untold.push((server, own.without(told)));
        }
        let all_untold = untold.iter().fold(Changed::NONE, |all, (_, c)| all | *c);
        let merged = diff(old, new, &Endpoint::Merged).without(changed.without(all_untold));
        if !merged.any() && !all_untold.any() {
            return;
        }
        self.shared.board.send_modify(|board| {
            board.tell_merged(merged);
            for (server, changed) in untold {
                board.tell_alone(server, changed);
            }
        });
    }
}

/// Says once what an operator should know: nobody can use these entries.
fn report_conflicts(old: &Snapshot, new: &Snapshot) {
    for conflict in new.conflicts().iter().filter(|c| !old.conflicts().contains(c)) {
        tracing::warn!(name = %conflict.name, "{conflict}");
    }
}
