//! One upstream's offer, read: entries with their names, list text on demand, and what was said about freshness.
//!
//! `upstream` makes one after each refresh and gives it to the keeper; `merge` puts contributions side by side. Immutable, so
//! snapshots share it, and with it the list text that is written on first use.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hashbrown::{HashMap, HashSet};
use sha2::{Digest, Sha256};

use super::entry::{Entry, InLegacy};
use super::kind::{Kind, Shape};
use super::offer::{Complaint, List, Offer};
use super::segment::Segment;
use super::shape::{self, Dress};
use super::source::Source;
use crate::protocol::capability::UI_EXTENSION;
use crate::protocol::object::Object;
use crate::protocol::revision::Era;

/// Longest name or URI that a complaint repeats, in characters.
const COMPLAINT_ITEM_MAX: usize = 128;

/// What one upstream offers now.
#[derive(Debug)]
pub struct Contribution {
    source: Arc<Source>,
    era: Era,
    is_http: bool,
    capabilities: Option<Box<str>>,
    instructions: Option<Box<str>>,
    server_info: Option<Box<str>>,
    listings: [Listing; 4],
}

/// The entries of one kind.
#[derive(Debug, Default)]
struct Listing {
    entries: Vec<Entry>,
    said: Option<Said>,
    /// Of everything that list text depends on.
    digest: [u8; 32],
    /// By original name or URI, built on first use: only a server's own endpoint asks.
    by_original: OnceLock<HashMap<Arc<str>, usize>>,
    /// How many entries a list of each shape shows.
    counts: [usize; Shape::COUNT],
    legacy_differs: bool,
    /// The text for each shape: of the merged list, then of the server's own.
    segments: [[OnceLock<Segment>; Shape::COUNT]; 2],
}

/// What an upstream said about the freshness of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    pub(super) read_at: Option<Instant>,
    pub(super) ttl_ms: Option<u64>,
    pub(super) public: bool,
    pub(super) pushes_list_changed: bool,
}

impl Contribution {
    /// Reads an offer. A bad item is left out alone, and complained about; see [`super::Reason`].
    pub fn new(source: Arc<Source>, mut offer: Offer) -> (Self, Vec<Complaint>) {
        let mut complaints = Vec::new();
        let binding_headers = offer.is_http && offer.era == Era::Modern;
        let listings = Kind::ALL.map(|kind| match offer.take(kind) {
            Some(list) => Listing::read(&source, kind, list, binding_headers, &mut complaints),
            None => Listing::default(),
        });
        let Offer { era, is_http, capabilities, instructions, server_info, .. } = offer;
        (Self { source, era, is_http, capabilities, instructions, server_info, listings }, complaints)
    }

    /// The contribution of a server that is not there: it has a place and names, but no entries.
    pub fn none(source: Arc<Source>) -> Self {
        Self::new(source, Offer::new(Era::Legacy, false)).0
    }

    /// Whose it is.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// The era that the upstream speaks.
    pub fn era(&self) -> Era {
        self.era
    }

    /// The upstream's capabilities, a JSON object.
    pub fn capabilities(&self) -> Option<&str> {
        self.capabilities.as_deref()
    }

    /// The upstream's instructions, as it sent them.
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// The upstream's `serverInfo`, a JSON object.
    pub fn server_info(&self) -> Option<&str> {
        self.server_info.as_deref()
    }

    /// The entries of a kind, in the upstream's order.
    pub fn entries(&self, kind: Kind) -> &[Entry] {
        &self.listings[kind.at()].entries
    }

    /// Whether the upstream has lists of this kind, even if empty.
    pub fn offers(&self, kind: Kind) -> bool {
        self.said(kind).is_some()
    }

    /// The entry of a kind with this original name or URI.
    pub fn find(&self, kind: Kind, original: &str) -> Option<&Entry> {
        let listing = &self.listings[kind.at()];
        let index = listing.by_original.get_or_init(|| {
            listing.entries.iter().enumerate().map(|(at, entry)| (entry.original.clone(), at)).collect()
        });
        index.get(original).and_then(|at| listing.entries.get(*at))
    }

    /// The template that `uri`, an original one, is an expansion of; the one with the longest literal start where several are.
    pub fn matching_template(&self, uri: &str) -> Option<&Entry> {
        let matches = |entry: &&Entry| entry.template.as_ref().is_some_and(|t| t.matches(uri));
        let length = |entry: &&Entry| entry.template.as_ref().map_or(0, super::Template::literal_prefix);
        // `max_by_key` takes the last of equals; the upstream's first should win.
        self.entries(Kind::Templates).iter().rev().filter(matches).max_by_key(length)
    }

