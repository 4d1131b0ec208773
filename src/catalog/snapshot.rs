//! The merged offer: immutable, numbered, shared by everyone who reads it.
//!
//! Made by `merge`, published by the keeper. Readers take a [`View`] of it per endpoint.

use hashbrown::HashMap;

use super::index::Index;
use super::kind::{Endpoint, Kind};
use super::merge::{Conflict, Part};
use super::page::FirstPages;
use super::view::View;
use crate::name::ServerName;

/// One immutable version of the catalog.
#[derive(Debug)]
pub struct Snapshot {
    number: u64,
    slots: Vec<Slot>,
    by_server: HashMap<ServerName, usize>,
    by_prefix: HashMap<String, usize>,
    indexes: [Index; 4],
    conflicts: Vec<Conflict>,
    pub(super) pages: FirstPages,
}

/// A part, and what a snapshot keeps beside it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) part: Part,
    pub(super) pages: FirstPages,
}

impl Slot {
    pub(super) fn new(part: Part) -> Self {
        Self { part, pages: FirstPages::default() }
    }
}

impl Snapshot {
    pub(super) fn new(number: u64, slots: Vec<Slot>, indexes: [Index; 4], conflicts: Vec<Conflict>) -> Self {
        let sources = || slots.iter().map(|s| &s.part.source).enumerate();
        Self {
            by_server: sources().map(|(at, s)| (s.name.clone(), at)).collect(),
            by_prefix: sources().filter(|(_, s)| !s.prefix.is_empty()).map(|(at, s)| (s.prefix.clone(), at)).collect(),
            number,
            slots,
            indexes,
            conflicts,
            pages: FirstPages::default(),
        }
    }

    /// Its number: one more than that of the snapshot before.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The endpoint that `/mcp/{text}` names: a server's prefix, else its key.
    pub fn endpoint(&self, text: &str) -> Option<Endpoint> {
        let at = self.by_prefix.get(text).or_else(|| self.by_server.get(text))?;
        self.slots.get(*at).map(|slot| Endpoint::Server(slot.part.source.name.clone()))
    }

    /// What `endpoint` shows; `None` for a server that is not configured.
    pub fn view(&self, endpoint: &Endpoint) -> Option<View<'_>> {
        match endpoint {
            Endpoint::Merged => Some(View::merged(self)),
            Endpoint::Server(name) => self.slot(name.as_str()).map(|slot| View::server(self, slot)),
        }
    }

    /// The merged view.
    pub fn merged(&self) -> View<'_> {
        View::merged(self)
    }

    /// The servers and what they offer, in config order.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.slots.iter().map(|slot| &slot.part)
    }

    /// The part of server `name`.
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.slot(name).map(|slot| &slot.part)
    }

    /// Names that more than one entry would have, by kind and config order.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(super) fn slot(&self, name: &str) -> Option<&Slot> {
        self.by_server.get(name).and_then(|at| self.slots.get(*at))
    }

    pub(super) fn slot_by_prefix(&self, prefix: &str) -> Option<&Slot> {
        self.by_prefix.get(prefix).and_then(|at| self.slots.get(*at))
    }

    pub(super) fn index(&self, kind: Kind) -> &Index {
        &self.indexes[kind.at()]
    }
}
