//! One actor per upstream MCP server, and the handle that the rest of the program holds of it.

pub mod question;
