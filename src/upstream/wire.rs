//! One connection to an upstream, whatever the transport: what is in flight on it, and where each incoming message goes.
//!
//! Transports (`transport/*`) push what they read into [`Wire::receive`] and empty the outbox; legs (`leg`) open ids
//! here; the actor takes the [`Notices`]. Incoming messages are handed on without ever waiting for a consumer, so one
//! slow caller cannot stop the answers of others.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::error::CallError;
use super::notices::Notices;
use super::question::{OpenQuestions, Question, Replier};
use super::transport::Link;
use crate::name::ServerName;
use crate::protocol::clipped::{Whose, whose};
use crate::protocol::code;
use crate::protocol::jsonrpc::{self, Id, Message, Notification, OwnedId, Params, Reading, Request};
use crate::protocol::ledger::{Asker, Attribution, Ledger};
use crate::protocol::meta;
use crate::protocol::method::{notification, question};
use crate::protocol::object::{Object, ObjectWriter};
use crate::protocol::revision::{Era, Revision};
use crate::telemetry::metrics::label::{LineSource, QuestionOutcome};
use crate::telemetry::metrics::server::ServerMetrics;

/// Messages that may wait for a transport to write them. As many as the default queue of requests.
pub(super) const OUTBOX_MESSAGES: usize = 1024;

/// Lines in a row that are no messages, before a process counts as broken (protocol.md §4.6).
const NOISE_MAX: usize = 100;

