//! One upstream's lists as they were received, and what was wrong with single items of them.
//!
//! `upstream` fills an [`Offer`] after it has read every page, and logs the [`Complaint`]s that come back with the contribution.

use std::fmt;
use std::time::Instant;

use super::kind::Kind;
use crate::name::ServerName;
use crate::protocol::depth::DEPTH_MAX;
use crate::protocol::header::AnnotationError;
use crate::protocol::revision::Era;

/// What one upstream offers now, unread. Items and objects are JSON text exactly as it was received.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The era that the upstream speaks.
    pub era: Era,
    /// Whether it is spoken to over HTTP: only then do `x-mcp-header` annotations bind (protocol.md §4.4).
    pub is_http: bool,
    /// Its capabilities, an object.
    pub capabilities: Option<Box<str>>,
    /// Its instructions, untrusted.
    pub instructions: Option<Box<str>>,
    /// Its `serverInfo`, an object.
    pub server_info: Option<Box<str>>,
    /// Its lists by kind, see [`Offer::set`]; `None` where it does not have the capability.
    lists: [Option<List>; 4],
}

/// One list of an upstream: all pages of it.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The items in the upstream's order.
    pub items: Vec<Box<str>>,
    /// When the list was read. `None`: unknown, so it never counts as fresh.
    pub read_at: Option<Instant>,
    /// For how long it stays fresh after that, in milliseconds: a modern upstream's `ttlMs`, a legacy one's polling interval.
    /// `None`: nothing was said.
    pub ttl_ms: Option<u64>,
    /// Whether the upstream said that everybody may share it, and no user's credentials were used to read it.
    pub public: bool,
    /// Whether the upstream tells us when it changes.
    pub pushes_list_changed: bool,
}

impl Offer {
    /// An offer without lists.
    pub fn new(era: Era, is_http: bool) -> Self {
        Self { era, is_http, capabilities: None, instructions: None, server_info: None, lists: [const { None }; 4] }
    }

    /// Puts in the list of a kind. A capability without entries is an empty list, not a missing one.
    pub fn set(&mut self, kind: Kind, list: List) {
        self.lists[kind.at()] = Some(list);
    }

    /// Takes over the list of a kind from an earlier offer of the same upstream, if it has one.
    pub fn keep(&mut self, kind: Kind, earlier: &mut Self) {
        self.lists[kind.at()] = earlier.take(kind);
    }

    /// The list of a kind.
    pub fn list(&self, kind: Kind) -> Option<&List> {
        self.lists[kind.at()].as_ref()
    }

    pub(super) fn take(&mut self, kind: Kind) -> Option<List> {
        self.lists[kind.at()].take()
    }
}

/// Something wrong with one item of an upstream's list. The other items are not affected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Whose item.
    pub server: ServerName,
    /// In which list.
    pub kind: Kind,
    /// Its name or URI, or `#` and its place in the list, from 1, where it has none.
    pub item: String,
    /// What is wrong, and so what was done.
    pub reason: Reason,
}

/// What is wrong with an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Left out: not a JSON object, or one with a key twice.
    NotAnObject,
    /// Left out: nested deeper than [`DEPTH_MAX`], which many a reader of the whole list
    /// would give up on.
    TooDeep,
    /// Left out: this member, which its kind must have, is missing or not a string.
    Missing(&'static str),
    /// Left out: `inputSchema` is missing or not an object.
    NoSchema,
    /// Left out: an earlier item of the list has this name or URI.
    Duplicate,
    /// Left out: an `x-mcp-header` annotation breaks its rules (protocol.md §3.5).
    Annotation(AnnotationError),
    /// Left out for legacy peers: the root of `inputSchema` is not of type `object`, and their libraries would refuse the whole list.
    SchemaRoot,
    /// Kept, but reachable by its exact text only: the template is malformed.
    Template,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, kind, item, reason } = self;
        let noun = kind.noun();
        match reason {
            Reason::SchemaRoot => write!(f, "{server}: {noun} {item:?} is hidden from legacy peers: {reason}"),
            Reason::Template => write!(f, "{server}: {noun} {item:?} is kept: {reason}"),
            _ => write!(f, "{server}: {noun} {item:?} is left out: {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnObject => f.write_str("it is not a JSON object, or has a key twice"),
            Self::TooDeep => write!(f, "it is nested deeper than {DEPTH_MAX} levels"),
            Self::Missing(member) => write!(f, "its {member} is missing, empty or not a string"),
            Self::NoSchema => f.write_str("its inputSchema is missing or not an object"),
            Self::Duplicate => f.write_str("an earlier one has the same name"),
            Self::Annotation(error) => write!(f, "{error}"),
            Self::SchemaRoot => f.write_str("the root of its inputSchema is not of type object"),
            Self::Template => f.write_str("its template is malformed, so only its exact text finds it"),
        }
    }
}
