//! Every way in which the gateway itself fails a request, and the one place where that becomes a message.
//!
//! A variant says whose side it is, a bounded kind for metrics, whether to come back, and what a client may read: never
//! addresses, commands, tokens or other callers' names. Table: protocol.md §11.

use std::time::Duration;

use crate::protocol::code;
use crate::protocol::jsonrpc;
use crate::protocol::method::Method;
use crate::protocol::object::{ObjectWriter, write_string};
use crate::protocol::revision::Era;
use crate::telemetry::metrics::label::{Outcome, Refusal};
use crate::upstream::error::CallError;
use crate::upstream::handle::{SubscribeError, Unavailable};

/// Why a request got no answer from an upstream, or none at all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are named for what they hold")]
pub enum GatewayError {
    /// The parameters are not what the method wants.
    Params(&'static str),
    /// No tool or prompt of this name; forbidden ones look the same.
    UnknownName { noun: &'static str, name: String },
    /// No resource of this URI.
    UnknownUri { uri: String },
    /// The cursor is not one of ours, or of another snapshot.
    Cursor,
    /// A header disagrees with the body.
    Header(String),
    /// The retry's `requestState` is not one that we gave to this caller for this request.
    State,
    /// The method is not offered here.
    Method,
    /// The upstream is not connected.
    Unavailable { server: String, retry_in: Option<Duration> },
    /// The upstream failed the call.
    Upstream { server: String, error: CallError },
    /// The upstream asked for something that cannot be asked of this client.
    InputNotSupported { server: String },
    /// A resource cannot be watched.
    Subscribe { server: String, error: SubscribeError },
    /// The session watches as many resources as it may.
    TooManySubscriptions { most: usize },
    /// We are going away.
    Draining,
}

impl GatewayError {
    /// A failed leg to `server`.
    pub fn upstream(server: &str, error: CallError) -> Self {
        Self::Upstream { server: server.to_owned(), error }
    }

    /// A missing connection to `server`.
    pub fn unavailable(server: &str, why: &Unavailable) -> Self {
        Self::Unavailable { server: server.to_owned(), retry_in: why.retry_in }
    }

    /// The metric label.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Unavailable { .. }
            | Self::Upstream { error: CallError::Lost { .. } | CallError::SessionGone, .. } => Outcome::Unavailable,
            Self::Upstream { error: CallError::Timeout { .. }, .. } => Outcome::Timeout,
            Self::Upstream { error: CallError::Busy, .. } | Self::TooManySubscriptions { .. } | Self::Draining => {
                Outcome::Refused
            }
            _ => Outcome::RpcError,
        }
    }

    /// What it is counted as, where the request was turned away and reached no server.
    pub fn refusal(&self) -> Option<Refusal> {
        Some(match self {
            Self::Params(_) | Self::Cursor | Self::State => Refusal::Invalid,
            Self::UnknownName { .. } | Self::UnknownUri { .. } => Refusal::Unknown,
            Self::Header(_) => Refusal::HeaderMismatch,
            Self::Method => Refusal::Method,
            Self::Draining => Refusal::Draining,
            Self::Upstream { error: CallError::Busy, .. } | Self::TooManySubscriptions { .. } => Refusal::Overload,
            Self::Unavailable { .. }
            | Self::Upstream { .. }
            | Self::InputNotSupported { .. }
            | Self::Subscribe { .. } => {
                return None;
            }
        })
    }

    /// The code of the JSON-RPC error, where it is one.
    fn code(&self, era: Era) -> i64 {
        match self {
            Self::Params(_) | Self::UnknownName { .. } | Self::Cursor | Self::State | Self::Subscribe { .. } => {
                code::INVALID_PARAMS
            }
            Self::UnknownUri { .. } => match era {
                Era::Modern => code::INVALID_PARAMS,
                Era::Legacy => code::RESOURCE_NOT_FOUND,
            },
            Self::Header(_) => code::HEADER_MISMATCH,
            Self::Method => code::METHOD_NOT_FOUND,
            Self::Unavailable { .. }
            | Self::Upstream { .. }
            | Self::InputNotSupported { .. }
            | Self::TooManySubscriptions { .. }
            | Self::Draining => code::INTERNAL_ERROR,
        }
    }

    /// What a client reads.
    fn message(&self) -> String {
        match self {
            Self::Params(what) => (*what).to_owned(),
            Self::UnknownName { noun, name } => format!("unknown {noun}: {name}"),
            Self::UnknownUri { uri } => format!("unknown resource: {uri}"),
            Self::Cursor => "the cursor is not valid any more; list again from the start".into(),
            Self::Header(what) => what.clone(),
            Self::State => "requestState is not valid for this request; call again without it".into(),
            Self::Method => "method not found".into(),
            Self::Unavailable { server, retry_in: Some(wait) } => {
                format!("server {server:?} is not available; it is tried again in {} s", wait.as_secs() + 1)
            }
            Self::Unavailable { server, retry_in: None } => {
                format!("server {server:?} is not available; it is being started")
            }
            Self::Upstream { server, error } => format!("server {server:?}: {error}"),
            Self::InputNotSupported { server } => {
                format!("server {server:?} needs input that this client cannot be asked for")
            }
            Self::Subscribe { server, error } => format!("server {server:?}: {error}"),
            Self::TooManySubscriptions { most } => {
                format!(
                    "this session watches {most} resources already; unsubscribe from some, or raise sessions.subscriptions"
                )
            }
            Self::Draining => "the gateway is shutting down".into(),
        }
    }

