//! What scenarios are built from: the app on port 0, scripted upstreams, plain clients.

pub mod app;
pub mod client;
pub mod upstream;
pub mod watch;