/// What a leg's caller wants to hear of before the end. Called by readers: must not block.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// Who caused the leg.
    fn asker(&self) -> Asker;
    /// `notifications/progress`; `params` carry our token, not the caller's.
    fn progress(&self, params: &Object<'_>);
    /// `notifications/message` of this leg.
    fn log(&self, params: &Object<'_>);
    /// A legacy upstream asks something because of this leg.
    fn ask(&self, question: Question);
    /// A question of this leg is over without an answer: the upstream took it back (`None`), or we give up and say why.
    fn withdraw(&self, id: &OwnedId, reason: Option<&str>);
    /// `notifications/subscriptions/acknowledged` for this leg.
    fn acknowledged(&self) {}
}

/// An observer of what we ask for ourselves: nobody listens.
#[derive(Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn asker(&self) -> Asker {
        Asker::Gateway
    }
    fn progress(&self, _: &Object<'_>) {}
    fn log(&self, _: &Object<'_>) {}
    fn ask(&self, question: Question) {
        let why = "nobody can be asked during this request";
        question.replier.error(QuestionOutcome::Unattributed, code::INTERNAL_ERROR, why);
    }
    fn withdraw(&self, _: &OwnedId, _: Option<&str>) {}
}

/// When a leg was last heard of, for its idle limit, and since when its user has been thinking.
#[derive(Debug)]
pub(super) struct Pulse {
    epoch: Instant,
    last_ms: AtomicU64,
    questions: AtomicUsize,
    asked_ms: AtomicU64,
}

impl Pulse {
    fn new(epoch: Instant) -> Self {
        let pulse =
            Self { epoch, last_ms: AtomicU64::new(0), questions: AtomicUsize::new(0), asked_ms: AtomicU64::new(0) };
        pulse.beat();
        pulse
    }

    /// A question of the upstream opened: the user is thinking now.
    pub(super) fn question_opened(&self) {
        if self.questions.fetch_add(1, Ordering::Relaxed) == 0 {
            self.asked_ms.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// Whether the upstream waits for the user.
    fn is_asked(&self) -> bool {
        self.questions.load(Ordering::Relaxed) > 0
    }

    /// None is open any more.
    pub(super) fn questions_over(&self) {
        self.questions.store(0, Ordering::Relaxed);
        self.beat();
    }

    /// When the first open question has waited for `limit`.
    pub(super) fn asked_until(&self, limit: Duration) -> Option<Instant> {
        self.is_asked().then(|| self.epoch + Duration::from_millis(self.asked_ms.load(Ordering::Relaxed)) + limit)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// It is settled: the upstream's clock runs again.
    pub(super) fn question_done(&self) {
        self.questions.fetch_sub(1, Ordering::Relaxed);
        self.beat();
    }

    fn beat(&self) {
        self.last_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// When silence becomes a time-out. While a question is open the user is thinking, not the upstream.
    pub(super) fn idle_until(&self, idle: Duration) -> Instant {
        let heard = self.epoch + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        let since = if self.is_asked() { heard.max(Instant::now()) } else { heard };
        since + idle
    }
}

/// What ends a leg in flight.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) answer: oneshot::Sender<Result<Bytes, CallError>>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) pulse: Arc<Pulse>,
}

/// Limits of one connection.
#[derive(Clone, Copy, Debug)]
pub struct WireLimits {
    /// Bytes of one message.
    pub message: usize,
    /// Requests in flight.
    pub concurrency: usize,
    /// Requests waiting for their turn.
    pub queue: usize,
}

/// One connection.
#[derive(Debug)]
pub struct Wire {
    pub(super) server: ServerName,
    pub(super) limits: WireLimits,
    pub(super) link: Link,
    pub(super) permits: Semaphore,
    pub(super) queued: AtomicUsize,
    pub(super) notices: Arc<Notices>,
    metrics: Arc<ServerMetrics>,
    revision: OnceLock<Revision>,
    roots: Option<Box<str>>,
    epoch: Instant,
    ledger: Mutex<Ledger<Waiter>>,
    questions: Arc<OpenQuestions>,
    outbox: mpsc::Sender<Bytes>,
    closed: CancellationToken,
    renewing: AtomicBool,
    noise: AtomicUsize,
}

impl Wire {
    /// A fresh connection; the transport empties the receiver. `roots` is the JSON text of a `roots/list` result for
    /// questions that no downstream caused.
    pub(super) fn new(
        server: ServerName,
        limits: WireLimits,
        link: Link,
        roots: Option<Box<str>>,
        notices: Arc<Notices>,
        metrics: Arc<ServerMetrics>,
    ) -> (Arc<Self>, mpsc::Receiver<Bytes>) {
        let (outbox, taken) = mpsc::channel(OUTBOX_MESSAGES);
        let wire = Self {
            server,
            limits,
            link,
            permits: Semaphore::new(limits.concurrency),
            queued: AtomicUsize::new(0),
            notices,
            metrics,
            revision: OnceLock::new(),
            roots,
            epoch: Instant::now(),
            ledger: Mutex::default(),
            questions: Arc::default(),
            outbox,
            closed: CancellationToken::new(),
            renewing: AtomicBool::new(false),
            noise: AtomicUsize::new(0),
        };
        (Arc::new(wire), taken)
    }

    /// What the opening settled; later calls change nothing.
    pub(super) fn settle(&self, revision: Revision) {
        let _ = self.revision.set(revision);
    }

    /// The revision spoken; `None` during the opening.
    pub fn revision(&self) -> Option<Revision> {
        self.revision.get().copied()
    }

    /// Ended once the connection is.
    pub fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Legs in flight.
    pub fn in_flight(&self) -> usize {
        self.ledger().len()
    }

    /// Ends the connection because the upstream wants a new handshake, not because anything is broken. Over Streamable
    /// HTTP each request has a stream of its own, and goes on to its end unless it waits for an answer of ours, which
    /// nobody would take any more.
    pub(super) fn renew(&self) {
        self.renewing.store(true, Ordering::Release);
        if !matches!(self.link, Link::Http(_)) {
            return self.close();
        }
        self.closed.cancel();
        let asking = self.ledger().close_where(|waiter| waiter.pulse.is_asked());
        lose(asking);
        self.questions.clear();
    }

    /// Whether it ended for a new handshake.
    pub(super) fn is_renewing(&self) -> bool {
        self.renewing.load(Ordering::Acquire)
    }

    /// Ends the connection: every leg in flight fails at once.
    pub fn close(&self) {
        self.closed.cancel();
        let all = self.ledger().close_where(|_| true);
        lose(all);
        self.questions.clear();
    }

    pub(super) fn open(
        &self,
        observer: Arc<dyn Observer>,
    ) -> (u64, oneshot::Receiver<Result<Bytes, CallError>>, Arc<Pulse>) {
        let (answer, waiting) = oneshot::channel();
        let pulse = Arc::new(Pulse::new(self.epoch));
        let asker = observer.asker();
        let id = self.ledger().open(asker, Waiter { answer, observer, pulse: pulse.clone() });
        (id, waiting, pulse)
    }

    /// Forgets leg `id`; says whether it was still open.
    pub(super) fn forget(&self, id: u64) -> bool {
        self.ledger().close(id).is_some()
    }

    /// Queues a message for the transport.
    pub(super) fn send(&self, message: Bytes) -> Result<(), CallError> {
        self.outbox.try_send(message).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => CallError::Busy,
            mpsc::error::TrySendError::Closed(_) => CallError::Lost { sent: false },
        })
    }

    /// Tells the upstream to stop working on leg `id` (protocol.md §2.3).
    pub(super) fn send_cancel(&self, id: u64) {
        let mut params = Vec::new();
        let mut w = ObjectWriter::begin(&mut params);
        w.integer("requestId", id);
        w.end();
        let params = String::from_utf8_lossy(&params).into_owned();
        if self.send(jsonrpc::notification(notification::CANCELLED, &params).into()).is_err() {
            debug!(server = %self.server, "a cancellation could not be sent");
        }
    }

    /// Takes in one message. `stream` is the leg on whose own stream it came, if any: the strongest evidence of whose it is.
    /// Returns the text if it is the answer to that leg; everything else has been handed on.
    pub(super) fn receive(&self, text: Bytes, stream: Option<u64>) -> Option<Bytes> {
        match std::str::from_utf8(&text) {
            Ok(utf8) if jsonrpc::first_byte(&text) == Some(b'[') => self.receive_batch(utf8, stream),
            Ok(utf8) => self.receive_one(&text, utf8, stream),
            Err(_) => self.receive_broken(&text, stream),
        }
    }

    /// Servers of revision 2025-03-26 may send arrays (protocol.md §4.1). An array in an array is no message. Of two
    /// answers to one leg the first counts, as everywhere.
    fn receive_batch(&self, text: &str, stream: Option<u64>) -> Option<Bytes> {
        let Ok(elements) = jsonrpc::batch(text) else {
            self.note_noise();
            return None;
        };
        let mut found = None;
        for element in elements {
            let one = Bytes::copy_from_slice(element.get().as_bytes());
            let answer = self.receive_one(&one, element.get(), stream);
            found = found.or(answer);
        }
        found
    }

    fn receive_one(&self, text: &Bytes, utf8: &str, stream: Option<u64>) -> Option<Bytes> {
        match jsonrpc::parse(utf8, Reading::Lenient) {
            Ok(Message::Response(response)) => {
                self.noise.store(0, Ordering::Relaxed);
                let id = response.id.and_then(Id::as_own);
                if stream.is_some() && (id == stream || response.id.is_none()) {
                    return Some(text.clone());
                }
                self.answer(id, text.clone());
            }
            Ok(Message::Notification(n)) => {
                self.noise.store(0, Ordering::Relaxed);
                self.notified(&n, stream);
            }
            Ok(Message::Request(r)) => {
                self.noise.store(0, Ordering::Relaxed);
                self.asked(&r, stream);
            }
            Err(_) => return self.receive_broken(text, stream),
        }
        None
    }

    /// No message, but where it says whose answer it was meant to be, that one fails now and not by its time limit.
    fn receive_broken(&self, text: &Bytes, stream: Option<u64>) -> Option<Bytes> {
        match whose(text, text) {
            Whose::Answer(id) if stream == Some(id) => Some(text.clone()),
            Whose::Answer(id) => {
                self.noise.store(0, Ordering::Relaxed);
                self.settle_leg(id, Err(CallError::Violation("it is not a JSON-RPC response")));
                None
            }
            Whose::Nobody | Whose::Unknown => {
                self.note_noise();
                None
            }
        }
    }

    fn answer(&self, id: Option<u64>, text: Bytes) {
        match id {
            Some(id) => self.settle_leg(id, Ok(text)),
            None => debug!(server = %self.server, "an answer without an id was dropped"),
        }
    }

    fn settle_leg(&self, id: u64, answer: Result<Bytes, CallError>) {
        let waiter = self.ledger().close(id);
        match waiter {
            // The leg may have timed out meanwhile; then nobody waits.
            Some(waiter) => drop(waiter.answer.send(answer)),
            None => debug!(server = %self.server, "an answer to no open request was dropped"),
        }
    }

    /// A line or event that is no message: skipped and counted (bug report kind "stdout noise"); too many in a row end the connection.
    pub(super) fn note_noise(&self) {
        self.metrics.lines_dropped(LineSource::Noise, 1);
        let in_a_row = self.noise.fetch_add(1, Ordering::Relaxed) + 1;
        if in_a_row == 1 {
            warn!(server = %self.server, "the server sent something that is not a message; skipped");
        }
        if in_a_row > NOISE_MAX {
            warn!(server = %self.server, "the server sends nothing but noise; closing the connection");
            self.close();
        }
    }

    /// A message over the limit was skipped. Where nobody can tell whose answer it was, the only request in flight is
    /// failed, and with several the connection ends, which is better than leaving one of them waiting.
    pub(super) fn too_large(&self, whose: Whose) {
        let limit = self.limits.message;
        warn!(server = %self.server, limit, ?whose, "a message is longer than limits.message");
        self.metrics.lines_dropped(LineSource::TooLong, 1);
        let id = match whose {
            Whose::Answer(id) => Some(id),
            Whose::Nobody => return,
            Whose::Unknown => self.ledger().only(),
        };
        match id {
            Some(id) => self.settle_leg(id, Err(CallError::TooLarge(limit))),
            None => self.close(),
        }
    }

    fn notified(&self, n: &Notification<'_>, stream: Option<u64>) {
        let empty = Object::default();
        let params = n.params.object().unwrap_or(&empty);
        match n.method.as_ref() {
            notification::PROGRESS => self.progressed(params),
            notification::MESSAGE => {
                if let Some(observer) = self.observer(stream) {
                    observer.log(params);
                }
            }
            notification::TOOLS_CHANGED => self.notices.add(|p| p.tools = true),
            notification::PROMPTS_CHANGED => self.notices.add(|p| p.prompts = true),
            notification::RESOURCES_CHANGED => self.notices.add(|p| p.resources = true),
            notification::RESOURCE_UPDATED => {
                if let Some(uri) = params.string("uri") {
                    self.notices.add_updated(&uri);
                }
            }
            notification::CANCELLED => self.withdrawn(params),
            notification::ACKNOWLEDGED => self.acknowledged(params, stream),
            other => debug!(server = %self.server, method = other, "a notification was ignored"),
        }
    }

    fn progressed(&self, params: &Object<'_>) {
        let id = params.get("progressToken").and_then(|t| t.trim_matches('"').parse().ok());
        let found = id.and_then(|id| self.ledger().get(id).map(|w| (w.observer.clone(), w.pulse.clone())));
        if let Some((observer, pulse)) = found {
            pulse.beat();
            observer.progress(params);
        }
    }

    fn acknowledged(&self, params: &Object<'_>, stream: Option<u64>) {
        // Servers confuse strings and numbers here (protocol.md §4.1).
        let named = params
            .object("_meta")
            .and_then(|m| m.get(meta::SUBSCRIPTION_ID).and_then(|id| id.trim_matches('"').parse().ok()));
        let observer = stream.or(named).and_then(|id: u64| self.ledger().get(id).map(|w| w.observer.clone()));
        if let Some(observer) = observer {
            observer.acknowledged();
        }
    }

    /// The observer of the leg that something belongs to, where that is certain.
    fn observer(&self, stream: Option<u64>) -> Option<Arc<dyn Observer>> {
        let ledger = self.ledger();
        let ((Some(id), _) | (None, Attribution::Leg(id))) = (stream, ledger.attribute()) else { return None };
        ledger.get(id).map(|w| w.observer.clone())
    }

    fn asked(&self, request: &Request<'_>, stream: Option<u64>) {
        let replier =
            Replier::new(request.id.into(), self.outbox.clone(), self.questions.clone(), self.metrics.clone());
        if self.revision().is_some_and(|r| r.era() == Era::Modern) {
            warn!(server = %self.server, method = %request.method, "a modern server sent a request, which it must not; ignored");
            replier.forget();
            return;
        }
        match request.method.as_ref() {
            "ping" => replier.pong(),
            question::ELICITATION | question::SAMPLING | question::ROOTS => self.carry(request, stream, replier),
            _ => replier.error(
                QuestionOutcome::Unsupported,
                code::METHOD_NOT_FOUND,
                "this client does not serve the method",
            ),
        }
    }

    fn carry(&self, request: &Request<'_>, stream: Option<u64>, replier: Replier) {
        let whose = match stream {
            Some(id) => Attribution::Leg(id),
            None => self.ledger().attribute(),
        };
        let fallback = self.roots.clone().filter(|_| request.method == question::ROOTS);
        let leg = match whose {
            Attribution::Leg(id) => self.ledger().get(id).map(|w| (w.observer.clone(), w.pulse.clone())),
            _ => None,
        };
        match (leg, fallback) {
            (None, Some(roots)) => replier.result(&roots),
            (None, _) if whose == Attribution::Ambiguous => {
                warn!(server = %self.server, method = %request.method, "refused a question: several callers could have caused it");
                replier.error(
                    QuestionOutcome::Unattributed,
                    code::INTERNAL_ERROR,
                    "several callers are using this connection; it is not certain who is asked",
                );
            }
            (None, _) => replier.error(
                QuestionOutcome::Unattributed,
                code::INTERNAL_ERROR,
                "no request is running that this question belongs to",
            ),
            (Some((observer, pulse)), fallback) => {
                self.questions.opened(replier.id().clone(), &observer, pulse);
                let params = text_of(&request.params);
                observer.ask(Question { method: request.method.as_ref().into(), params, fallback, replier });
            }
        }
    }

    /// Nobody answered the questions of a leg in time: they are taken back on both sides.
    pub(super) fn expire_questions(&self, pulse: &Arc<Pulse>) {
        for (id, observer) in self.questions.expire(pulse) {
            warn!(server = %self.server, "a question of the server was not answered in time");
            observer.withdraw(&id, Some("nobody answered in time"));
        }
    }

    fn withdrawn(&self, params: &Object<'_>) {
        let Some(id) = params.get("requestId").and_then(Id::parse).map(OwnedId::from) else { return };
        if let Some(observer) = self.questions.done(&id) {
            observer.withdraw(&id, None);
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger<Waiter>> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lose(waiters: Vec<Waiter>) {
    for waiter in waiters {
        // The leg may have timed out meanwhile; then nobody waits.
        let _ = waiter.answer.send(Err(CallError::Lost { sent: true }));
    }
}

fn text_of(params: &Params<'_>) -> Box<str> {
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    for (key, value) in params.object().into_iter().flat_map(Object::iter) {
        w.raw(key, value);
    }
    w.end();
    String::from_utf8_lossy(&out).into()
}
