//! The integration tests: one binary, one file a scenario.

mod support;
