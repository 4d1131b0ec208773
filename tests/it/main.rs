//! The integration tests: one binary, one file a scenario.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::pedantic, clippy::type_complexity, reason = "a scenario is read for what happens, not for style")]

mod admin;
mod bad_input;
mod bridge;
mod commands;
mod eras;
mod logs;
mod metrics;
mod official_client;
mod official_sdk;
mod scripted_upstream;
mod secrets;
mod sessions;
mod support;
mod tidy;
