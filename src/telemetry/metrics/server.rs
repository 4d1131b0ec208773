//! One server's numbers, resolved once, so that a call touches counters and no label.
//!
//! `gateway` counts calls, `upstream` states, restarts and lines, `catalog` entries. Counters of a call come into being
//! with its first one (210 combinations a server, few of them ever happen); those of `tools/call`, on which people set
//! alerts, are there from the start.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::label::{EntryKind, LineSource, Outcome, QuestionOutcome, RestartReason, UpstreamState};
use super::{Counter, Families, Gauge, Held, Histogram};
use crate::protocol::method::Method;
use crate::protocol::revision::Era;

const METHODS: usize = Method::ALL.len();
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// A counter an outcome, an era and a method.
type CallCounters = [[[OnceLock<Counter>; Outcome::COUNT]; ERAS.len()]; METHODS];

/// Calls to one server, or those that the gateway answers by itself.
#[derive(Debug)]
pub struct CallMetrics {
    server: Arc<str>,
    families: Arc<Families>,
    calls: CallCounters,
    durations: [OnceLock<Histogram>; METHODS],
    in_flight: Gauge,
}

impl CallMetrics {
    pub(super) fn new(families: &Arc<Families>, server: &str) -> Self {
        let metrics = Self {
            server: Arc::from(server),
            families: Arc::clone(families),
            calls: Default::default(),
            durations: Default::default(),
            in_flight: families.in_flight.with_label_values(&[server]),
        };
        if !server.is_empty() {
            for era in ERAS {
                for outcome in Outcome::ALL {
                    metrics.counter(Method::ToolsCall, era, outcome);
                }
            }
        }
        metrics
    }

    /// A call begins. It ends with [`CallRecord::end`], or as `cancelled` where the record is dropped.
    pub fn begin(self: &Arc<Self>, method: Method, era: Era, now: Instant) -> CallRecord {
        let open = Held::new(&self.in_flight);
        CallRecord { metrics: Arc::clone(self), method, era, began: now, _open: open, is_counted: false }
    }

    /// A call that took `elapsed` ended. For calls that [`CallMetrics::begin`] does not fit.
    pub fn record(&self, method: Method, era: Era, outcome: Outcome, elapsed: Duration) {
        self.counter(method, era, outcome).inc();
        if !matches!(outcome, Outcome::Refused | Outcome::Unavailable) {
            self.durations[method as usize]
                .get_or_init(|| self.families.duration.with_label_values(&[&*self.server, method.as_str()]))
                .observe(elapsed.as_secs_f64());
        }
    }

    fn counter(&self, method: Method, era: Era, outcome: Outcome) -> &Counter {
        self.calls[method as usize][era as usize][outcome as usize].get_or_init(|| {
            let labels = [&*self.server, method.as_str(), outcome.as_str(), era.as_str()];
            self.families.calls.with_label_values(&labels)
        })
    }
}

/// One call in flight: counted exactly once, however it ends.
#[must_use = "the call is counted as cancelled as soon as this is dropped"]
#[derive(Debug)]
pub struct CallRecord {
    metrics: Arc<CallMetrics>,
    method: Method,
    era: Era,
    began: Instant,
    _open: Held,
    is_counted: bool,
}

impl CallRecord {
    /// The call ended at `now`.
    pub fn end(mut self, outcome: Outcome, now: Instant) {
        self.count(outcome, now);
    }

    fn count(&mut self, outcome: Outcome, now: Instant) {
        self.is_counted = true;
        self.metrics.record(self.method, self.era, outcome, now.saturating_duration_since(self.began));
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        if !self.is_counted {
            self.count(Outcome::Cancelled, Instant::now());
        }
    }
}

/// The numbers of one server.
#[derive(Debug)]
pub struct ServerMetrics {
    /// Its calls.
    pub calls: Arc<CallMetrics>,
    state: [Gauge; UpstreamState::COUNT],
    restarts: [Counter; RestartReason::COUNT],
    failed_attempts: Counter,
    lines: [Counter; LineSource::COUNT],
    entries: [Gauge; EntryKind::COUNT],
    truncations: [Counter; EntryKind::COUNT],
    questions: [Counter; QuestionOutcome::COUNT],
}

impl ServerMetrics {
    pub(super) fn new(families: &Arc<Families>, server: &str) -> Self {
        let f = families;
        Self {
            calls: Arc::new(CallMetrics::new(families, server)),
            state: UpstreamState::ALL.map(|v| f.state.with_label_values(&[server, v.as_str()])),
            restarts: RestartReason::ALL.map(|v| f.restarts.with_label_values(&[server, v.as_str()])),
            failed_attempts: f.failed_attempts.with_label_values(&[server]),
            lines: LineSource::ALL.map(|v| f.lines.with_label_values(&[server, v.as_str()])),
            entries: EntryKind::ALL.map(|v| f.entries.with_label_values(&[server, v.as_str()])),
            truncations: EntryKind::ALL.map(|v| f.truncations.with_label_values(&[server, v.as_str()])),
            questions: QuestionOutcome::ALL.map(|v| f.questions.with_label_values(&[v.as_str()])),
        }
    }

    /// The upstream is in `state` now. Only its actor says so.
    pub fn set_state(&self, state: UpstreamState) {
        for (other, gauge) in UpstreamState::ALL.iter().zip(&self.state) {
            gauge.set(i64::from(*other == state));
        }
    }

    /// The upstream is started again after it had served.
    pub fn restart(&self, reason: RestartReason) {
        self.restarts[reason as usize].inc();
    }

    /// The upstream could not be started or reached, or did not come through the handshake.
    pub fn failed_attempt(&self) {
        self.failed_attempts.inc();
    }

    /// Lines of the upstream were thrown away.
    pub fn lines_dropped(&self, source: LineSource, lines: u64) {
        self.lines[source as usize].inc_by(lines);
    }

    /// The upstream contributes this many entries of `kind` now.
    pub fn set_entries(&self, kind: EntryKind, entries: usize) {
        self.entries[kind as usize].set(i64::try_from(entries).unwrap_or(i64::MAX));
    }

    /// A question of the upstream came to its end.
    pub fn question(&self, outcome: QuestionOutcome) {
        self.questions[outcome as usize].inc();
    }

    /// A list of the upstream was cut.
    pub fn truncation(&self, kind: EntryKind) {
        self.truncations[kind as usize].inc();
    }
}
