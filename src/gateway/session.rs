//! What a legacy conversation remembers: the state behind one `Mcp-Session-Id`, or behind one stdio process.
//!
//! `downstream` keeps sessions in its table and opens their streams; exchanges put questions to them; the hub pushes
//! changes to them. Small locks, never held across an await. Rules: protocol.md §3.7, §3.8, §2.8.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::hub::Registration;
use super::outlet::{Closed, Outlet};
use crate::catalog::Endpoint;
use crate::policy::principal::Principal;
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::code;
use crate::protocol::jsonrpc::{self, Id, Outcome, OwnedId, Response};
use crate::protocol::level::Level;
use crate::protocol::method::notification;
use crate::protocol::object::{ObjectWriter, write_string};
use crate::protocol::revision::Revision;
use crate::telemetry::metrics::label::QuestionOutcome;
use crate::upstream::question::{Question, Replier};

/// Questions that one session may have open at once; more are refused to the upstream. No user fills in more forms than this.
pub const OPEN_QUESTIONS: usize = 64;

/// Messages kept for a session while it has no stream of its own: enough for a burst of changes between two polls.
const WAITING_MESSAGES: usize = 64;

/// A legacy conversation.
#[derive(Debug)]
pub struct Session {
    /// Unique in the process: what requests of one session have in common towards an upstream.
    pub key: u64,
    /// The value of `Mcp-Session-Id`; empty for stdio.
    pub id: Box<str>,
    /// Negotiated in the handshake.
    pub revision: Revision,
    /// Declared in the handshake.
    pub capabilities: ClientCapabilities,
    /// Which merged or single server it speaks to.
    pub endpoint: Endpoint,
    /// Who opened it; nobody else may use it.
    pub principal: Principal,
    /// Ends everything that runs for the session.
    pub ended: CancellationToken,
    initialized: AtomicBool,
    log_level: AtomicU8,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    registration: Option<Arc<Registration>>,
    standalone: Option<Outlet>,
    waiting: Vec<Bytes>,
    in_flight: HashMap<OwnedId, CancellationToken>,
    questions: HashMap<u64, Open>,
    asked: u64,
}

#[derive(Debug)]
struct Open {
    replier: Replier,
    outlet: Outlet,
}

/// A request that is being served; dropping it forgets the id.
#[derive(Debug)]
pub struct InFlight<'s> {
    session: &'s Session,
    id: OwnedId,
    /// Cancelled when the downstream withdraws the request, or the session ends.
    pub cancelled: CancellationToken,
}

/// Another request with this id is still being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request with this id is still being served")]
pub struct DuplicateId;

impl Session {
    /// A conversation that has just said `initialize`.
    pub fn new(
        id: Box<str>,
        revision: Revision,
        capabilities: ClientCapabilities,
        endpoint: Endpoint,
        principal: Principal,
    ) -> Self {
        static KEYS: AtomicU64 = AtomicU64::new(1);
        Self {
            key: KEYS.fetch_add(1, Ordering::Relaxed),
            id,
            revision,
            capabilities,
            endpoint,
            principal,
            ended: CancellationToken::new(),
            initialized: AtomicBool::new(false),
            log_level: AtomicU8::new(0),
            state: Mutex::default(),
        }
    }

    /// Keeps its place in the hub until it ends.
    pub fn register(&self, registration: Registration) {
        self.lock().registration = Some(Arc::new(registration));
    }

    /// Its place in the hub; `None` once it has ended.
    pub fn registration(&self) -> Option<Arc<Registration>> {
        self.lock().registration.clone()
    }

    /// The client said `notifications/initialized`, or sent an ordinary request: from now on it may be asked and told.
    pub fn set_initialized(&self) {
        self.initialized.store(true, Ordering::Release);
    }

