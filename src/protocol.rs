//! The ground floor: what the Model Context Protocol says, as values.
//!
//! Everything here takes bytes, values and `now`, and returns values. Nothing here does I/O, reads a
//! clock, draws a random number, logs or spawns, so every rule can be tested as a table and fuzzed.

pub mod bridge;
pub mod capability;
pub mod classify;
pub mod clipped;
pub mod code;
pub mod content;
pub mod depth;
pub mod framing;
pub mod header;
pub mod jsonrpc;
pub mod ledger;
pub mod level;
pub mod links;
pub mod meta;
pub mod method;
pub mod object;
pub mod opening;
pub mod revision;
