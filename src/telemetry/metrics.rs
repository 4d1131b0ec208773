//! Every number that Manifold publishes: name, help, labels, buckets.
//!
//! Built once by `app`; the floors above count through it and `admin` renders it. This file is the only one that names
//! the metrics library. A field's doc comment is the metric's help text, so no metric can exist without one.
//!
//! Nothing is looked up by label on a call: [`Metrics::server`] resolves a server's children once
//! ([`server::ServerMetrics`]). Gauges of things that are open move in guards ([`Held`]), so nothing can leak a count.

pub mod label;
mod process;
pub mod server;

use std::fmt::Write as _;
use std::sync::Arc;

use prometheus::core::{MetricVec, MetricVecBuilder};
use prometheus::{HistogramOpts, Opts, Registry, TextEncoder};

use crate::protocol::method::Method;
use crate::protocol::revision::Era;
use label::{EntryKind, LineSource, Outcome, QuestionOutcome, Refusal, RestartReason, StreamKind, UpstreamState};
use server::{CallMetrics, ServerMetrics};

pub use prometheus::Error;

type Counter = prometheus::IntCounter;
type Counters = prometheus::IntCounterVec;
type Gauge = prometheus::IntGauge;
type Gauges = prometheus::IntGaugeVec;
type Histogram = prometheus::Histogram;
type Histograms = prometheus::HistogramVec;