    /// Whether it may be asked and told.
    pub fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Acquire)
    }

    /// What `logging/setLevel` said.
    pub fn set_log_level(&self, level: Level) {
        self.log_level.store(level as u8, Ordering::Relaxed);
    }

    /// The level asked for; `None` means no log messages (design §5).
    pub fn log_level(&self) -> Option<Level> {
        Level::from_number(self.log_level.load(Ordering::Relaxed))
    }

    /// Notes that a request is being served. On stdio a second one with the same id is an error (protocol.md §2.8).
    pub fn begin(&self, id: Id<'_>) -> Result<InFlight<'_>, DuplicateId> {
        let id = OwnedId::from(id);
        let cancelled = self.ended.child_token();
        let mut state = self.lock();
        if state.in_flight.contains_key(&id) {
            return Err(DuplicateId);
        }
        state.in_flight.insert(id.clone(), cancelled.clone());
        Ok(InFlight { session: self, id, cancelled })
    }

    /// Whether the request with this id is being served.
    pub fn is_serving(&self, id: &OwnedId) -> bool {
        self.lock().in_flight.contains_key(id)
    }

    /// `notifications/cancelled`: stops the request with this id, if it is being served. Unknown ids are ignored.
    pub fn cancel(&self, id: Id<'_>) {
        if let Some(token) = self.lock().in_flight.get(&OwnedId::from(id)) {
            token.cancel();
        }
    }

    /// Requests being served.
    pub fn in_flight(&self) -> usize {
        self.lock().in_flight.len()
    }

    /// Opens the stream for what belongs to no request: the GET stream, or stdout. An earlier one is closed
    /// (protocol.md §3.8); what waited for a stream is on it.
    pub fn open_standalone(&self, outlet: Outlet) {
        let mut state = self.lock();
        for message in state.waiting.drain(..) {
            // A fresh stream takes more than can have waited.
            let _ = outlet.send(message);
        }
        if let Some(old) = state.standalone.replace(outlet) {
            old.close();
        }
    }

    /// Whether the standalone stream is open.
    pub fn has_standalone(&self) -> bool {
        self.lock().standalone.as_ref().is_some_and(Outlet::is_open)
    }

    /// Sends something that belongs to no request. Without a stream it waits for the next one, equal messages once.
    pub fn push(&self, message: Bytes) {
        if !self.is_initialized() {
            return;
        }
        let mut state = self.lock();
        let sent = state.standalone.as_ref().is_some_and(|o| o.send_once(message.clone()).is_ok());
        if !sent {
            state.standalone = None;
            if !state.waiting.contains(&message) && state.waiting.len() < WAITING_MESSAGES {
                state.waiting.push(message);
            }
        }
    }

    /// Puts a question to the client on the stream of the exchange it belongs to; the answer goes back by itself.
    /// Returns its number, for [`Session::withdraw`]. A question that cannot be put is answered with an error.
    pub fn ask(&self, question: Question, outlet: &Outlet) -> Option<u64> {
        let mut state = self.lock();
        if state.questions.len() >= OPEN_QUESTIONS {
            question.replier.error(QuestionOutcome::Failed, code::INTERNAL_ERROR, "too many open questions");
            return None;
        }
        state.asked += 1;
        let number = state.asked;
        let mut text = Vec::with_capacity(question.params.len() + 96);
        jsonrpc::begin_request(&mut text, &question_id(number), &question.method);
        text.extend_from_slice(question.params.as_bytes());
        text.push(b'}');
        if let Err(Closed) = outlet.send(text.into()) {
            question.replier.error(
                QuestionOutcome::Cancelled,
                code::INTERNAL_ERROR,
                "the asking request's stream is gone",
            );
            return None;
        }
        state.questions.insert(number, Open { replier: question.replier, outlet: outlet.clone() });
        Some(number)
    }

    /// The client answered. Unknown ids are dropped: the question may have been withdrawn meanwhile.
    pub fn answer(&self, response: &Response<'_>) {
        let number = response.id.and_then(|id| question_number(id.as_raw()));
        let Some(open) = number.and_then(|n| self.lock().questions.remove(&n)) else { return };
        match &response.outcome {
            Outcome::Result(result) => open.replier.result(&object_text(result)),
            Outcome::Error(error) => open.replier.raw_error(&object_text(&error.raw)),
        }
    }

    /// Takes a question back: the client is told; the upstream gets `reason` as an error, or nothing if it withdrew itself.
    pub fn withdraw(&self, number: u64, reason: Option<&str>) {
        let Some(open) = self.lock().questions.remove(&number) else { return };
        let mut params = Vec::new();
        let mut w = ObjectWriter::begin(&mut params);
        w.raw("requestId", &question_id(number));
        w.end();
        let params = String::from_utf8_lossy(&params).into_owned();
        // The client may be gone already; then there is nobody to tell.
        let _ = open.outlet.send(jsonrpc::notification(notification::CANCELLED, &params).into());
        match reason {
            Some(reason) => open.replier.error(QuestionOutcome::Cancelled, code::INTERNAL_ERROR, reason),
            None => open.replier.forget(),
        }
    }

    /// Questions waiting for an answer.
    pub fn open_questions(&self) -> usize {
        self.lock().questions.len()
    }

    /// Ends the conversation: requests are cancelled, streams closed, open questions answered with an error.
    pub fn end(&self) {
        self.ended.cancel();
        let State { standalone, questions, registration, .. } = {
            let mut state = self.lock();
            let in_flight = std::mem::take(&mut state.in_flight);
            State { in_flight, ..std::mem::take(&mut *state) }
        };
        if let Some(outlet) = standalone {
            outlet.close();
        }
        // Outside the lock: both answer upstreams, and unsubscribe there.
        drop((questions, registration));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.session.lock().in_flight.remove(&self.id);
    }
}

/// Our ids towards a client are strings, so that they never look like its own numbers (protocol.md §2.8).
fn question_id(number: u64) -> String {
    let mut out = Vec::new();
    write_string(&mut out, &format!("gw-{number}"));
    String::from_utf8_lossy(&out).into_owned()
}

fn question_number(raw: &str) -> Option<u64> {
    raw.strip_prefix("\"gw-")?.strip_suffix('"')?.parse().ok()
}

fn object_text(object: &crate::protocol::object::Object<'_>) -> String {
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    for (key, value) in object.iter() {
        w.raw(key, value);
    }
    w.end();
    String::from_utf8_lossy(&out).into_owned()
}
