//! What scenarios are built from: the app on port 0, scripted upstreams, plain clients.

pub mod app;
pub mod client;
pub mod exact;
pub mod pairs;
pub mod upstream;