    /// Whether the server has views to show: it says so, or a tool links to one.
    pub fn has_apps(&self) -> bool {
        let says = |raw: &str| Object::parse(raw).ok()?.object("extensions").map(|e| e.has(UI_EXTENSION));
        self.capabilities.as_deref().and_then(says).unwrap_or_default()
            || self.entries(Kind::Tools).iter().any(|e| e.tool().is_some_and(|tool| tool.has_view))
    }

    pub(super) fn said(&self, kind: Kind) -> Option<Said> {
        self.listings[kind.at()].said
    }

    pub(super) fn digest(&self, kind: Kind) -> &[u8; 32] {
        &self.listings[kind.at()].digest
    }

    /// How many entries a list of this shape shows.
    pub(super) fn count(&self, kind: Kind, shape: Shape) -> usize {
        self.listings[kind.at()].counts[shape.at()]
    }

    /// Places, in [`Contribution::entries`], of the entries that a list of this shape shows.
    pub(super) fn shown(&self, kind: Kind, shape: Shape) -> impl Iterator<Item = usize> {
        self.entries(kind).iter().enumerate().filter(move |(_, e)| e.is_shown(shape)).map(|(at, _)| at)
    }

    /// The list text; written on first use.
    pub(super) fn segment(&self, kind: Kind, shape: Shape, merged: bool) -> &Segment {
        let listing = &self.listings[kind.at()];
        let shape = listing.like(shape);
        listing.segments[usize::from(!merged)][shape.at()].get_or_init(|| {
            let dress = Dress {
                shape,
                merged: merged.then_some(&*self.source),
                binding_headers: self.is_http && self.era == Era::Modern,
            };
            let mut segment = Segment::default();
            for at in self.shown(kind, shape) {
                segment.push(|out| shape::write(out, kind, &listing.entries[at], dress));
            }
            segment
        })
    }
}

impl Listing {
    fn read(source: &Source, kind: Kind, list: List, binding_headers: bool, complaints: &mut Vec<Complaint>) -> Self {
        let List { items, read_at, ttl_ms, public, pushes_list_changed } = list;
        let mut entries: Vec<Entry> = Vec::with_capacity(items.len());
        let mut seen = HashSet::with_capacity(items.len());
        let mut complain = |item: String, reason| {
            complaints.push(Complaint { server: source.name.clone(), kind, item, reason });
        };
        for (at, raw) in items.into_iter().enumerate() {
            match Entry::read(source, kind, raw, binding_headers) {
                Ok((entry, reason)) if seen.insert(entry.original.clone()) => {
                    if let Some(reason) = reason {
                        complain(short(&entry.original), reason);
                    }
                    entries.push(entry);
                }
                Ok((entry, _)) => complain(short(&entry.original), super::Reason::Duplicate),
                Err(refusal) => {
                    complain(refusal.item.map_or_else(|| format!("#{}", at + 1), |i| short(&i)), refusal.reason);
                }
            }
        }
        Self {
            digest: digest(source, &entries, binding_headers),
            counts: SHAPES.map(|shape| entries.iter().filter(|e| e.is_shown(shape)).count()),
            legacy_differs: entries.iter().any(|e| e.legacy != InLegacy::Same),
            said: Some(Said { read_at, ttl_ms, public, pushes_list_changed }),
            entries,
            ..Self::default()
        }
    }

    /// The first of the shapes that read the same as `shape`, so that one text serves them.
    fn like(&self, shape: Shape) -> Shape {
        let era = if self.legacy_differs { shape.era() } else { Era::Modern };
        let apps = self.counts[Shape::ModernApps.at()] != self.counts[Shape::Modern.at()];
        Shape::of(era, apps && shape.has_apps())
    }
}

/// By their places.
const SHAPES: [Shape; Shape::COUNT] = [Shape::Modern, Shape::Legacy, Shape::ModernApps, Shape::LegacyApps];

fn short(item: &str) -> String {
    item.chars().take(COMPLAINT_ITEM_MAX).collect()
}

fn digest(source: &Source, entries: &[Entry], binding_headers: bool) -> [u8; 32] {
    let mut hash = Sha256::new();
    let parts = [source.name.as_str(), &source.prefix];
    let settings = [u8::from(binding_headers), source.uris as u8];
    hash.update(settings);
    for text in parts.into_iter().chain(entries.iter().flat_map(|e| [&*e.exposed, &*e.raw])) {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
