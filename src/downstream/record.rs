//! The request log: one line a request, target `manifold::request`, without parameters, names or ids of anybody.
//!
//! `pending`, `endpoint` and `stdio` write it when a request has ended. All words are from closed sets or from the
//! configuration; which server was asked, and how it went there, the gateway noted in the exchange's outlet.

use axum::http::StatusCode;
use tokio::time::Instant;

use super::pending::Answer;
use crate::gateway::Reply;
use crate::gateway::outlet::About;
use crate::name::ServerName;
use crate::protocol::classify::Refusal;
use crate::protocol::method::Method;
use crate::protocol::revision::Era;

/// What an exchange has found out about itself, once its body is classified.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Decides what a disconnect means.
    pub era: Era,
    /// For the log; from a closed set.
    pub method: &'static str,
    /// Whether anything may come before the answer: lists and the like are always plain JSON (protocol.md §3.6).
    pub may_stream: bool,
}

impl Standing {
    /// Of a request. Unknown methods are logged under one word: their names are the peer's text.
    pub fn of(era: Era, method: &str) -> Self {
        let known = Method::parse(method);
        Self { era, method: known.map_or("unknown", Method::as_str), may_stream: known.is_none_or(may_stream) }
    }
}

/// Answers that are made here and at once are always plain JSON (protocol.md §3.6).
fn may_stream(method: Method) -> bool {
    use Method::{Complete, Listen, PromptsGet, ResourcesRead, Subscribe, ToolsCall, Unsubscribe};
    matches!(method, ToolsCall | PromptsGet | ResourcesRead | Complete | Subscribe | Unsubscribe | Listen)
}

/// The outcome field of the request log.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// `ok`, `error`, `refused`, `accepted`, `withdrawn`, `disconnected`.
    pub word: &'static str,
    /// The JSON-RPC error code.
    pub code: Option<i64>,
    /// Why it was refused.
    pub reason: Option<&'static str>,
}

impl Outcome {
    /// Without a code.
    pub fn word(word: &'static str) -> Self {
        Self { word, code: None, reason: None }
    }

    /// Of a refusal.
    pub fn refused(refusal: &Refusal) -> Self {
        Self { word: "refused", code: Some(refusal.code), reason: Some(refusal.reason) }
    }

    /// Of a finished request; `None` where it was withdrawn.
    pub fn replied(reply: Option<&Reply>) -> Self {
        match reply {
            Some(Reply { error: None, .. }) => Self::word("ok"),
            Some(reply) => Self { code: reply.error, ..Self::word("error") },
            None => Self::word("withdrawn"),
        }
    }
}

impl From<&Answer> for Outcome {
    fn from(answer: &Answer) -> Self {
        match answer {
            Answer::Reply { reply, .. } => Self::replied(Some(reply)),
            Answer::Batch(_) => Self::word("ok"),
            Answer::Refused { refusal, .. } => Self::refused(refusal),
            Answer::Accepted => Self::word("accepted"),
            Answer::Withdrawn => Self::replied(None),
        }
    }
}

/// Writes the line. `status` is what went out over HTTP, where anything did. How a call went at its server says more than
/// that it was answered.
pub fn record(standing: Option<Standing>, began: Instant, status: Option<StatusCode>, outcome: Outcome, about: About) {
    let word = match about.outcome {
        Some(ended) if outcome.word == "ok" || outcome.word == "error" => ended.as_str(),
        _ => outcome.word,
    };
    tracing::info!(
        target: "manifold::request",
        server = about.server.as_ref().map(ServerName::as_str),
        era = standing.map(|s| s.era.as_str()),
        method = standing.map(|s| s.method),
        outcome = word,
        code = outcome.code,
        reason = outcome.reason,
        status = status.map(|s| s.as_u16()),
        duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "request"
    );
}
