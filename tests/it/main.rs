//! The integration tests: one binary, one file a scenario.

mod official_client;
mod scripted_upstream;
mod support;
