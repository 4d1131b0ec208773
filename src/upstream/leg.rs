//! One request on one connection, from its id to its answer.
//!
//! `gateway`, `listing` and `dial` open a leg, write its message with the id it got, and run it. A leg that is dropped
//! before its answer is cancelled upstream in the way of its transport and era (protocol.md §3.10, §4.6).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use tokio::sync::{SemaphorePermit, oneshot};
use tokio::time::{Instant, sleep_until};

use super::error::CallError;
use super::transport::Link;
use super::wire::{Observer, Pulse, Wire};
use crate::protocol::ledger::Asker;
use crate::protocol::revision::{Era, Revision};

/// How long a leg may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Silence; progress starts it anew.
    pub idle: Duration,
    /// Altogether.
    pub max: Duration,
    /// A user's answer to a question; the idle limit rests meanwhile.
    pub question: Duration,
}

impl Limits {
    /// One limit for both.
    pub fn of(limit: Duration) -> Self {
        Self { idle: limit, max: limit, question: limit }
    }
}

/// A message to an upstream, with what an HTTP transport says about it in headers.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The method, for `Mcp-Method`.
    pub method: &'static str,
    /// The target's name as the upstream knows it, for `Mcp-Name`.
    pub name: Option<Box<str>>,
    /// `Mcp-Param-*` of a modern tool call.
    pub params: Vec<(HeaderName, HeaderValue)>,
    /// The whole message.
    pub body: Bytes,
}

/// One request; see the module.
#[derive(Debug)]
pub struct Leg {
    pub(super) wire: Arc<Wire>,
    pub(super) id: u64,
    waiting: oneshot::Receiver<Result<Bytes, CallError>>,
    pulse: Arc<Pulse>,
    is_gateway: bool,
    cancels: bool,
    sent: bool,
    speaking: Option<Revision>,
}

impl Leg {
    /// Takes an id on `wire`.
    pub fn open(wire: &Arc<Wire>, observer: Arc<dyn Observer>) -> Self {
        let is_gateway = observer.asker() == Asker::Gateway;
        let (id, waiting, pulse) = wire.open(observer);
        Self { wire: wire.clone(), id, waiting, pulse, is_gateway, cancels: true, sent: false, speaking: None }
    }

    /// The request id, which is also the progress token where one is wanted.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Dropping it tells the upstream nothing: `initialize` must never be cancelled (protocol.md §2.3).
    #[must_use]
    pub fn never_cancelled(mut self) -> Self {
        self.cancels = false;
        self
    }

    /// Over HTTP, speaks `revision` although the opening is not settled: for the probe.
    #[must_use]
    pub(super) fn speaking(mut self, revision: Revision) -> Self {
        self.speaking = Some(revision);
        self
    }

    /// Sends the message and waits for its answer: the text of one response. Dropping the future cancels.
    pub async fn run(mut self, out: Outgoing, limits: Limits) -> Result<Bytes, CallError> {
        let wire = self.wire.clone();
        let pulse = self.pulse.clone();
        let end = Instant::now() + limits.max;
        let work = async {
            let _permit = if self.is_gateway { None } else { Some(self.permit(&wire).await?) };
            self.sent = true;
            let answer = self.exchange(&wire, out).await;
            if !self.is_gateway && matches!(answer, Err(CallError::Lost { .. })) {
                // Over HTTP nothing else may tell that the upstream is gone: the actor looks.
                wire.notices.add(|p| p.broken = true);
            }
            answer
        };
        tokio::pin!(work);
        loop {
            let asked = pulse.asked_until(limits.question);
            let due = pulse.idle_until(limits.idle).min(end).min(asked.unwrap_or(end));
            tokio::select! {
                biased;
                answer = &mut work => return answer,
                () = sleep_until(due) => {}
            }
            let now = Instant::now();
            if now >= end {
                return Err(CallError::Timeout { after: limits.max });
            }
            if asked.is_some_and(|due| now >= due) {
                wire.expire_questions(&pulse);
            } else if now >= pulse.idle_until(limits.idle) {
                return Err(CallError::Timeout { after: limits.idle });
            }
        }
    }

    /// A place among the requests in flight; refused at once where the queue is full too.
    async fn permit<'w>(&self, wire: &'w Wire) -> Result<SemaphorePermit<'w>, CallError> {
        if let Ok(permit) = wire.permits.try_acquire() {
            return Ok(permit);
        }
        let queue = Queued::enter(wire)?;
        let permit = wire.permits.acquire().await.map_err(|_| CallError::Lost { sent: false });
        drop(queue);
        permit
    }

    async fn exchange(&mut self, wire: &Arc<Wire>, out: Outgoing) -> Result<Bytes, CallError> {
        match &wire.link {
            Link::Pipe => {
                wire.send(out.body)?;
                self.answer().await
            }
            Link::Sse(link) => {
                link.post(wire, out.body).await?;
                self.answer().await
            }
            Link::Http(link) => {
                let answer = tokio::select! {
                    biased;
                    // A server may answer on another stream of the session, and a lost connection ends every leg.
                    answer = &mut self.waiting => answer.unwrap_or(Err(CallError::Lost { sent: true })),
                    answer = link.exchange(wire, self.id, self.speaking.or(wire.revision()), &out) => {
                        match answer.transpose() {
                            Some(answer) => answer,
                            None => self.answer_elsewhere().await,
                        }
                    }
                };
                if !matches!(answer, Err(CallError::Lost { .. })) {
                    // Answered on its own stream, so nothing is left to cancel.
                    wire.forget(self.id);
                }
                answer
            }
        }
    }

    /// The answer comes on the session's stream, which ends with the session.
    async fn answer_elsewhere(&mut self) -> Result<Bytes, CallError> {
        let wire = self.wire.clone();
        tokio::select! {
            biased;
            answer = self.answer() => answer,
            () = wire.closed().cancelled() => Err(CallError::Lost { sent: true }),
        }
    }

    async fn answer(&mut self) -> Result<Bytes, CallError> {
        (&mut self.waiting).await.unwrap_or(Err(CallError::Lost { sent: true }))
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        let unanswered = self.wire.forget(self.id);
        let by_message = match &self.wire.link {
            Link::Pipe | Link::Sse(_) => true,
            // A modern HTTP request is cancelled by closing its stream, which dropping the exchange has done.
            Link::Http(_) => self.wire.revision().is_some_and(|r| r.era() == Era::Legacy),
        };
        if unanswered && self.sent && self.cancels && by_message && !self.wire.closed().is_cancelled() {
            self.wire.send_cancel(self.id);
        }
    }
}

struct Queued<'w>(&'w Wire);

impl<'w> Queued<'w> {
    fn enter(wire: &'w Wire) -> Result<Self, CallError> {
        let waiting = wire.queued.fetch_add(1, Ordering::Relaxed);
        let place = Self(wire);
        if waiting >= wire.limits.queue { Err(CallError::Busy) } else { Ok(place) }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Ordering::Relaxed);
    }
}
