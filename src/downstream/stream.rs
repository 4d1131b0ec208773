//! An event stream towards one peer: an exchange's, or a session's standalone one.
//!
//! `reply` and `endpoint` open them. Messages wait in the outlet, which is bounded, and are taken only when the
//! connection has room, so a slow reader holds at most one outlet and one write buffer; when the outlet overflows the
//! stream ends, and when the connection takes nothing at all `stall` ends that.
//!
//! Event ids, priming events and resuming will have their place here; there are none yet.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use super::pending::{Answer, Pending};
use super::record::Outcome;
use super::session::Visit;
use crate::gateway::outlet::Outlet;
use crate::protocol::framing::sse;
use crate::telemetry::metrics::label::StreamKind;
use crate::telemetry::metrics::{Held, Metrics};

/// The state of a stream; see the module.
pub struct Events {
    outlet: Outlet,
    exchange: Option<Pending>,
    /// Held so that the session is not idle while its stream is open.
    visit: Option<Visit>,
    until: CancellationToken,
    keep_alive: Duration,
    first: Option<Bytes>,
    answer: Option<Answer>,
    over: bool,
    kind: StreamKind,
    metrics: Arc<Metrics>,
    _open: Held,
}

impl Events {
    /// Of an exchange that still runs. `first` has come already; `None` means that the outlet overflowed.
    pub fn running(exchange: Pending, first: Option<Bytes>, keep_alive: Duration) -> Self {
        let (outlet, until) = (exchange.outlet().clone(), CancellationToken::new());
        let (kind, metrics) = (exchange.stream_kind(), Arc::clone(exchange.metrics()));
        let mut events = Self::new(outlet, until, keep_alive, kind, metrics);
        events.over = first.is_none();
        events.note_overflow();
        events.first = first;
        events.exchange = Some(exchange);
        events
    }

    /// Of an exchange that ended with messages still waiting.
    pub fn finished(exchange: Pending, first: Bytes, answer: Answer, keep_alive: Duration) -> Self {
        let mut events = Self::running(exchange, Some(first), keep_alive);
        events.answer = Some(answer);
        events
    }

    /// Of a session, for what belongs to no request; ends with the session, or `until`.
    pub fn standalone(
        outlet: Outlet,
        visit: Visit,
        until: CancellationToken,
        keep_alive: Duration,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let mut events = Self::new(outlet, until, keep_alive, StreamKind::Session, Arc::clone(metrics));
        // A comment at once: some readers and proxies show the stream as open only when its first byte has come.
        events.first = Some(Bytes::new());
        events.visit = Some(visit);
        events
    }

    fn new(
        outlet: Outlet,
        until: CancellationToken,
        keep_alive: Duration,
        kind: StreamKind,
        metrics: Arc<Metrics>,
    ) -> Self {
        let open = metrics.stream(kind);
        let (exchange, visit, first, answer, over) = (None, None, None, None, false);
        Self { outlet, exchange, visit, until, keep_alive, first, answer, over, kind, metrics, _open: open }
    }

    fn note_overflow(&self) {
        if self.over && self.outlet.has_overflowed() {
            self.metrics.slow_stream(self.kind);
        }
    }

    /// As a body; dropping it is what a disconnect does.
    pub fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(self, |mut events| async move {
            let frame = events.next().await?;
            Some((Ok::<_, Infallible>(Bytes::from(frame)), events))
        }))
    }

    /// The next bytes: all that waits, so that a burst is one write.
    async fn next(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        if let Some(first) = self.first.take() {
            message(&mut out, &first);
            self.take_waiting(&mut out);
        } else if !self.over && self.answer.is_none() {
            self.wait(&mut out).await;
        }
        if let Some(answer) = self.answer.take() {
            self.finish(&mut out, answer);
        }
        (!out.is_empty()).then_some(out)
    }

    async fn wait(&mut self, out: &mut Vec<u8>) {
        tokio::select! {
            biased;
            next = self.outlet.next() => match next {
                Some(next) => {
                    message(out, &next);
                    self.take_waiting(out);
                }
                None => {
                    self.over = true;
                    self.note_overflow();
                }
            },
            answer = end(self.exchange.as_mut()) => {
                self.take_waiting(out);
                self.answer = Some(answer);
            }
            () = self.until.cancelled() => self.over = true,
            () = tokio::time::sleep(self.keep_alive) => sse::comment(out),
        }
    }

    fn take_waiting(&self, out: &mut Vec<u8>) {
        while let Some(next) = self.outlet.try_next() {
            message(out, &next);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>, answer: Answer) {
        self.over = true;
        let outcome = Outcome::from(&answer);
        match answer {
            Answer::Reply { reply, .. } => sse::event(out, None, &reply.text),
            Answer::Batch(text) => sse::event(out, None, &text),
            Answer::Refused { refusal, id } => sse::event(out, None, &refusal.body(id.as_deref())),
            Answer::Accepted | Answer::Withdrawn => {}
        }
        if let Some(exchange) = &self.exchange {
            exchange.record(StatusCode::OK, outcome);
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if self.visit.is_some() {
            // Whatever comes now waits in the session for its next stream.
            self.outlet.close();
        }
    }
}

/// A message as an event; an empty one, which is none, as a comment.
fn message(out: &mut Vec<u8>, text: &[u8]) {
    if text.is_empty() { sse::comment(out) } else { sse::event(out, None, text) }
}

/// A whole stream with one message.
pub fn only(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, text);
    out
}

async fn end(exchange: Option<&mut Pending>) -> Answer {
    match exchange {
        Some(exchange) => exchange.await,
        None => std::future::pending().await,
    }
}
