//! The integration tests: one binary, one file a scenario.

mod bad_input;
mod cancel;
mod completion;
mod era_matrix;
mod eras;
mod fidelity;
mod mirrored;
mod official_client;
mod questions;
mod retries;
mod scripted_upstream;
mod sessions;
mod stdio_downstream;
mod streams;
mod support;
