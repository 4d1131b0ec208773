//! What a legacy session keeps of its event streams, so that a client whose connection broke misses nothing.
//!
//! `stream` and `pending` write into it while they send, or instead of sending; `resume` reads it for who comes back with
//! `Last-Event-ID`. [`Store`] is pure; [`Replay`] is the store of one session behind its lock, [`Track`] one stream in it.
//! Rules: protocol.md §3.9.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::settings::ReplayLimits;

/// `<stream>-<number>`, unique within the session. Number 0 is the beginning of a stream, before its first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    stream: u64,
    number: u64,
}

impl EventId {
    /// From a `Last-Event-ID`.
    pub fn parse(text: &str) -> Option<Self> {
        let (stream, number) = text.split_once('-')?;
        let id = Self { stream: stream.parse().ok()?, number: number.parse().ok()? };
        // Only what we would write: no signs, no zeros in front.
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.number)
    }
}

/// The events of a session, oldest first, and its streams.
#[derive(Debug)]
struct Store {
    limits: ReplayLimits,
    kept: VecDeque<(EventId, Bytes)>,
    bytes: usize,
    streams: BTreeMap<u64, Stream>,
    opened: u64,
}

#[derive(Debug, Default)]
struct Stream {
    is_standalone: bool,
    /// The number of its newest event.
    last: u64,
    /// The number of the newest event that is not kept any more.
    lost: u64,
    ended: Option<Instant>,
    /// Cancelled when another connection takes the stream over.
    reader: CancellationToken,
}

/// What a reader has not seen yet.
#[derive(Debug, PartialEq, Eq)]
pub struct Unseen {
    /// In order.
    pub events: Vec<(EventId, Bytes)>,
    /// Nothing comes after them.
    pub is_over: bool,
}

impl Store {
    fn new(limits: ReplayLimits) -> Self {
        Self { limits, kept: VecDeque::new(), bytes: 0, streams: BTreeMap::new(), opened: 0 }
    }

    fn open(&mut self, is_standalone: bool, now: Instant) -> (u64, CancellationToken) {
        self.opened += 1;
        if is_standalone {
            self.end_standalone_but(self.opened, now);
        }
        let stream = Stream { is_standalone, ..Stream::default() };
        let reader = stream.reader.clone();
        self.streams.insert(self.opened, stream);
        (self.opened, reader)
    }

    /// A session has one standalone stream; it ends when there is another. Until then it can be read on at any time.
    fn end_standalone_but(&mut self, number: u64, now: Instant) {
        let others = self.streams.iter().filter(|(n, stream)| stream.is_standalone && **n != number);
        let others: Vec<_> = others.map(|(number, _)| *number).collect();
        others.into_iter().for_each(|number| self.end(number, now));
    }

    /// Keeps a message and gives its id. What is too much for the session goes, oldest first.
    fn append(&mut self, number: u64, text: Bytes) -> Option<EventId> {
        let stream = self.streams.get_mut(&number)?;
        stream.last += 1;
        let id = EventId { stream: number, number: stream.last };
        self.bytes += text.len();
        self.kept.push_back((id, text));
        while self.kept.len() > self.limits.events || self.bytes > self.limits.bytes {
            self.forget_oldest();
        }
        Some(id)
    }

    fn forget_oldest(&mut self) {
        let Some((id, text)) = self.kept.pop_front() else { return };
        self.bytes -= text.len();
        if let Some(stream) = self.streams.get_mut(&id.stream) {
            stream.lost = id.number;
            if stream.ended.is_some() && stream.lost == stream.last {
                self.streams.remove(&id.stream);
            }
        }
    }