/// Seconds. From what a local tool needs (a millisecond; the gateway's own share is far below) to the default call
/// deadline of 120 s, with one bucket above it so that a deadline that passed can be told from one that nearly did.
/// Three a decade at first, where regressions of a fast tool hide; fewer above 10 s, where only the order matters.
const CALL_SECONDS: &[f64] =
    &[0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// `server` of what the gateway answers by itself (lists, `initialize`, `ping`): no server can be called that.
const OWN: &str = "";

/// Declares the families and how they register: one line a metric, its doc comment the help text.
macro_rules! families {
    ($(#[$about:meta])* $name:ident {
        $($(#[doc = $help:literal])+ $field:ident: $type:ident = $metric:literal [$($label:literal),*] $($buckets:ident)?;)+
    }) => {
        $(#[$about])*
        #[derive(Debug)]
        struct $name { $($(#[doc = $help])+ $field: $type,)+ }

        impl $name {
            fn register(registry: &Registry) -> Result<Self, Error> {
                Ok(Self {
                    $($field: {
                        let about = Family {
                            name: $metric,
                            help: concat!($($help),+).trim(),
                            labels: &[$($label),*],
                            buckets: &[$($buckets)?],
                        };
                        let family = <$type as Register>::new(&about)?;
                        registry.register(Box::new(family.clone()))?;
                        family
                    },)+
                })
            }
        }
    };
}

families! {
    /// One family a field.
    Families {
        /// Calls by how they ended; server is empty for what the gateway answers by itself.
        calls: Counters = "manifold_calls_total" ["server", "method", "outcome", "era"];
        /// Seconds from a call's arrival to its end; refused and unavailable calls are left out, they end at once.
        duration: Histograms = "manifold_call_duration_seconds" ["server", "method"] CALL_SECONDS;
        /// Calls that have begun and not ended.
        in_flight: Gauges = "manifold_calls_in_flight" ["server"];
        /// 1 for the state that an upstream is in, 0 for the others.
        state: Gauges = "manifold_upstream_state" ["server", "state"];
        /// Starts of an upstream after it had served.
        restarts: Counters = "manifold_upstream_restarts_total" ["server", "reason"];
        /// Attempts to start or reach an upstream that failed.
        failed_attempts: Counters = "manifold_upstream_failed_attempts_total" ["server"];
        /// Lines of an upstream that were thrown away: log lines above the rate limit, output that is no message.
        lines: Counters = "manifold_upstream_lines_dropped_total" ["server", "source"];
        /// Entries that an upstream contributes to the catalog now.
        entries: Gauges = "manifold_catalog_entries" ["server", "kind"];
        /// Number of the current catalog snapshot; it goes up with every change.
        snapshot: Gauge = "manifold_catalog_snapshot" [];
        /// Entries that are hidden because two of them would share a name.
        conflicts: Gauge = "manifold_catalog_conflicts" [];
        /// Lists of an upstream that were cut: too many pages, or a cursor that came twice.
        truncations: Counters = "manifold_truncations_total" ["server", "kind"];
        /// Open legacy sessions.
        sessions: Gauge = "manifold_sessions" [];
        /// Open event streams to downstreams.
        streams: Gauges = "manifold_streams" ["kind"];
        /// Streams that were closed because their reader was too slow.
        slow_streams: Counters = "manifold_slow_streams_total" ["kind"];
        /// Calls that wait for a modern client to come back with answers.
        suspended: Gauge = "manifold_suspended_calls" [];
        /// Questions of upstreams to downstreams, by what became of them.
        questions: Counters = "manifold_questions_total" ["outcome"];
        /// Requests that a listener turned away, by reason.
        refusals: Counters = "manifold_refusals_total" ["reason"];
        /// Always 1; the labels say what is running.
        build: Gauges = "manifold_build_info" ["version"];
    }
}

/// What one family is called and made of.
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    labels: &'a [&'a str],
    buckets: &'a [&'a [f64]],
}

trait Register: Sized {
    fn new(family: &Family<'_>) -> Result<Self, Error>;
}

impl Register for Counters {
    fn new(f: &Family<'_>) -> Result<Self, Error> {
        Self::new(Opts::new(f.name, f.help), f.labels)
    }
}

impl Register for Gauges {
    fn new(f: &Family<'_>) -> Result<Self, Error> {
        Self::new(Opts::new(f.name, f.help), f.labels)
    }
}

impl Register for Gauge {
    fn new(f: &Family<'_>) -> Result<Self, Error> {
        Self::new(f.name, f.help)
    }
}

impl Register for Histograms {
    fn new(f: &Family<'_>) -> Result<Self, Error> {
        Self::new(HistogramOpts::new(f.name, f.help).buckets(f.buckets.concat()), f.labels)
    }
}

/// The numbers of one gateway, with a registry of their own: two gateways in one process do not mix.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    families: Arc<Families>,
    /// What the gateway answers by itself.
    pub own: Arc<CallMetrics>,
    streams: [Gauge; StreamKind::COUNT],
    slow_streams: [Counter; StreamKind::COUNT],
    questions: [Counter; QuestionOutcome::COUNT],
    refusals: [Counter; Refusal::COUNT],
}

impl Metrics {
    /// Registers every family, and resolves the children that do not depend on a server.
    ///
    /// # Errors
    /// When the list above is wrong (a name twice, a malformed label): found by the first test that runs.
    pub fn new() -> Result<Self, Error> {
        let registry = Registry::new();
        let families = Arc::new(Families::register(&registry)?);
        families.build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        Ok(Self {
            own: Arc::new(CallMetrics::new(&families, OWN)),
            streams: StreamKind::ALL.map(|kind| families.streams.with_label_values(&[kind.as_str()])),
            slow_streams: StreamKind::ALL.map(|kind| families.slow_streams.with_label_values(&[kind.as_str()])),
            questions: QuestionOutcome::ALL.map(|how| families.questions.with_label_values(&[how.as_str()])),
            refusals: Refusal::ALL.map(|reason| families.refusals.with_label_values(&[reason.as_str()])),
            registry,
            families,
        })
    }

    /// The numbers of the server of this configured name. Asked again, it goes on counting where it was.
    pub fn server(&self, name: &str) -> Arc<ServerMetrics> {
        Arc::new(ServerMetrics::new(&self.families, name))
    }

    /// Withdraws every series of a server that is configured no longer. A later [`Metrics::server`] starts from zero;
    /// what an older [`ServerMetrics`] of it still counts is not shown.
    pub fn forget(&self, name: &str) {
        let f = &self.families;
        // Removing what is not there is an error of the library, and exactly what is wanted here.
        for method in Method::ALL {
            for outcome in Outcome::ALL {
                for era in [Era::Legacy, Era::Modern] {
                    let labels = [name, method.as_str(), outcome.as_str(), era.as_str()];
                    let _ = f.calls.remove_label_values(&labels);
                }
            }
            let _ = f.duration.remove_label_values(&[name, method.as_str()]);
        }
        let _ = f.in_flight.remove_label_values(&[name]);
        let _ = f.failed_attempts.remove_label_values(&[name]);
        remove(&f.state, name, UpstreamState::ALL.map(UpstreamState::as_str));
        remove(&f.restarts, name, RestartReason::ALL.map(RestartReason::as_str));
        remove(&f.lines, name, LineSource::ALL.map(LineSource::as_str));
        remove(&f.entries, name, EntryKind::ALL.map(EntryKind::as_str));
        remove(&f.truncations, name, EntryKind::ALL.map(EntryKind::as_str));
    }

    /// A legacy session is open as long as the guard lives.
    pub fn session(&self) -> Held {
        Held::new(&self.families.sessions)
    }

    /// An event stream is open as long as the guard lives.
    pub fn stream(&self, kind: StreamKind) -> Held {
        Held::new(&self.streams[kind as usize])
    }

    /// A stream was closed on a reader that could not keep up.
    pub fn slow_stream(&self, kind: StreamKind) {
        self.slow_streams[kind as usize].inc();
    }

    /// A call waits for its client's answers as long as the guard lives.
    pub fn suspended(&self) -> Held {
        Held::new(&self.families.suspended)
    }

    /// A question came to its end.
    pub fn question(&self, outcome: QuestionOutcome) {
        self.questions[outcome as usize].inc();
    }

    /// A request was turned away.
    pub fn refusal(&self, reason: Refusal) {
        self.refusals[reason as usize].inc();
    }

    /// A new catalog snapshot: its number, and how many entries it hides because of equal names.
    pub fn snapshot(&self, number: u64, conflicts: usize) {
        self.families.snapshot.set(i64::try_from(number).unwrap_or(i64::MAX));
        self.families.conflicts.set(i64::try_from(conflicts).unwrap_or(i64::MAX));
    }

    /// Everything in the text exposition format, the figures of the process at the end.
    pub fn render(&self) -> String {
        let mut page = String::with_capacity(16 * 1024);
        if let Err(error) = TextEncoder::new().encode_utf8(&self.registry.gather(), &mut page) {
            // Only a family without series can fail; a scrape that says so beats one that is cut without a word.
            let _ = writeln!(page, "# not complete: {error}");
        }
        process::render(&mut page);
        page
    }
}

/// Withdraws the series of `server` with each of `values` as second label.
fn remove<B: MetricVecBuilder, const N: usize>(family: &MetricVec<B>, server: &str, values: [&str; N]) {
    for value in values {
        let _ = family.remove_label_values(&[server, value]);
    }
}

/// One of something that is open: counted until this is dropped.
#[must_use = "the gauge goes down as soon as this is dropped"]
#[derive(Debug)]
pub struct Held(Gauge);

impl Held {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests;
