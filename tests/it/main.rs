//! The integration tests: one binary, one file a scenario.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::pedantic, clippy::type_complexity, reason = "a scenario is read for what happens, not for style")]

mod bad_input;
mod bridge;
mod eras;
mod official_client;
mod scripted_upstream;
mod sessions;
mod support;
mod tidy;
