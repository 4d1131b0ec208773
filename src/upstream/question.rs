//! A request that a legacy upstream sends to its client: elicitation, sampling, roots.
//!
//! A connection makes one and hands it to the leg it belongs to (or to the actor, if it belongs to none); the gateway
//! carries it to a downstream and brings the answer back through the [`Replier`]. Exactly one answer goes upstream,
//! whatever happens: a replier that is dropped answers with an error.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::wire::{Observer, Pulse};
use crate::protocol::code;
use crate::protocol::jsonrpc::{self, Id, OwnedId};
use crate::protocol::object::write_string;
use crate::telemetry::metrics::label::QuestionOutcome;
use crate::telemetry::metrics::server::ServerMetrics;

/// A question of an upstream.
#[derive(Debug)]
pub struct Question {
    /// `elicitation/create`, `sampling/createMessage`, `roots/list`, or something unknown.
    pub method: Box<str>,
    /// JSON text of its parameters, an object.
    pub params: Box<str>,
    /// What is answered when no downstream can be asked: the configured roots, JSON text of a result.
    pub fallback: Option<Box<str>>,
    /// The way back.
    pub replier: Replier,
}

/// By the upstream's id: who hears the answer's end, and the leg's deadline. The observer is held weakly: a request that
/// ends takes its questions back when its observer is dropped, which it never would be if its questions kept it.
type Asked = HashMap<OwnedId, (Weak<dyn Observer>, Arc<Pulse>)>;

/// Questions of one connection that are not answered yet, with the leg that each belongs to.
#[derive(Debug, Default)]
pub(super) struct OpenQuestions(Mutex<Asked>);

impl OpenQuestions {
    pub(super) fn opened(&self, id: OwnedId, observer: &Arc<dyn Observer>, pulse: Arc<Pulse>) {
        pulse.question_opened();
        self.lock().insert(id, (Arc::downgrade(observer), pulse));
    }

    /// A question was answered, refused or taken back.
    pub(super) fn done(&self, id: &OwnedId) -> Option<Arc<dyn Observer>> {
        let (observer, pulse) = self.lock().remove(id)?;
        pulse.question_done();
        observer.upgrade()
    }

