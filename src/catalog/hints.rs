//! PURE. For how long a list may be kept, and by whom (protocol.md §5i, first half). Modern lists carry it; `gateway` asks.

use std::time::{Duration, Instant};

use super::contribution::Said;
use super::kind::Kind;
use super::merge::{Part, Standing};
use super::view::View;
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
