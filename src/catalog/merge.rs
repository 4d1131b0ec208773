//! PURE. Contributions side by side become one snapshot. The same input gives the same bytes, whatever order it arrived in.
//!
//! Called by the keeper for every change. Names that two entries share are hidden on both sides, never awarded by order
//! (design §5, "Names"; bug report kind "name collision, silent overwrite"): they stay out of lists and look-ups and are reported.

use std::fmt;
use std::sync::Arc;

use super::contribution::Contribution;
use super::index::{Index, Owner};
use super::kind::Kind;
use super::snapshot::{Slot, Snapshot};
use super::source::Source;
use crate::name::ServerName;

/// One server's part in a snapshot. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Part {
    /// The server as it is configured now. A contribution may be older, if both name entries alike.
    pub source: Arc<Source>,
    /// What it offers; [`Contribution::none`] where it is not there.
    pub contribution: Arc<Contribution>,
    /// How it stands.
    pub standing: Standing,
}

impl Part {
    /// A server that is not there, or not yet.
    pub fn empty(source: Arc<Source>, standing: Standing) -> Self {
        let contribution = Arc::new(Contribution::none(source.clone()));
        Self { source, contribution, standing }
    }
}

/// How a server stands in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Configured, and has not offered anything yet.
    Expected,
    /// Connected; its lists are current.
    Fresh,
    /// Gone; its entries stay for a while (design §5, "Gone upstream").
    Stale,
    /// Gone for longer than that; its entries are withdrawn.
    Withdrawn,
}

/// A name or URI that more than one entry would have. Nobody gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// In which list.
    pub kind: Kind,
    /// The exposed name or URI.
    pub name: Arc<str>,
    /// The servers that would expose it, in config order; one server twice if two of its names come out alike.
    pub servers: Vec<ServerName>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<&str> = self.servers.iter().map(ServerName::as_str).collect();
        write!(
            f,
            "{} {:?} is offered by {} and hidden on each of them: give the servers different prefixes",
            self.kind.noun(),
            self.name,
            servers.join(" and ")
        )
    }
}

/// Merges the parts of all servers into the snapshot numbered `number`.
pub fn merge(mut parts: Vec<Part>, number: u64) -> Snapshot {
    parts.sort_by_cached_key(|part| (part.source.order, part.source.name.clone()));
    let slots: Vec<Slot> = parts.into_iter().map(Slot::new).collect();
    let indexes = Kind::ALL.map(|kind| Index::build(kind, &slots));
    let conflicts = Kind::ALL.into_iter().flat_map(|kind| conflicts(kind, &slots, &indexes[kind.at()])).collect();
    Snapshot::new(number, slots, indexes, conflicts)
}

fn conflicts(kind: Kind, slots: &[Slot], index: &Index) -> Vec<Conflict> {
    let mut found: Vec<Conflict> = Vec::new();
    if index.hidden.is_empty() {
        return found;
    }
    for slot in slots {
        for entry in slot.part.contribution.entries(kind) {
            if index.exposed.get(&entry.exposed) != Some(&Owner::Several) {
                continue;
            }
            let server = slot.part.source.name.clone();
            match found.iter_mut().find(|c| c.name == entry.exposed) {
                Some(conflict) => conflict.servers.push(server),
                None => found.push(Conflict { kind, name: entry.exposed.clone(), servers: vec![server] }),
            }
        }
    }
    found
}
