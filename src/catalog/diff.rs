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

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Part, Source, Standing, merge};
    use super::*;
    use crate::name::ServerName;

    const TOOLS: Changed = Changed::only(Kind::Tools);

    fn base() -> Vec<Part> {
        vec![tools(source("a", 0), &["1"]), tools(source("b", 1), &["2"])]
    }

    fn changed(change: impl FnOnce(&mut Vec<Part>)) -> [Changed; 3] {
        let mut parts = base();
        let old = merge(parts.clone(), 1);
        change(&mut parts);
        let new = merge(parts, 2);
        let server = |key| Endpoint::Server(ServerName::new(key));
        [Endpoint::Merged, server("a"), server("b")].map(|endpoint| diff(&old, &new, &endpoint))
    }

    #[test]
    fn what_differs_is_told_by_endpoint_and_list() {
        const NONE: Changed = Changed::NONE;
        assert_eq!(changed(|_| ()), [NONE; 3]);
        assert_eq!(changed(|p| p[1] = tools(source("b", 1), &["2"])), [NONE; 3], "equal lists, read again");
        assert_eq!(changed(|p| p[1] = tools(source("b", 1), &["2", "3"])), [TOOLS, NONE, TOOLS]);
        assert_eq!(changed(|p| p[1].standing = Standing::Stale), [NONE; 3]);
        assert_eq!(changed(|p| drop(p.remove(0))), [TOOLS, TOOLS, NONE]);
        assert_eq!(changed(|p| p.push(tools(source("c", 2), &[]))), [NONE; 3], "a server with nothing to list");
        let template = r#"{"name":"t","uriTemplate":"t:{x}"}"#;
        let resources = Changed::only(Kind::Resources);
        let more = || part(source("c", 2), &[(Kind::Templates, &[template])]);
        assert_eq!(changed(|p| p.push(more())), [resources, NONE, NONE]);
        let moved = |order| Arc::new(Source { order, ..source("a", 0) });
        assert_eq!(changed(|p| p[0].source = moved(9)), [TOOLS, NONE, NONE], "another order");
    }

    #[test]
    fn sets_of_lists_add_and_subtract() {
        let all = TOOLS | Changed::only(Kind::Prompts) | Changed::only(Kind::Templates);
        assert_eq!(all, Changed::ALL);
        assert!(!all.without(Changed::ALL).any());
        assert_eq!(TOOLS.without(Changed::only(Kind::Prompts)), TOOLS);
    }
}
