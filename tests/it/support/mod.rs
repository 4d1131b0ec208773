//! What scenarios are built from: the app on port 0, scripted upstreams, plain clients.

#![allow(dead_code, reason = "a tool box: not every tool is out of the box at all times")]

pub mod app;
pub mod client;
pub mod exact;
pub mod pairs;
pub mod planted;
pub mod program;
pub mod scrape;
pub mod upstream;
pub mod watch;
