//! The integration tests: one binary, one file a scenario.

mod admin;
mod commands;
mod logs;
mod metrics;
mod official_client;
mod official_sdk;
mod scripted_upstream;
mod secrets;
mod support;
