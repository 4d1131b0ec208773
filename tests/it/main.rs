//! The integration tests: one binary, one file a scenario.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::pedantic, clippy::type_complexity, reason = "a scenario is read for what happens, not for style")]

mod admin;
mod apps;
mod bad_input;
mod bridge;
mod broken_answers;
mod cancel;
mod commands;
mod completion;
mod crash;
mod era_matrix;
mod eras;
mod fidelity;
mod hints;
mod kill;
mod list_changed;
mod listing;
mod listing_start;
mod logs;
mod markers;
mod metrics;
mod mirrored;
mod names;
mod official_client;
mod official_sdk;
mod outage;
mod probing;
mod processes;
mod questions;
mod resources;
mod resume;
mod retries;
mod scripted_upstream;
mod sealing;
mod secrets;
mod session_expiry;
mod sessions;
mod shapes;
mod shutdown;
mod stdio_child;
mod stdio_downstream;
mod streams;
mod stuck;
mod subscriptions;
mod support;
mod tidy;
mod timeouts;
mod upstream_http;
mod upstream_sessions;
mod upstream_sse;
