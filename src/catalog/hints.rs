//! PURE. For how long a list may be kept, and by whom (protocol.md §5i, first half). Modern lists carry it; `gateway` asks.

use std::time::{Duration, Instant};

use super::contribution::Said;
use super::kind::Kind;
use super::merge::{Part, Standing};
use super::view::View;
use crate::name::ServerName;
use crate::protocol::revision::Era;

/// Longest `ttlMs` that we say, whatever upstreams say: list changes reach subscribers, but not everybody subscribes.
const TTL_MAX: Duration = Duration::from_secs(5 * 60);

/// What a legacy upstream's list is good for. Legacy revisions have no hints (design §5, settled choices).
const TTL_LEGACY: Duration = Duration::from_secs(60);

/// `ttlMs` and `cacheScope` of a list. The same on each page of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Milliseconds; 0 while any server is not up.
    pub ttl_ms: u64,
    /// Anybody may share it: every contributor said so.
    pub public: bool,
}

impl Hints {
    /// `public` or `private`.
    pub const fn scope(self) -> &'static str {
        if self.public { "public" } else { "private" }
    }
}

impl View<'_> {
    /// The hints of a list at `now`.
    pub fn hints(self, kind: Kind, now: Instant) -> Hints {
        let mut ttl = None;
        let mut public = None;
        for Part { contribution, standing, .. } in self.parts() {
            if *standing != Standing::Fresh {
                ttl = Some(Duration::ZERO);
            }
            let Some(said) = contribution.said(kind) else { continue };
            let left = left(contribution.era(), said, now);
            ttl = Some(ttl.map_or(left, |ttl: Duration| ttl.min(left)));
            public = Some(public.unwrap_or(true) && said.public && contribution.era() == Era::Modern);
        }
        // Nobody contributes: a server that is added is announced, so this too may be kept for a while.
        let ttl = ttl.unwrap_or(TTL_LEGACY).min(TTL_MAX);
        Hints { ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX), public: public.unwrap_or(false) }
    }
}

impl<'s> View<'s> {
    /// The servers whose part of a list has run out at `now`, though they are up: it is time to read it again.
    pub fn outdated(self, kind: Kind, now: Instant) -> impl Iterator<Item = &'s ServerName> {
        let has_run_out = move |part: &&Part| {
            part.standing == Standing::Fresh
                && part.contribution.said(kind).is_some_and(|said| left(part.contribution.era(), said, now).is_zero())
        };
        self.parts().filter(has_run_out).map(|part| &part.source.name)
    }
}

fn left(era: Era, said: Said, now: Instant) -> Duration {
    if era == Era::Legacy && said.pushes_list_changed {
        return TTL_LEGACY;
    }
    let age = said.read_at.map(|at| now.saturating_duration_since(at));
    match (said.ttl_ms, age) {
        (Some(ttl), Some(age)) => Duration::from_millis(ttl).saturating_sub(age),
        (None, _) if era == Era::Legacy => TTL_LEGACY,
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::testing::*;
    use super::super::{Contribution, List, Offer, Shape, merge};
    use super::*;

    struct Said {
        era: Era,
        standing: Standing,
        age_ms: Option<u64>,
        ttl_ms: Option<u64>,
        public: bool,
        pushes: bool,
    }

    const MODERN: Said = Said {
        era: Era::Modern,
        standing: Standing::Fresh,
        age_ms: Some(1_000),
        ttl_ms: Some(10_000),
        public: true,
        pushes: true,
    };
    const LEGACY: Said = Said { era: Era::Legacy, ttl_ms: None, ..MODERN };

    fn hints(said: &[Said]) -> Hints {
        let now = tokio::time::Instant::now().into_std() + Duration::from_secs(3_600);
        let parts = said.iter().enumerate().map(|(order, said)| {
            let mut offer = Offer::new(said.era, true);
            let read_at = said.age_ms.map(|age| now.checked_sub(Duration::from_millis(age)).unwrap());
            let list = List {
                items: vec![tool("t").into()],
                read_at,
                ttl_ms: said.ttl_ms,
                public: said.public,
                pushes_list_changed: said.pushes,
            };
            offer.set(Kind::Tools, list);
            let source = Arc::new(source(&format!("s{order}"), order));
            let contribution = Arc::new(Contribution::new(source.clone(), offer).0);
            Part { source, contribution, standing: said.standing }
        });
        merge(parts.collect(), 1).merged().hints(Kind::Tools, now)
    }

    #[test]
    fn a_list_is_as_fresh_as_its_oldest_part_and_as_private_as_its_most_private() {
        for (said, ttl_ms, public) in [
            (vec![], 60_000, false),
            (vec![MODERN], 9_000, true),
            (vec![MODERN, Said { age_ms: Some(2_000), ..MODERN }], 8_000, true),
            (vec![MODERN, Said { public: false, ..MODERN }], 9_000, false),
            (vec![Said { ttl_ms: Some(u64::MAX), ..MODERN }], 300_000, true),
            (vec![Said { age_ms: Some(20_000), ..MODERN }], 0, true),
            (vec![Said { age_ms: None, ..MODERN }], 0, true),
            (vec![Said { ttl_ms: None, ..MODERN }], 0, true),
            (vec![LEGACY], 60_000, false),
            (vec![MODERN, LEGACY], 9_000, false),
            (vec![Said { pushes: false, ttl_ms: Some(30_000), ..LEGACY }], 29_000, false),
            (vec![Said { pushes: false, ..LEGACY }], 60_000, false),
            (vec![MODERN, Said { standing: Standing::Stale, ..MODERN }], 0, true),
            (vec![Said { standing: Standing::Expected, ..MODERN }], 0, true),
        ] {
            assert_eq!(hints(&said), Hints { ttl_ms, public });
        }
    }

    #[test]
    fn a_server_without_the_list_has_no_say() {
        let now = tokio::time::Instant::now().into_std();
        let snapshot = merge(vec![part(source("a", 0), &[(Kind::Prompts, &[])])], 1);
        assert_eq!(snapshot.merged().hints(Kind::Tools, now).ttl_ms, 60_000);
        assert_eq!(snapshot.merged().hints(Kind::Prompts, now).ttl_ms, 0);
        assert_eq!(text(snapshot.merged(), Kind::Tools, Shape::Modern), r#""tools":[]"#);
    }
}