    /// A bounded word for programs, in `data.reason`.
    fn reason(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unavailable { .. } => "upstream_unavailable",
            Self::Upstream { error, .. } => match error {
                CallError::Busy => "upstream_busy",
                CallError::Lost { .. } | CallError::SessionGone => "upstream_unavailable",
                CallError::Timeout { .. } => "upstream_timeout",
                CallError::Status(_) => "upstream_http",
                CallError::Unauthorized => "upstream_auth",
                CallError::Violation(_) => "upstream_protocol_error",
                CallError::TooLarge(_) => "upstream_too_large",
            },
            Self::InputNotSupported { .. } => "input_not_supported",
            Self::TooManySubscriptions { .. } => "limit",
            Self::Draining => "draining",
            _ => return None,
        })
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_in, .. } => *retry_in,
            Self::Upstream { error: CallError::Busy, .. } => Some(Duration::from_secs(1)),
            Self::Draining => Some(super::COME_AGAIN),
            _ => None,
        }
    }

    /// JSON text of `error.data`.
    fn data(&self) -> Option<String> {
        let mut out = Vec::new();
        let mut w = ObjectWriter::begin(&mut out);
        if let Self::UnknownUri { uri } = self {
            w.string("uri", uri);
        }
        if let Some(reason) = self.reason() {
            w.string("reason", reason);
        }
        if let Some(wait) = self.retry_after() {
            w.integer("retryAfterMs", u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        }
        w.end();
        (out.len() > 2).then(|| String::from_utf8_lossy(&out).into_owned())
    }

    /// Whether a model can react to it, so that in `tools/call` it is a tool's result (protocol.md §11).
    fn is_for_the_model(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Upstream { .. } | Self::InputNotSupported { .. })
    }

    /// The response to request `id`, and its error code where it is a JSON-RPC error. `server_info` is JSON text.
    pub fn reply(&self, id: &str, method: Method, era: Era, server_info: &str) -> super::Reply {
        if method == Method::ToolsCall && self.is_for_the_model() {
            return super::Reply::result(tool_error(id, &self.message(), era, server_info));
        }
        let code = self.code(era);
        let text = jsonrpc::error(Some(id), code, &self.message(), self.data().as_deref());
        super::Reply { turned_away: matches!(self, Self::Draining), ..super::Reply::error(code, text) }
    }
}

/// A `tools/call` result that says what went wrong.
pub fn tool_error(id: &str, message: &str, era: Era, server_info: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + server_info.len() + 192);
    jsonrpc::begin_result(&mut out, id);
    let mut w = ObjectWriter::begin(&mut out);
    let content = w.key("content");
    content.extend_from_slice(b"[{\"type\":\"text\",\"text\":");
    write_string(content, message);
    content.extend_from_slice(b"}]");
    w.raw("isError", "true");
    if era == Era::Modern {
        w.string("resultType", "complete");
        crate::protocol::meta::write_for_downstream(&mut w, None, Some(server_info));
    }
    w.end();
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(e: &GatewayError, method: Method, era: Era) -> (Option<i64>, String) {
        let reply = e.reply("7", method, era, r#"{"name":"m"}"#);
        (reply.error, String::from_utf8(reply.text.to_vec()).unwrap())
    }

    #[test]
    fn an_upstreams_trouble_is_a_tool_result_and_misuse_is_an_error() {
        let gone = GatewayError::Unavailable { server: "files".into(), retry_in: Some(Duration::from_millis(3500)) };
        let (code, body) = text(&gone, Method::ToolsCall, Era::Legacy);
        assert_eq!(code, None);
        assert_eq!(
            body,
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"server \"files\" is not available; it is tried again in 4 s"}],"isError":true}}"#
        );
        let (code, body) = text(&gone, Method::ResourcesRead, Era::Legacy);
        assert_eq!(code, Some(-32603));
        assert!(body.contains(r#""data":{"reason":"upstream_unavailable","retryAfterMs":3500}"#), "{body}");
        let unknown = GatewayError::UnknownName { noun: "tool", name: "x".into() };
        assert_eq!(text(&unknown, Method::ToolsCall, Era::Modern).0, Some(-32602));
    }

    #[test]
    fn an_unknown_resource_has_the_code_of_the_era() {
        let e = GatewayError::UnknownUri { uri: "x://y".into() };
        assert_eq!(text(&e, Method::ResourcesRead, Era::Modern).0, Some(-32602));
        let (code, body) = text(&e, Method::ResourcesRead, Era::Legacy);
        assert_eq!(code, Some(-32002));
        assert!(body.contains(r#""data":{"uri":"x://y"}"#));
    }

    #[test]
    fn a_modern_tool_error_is_a_complete_result() {
        let e = GatewayError::upstream("s", CallError::Timeout { after: Duration::from_secs(120) });
        let (_, body) = text(&e, Method::ToolsCall, Era::Modern);
        assert!(body.contains(r#""resultType":"complete""#) && body.contains("serverInfo"), "{body}");
        assert!(body.contains("did not answer within 2m"), "{body}");
        assert_eq!(e.outcome(), Outcome::Timeout);
    }
}
