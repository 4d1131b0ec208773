//! One stream of messages towards a downstream: filled by exchanges, the hub and questions; emptied by the edge that
//! writes it to a socket or to stdout.
//!
//! Filling never waits, so a slow reader cannot stop an upstream or the hub (style.md §5.6): progress and logs are
//! dropped when the queue is full, and a message that must arrive closes the stream instead.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::name::ServerName;
use crate::telemetry::metrics::label::Outcome;

/// Messages that a stream holds for a slow reader: some seconds of lively progress, a few hundred KiB at most in practice.
pub const OUTLET_MESSAGES: usize = 256;

/// The filling end and the emptying end of one stream; clones are the same stream.
#[derive(Clone, Debug, Default)]
pub struct Outlet(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Bytes>,
    overflowed: bool,
    closed: bool,
    about: About,
}

/// What the gateway found out about the exchange that fills a stream: for the edge's one log line.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The server that it went to.
    pub server: Option<ServerName>,
    /// How it ended there.
    pub outcome: Option<Outcome>,
}

/// The stream was closed, or had to be because its reader is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed")]
pub struct Closed;

impl Outlet {
    /// An open, empty stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues a message that must arrive; a full queue closes the stream.
    pub fn send(&self, message: Bytes) -> Result<(), Closed> {
        let mut state = self.lock();
        if state.closed {
            return Err(Closed);
        }
        if state.queue.len() >= OUTLET_MESSAGES {
            state.closed = true;
            state.overflowed = true;
            state.queue.clear();
            drop(state);
            self.0.wake.notify_one();
            return Err(Closed);
        }
        state.queue.push_back(message);
        drop(state);
        self.0.wake.notify_one();
        Ok(())
    }

    /// Queues a message unless an equal one waits already: for "it changed", where one is as good as ten.
    pub fn send_once(&self, message: Bytes) -> Result<(), Closed> {
        if self.lock().queue.contains(&message) { Ok(()) } else { self.send(message) }
    }

    /// Queues a message that may be lost (progress, logs); says whether it was kept.
    pub fn offer(&self, message: Bytes) -> bool {
        let mut state = self.lock();
        if state.closed || state.queue.len() >= OUTLET_MESSAGES {
            return false;
        }
        state.queue.push_back(message);
        drop(state);
        self.0.wake.notify_one();
        true
    }

    /// The next message; `None` once the stream is closed and empty. Only one reader may wait at a time. Cancel safe.
    pub async fn next(&self) -> Option<Bytes> {
        loop {
            let woken = self.0.wake.notified();
            {
                let mut state = self.lock();
                if let Some(message) = state.queue.pop_front() {
                    return Some(message);
                }
                if state.closed {
                    return None;
                }
            }
            woken.await;
        }
    }

    /// The next message if one waits.
    pub fn try_next(&self) -> Option<Bytes> {
        self.lock().queue.pop_front()
    }

    /// No more messages are taken; those that wait are still read.
    pub fn close(&self) {
        self.lock().closed = true;
        self.0.wake.notify_one();
    }

    /// Whether it was closed because its reader was too slow.
    pub fn has_overflowed(&self) -> bool {
        self.lock().overflowed
    }

    /// Whether messages are still taken.
    pub fn is_open(&self) -> bool {
        !self.lock().closed
    }

    /// Notes which server the exchange went to, and later how it ended.
    pub fn note(&self, server: &ServerName, outcome: Option<Outcome>) {
        self.lock().about = About { server: Some(server.clone()), outcome };
    }

    /// What was noted.
    pub fn about(&self) -> About {
        self.lock().about.clone()
    }

    /// Whether two handles are the same stream.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_come_in_order_and_the_end_is_seen() {
        let outlet = Outlet::new();
        outlet.send(Bytes::from_static(b"1")).unwrap();
        outlet.send_once(Bytes::from_static(b"1")).unwrap();
        outlet.send_once(Bytes::from_static(b"2")).unwrap();
        outlet.close();
        assert_eq!(outlet.next().await.as_deref(), Some(&b"1"[..]));
        assert_eq!(outlet.next().await.as_deref(), Some(&b"2"[..]));
        assert_eq!(outlet.next().await, None);
        assert_eq!(outlet.send(Bytes::new()), Err(Closed));
    }

    #[tokio::test]
    async fn slow_reader_loses_progress_first_and_then_its_stream() {
        let outlet = Outlet::new();
        for _ in 0..OUTLET_MESSAGES {
            assert!(outlet.offer(Bytes::from_static(b"p")));
        }
        assert!(!outlet.offer(Bytes::from_static(b"p")));
        assert!(outlet.is_open());
        assert!(!outlet.has_overflowed());
        assert_eq!(outlet.send(Bytes::from_static(b"must")), Err(Closed));
        assert!(outlet.has_overflowed());
        assert_eq!(outlet.next().await, None);
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
        let outlet = Outlet::new();
        let (got, ()) = tokio::join!(outlet.next(), async { outlet.send(Bytes::from_static(b"x")).unwrap() });
        assert_eq!(got.as_deref(), Some(&b"x"[..]));
    }
}
