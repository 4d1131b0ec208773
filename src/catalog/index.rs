//! Where each exposed and each original name of one kind leads on the merged endpoint.
//!
//! Built by `merge` for every snapshot, so it holds places instead of entries, and is all that a rebuild costs.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::kind::Kind;
use super::snapshot::Slot;

/// The place of an entry: its slot in the snapshot, and its place in that contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct At {
    pub(super) slot: u32,
    pub(super) entry: u32,
}

impl At {
    #[expect(clippy::cast_possible_truncation, reason = "slots and entries are counted in memory, far below 2^32")]
    pub(super) fn new(slot: usize, entry: usize) -> Self {
        Self { slot: slot as u32, entry: entry as u32 }
    }
}

/// Who owns an original name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    One(At),
    Several,
}

/// One kind's names.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) exposed: HashMap<Arc<str>, Owner>,
    pub(super) original: HashMap<Arc<str>, Owner>,
    /// Entries that share their exposed name; nearly always none.
    pub(super) hidden: HashSet<At>,
}

impl Index {
    /// Indexes the entries of one kind. The order of `slots` does not matter: nothing here depends on who came first.
    pub(super) fn build(kind: Kind, slots: &[Slot]) -> Self {
        let total = slots.iter().map(|s| s.part.contribution.entries(kind).len()).sum();
        let mut index = Self {
            exposed: HashMap::with_capacity(total),
            original: HashMap::with_capacity(total),
            hidden: HashSet::new(),
        };
        let mut shared = false;
        for (slot, entries) in slots.iter().map(|s| s.part.contribution.entries(kind)).enumerate() {
            for (entry, e) in entries.iter().enumerate() {
                let at = At::new(slot, entry);
                shared |= own(&mut index.exposed, &e.exposed, at);
                own(&mut index.original, &e.original, at);
            }
        }
        if shared {
            index.hide_shared(kind, slots);
        }
        index
    }

    fn hide_shared(&mut self, kind: Kind, slots: &[Slot]) {
        for (slot, entries) in slots.iter().map(|s| s.part.contribution.entries(kind)).enumerate() {
            let is_shared = |name: &Arc<str>| self.exposed.get(name) == Some(&Owner::Several);
            let places = entries.iter().enumerate().filter(|(_, e)| is_shared(&e.exposed));
            self.hidden.extend(places.map(|(entry, _)| At::new(slot, entry)));
        }
    }
}

/// Notes an owner; true if there was one already.
fn own(map: &mut HashMap<Arc<str>, Owner>, name: &Arc<str>, at: At) -> bool {
    let mut taken = false;
    map.entry(name.clone()).and_modify(|owner| (*owner, taken) = (Owner::Several, true)).or_insert(Owner::One(at));
    taken
}
