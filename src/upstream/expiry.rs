//! Pure: when a list whose time ran out is read again, though nobody said that it changed (protocol.md §4.8, §6.2).
//!
//! The actor tells what it read and asks what is due. Only lists of a modern upstream that announces no changes are read
//! on a schedule: as often as its `ttlMs` says, but ever less often while nothing changes. Every other list whose time
//! ran out is read when a downstream asks for it ([`is_worth_rereading`]).

use std::time::Duration;

use tokio::time::Instant;

use crate::catalog::{Changed, Kind, List};
use crate::protocol::revision::Era;

/// First and longest wait between two readings, where `ttlMs` is shorter: soon after a change another one is likely; and
/// nobody is told to keep a list for longer than five minutes.
const POLL_MIN: Duration = Duration::from_secs(2);
const POLL_MAX: Duration = Duration::from_secs(5 * 60);
/// Longest `ttlMs` that is believed: a server that never changes is still asked once a day.
const TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Youngest list that is read again because somebody asked for it: however many ask, once a second is enough.
const DEMAND_MIN: Duration = Duration::from_secs(1);

/// The schedule of one upstream's lists.
#[derive(Debug, Default)]
pub(super) struct Expiry([Polled; 4]);

#[derive(Clone, Copy, Debug, Default)]
struct Polled {
    /// When it is read next; `None`: it is not read on a schedule.
    at: Option<Instant>,
    /// Readings in a row that brought nothing new.
    unchanged: u32,
}

impl Expiry {
    /// A list was read at `now`. `dice` is any random number; the wait is the whole of the step and up to a tenth more.
    pub(super) fn read(&mut self, kind: Kind, list: &List, era: Era, changed: bool, now: Instant, dice: u64) {
        let polled = &mut self.0[kind as usize];
        if era == Era::Legacy || list.pushes_list_changed {
            *polled = Polled::default();
            return;
        }
        polled.unchanged = if changed { 0 } else { polled.unchanged.saturating_add(1) };
        let step = POLL_MIN.saturating_mul(1 << polled.unchanged.min(16)).min(POLL_MAX);
        let wait = Duration::from_millis(list.ttl_ms.unwrap_or(0)).min(TTL_MAX).max(step);
        polled.at = Some(now + wait + (wait / 10).mul_f64((dice % 1024) as f64 / 1024.0));
    }

    /// A list could not be read; somebody else tries it again.
    pub(super) fn failed(&mut self, kind: Kind, now: Instant) {
        let polled = &mut self.0[kind as usize];
        polled.at = polled.at.map(|_| now + POLL_MAX);
    }

    /// When something is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.iter().filter_map(|polled| polled.at).min()
    }

    /// What is due at `now`.
    pub(super) fn due(&self, now: Instant) -> Changed {
        let is_due = |kind: &Kind| self.0[*kind as usize].at.is_some_and(|at| at <= now);
        Kind::ALL.into_iter().filter(is_due).fold(Changed::NONE, |due, kind| due | Changed::only(kind))
    }
}

/// Whether a list that a downstream asks for has run out, and is old enough to be read again. A legacy one never runs out.
pub(super) fn is_worth_rereading(list: &List, era: Era, now: Instant) -> bool {
    let ttl = Duration::from_millis(list.ttl_ms.unwrap_or(0)).max(DEMAND_MIN);
    era == Era::Modern && list.read_at.is_none_or(|at| now.into_std().saturating_duration_since(at) >= ttl)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(ttl_ms: Option<u64>, pushes: bool) -> List {
        List { ttl_ms, pushes_list_changed: pushes, ..List::default() }
    }

    #[test]
    fn a_list_that_does_not_change_is_read_ever_less_often_but_never_forgotten() {
        let (mut expiry, now) = (Expiry::default(), Instant::now());
        let mut waits = Vec::new();
        for changed in [true, false, false, false, false, false, false, false, false, false, true] {
            expiry.read(Kind::Tools, &list(Some(0), false), Era::Modern, changed, now, 0);
            waits.push((expiry.next().unwrap() - now).as_secs());
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 2]);
    }

    #[test]
    fn a_longer_ttl_is_kept_and_a_silly_one_is_not() {
        for (ttl, dice, want) in [
            (Some(60_000), 0, 60_000),
            (Some(60_000), 512, 63_000),
            (Some(500), 0, 2_000),
            (None, 0, 2_000),
            (Some(u64::MAX), 0, 86_400_000),
        ] {
            let (mut expiry, now) = (Expiry::default(), Instant::now());
            expiry.read(Kind::Prompts, &list(ttl, false), Era::Modern, true, now, dice);
            assert_eq!((expiry.next().unwrap() - now).as_millis(), want, "{ttl:?}");
        }
    }

    #[test]
    fn only_modern_lists_without_notices_are_read_on_a_schedule() {
        for (era, pushes, want) in [
            (Era::Modern, false, true),
            (Era::Modern, true, false),
            (Era::Legacy, false, false),
            (Era::Legacy, true, false),
        ] {
            let mut expiry = Expiry::default();
            expiry.read(Kind::Tools, &list(Some(0), pushes), era, true, Instant::now(), 0);
            assert_eq!(expiry.next().is_some(), want, "{era:?} {pushes}");
        }
    }

    #[test]
    fn what_is_due_is_named_and_a_failure_is_no_loop() {
        let (mut expiry, now) = (Expiry::default(), Instant::now());
        expiry.read(Kind::Tools, &list(Some(0), false), Era::Modern, true, now, 0);
        expiry.read(Kind::Templates, &list(Some(10_000), false), Era::Modern, true, now, 0);
        assert_eq!(expiry.due(now), Changed::NONE);
        let later = expiry.next().unwrap();
        assert_eq!(expiry.due(later), Changed::only(Kind::Tools));
        assert_eq!(expiry.due(later + POLL_MAX), Changed::only(Kind::Tools) | Changed::only(Kind::Resources));
        expiry.failed(Kind::Tools, later);
        expiry.failed(Kind::Prompts, later);
        assert_eq!((expiry.due(later), expiry.due(later + POLL_MAX).prompts), (Changed::NONE, false));
    }

    #[test]
    fn a_list_that_ran_out_is_read_for_who_asks_once_a_second_at_most() {
        let now = Instant::now() + Duration::from_secs(3600);
        for (era, ttl, age_ms, want) in [
            (Era::Modern, Some(0), 999, false),
            (Era::Modern, Some(0), 1_000, true),
            (Era::Modern, Some(5_000), 4_999, false),
            (Era::Modern, Some(5_000), 5_000, true),
            (Era::Modern, None, 1_000, true),
            (Era::Legacy, None, 3_600_000, false),
        ] {
            let read_at = now.into_std().checked_sub(Duration::from_millis(age_ms));
            let list = List { read_at, ..list(ttl, true) };
            assert_eq!(is_worth_rereading(&list, era, now), want, "{era:?} {ttl:?} {age_ms}");
        }
    }
}
