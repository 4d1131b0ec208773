//! One actor per upstream MCP server, and the handle that the rest of the program holds of it.

pub mod backoff;
pub mod error;
pub mod leg;
pub mod notices;
pub mod question;
pub mod transport;
pub mod wire;
