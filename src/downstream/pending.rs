//! One exchange on its way to an answer, whatever becomes of the connection that it came on.
//!
//! `endpoint` makes one per POST; the reply polls it inside the connection's own task, so the usual case spawns nothing.
//! A peer that goes away drops it, and then the era decides (protocol.md §3.10): a modern exchange is cancelled by that,
//! a legacy one goes on among the session table's orphans, and where its stream can be resumed, what it says is kept.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::record::{Outcome, Standing, record};
use super::refusal;
use super::replay::Track;
use super::session::Visit;
use crate::gateway::Reply;
use crate::gateway::outlet::Outlet;
use crate::protocol::classify::Refusal;
use crate::protocol::code;
use crate::protocol::method::Method;
use crate::protocol::revision::Era;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::label::StreamKind;

/// How an exchange ended.
#[derive(Debug)]
pub enum Answer {
    /// The gateway's reply, with the id of a session that began with it.
    Reply {
        /// Decides the status.
        era: Era,
        /// What the gateway said.
        reply: Reply,
        /// For `Mcp-Session-Id`.
        session: Option<Box<str>>,
    },
    /// All answers of a batch, as an array.
    Batch(Bytes),
    /// Not served.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The request's id, JSON text.
        id: Option<Box<str>>,
    },
    /// Nothing has to be answered.
    Accepted,
    /// The peer withdrew its request: nothing may be answered.
    Withdrawn,
}

impl Answer {
    /// What is sent for it on a stream.
    pub fn text(&self) -> Option<Bytes> {
        match self {
            Self::Reply { reply, .. } => Some(reply.text.clone()),
            Self::Batch(text) => Some(text.clone()),
            Self::Refused { refusal, id } => Some(refusal.body(id.as_deref()).into()),
            Self::Accepted | Self::Withdrawn => None,
        }
    }
}

/// Where an exchange says what it is, for whoever polls it; clones are the same. It is said once.
#[derive(Clone, Debug, Default)]
pub struct Ticket(Arc<Said>);

#[derive(Debug, Default)]
struct Said {
    standing: OnceLock<Standing>,
    visit: OnceLock<Visit>,
}

impl Ticket {
    /// What it is.
    pub fn stands(&self, standing: Standing) {
        let _ = self.0.standing.set(standing);
    }

    /// In which session it is.
    pub fn visits(&self, visit: &Visit) {
        let _ = self.0.visit.set(visit.again());
    }
}

type Work = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A future of the [`Answer`]; see the module.
pub struct Pending {
    work: Option<Work>,
    ticket: Ticket,
    outlet: Outlet,
    orphans: TaskTracker,
    metrics: Arc<Metrics>,
    began: Instant,
    track: Option<Track>,
}

impl Pending {
    /// `work` fills `ticket` when it knows what it is, and `outlet` with what comes before its answer.
    pub fn new(
        work: impl Future<Output = Answer> + Send + 'static,
        ticket: Ticket,
        outlet: Outlet,
        orphans: TaskTracker,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { work: Some(Box::pin(work)), ticket, outlet, orphans, metrics, began: Instant::now(), track: None }
    }

    /// What comes before the answer.
    pub fn outlet(&self) -> &Outlet {
        &self.outlet
    }

    /// What it has found out about itself so far.
    pub fn standing(&self) -> Option<Standing> {
        self.ticket.0.standing.get().copied()
    }

    /// The session that it is in.
    pub fn visit(&self) -> Option<&Visit> {
        self.ticket.0.visit.get()
    }

    /// What it says is kept here; if its connection breaks, it goes on speaking there.
    pub fn keep_on(&mut self, track: Track) {
        self.track = Some(track);
    }

    /// The counters.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// What its stream is for, if it becomes one.
    pub fn stream_kind(&self) -> StreamKind {
        match self.standing() {
            Some(Standing { method, .. }) if method == Method::Listen.as_str() => StreamKind::Listen,
            _ => StreamKind::Answer,
        }
    }

    /// Writes the line of the request log.
    pub fn record(&self, status: StatusCode, outcome: Outcome) {
        record(self.standing(), self.began, Some(status), outcome, self.outlet.about());
    }
}

impl Future for Pending {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        // The work is not touched again after a panic, so nothing half done can be seen.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        let answer = match polled {
            Ok(polled) => std::task::ready!(polled),
            Err(_) => broken(),
        };
        self.work = None;
        if let Answer::Refused { refusal, .. } = &answer {
            self.metrics.refusal(refusal::label(refusal));
        }
        Poll::Ready(answer)
    }
}

