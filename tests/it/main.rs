//! The integration tests: one binary, one file a scenario.

mod crash;
mod official_client;
mod probing;
mod processes;
mod scripted_upstream;
mod shutdown;
mod stdio_child;
mod support;
mod timeouts;
mod upstream_http;
mod upstream_sessions;
mod upstream_sse;
