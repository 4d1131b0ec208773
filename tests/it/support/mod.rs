//! What scenarios are built from: the app on port 0, scripted upstreams, plain clients.

pub mod app;
pub mod client;
pub mod planted;
pub mod program;
pub mod scrape;
pub mod upstream;