/// The rest of an exchange that nobody reads now; with a `track`, somebody may later.
async fn unseen(work: Work, outlet: &Outlet, track: Option<&Track>) -> Answer {
    let mut work = AssertUnwindSafe(work).catch_unwind();
    let Some(track) = track else { return work.await.unwrap_or_else(|_| broken()) };
    let answer = loop {
        tokio::select! {
            biased;
            Some(message) = outlet.next() => { track.append(message); }
            answer = &mut work => break answer.unwrap_or_else(|_| broken()),
        }
    };
    let rest = std::iter::from_fn(|| outlet.try_next()).chain(answer.text());
    for message in rest {
        track.append(message);
    }
    track.end(Instant::now());
    answer
}

/// One exchange's failure, which has an answer like any other.
fn broken() -> Answer {
    tracing::error!("an exchange ended by a panic; others are not affected");
    let message = "the gateway failed to serve this request; its log has the details";
    let refusal = Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL_ERROR, "internal", message);
    Answer::Refused { refusal, id: None }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        let standing = self.standing();
        let began = self.began;
        let track = self.track.take();
        if track.is_none() {
            // Questions and progress of what goes on have no reader any more.
            self.outlet.close();
        }
        let outlet = self.outlet.clone();
        let legacy = standing.is_some_and(|s| s.era == Era::Legacy);
        match Handle::try_current() {
            Ok(runtime) if legacy => {
                let orphan = async move {
                    let answer = unseen(work, &outlet, track.as_ref()).await;
                    record(standing, began, None, (&answer).into(), outlet.about());
                };
                drop(self.orphans.spawn_on(orphan, &runtime));
            }
            _ => {
                // Dropped first: how it went is noted by then.
                drop(work);
                record(standing, began, None, Outcome::word("disconnected"), outlet.about());
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use tokio::sync::oneshot;

    use super::*;

    pub(in crate::downstream) fn pending(
        era: Era,
        outlet: &Outlet,
        orphans: &TaskTracker,
        work: impl Future<Output = Answer> + Send + 'static,
    ) -> Pending {
        let ticket = Ticket::default();
        ticket.stands(Standing { era, method: "tools/call", may_stream: true });
        let metrics = Arc::new(Metrics::new().unwrap());
        Pending::new(work, ticket, outlet.clone(), orphans.clone(), metrics)
    }

    /// Work that ends when the returned sender says so, or says on the receiver that it was dropped.
    fn work() -> (oneshot::Sender<()>, oneshot::Receiver<()>, impl Future<Output = Answer> + Send + 'static) {
        let (finish, wait) = oneshot::channel::<()>();
        let (done, seen) = oneshot::channel::<()>();
        let future = async move {
            let _ = wait.await;
            let _ = done.send(());
            Answer::Accepted
        };
        (finish, seen, future)
    }

    #[tokio::test]
    async fn a_dropped_legacy_exchange_goes_on_among_the_orphans() {
        let orphans = TaskTracker::new();
        let (finish, seen, future) = work();
        let outlet = Outlet::new();
        let mut running = pending(Era::Legacy, &outlet, &orphans, future);
        assert!(futures_util::poll!(&mut running).is_pending());
        assert!(orphans.is_empty());
        drop(running);
        assert_eq!((orphans.len(), outlet.is_open()), (1, false));
        finish.send(()).unwrap();
        seen.await.unwrap();
        orphans.close();
        orphans.wait().await;
    }

    #[tokio::test]
    async fn a_dropped_modern_exchange_is_cancelled() {
        let orphans = TaskTracker::new();
        let (_finish, seen, future) = work();
        let mut running = pending(Era::Modern, &Outlet::new(), &orphans, future);
        assert!(futures_util::poll!(&mut running).is_pending());
        drop(running);
        assert!(orphans.is_empty());
        assert!(seen.await.is_err());
    }

    #[tokio::test]
    async fn a_finished_exchange_leaves_nothing_behind() {
        let orphans = TaskTracker::new();
        let mut running = pending(Era::Legacy, &Outlet::new(), &orphans, async { Answer::Accepted });
        assert!(matches!((&mut running).await, Answer::Accepted));
        drop(running);
        assert!(orphans.is_empty());
    }

    #[tokio::test]
    async fn a_panic_is_answered_and_stays_with_its_exchange() {
        let orphans = TaskTracker::new();
        let broken = pending(Era::Legacy, &Outlet::new(), &orphans, async { panic!("for this test") });
        let Answer::Refused { refusal, .. } = broken.await else { panic!() };
        assert_eq!(refusal.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(orphans.is_empty());
    }
}
