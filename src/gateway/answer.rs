//! PURE. An upstream's answer as the asking downstream may read it: one result or error across eras and names.
//!
//! The service calls it once per routed request. Unknown members, numbers and order pass; what belongs to one hop stays
//! there (protocol.md §2.8, §5i, §5j).

use std::borrow::Cow;

use super::Reply;
use super::error::GatewayError;
use crate::catalog::UriMap;
use crate::protocol::jsonrpc::{self, Outcome, RpcError};
use crate::protocol::method::Method;
use crate::protocol::object::{Object, ObjectWriter, is_object};
use crate::protocol::revision::{Era, Revision};
use crate::protocol::{code, links, meta};
use crate::upstream::error::CallError;

/// Members of a result that only a modern peer knows.
const MODERN_MEMBERS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// What an answer is written for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The downstream's request id, JSON text.
    pub id: &'a str,
    /// The method that was routed.
    pub method: Method,
    /// The revision of the downstream.
    pub revision: Revision,
    /// Our implementation object, JSON text.
    pub server_info: &'a str,
    /// The server's name, for messages.
    pub server: &'a str,
    /// How its URIs are shown; `None` where they are shown as they are.
    pub uris: Option<UriMap<'a>>,
}

/// What kind of result a modern upstream sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The end.
    Complete,
    /// It wants answers first, and the same request again.
    InputRequired,
    /// Something we do not know.
    Unknown,
}

/// Reads `resultType`; absent means complete (protocol.md §2.5).
pub fn kind(result: &Object<'_>) -> Kind {
    match result.get_some("resultType").map(|t| t.trim_matches('"')) {
        None | Some("complete") => Kind::Complete,
        Some("input_required") => Kind::InputRequired,
        Some(_) => Kind::Unknown,
    }
}

/// Writes the reply to a routed request.
pub fn write(outcome: &Outcome<'_>, wanted: Wanted<'_>) -> Reply {
    match outcome {
        Outcome::Result(result) => Reply::result(write_result(result, wanted, None)),
        Outcome::Error(error) => write_error(error, wanted),
    }
}

/// Writes a result; `state` replaces a modern upstream's `requestState` by ours.
pub fn write_result(result: &Object<'_>, wanted: Wanted<'_>, state: Option<&str>) -> Vec<u8> {
    let size: usize = result.iter().map(|(k, v)| k.len() + v.len() + 4).sum();
    let mut out = Vec::with_capacity(size + wanted.server_info.len() + 192);
    jsonrpc::begin_result(&mut out, wanted.id);
    let mut w = ObjectWriter::begin(&mut out);
    let modern = wanted.revision.era() == Era::Modern;
    for (key, value) in result.iter() {
        let keep = match key {
            "_meta" => false,
            "requestState" if modern => state.is_none(),
            "structuredContent" if !modern => is_object(value),
            _ => modern || !MODERN_MEMBERS.contains(&key),
        };
        if keep {
            write_member(&mut w, key, value, wanted);
        }
    }
    if let Some(state) = state {
        w.string("requestState", state);
    }
    if modern {
        complete(&mut w, result, wanted.method);
    } else {
        show_structured(&mut w, result, wanted.method);
    }
    let from = result.get("_meta").map(|text| mapped("_meta", text, wanted));
    let from = from.as_deref().and_then(|text| Object::parse(text).ok());
    meta::write_for_downstream(&mut w, from.as_ref(), modern.then_some(wanted.server_info));
    w.end();
    out.push(b'}');
    out
}

fn write_member(w: &mut ObjectWriter<'_>, key: &str, value: &str, wanted: Wanted<'_>) {
    w.raw(key, &mapped(key, value, wanted));
}

fn mapped<'v>(key: &str, value: &'v str, wanted: Wanted<'_>) -> Cow<'v, str> {
    let Some(uris) = wanted.uris else { return Cow::Borrowed(value) };
    links::rewrite_member(key, value, &exposing(uris)).map_or(Cow::Borrowed(value), Cow::Owned)
}

