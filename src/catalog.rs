//! (being built)

/// Which server a downstream speaks to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// All of them as one, at `/mcp`.
    Merged,
    /// One alone under its own names, at `/mcp/{prefix}`.
    Server(std::sync::Arc<str>),
}
