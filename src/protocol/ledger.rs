//! What is in flight on one upstream connection, and whose question it is that arrives on it.
//!
//! A connection keeps one behind a short lock. Ids are given out here, increasing from 1 and never reused, so an answer
//! can only reach the leg that it belongs to (protocol.md §2.8); attribution follows design §5 "Whose question is it?".

use std::collections::BTreeMap;

/// Who caused a request to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// We ourselves: discovery, health, subscriptions. Nobody to ask anything.
    Gateway,
    /// A request of this legacy session (a number that is unique in the process).
    Session(u64),
    /// One modern request, which shares nothing with any other.
    Modern,
}

/// Whose question an upstream's request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribution {
    /// It belongs to the leg with this id.
    Leg(u64),
    /// Nothing that a downstream caused is in flight.
    Unsolicited,
    /// Several could have caused it; guessing would show one caller's question to another.
    Ambiguous,
}

/// Requests in flight, each with what the connection needs to finish it.
#[derive(Debug)]
pub struct Ledger<T> {
    last: u64,
    open: BTreeMap<u64, Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    asker: Asker,
    waiter: T,
}

impl<T> Default for Ledger<T> {
    fn default() -> Self {
        Self { last: 0, open: BTreeMap::new() }
    }
}

impl<T> Ledger<T> {
    /// Notes a request and gives its id.
    pub fn open(&mut self, asker: Asker, waiter: T) -> u64 {
        self.last += 1;
        self.open.insert(self.last, Entry { asker, waiter });
        self.last
    }

    /// The waiter of request `id`, if it is in flight.
    pub fn get(&self, id: u64) -> Option<&T> {
        self.open.get(&id).map(|e| &e.waiter)
    }

    /// Ends request `id`. A second answer, or one to an id never given out, finds nothing.
    pub fn close(&mut self, id: u64) -> Option<T> {
        self.open.remove(&id).map(|e| e.waiter)
    }

    /// Ends the requests whose waiters are `chosen`.
    pub fn close_where(&mut self, mut chosen: impl FnMut(&T) -> bool) -> Vec<T> {
        let ended = self.open.extract_if(.., |_, entry| chosen(&entry.waiter));
        ended.map(|(_, entry)| entry.waiter).collect()
    }

    /// The request in flight, if there is just one.
    pub fn only(&self) -> Option<u64> {
        match self.open.len() {
            1 => self.open.keys().next().copied(),
            _ => None,
        }
    }

    /// How many are in flight.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// None is in flight.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whose question it is when the transport does not say: the only call in flight, or the newest of the only session in flight.
    pub fn attribute(&self) -> Attribution {
        let mut found: Option<(u64, Asker)> = None;
        for (&id, entry) in &self.open {
            let same = match (entry.asker, found) {
                (Asker::Gateway, _) => continue,
                (_, None) => true,
                (Asker::Session(a), Some((_, Asker::Session(b)))) => a == b,
                _ => false,
            };
            if !same {
                return Attribution::Ambiguous;
            }
            found = Some((id, entry.asker));
        }
        found.map_or(Attribution::Unsolicited, |(id, _)| Attribution::Leg(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_finds_its_request_once() {
        let mut ledger = Ledger::default();
        let a = ledger.open(Asker::Modern, "a");
        let b = ledger.open(Asker::Gateway, "b");
        assert_eq!((a, b), (1, 2));
        assert_eq!(ledger.close(a), Some("a"));
        assert_eq!(ledger.close(a), None);
        assert_eq!(ledger.close(99), None);
        assert_eq!(ledger.open(Asker::Modern, "c"), 3, "ids are never reused");
        assert_eq!(ledger.close_where(|w| *w == "c"), ["c"]);
        assert_eq!(ledger.close_where(|_| true), ["b"]);
        assert!(ledger.is_empty());
    }

    #[test]
    fn a_question_is_attributed_only_where_it_is_certain() {
        use Asker::{Gateway, Modern, Session};
        let table: [(&[Asker], Attribution); 8] = [
            (&[], Attribution::Unsolicited),
            (&[Gateway, Gateway], Attribution::Unsolicited),
            (&[Modern], Attribution::Leg(1)),
            (&[Gateway, Session(7)], Attribution::Leg(2)),
            (&[Session(7), Session(7)], Attribution::Leg(2)),
            (&[Session(7), Session(8)], Attribution::Ambiguous),
            (&[Modern, Modern], Attribution::Ambiguous),
            (&[Modern, Session(7)], Attribution::Ambiguous),
        ];
        for (askers, want) in table {
            let mut ledger = Ledger::default();
            for asker in askers {
                ledger.open(*asker, ());
            }
            assert_eq!(ledger.attribute(), want, "{askers:?}");
        }
    }
}
