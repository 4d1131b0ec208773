//! The integration tests: one binary, one file a scenario.

mod scripted_upstream;
mod support;
