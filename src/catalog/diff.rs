//! PURE. Which lists of an endpoint differ between two snapshots: what the keeper tells subscribers.
//!
//! Contributions are shared between snapshots, so what did not change is told by its address; the rest by digest.

use std::ops::BitOr;
use std::sync::Arc;

use super::contribution::Contribution;
use super::kind::{Endpoint, Kind};
use super::snapshot::Snapshot;

/// Lists that changed, as the protocol announces them: templates count as resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Changed {
    /// `notifications/tools/list_changed`
    pub tools: bool,
    /// `notifications/prompts/list_changed`
    pub prompts: bool,
    /// `notifications/resources/list_changed`
    pub resources: bool,
}

impl Changed {
    /// Nothing.
    pub const NONE: Self = Self { tools: false, prompts: false, resources: false };
    /// Every list.
    pub const ALL: Self = Self { tools: true, prompts: true, resources: true };

    /// One kind of entries.
    pub const fn only(kind: Kind) -> Self {
        match kind {
            Kind::Tools => Self { tools: true, ..Self::NONE },
            Kind::Prompts => Self { prompts: true, ..Self::NONE },
            Kind::Resources | Kind::Templates => Self { resources: true, ..Self::NONE },
        }
    }

    /// Whether any list changed.
    pub const fn any(self) -> bool {
        self.tools || self.prompts || self.resources
    }

    /// These without those.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self {
            tools: self.tools && !other.tools,
            prompts: self.prompts && !other.prompts,
            resources: self.resources && !other.resources,
        }
    }
}

impl BitOr for Changed {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            prompts: self.prompts || other.prompts,
            resources: self.resources || other.resources,
        }
    }
}

impl FromIterator<Kind> for Changed {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::NONE, |all, kind| all | Self::only(kind))
    }
}

/// What `endpoint` lists differently in `new`.
pub fn diff(old: &Snapshot, new: &Snapshot, endpoint: &Endpoint) -> Changed {
    Kind::ALL.into_iter().filter(|kind| differs(old, new, endpoint, *kind)).collect()
}

fn differs(old: &Snapshot, new: &Snapshot, endpoint: &Endpoint, kind: Kind) -> bool {
    match endpoint {
        Endpoint::Server(name) => {
            let part = |snapshot: &Snapshot| snapshot.part(name.as_str()).map(|part| part.contribution.clone());
            !same(part(old).as_ref(), part(new).as_ref(), kind)
        }
        Endpoint::Merged => {
            let mut before = old.parts().map(|part| &part.contribution).filter(|c| has_entries(c, kind));
            let mut after = new.parts().map(|part| &part.contribution).filter(|c| has_entries(c, kind));
            loop {
                match (before.next(), after.next()) {
                    (None, None) => break,
                    (a, b) if same(a, b, kind) => {}
                    _ => return true,
                }
            }
            // With the same entries everywhere, the same names are shared.
            false
        }
    }
}

fn has_entries(contribution: &Contribution, kind: Kind) -> bool {
    !contribution.entries(kind).is_empty()
}

fn same(a: Option<&Arc<Contribution>>, b: Option<&Arc<Contribution>>, kind: Kind) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            Arc::ptr_eq(a, b) || (!has_entries(a, kind) && !has_entries(b, kind)) || a.digest(kind) == b.digest(kind)
        }
        (Some(one), None) | (None, Some(one)) => !has_entries(one, kind),
        (None, None) => true,
    }
}
