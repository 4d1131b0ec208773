//! The scripted upstream answers as its script says, on each transport and in each era.
//!
//! It is what other scenarios stand on, so it is tested by the barest of means: sockets and pipes, no MCP code of ours.

mod over_http;
mod over_sse;
mod over_stdio;
mod wire;
