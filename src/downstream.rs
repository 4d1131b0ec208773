//! The edge towards downstreams: HTTP and stdio, both eras. HTTP types end here.
//!
//! `app` binds a listener ([`serve`]) and serves [`router`] on it, or runs [`stdio`]. A request passes the guards
//! ([`guard`]), is read and classified ([`converse`]), handed to the gateway, and answered as JSON or as a stream
//! ([`reply`]). Rules: protocol.md §1.2 to §1.4 and §3.

pub mod guard;
pub mod pending;
pub mod serve;
pub mod session;
pub mod settings;
pub mod stdio;

mod converse;
mod endpoint;
mod legacy;
mod record;
mod refusal;
mod replay;
mod reply;
mod resume;
mod stall;
mod stream;

pub use endpoint::router;
