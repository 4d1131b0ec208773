//! What is written down about a run: log lines ([`logging`]) and numbers ([`metrics`]).
//!
//! Every floor above counts and logs through here; nothing here knows who does. The pages for operators are
//! `docs/LOGGING.md` and `docs/METRICS.md`.

pub mod logging;
pub mod metrics;
