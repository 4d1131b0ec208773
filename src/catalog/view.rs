//! PURE. What one endpoint sees of a snapshot: the way from a name or URI to the server that owns it.
//!
//! `gateway` asks here for every call. Nothing splits names: a name is looked up whole. URIs go by exact text first, then by prefix;
//! an original name or URI is accepted when exactly one server can be meant, and never guessed between two (design §5).

use std::borrow::Cow;
use std::sync::Arc;

use super::contribution::Contribution;
use super::entry::Entry;
use super::index::{At, Owner};
use super::kind::Kind;
use super::merge::{Part, Standing};
use super::snapshot::{Slot, Snapshot};
use super::source::{self, Source};

/// A snapshot as one endpoint shows it.
#[derive(Clone, Copy, Debug)]
pub struct View<'s> {
    pub(super) snapshot: &'s Snapshot,
    /// The only server; `None`: all of them.
    pub(super) only: Option<&'s Slot>,
}

/// Where a name leads.
#[derive(Clone, Copy, Debug)]
pub enum Lookup<R> {
    /// To an entry, or to a server that certainly owns it.
    Found(R),
    /// To a server that does not list it; it may know it all the same.
    Unlisted(R),
    /// Nowhere, or to more than one server.
    Unknown,
}

/// The way to an upstream.
#[derive(Clone, Debug)]
pub struct Route<'a> {
    /// The server.
    pub source: &'a Arc<Source>,
    /// How it stands.
    pub standing: Standing,
    /// Its own name or URI for what was asked.
    pub original: Cow<'a, str>,
    /// What is known of it, if the server lists it; for a URI possibly the template that it matches.
    pub entry: Option<&'a Entry>,
}

impl<R> Lookup<R> {
    /// The route, listed or not.
    pub fn route(self) -> Option<R> {
        match self {
            Self::Found(route) | Self::Unlisted(route) => Some(route),
            Self::Unknown => None,
        }
    }
}

impl<'s> View<'s> {
    pub(super) fn merged(snapshot: &'s Snapshot) -> Self {
        Self { snapshot, only: None }
    }

    pub(super) fn server(snapshot: &'s Snapshot, slot: &'s Slot) -> Self {
        Self { snapshot, only: Some(slot) }
    }

