//! Manifold: one MCP server made of many.
//!
//! The house has floors, and arrows between modules only point down. `tests/it/tidy.rs` keeps them.
//!
//! ```text
//! 5  main  cli  app  shutdown     `app` is the only file that sees all floors
//! 4  downstream   admin           the HTTP and stdio edges; axum lives only here
//! 3  gateway      supervisor      decide where a message goes / keep actors alive; never import each other
//! 2  upstream  -> catalog         what each upstream offers, and the merged offer
//! 1  config  policy  telemetry    facts, rules, and what is written down about a run
//! 0  protocol  name               bytes, values and `now` in, values out: no I/O, clock, randomness or logs
//! ```

pub mod admin;
pub mod app;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod demo;
pub mod downstream;
pub mod gateway;
pub mod name;
pub mod policy;
pub mod protocol;
pub mod shutdown;
pub mod supervisor;
pub mod telemetry;
pub mod upstream;