    /// Takes out the questions of the leg behind `pulse`: nobody answered them in time.
    pub(super) fn expire(&self, pulse: &Arc<Pulse>) -> Vec<(OwnedId, Arc<dyn Observer>)> {
        let mut open = self.lock();
        let ids: Vec<OwnedId> =
            open.iter().filter(|(_, (_, p))| Arc::ptr_eq(p, pulse)).map(|(id, _)| id.clone()).collect();
        let take = |id| {
            let (observer, _) = open.remove(&id)?;
            Some((id, observer.upgrade()?))
        };
        let taken = ids.into_iter().filter_map(take).collect();
        drop(open);
        pulse.questions_over();
        taken
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers one question, once.
#[derive(Debug)]
pub struct Replier {
    id: OwnedId,
    outbox: Option<mpsc::Sender<Bytes>>,
    open: Arc<OpenQuestions>,
    metrics: Option<Arc<ServerMetrics>>,
}

impl Replier {
    /// For the question `id` of the connection that empties `outbox`.
    pub(super) fn new(
        id: OwnedId,
        outbox: mpsc::Sender<Bytes>,
        open: Arc<OpenQuestions>,
        metrics: Arc<ServerMetrics>,
    ) -> Self {
        Self { id, outbox: Some(outbox), open, metrics: Some(metrics) }
    }

    /// For a question that the gateway asks itself in a modern server's name: the answer, a whole response with the
    /// string `key` as id, comes out of the other end of `answers`.
    pub fn of_ours(key: &str, answers: mpsc::Sender<Bytes>) -> Self {
        let mut raw = Vec::with_capacity(key.len() + 2);
        write_string(&mut raw, key);
        let raw = String::from_utf8_lossy(&raw).into_owned();
        let id = Id::parse(&raw).map_or_else(OwnedId::default, OwnedId::from);
        Self { id, outbox: Some(answers), open: Arc::default(), metrics: None }
    }

    /// Answers a ping, which asks nobody.
    pub(super) fn pong(mut self) {
        let mut out = Vec::with_capacity(48);
        jsonrpc::begin_result(&mut out, self.id.as_raw());
        out.extend_from_slice(b"{}}");
        if let Some(outbox) = self.outbox.take()
            && outbox.try_send(Bytes::from(out)).is_err()
        {
            tracing::debug!("a pong was dropped: the connection is gone or stuck");
        }
    }

    /// Answers nothing: a modern peer must not get responses, and one that withdrew its question wants none.
    pub fn forget(mut self) {
        self.outbox = None;
        self.open.done(&self.id);
        self.count(QuestionOutcome::Cancelled);
    }

    /// The upstream's id of the question: unique among those that are open on its connection.
    pub fn id(&self) -> &OwnedId {
        &self.id
    }

    /// Answers with a result; `raw` is the JSON text of an object.
    pub fn result(mut self, raw: &str) {
        let mut out = Vec::with_capacity(raw.len() + 64);
        jsonrpc::begin_result(&mut out, self.id.as_raw());
        out.extend_from_slice(raw.as_bytes());
        out.push(b'}');
        self.send(out, QuestionOutcome::Answered);
    }

    /// Answers with an error of our own; `why` is for the counters.
    pub fn error(mut self, why: QuestionOutcome, code: i64, message: &str) {
        let text = jsonrpc::error(Some(self.id.as_raw()), code, message, None);
        self.send(text, why);
    }

    /// Answers with an error object that a downstream wrote; `raw` is its JSON text.
    pub fn raw_error(mut self, raw: &str) {
        let out = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{raw}}}", self.id.as_raw());
        self.send(out.into_bytes(), QuestionOutcome::Failed);
    }

    fn count(&self, outcome: QuestionOutcome) {
        if let Some(metrics) = &self.metrics {
            metrics.question(outcome);
        }
    }

    fn send(&mut self, text: Vec<u8>, outcome: QuestionOutcome) {
        let Some(outbox) = self.outbox.take() else { return };
        self.open.done(&self.id);
        self.count(outcome);
        if outbox.try_send(Bytes::from(text)).is_err() {
            tracing::debug!("an answer to an upstream's question was dropped: its connection is gone or stuck");
        }
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        if self.outbox.is_some() {
            let text = jsonrpc::error(Some(self.id.as_raw()), code::INTERNAL_ERROR, "nobody could be asked", None);
            self.send(text, QuestionOutcome::Cancelled);
        }
    }
}

/// Questions for the tests of those who carry them.
#[cfg(test)]
#[allow(clippy::missing_panics_doc, reason = "a test fails by panicking")]
pub mod testing {
    use super::*;

    /// A replier, and where its answer comes out.
    pub fn replier(id: Id<'_>) -> (Replier, mpsc::Receiver<Bytes>) {
        let (tx, rx) = mpsc::channel(4);
        let metrics = crate::telemetry::metrics::Metrics::new().unwrap().server("x");
        (Replier::new(id.into(), tx, Arc::default(), metrics), rx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> (Replier, mpsc::Receiver<Bytes>) {
        testing::replier(Id::parse("\"q\"").unwrap())
    }

    #[test]
    fn each_question_is_answered_exactly_once() {
        let (replier, mut rx) = question();
        replier.result(r#"{"action":"accept"}"#);
        assert_eq!(rx.try_recv().unwrap(), r#"{"jsonrpc":"2.0","id":"q","result":{"action":"accept"}}"#);
        assert!(rx.try_recv().is_err());
    }

    #[test]
    fn a_dropped_question_is_answered_with_an_error() {
        let (replier, mut rx) = question();
        drop(replier);
        let text = rx.try_recv().unwrap();
        assert!(std::str::from_utf8(&text).unwrap().contains("-32603"));
    }
}
