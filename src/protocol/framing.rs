//! Bytes on a pipe or a socket to messages: newline-delimited JSON and event streams.

pub mod lines;
pub mod sse;
