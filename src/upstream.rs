//! One actor per upstream MCP server, and the handle that the rest of the program holds of it.
//!
//! ```text
//! supervisor ── starts, joins ──► actor ── dial ──► transport/*        gateway ── Handle::connection ──► Connection
//!                                  │  └── listing ──► catalog::Offer ──► keeper                             │ open
//!                                  └── publishes Status and Connection in the Handle                          ▼
//!                                                                     readers ── Wire::receive ──► Leg ── answer
//! ```

pub mod actor;
pub mod backoff;
pub mod connection;
pub mod dial;
pub mod directory;
pub mod error;
mod expiry;
pub mod handle;
pub mod leg;
mod listen;
pub mod listing;
mod moment;
pub mod notices;
pub mod question;
pub mod status;
mod subscriptions;
pub mod transport;
pub mod updates;
pub mod wire;
