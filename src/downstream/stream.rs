//! An event stream towards one peer: an exchange's, or a session's standalone one.
//!
//! `reply` and `endpoint` open them. Messages wait in the outlet, which is bounded, and are taken only when the
//! connection has room, so a slow reader holds at most one outlet and one write buffer; when the outlet overflows the
//! stream ends, and when the connection takes nothing at all `stall` ends that.
//!
//! In a session that can resume, what is sent is kept, and carries the id to resume from (`replay`).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::stream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pending::{Answer, Pending};
use super::record::Outcome;
use super::replay::{EventId, Resumed, Track};
use super::session::Visit;
use crate::gateway::outlet::Outlet;
use crate::protocol::framing::sse;
use crate::telemetry::metrics::label::StreamKind;
use crate::telemetry::metrics::{Held, Metrics};

/// When a client whose stream ended is to come back, in milliseconds: at once would be a burst after a restart.
const RETRY_MS: u64 = 1_000;

/// The state of a stream; see the module.
pub struct Events {
    outlet: Outlet,
    exchange: Option<Pending>,
    /// Held so that the session is not idle while its stream is open.
    visit: Option<Visit>,
    until: CancellationToken,
    keep_alive: Duration,
    /// Where it is kept, and with which connection it is now.
    track: Option<Track>,
    /// Bytes that go before everything else.
    head: Vec<u8>,
    first: Option<Bytes>,
    answer: Option<Answer>,
    over: bool,
    kind: StreamKind,
    metrics: Arc<Metrics>,
    _open: Held,
}

impl Events {
    /// Of an exchange that still runs. `first` has come already; `None` means that the outlet overflowed.
    pub fn running(mut exchange: Pending, first: Option<Bytes>, keep_alive: Duration) -> Self {
        let (outlet, until) = (exchange.outlet().clone(), CancellationToken::new());
        let (kind, metrics) = (exchange.stream_kind(), Arc::clone(exchange.metrics()));
        let mut events = Self::new(outlet, until, keep_alive, kind, metrics);
        events.over = first.is_none();
        events.note_overflow();
        events.first = first;
        if let Some(start) = exchange.visit().map(|visit| Start::fresh(visit, false)) {
            if let Some(track) = &start.track {
                exchange.keep_on(track.clone());
            }
            events.begin(start);
        }
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

    /// Where it is kept, and what goes before everything else.
    #[must_use]
    pub fn starting(mut self, start: Start) -> Self {
        self.begin(start);
        self
    }

    fn begin(&mut self, start: Start) {
        self.head = start.head;
        self.track = start.track;
    }

    fn new(
        outlet: Outlet,
        until: CancellationToken,
        keep_alive: Duration,
        kind: StreamKind,
        metrics: Arc<Metrics>,
    ) -> Self {
        let open = metrics.stream(kind);
        let (exchange, visit, track, first, answer, over) = (None, None, None, None, None, false);
        let head = Vec::new();
        Self {
            outlet,
            exchange,
            visit,
            until,
            keep_alive,
            track,
            head,
            first,
            answer,
            over,
            kind,
            metrics,
            _open: open,
        }
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
        let mut out = std::mem::take(&mut self.head);
        if let Some(first) = self.first.take() {
            self.message(&mut out, first);
            self.take_waiting(&mut out);
        } else if !self.over && self.answer.is_none() {
            self.wait(&mut out).await;
        }
        if let Some(answer) = self.answer.take() {
            self.finish(&mut out, &answer);
        }
        (!out.is_empty()).then_some(out)
    }

    async fn wait(&mut self, out: &mut Vec<u8>) {
        tokio::select! {
            biased;
            next = self.outlet.next() => match next {
                Some(next) => {
                    self.message(out, next);
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
            () = taken(self.track.as_ref()) => self.over = true,
            () = tokio::time::sleep(self.keep_alive) => self.comment(out),
        }
    }

    fn take_waiting(&mut self, out: &mut Vec<u8>) {
        while !self.over
            && let Some(next) = self.outlet.try_next()
        {
            self.message(out, next);
        }
    }

    /// A message as an event; an empty one, which is none, as a comment.
    fn message(&mut self, out: &mut Vec<u8>, text: Bytes) {
        if text.is_empty() {
            return self.comment(out);
        }
        let Some(track) = &self.track else { return sse::event(out, None, &text) };
        match (track.append(text.clone()), &self.visit) {
            (Some(id), _) => sse::event(out, Some(&id.to_string()), &text),
            (None, visit) => {
                // Another connection has the stream now, and the session gives it there.
                self.over = true;
                self.outlet.close();
                if let Some(visit) = visit {
                    visit.session().push(text);
                }
            }
        }
    }

    fn comment(&self, out: &mut Vec<u8>) {
        if self.track.is_some() { sse::comment_among_ids(out) } else { sse::comment(out) }
    }

    fn finish(&mut self, out: &mut Vec<u8>, answer: &Answer) {
        self.over = true;
        let outcome = Outcome::from(answer);
        if let Some(text) = answer.text() {
            self.message(out, text);
        }
        if let Some(track) = &self.track {
            track.end(Instant::now());
        }
        if let Some(exchange) = &self.exchange {
            exchange.record(StatusCode::OK, outcome);
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if let Some(visit) = &self.visit {
            // What was not written, and whatever comes now, waits in the session for its next stream.
            self.outlet.close();
            while let Some(unwritten) = self.outlet.try_next() {
                visit.session().push(unwritten);
            }
        }
    }
}

/// How a stream begins.
#[derive(Default)]
pub struct Start {
    track: Option<Track>,
    head: Vec<u8>,
}

impl Start {
    /// Anew: with an id to resume from before the first message, for clients that can read that.
    pub fn fresh(visit: &Visit, is_standalone: bool) -> Self {
        let Some(replay) = visit.replay() else { return Self::default() };
        let track = replay.open(is_standalone, Instant::now());
        let mut head = Vec::new();
        if visit.session().revision.has_priming_events() {
            sse::priming(&mut head, &track.beginning().to_string(), Some(RETRY_MS));
        }
        Self { track: Some(track), head }
    }

    /// Where another connection stopped.
    pub fn again(resumed: Resumed) -> Self {
        Self { head: missed(&resumed.unseen.events), track: Some(resumed.track) }
    }
}

/// Events that are sent again.
pub fn missed(events: &[(EventId, Bytes)]) -> Vec<u8> {
    let mut out = Vec::new();
    events.iter().for_each(|(id, text)| sse::event(&mut out, Some(&id.to_string()), text));
    out
}

/// A whole stream with one message.
pub fn only(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    sse::event(&mut out, None, text);
    out
}

async fn taken(track: Option<&Track>) {
    match track {
        Some(track) => track.taken.cancelled().await,
        None => std::future::pending().await,
    }
}

async fn end(exchange: Option<&mut Pending>) -> Answer {
    match exchange {
        Some(exchange) => exchange.await,
        None => std::future::pending().await,
    }
}
