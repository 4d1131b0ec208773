//! How messages travel to an upstream: lines over a child's pipes, Streamable HTTP, or the HTTP+SSE transport of 2024.
//!
//! `dial` opens one and gets a [`Wire`](super::wire::Wire) plus the tasks that feed it; `leg` sends through the [`Link`].

pub mod client;
pub mod http;
pub mod http_sse;
pub mod process;
pub mod stdio;

/// The sending half of a connection.
#[derive(Debug)]
pub enum Link {
    /// Messages go through the outbox to a writer; answers come from a reader.
    Pipe,
    /// Each request is a POST whose response carries the answer.
    Http(http::HttpLink),
    /// Each message is a POST; everything comes back on one event stream.
    Sse(http_sse::SseLink),
}
