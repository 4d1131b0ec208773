//! How long to wait before an upstream is dialled again. Pure: the moment and the dice come in as arguments.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::Restart;

/// Growing, jittered waits; a healthy spell starts them over (bug report kind "reconnect gives up": it never does).
#[derive(Clone, Debug)]
pub struct Backoff {
    rule: Restart,
    failures: u32,
    healthy_since: Option<Instant>,
}

impl Backoff {
    /// No failure yet.
    pub fn new(rule: Restart) -> Self {
        Self { rule, failures: 0, healthy_since: None }
    }

    /// The upstream serves.
    pub fn serving(&mut self, now: Instant) {
        self.healthy_since.get_or_insert(now);
    }

    /// It failed: how long to wait. `dice` is any random number; the wait is between half and the whole of the step.
    pub fn failed(&mut self, now: Instant, dice: u64) -> Duration {
        let healthy = self.healthy_since.take().is_some_and(|t| now.duration_since(t) >= self.rule.reset_after);
        if healthy {
            self.failures = 0;
        }
        let step = self.rule.backoff_min.saturating_mul(1 << self.failures.min(16)).min(self.rule.backoff_max);
        self.failures = self.failures.saturating_add(1);
        let half = step / 2;
        half + half.mul_f64((dice % 1024) as f64 / 1024.0)
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_never_end() {
        let mut b = Backoff::new(Restart::default());
        let now = Instant::now();
        let waits: Vec<u64> = (0..80).map(|_| (b.failed(now, 1023) + Duration::from_millis(500)).as_secs()).collect();
        assert_eq!(waits[..7], [1, 2, 4, 8, 16, 32, 60]);
        assert!(waits[7..].iter().all(|w| *w == 60));
        let mut low = Backoff::new(Restart::default());
        assert_eq!(low.failed(now, 0), Duration::from_millis(500));
    }

    #[test]
    fn only_a_healthy_spell_starts_over() {
        let mut b = Backoff::new(Restart::default());
        let t0 = Instant::now();
        for _ in 0..5 {
            b.failed(t0, 0);
        }
        b.serving(t0);
        assert_eq!(b.failed(t0 + Duration::from_secs(10), 0), Duration::from_secs(16));
        b.serving(t0);
        assert_eq!(b.failed(t0 + Duration::from_secs(300), 0), Duration::from_millis(500));
    }
}