    /// The servers that it shows, in config order.
    pub fn parts(self) -> impl Iterator<Item = &'s Part> {
        self.slots().iter().map(|slot| &slot.part)
    }

    /// Whether it shows one server alone, under the server's own names.
    pub fn is_single(self) -> bool {
        self.only.is_some()
    }

    /// Where a tool's name leads.
    pub fn tool<'a>(self, name: &'a str) -> Lookup<Route<'a>>
    where
        's: 'a,
    {
        self.named(Kind::Tools, name)
    }

    /// Where a prompt's name leads; also for `ref/prompt` in completions.
    pub fn prompt<'a>(self, name: &'a str) -> Lookup<Route<'a>>
    where
        's: 'a,
    {
        self.named(Kind::Prompts, name)
    }

    /// Where a resource's URI leads.
    pub fn resource<'a>(self, uri: &'a str) -> Lookup<Route<'a>>
    where
        's: 'a,
    {
        match self.only {
            Some(slot) => own_resource(slot, Cow::Borrowed(uri)),
            None => self.merged_resource(uri),
        }
    }

    /// Where a `ref/resource` of a completion leads: the exact text of a template first, then a URI (protocol.md §7.5).
    pub fn completion_resource<'a>(self, text: &'a str) -> Lookup<Route<'a>>
    where
        's: 'a,
    {
        let template = match self.only {
            Some(slot) => slot.part.contribution.find(Kind::Templates, text).map(|entry| listed(slot, entry)),
            None => self.exact(Kind::Templates, text),
        };
        template.map_or_else(|| self.resource(text), Lookup::Found)
    }

    fn named<'a>(self, kind: Kind, name: &'a str) -> Lookup<Route<'a>>
    where
        's: 'a,
    {
        let Some(slot) = self.only else {
            return self.exact(kind, name).map_or(Lookup::Unknown, Lookup::Found);
        };
        match slot.part.contribution.find(kind, name) {
            Some(entry) => Lookup::Found(listed(slot, entry)),
            None => Lookup::Unlisted(Route { original: Cow::Borrowed(name), ..route_of(slot, None) }),
        }
    }

    /// By exposed text, else by original text if one server alone has it. A text that several expose leads nowhere.
    fn exact<'a>(self, kind: Kind, text: &str) -> Option<Route<'a>>
    where
        's: 'a,
    {
        let index = self.snapshot.index(kind);
        match index.exposed.get(text).or_else(|| index.original.get(text))? {
            Owner::One(at) => self.at(kind, *at),
            Owner::Several => None,
        }
    }

    fn at<'a>(self, kind: Kind, at: At) -> Option<Route<'a>>
    where
        's: 'a,
    {
        let slot = self.snapshot.slots().get(at.slot as usize)?;
        slot.part.contribution.entries(kind).get(at.entry as usize).map(|entry| listed(slot, entry))
    }

    fn merged_resource<'a>(self, uri: &'a str) -> Lookup<Route<'a>>
    where
        's: 'a,
    {
        let index = self.snapshot.index(Kind::Resources);
        if let Some(owner) = index.exposed.get(uri) {
            return self.owned(*owner);
        }
        if let Some(route) = self.under_prefix(uri) {
            return route;
        }
        if let Some(owner) = index.original.get(uri) {
            return self.owned(*owner);
        }
        self.by_template(uri)
    }

    fn owned<'a>(self, owner: Owner) -> Lookup<Route<'a>>
    where
        's: 'a,
    {
        match owner {
            Owner::One(at) => self.at(Kind::Resources, at).map_or(Lookup::Unknown, Lookup::Found),
            Owner::Several => Lookup::Unknown,
        }
    }

    fn under_prefix<'a>(self, uri: &'a str) -> Option<Lookup<Route<'a>>>
    where
        's: 'a,
    {
        let slot = self.snapshot.slot_by_prefix(source::claimed_prefix(uri)?)?;
        let map = slot.part.source.uri_map();
        if map.is_verbatim() {
            return None;
        }
        map.original(uri).map(|original| own_resource(slot, original))
    }

    /// An original URI that no list holds: verbatim servers own it before the others, because to them it is also the exposed form.
    fn by_template<'a>(self, uri: &'a str) -> Lookup<Route<'a>>
    where
        's: 'a,
    {
        let mut verbatim = Single::default();
        let mut prefixed = Single::default();
        let mut open = Single::default();
        for slot in self.snapshot.slots() {
            let is_verbatim = slot.part.source.uri_map().is_verbatim();
            if let Some(entry) = slot.part.contribution.matching_template(uri) {
                if is_verbatim { &mut verbatim } else { &mut prefixed }.add((slot, Some(entry)));
            }
            if is_verbatim && has_resources(&slot.part.contribution) {
                open.add((slot, None));
            }
        }
        let (found, wrap): (_, fn(Route<'a>) -> Lookup<Route<'a>>) = match (verbatim, prefixed) {
            (Single::None, Single::None) => (open, Lookup::Unlisted),
            (Single::None, prefixed) => (prefixed, Lookup::Found),
            (verbatim, _) => (verbatim, Lookup::Found),
        };
        match found {
            Single::One((slot, entry)) => wrap(Route { original: Cow::Borrowed(uri), ..route_of(slot, entry) }),
            Single::None | Single::Several => Lookup::Unknown,
        }
    }

    pub(super) fn slots(self) -> &'s [Slot] {
        self.only.map_or(self.snapshot.slots(), std::slice::from_ref)
    }
}

/// At most one, or too many to choose.
#[derive(Clone, Copy, Default)]
enum Single<T> {
    #[default]
    None,
    One(T),
    Several,
}

impl<T> Single<T> {
    fn add(&mut self, value: T) {
        *self = match self {
            Self::None => Self::One(value),
            _ => Self::Several,
        };
    }
}

fn has_resources(contribution: &Contribution) -> bool {
    contribution.offers(Kind::Resources) || contribution.offers(Kind::Templates)
}

fn own_resource<'a>(slot: &'a Slot, original: Cow<'a, str>) -> Lookup<Route<'a>> {
    let contribution = &slot.part.contribution;
    let entry = contribution.find(Kind::Resources, &original).or_else(|| contribution.matching_template(&original));
    let route = Route { original, ..route_of(slot, entry) };
    if entry.is_some() { Lookup::Found(route) } else { Lookup::Unlisted(route) }
}

fn listed<'a>(slot: &'a Slot, entry: &'a Entry) -> Route<'a> {
    Route { original: Cow::Borrowed(&entry.original), ..route_of(slot, Some(entry)) }
}

fn route_of<'a>(slot: &'a Slot, entry: Option<&'a Entry>) -> Route<'a> {
    Route { source: &slot.part.source, standing: slot.part.standing, original: Cow::Borrowed(""), entry }
}

#[cfg(test)]
mod tests;
