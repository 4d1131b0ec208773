//! The integration tests: one binary, one file a scenario.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::pedantic, reason = "a scenario is read for what happens, not for style")]

mod bridge;
mod official_client;
mod scripted_upstream;
mod support;
mod tidy;