fn exposing(uris: UriMap<'_>) -> impl Fn(&str) -> Cow<'_, str> {
    move |uri| uris.expose(uri)
}

/// What a legacy upstream leaves out and a modern downstream needs.
fn complete(w: &mut ObjectWriter<'_>, result: &Object<'_>, method: Method) {
    if !result.has("resultType") {
        w.string("resultType", "complete");
    }
    if method.has_cache_hints() && kind(result) == Kind::Complete {
        if !result.has("ttlMs") {
            w.integer("ttlMs", 0);
        }
        if !result.has("cacheScope") {
            w.string("cacheScope", "private");
        }
    }
}

/// Legacy hosts show content; structured content that they cannot have is shown as text when nothing else is there.
fn show_structured(w: &mut ObjectWriter<'_>, result: &Object<'_>, method: Method) {
    if method != Method::ToolsCall || result.has("content") {
        return;
    }
    let content = w.key("content");
    match result.get("structuredContent") {
        Some(value) => {
            content.extend_from_slice(b"[{\"type\":\"text\",\"text\":");
            crate::protocol::object::write_string(content, value);
            content.extend_from_slice(b"}]");
        }
        None => content.extend_from_slice(b"[]"),
    }
}

/// An upstream's error: the same code and words, except where they mean something else to this downstream.
fn write_error(error: &RpcError<'_>, wanted: Wanted<'_>) -> Reply {
    let era = wanted.revision.era();
    match (error.code, era, wanted.method) {
        (code::METHOD_NOT_FOUND, _, Method::Complete) => no_completion(wanted),
        (code::METHOD_NOT_FOUND, Era::Modern, _) => with_code(error, code::INVALID_PARAMS, wanted),
        (code::RESOURCE_NOT_FOUND, Era::Modern, _) => with_code(error, code::INVALID_PARAMS, wanted),
        (code::INVALID_PARAMS, Era::Legacy, Method::ResourcesRead) if names_a_uri(error) => {
            with_code(error, code::RESOURCE_NOT_FOUND, wanted)
        }
        (code::HEADER_MISMATCH | code::UNSUPPORTED_VERSION, ..) => violation(wanted),
        (code::MISSING_CAPABILITY, Era::Legacy, _) => input(wanted),
        (code::URL_ELICITATION_REQUIRED, ..) if wanted.revision != Revision::V2025_11_25 => input(wanted),
        _ => with_code(error, error.code, wanted),
    }
}

fn names_a_uri(error: &RpcError<'_>) -> bool {
    error.raw.object("data").is_some_and(|data| data.has("uri"))
}

fn with_code(error: &RpcError<'_>, code: i64, wanted: Wanted<'_>) -> Reply {
    let mut out = Vec::new();
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(wanted.id.as_bytes());
    out.extend_from_slice(b",\"error\":");
    let mut w = ObjectWriter::begin(&mut out);
    for (key, value) in error.raw.iter() {
        match key {
            "code" if error.code != 0 || value == "0" => w.raw(key, &code.to_string()),
            // Not an integer that fits: no peer's parser would take it.
            "code" => w.raw(key, &code::INTERNAL_ERROR.to_string()),
            "message" if !value.starts_with('"') => {}
            "data" => w.raw(key, &exposed_uri(value, wanted)),
            _ => w.raw(key, value),
        }
    }
    if !error.raw.has("code") {
        w.raw("code", &code::INTERNAL_ERROR.to_string());
    }
    if !error.raw.get("message").is_some_and(|m| m.starts_with('"')) {
        w.string("message", "the server sent an error without a message");
    }
    w.end();
    out.push(b'}');
    Reply::error(code, out)
}

/// `data.uri` of "not found" is the URI that the downstream used.
fn exposed_uri<'v>(data: &'v str, wanted: Wanted<'_>) -> Cow<'v, str> {
    let (Some(uris), Ok(object)) = (wanted.uris, Object::parse(data)) else { return Cow::Borrowed(data) };
    let Some(uri) = object.string("uri") else { return Cow::Borrowed(data) };
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    for (key, value) in object.iter() {
        if key == "uri" {
            w.string(key, &uris.expose(&uri));
        } else {
            w.raw(key, value);
        }
    }
    w.end();
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

fn no_completion(wanted: Wanted<'_>) -> Reply {
    let nothing = r#"{"completion":{"values":[],"hasMore":false}}"#;
    let result = Object::parse(nothing).unwrap_or_default();
    Reply::result(write_result(&result, wanted, None))
}

fn violation(wanted: Wanted<'_>) -> Reply {
    let error = GatewayError::upstream(wanted.server, CallError::Violation("it refuses our headers"));
    error.reply(wanted.id, wanted.method, wanted.revision.era(), wanted.server_info)
}

fn input(wanted: Wanted<'_>) -> Reply {
    let error = GatewayError::InputNotSupported { server: wanted.server.to_owned() };
    error.reply(wanted.id, wanted.method, wanted.revision.era(), wanted.server_info)
}

/// Whether a `tools/call` result says that the tool failed.
pub fn is_tool_error(result: &Object<'_>) -> bool {
    result.get("isError") == Some("true")
}