    /// Nothing more comes on this stream; it is forgotten some time later, at once where nothing of it is kept.
    fn end(&mut self, number: u64, now: Instant) {
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.ended.get_or_insert(now);
            if stream.lost == stream.last {
                self.streams.remove(&number);
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        let keep = self.limits.keep;
        self.streams.retain(|_, s| s.ended.is_none_or(|ended| now.saturating_duration_since(ended) < keep));
        let streams = &self.streams;
        self.kept.retain(|(id, _)| streams.contains_key(&id.stream));
        self.bytes = self.kept.iter().map(|(_, text)| text.len()).sum();
    }

    /// What came on the stream of `seen` after it; `None` where that is not known in full.
    fn after(&self, seen: EventId) -> Option<Unseen> {
        let stream = self.streams.get(&seen.stream)?;
        if seen.number < stream.lost || seen.number > stream.last {
            return None;
        }
        let is_unseen = |id: &EventId| id.stream == seen.stream && id.number > seen.number;
        let events = self.kept.iter().filter(|(id, _)| is_unseen(id)).cloned().collect();
        Some(Unseen { events, is_over: stream.ended.is_some() })
    }
}

/// The store of one session.
#[derive(Debug)]
pub struct Replay {
    store: Mutex<Store>,
    grown: Notify,
}

/// One connection's hold on one stream; clones are the same hold.
#[derive(Clone, Debug)]
pub struct Track {
    replay: Arc<Replay>,
    stream: u64,
    /// Cancelled when another connection has taken the stream over.
    pub taken: CancellationToken,
}

/// A stream that is read on.
#[derive(Debug)]
pub struct Resumed {
    /// The new hold.
    pub track: Track,
    /// The GET stream, and not that of a request.
    pub is_standalone: bool,
    /// What was missed.
    pub unseen: Unseen,
}

impl Replay {
    /// An empty store.
    pub fn new(limits: ReplayLimits) -> Self {
        Self { store: Mutex::new(Store::new(limits)), grown: Notify::new() }
    }

    /// A new stream: the standalone one, or that of a request.
    pub fn open(self: &Arc<Self>, is_standalone: bool, now: Instant) -> Track {
        let (stream, taken) = self.lock().open(is_standalone, now);
        Track { replay: Arc::clone(self), stream, taken }
    }

    /// Takes over the stream of `last`; `None` where the event, or one after it, is not kept (any more).
    pub fn resume(self: &Arc<Self>, last: EventId, now: Instant) -> Option<Resumed> {
        let mut store = self.lock();
        let unseen = store.after(last)?;
        let is_standalone = store.streams.get(&last.stream)?.is_standalone;
        if is_standalone {
            store.end_standalone_but(last.stream, now);
        }
        let stream = store.streams.get_mut(&last.stream)?;
        if is_standalone {
            stream.ended = None;
        }
        let taken = CancellationToken::new();
        std::mem::replace(&mut stream.reader, taken.clone()).cancel();
        let track = Track { replay: Arc::clone(self), stream: last.stream, taken };
        Some(Resumed { track, is_standalone, unseen })
    }

    /// Forgets streams that ended long enough ago.
    pub fn expire(&self, now: Instant) {
        self.lock().expire(now);
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Track {
    /// The id to resume from before any message came.
    pub fn beginning(&self) -> EventId {
        EventId { stream: self.stream, number: 0 }
    }

    /// Keeps a message. `None` where it must not be sent on this connection: the standalone stream is another's now.
    pub fn append(&self, text: Bytes) -> Option<EventId> {
        let mut store = self.replay.lock();
        // Asked under the lock, so that whoever took over has seen all that was sent here.
        let is_standalone = store.streams.get(&self.stream).is_some_and(|s| s.is_standalone);
        let id = if is_standalone && self.taken.is_cancelled() { None } else { store.append(self.stream, text) };
        drop(store);
        self.replay.grown.notify_waiters();
        id
    }

    /// Nothing more comes.
    pub fn end(&self, now: Instant) {
        self.replay.lock().end(self.stream, now);
        self.replay.grown.notify_waiters();
    }

    /// What came after `seen`; `None` once that is not known in full any more.
    pub fn after(&self, seen: EventId) -> Option<Unseen> {
        self.replay.lock().after(seen)
    }

    /// Resolves when something is kept or ends after this call.
    pub fn grown(&self) -> Notified<'_> {
        self.replay.grown.notified()
    }
}

#[cfg(test)]
mod tests;
