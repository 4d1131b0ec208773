//! The integration tests: one binary, one file a scenario.

mod bad_input;
mod eras;
mod official_client;
mod scripted_upstream;
mod sessions;
mod support;
