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
use crate::protocol::object::{Object, ObjectWriter, is_object, write_string};
use crate::protocol::revision::{Era, Revision};
use crate::protocol::{code, content, links, meta};
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
    /// The era of the upstream.
    pub from: Era,
    /// The URI that the downstream asked for, JSON text.
    pub uri: Option<&'a str>,
    /// Answers went into the request, so what comes out is for it alone (protocol.md §2.5).
    pub is_retry: bool,
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
    let lacks_text = !modern && wanted.method == Method::ToolsCall && content::lacks_text(result);
    for (key, value) in result.iter() {
        match key {
            "_meta" => write_meta(&mut w, Some(value), wanted),
            "content" if lacks_text => {}
            "requestState" if modern && state.is_some() => {}
            "structuredContent" if !modern && !is_object(value) => {}
            _ if MODERN_MEMBERS.contains(&key) && !keeps_modern(key, value, wanted) => {}
            _ => w.raw(key, &shaped(key, value, wanted)),
        }
    }
    if let Some(state) = state {
        w.string("requestState", state);
    }
    if modern {
        complete(&mut w, result, wanted);
    } else if wanted.method == Method::ToolsCall && (lacks_text || !result.has("content")) {
        show_structured(&mut w, result);
    }
    if !result.has("_meta") {
        write_meta(&mut w, None, wanted);
    }
    w.end();
    out.push(b'}');
    out
}

/// Whether a member that modern revisions define is passed on: to modern peers only, and what a legacy upstream means by
/// one of the same name only where it happens to be right.
fn keeps_modern(key: &str, value: &str, wanted: Wanted<'_>) -> bool {
    wanted.revision.era() == Era::Modern
        && match key {
            "resultType" => wanted.from == Era::Modern,
            "ttlMs" if wanted.method.has_cache_hints() => value.parse::<u64>().is_ok() && !wanted.is_retry,
            "cacheScope" if wanted.method.has_cache_hints() => matches!(value, "\"public\"" | "\"private\""),
            _ => true,
        }
}

/// A member as this downstream can read it; untouched, and not copied, where nothing is to be done.
fn shaped<'v>(key: &str, value: &'v str, wanted: Wanted<'_>) -> Cow<'v, str> {
    let value = mapped(key, value, wanted);
    let new = match (wanted.method, key) {
        (Method::ToolsCall, "content") | (Method::PromptsGet, "messages") => {
            content::for_revision(key, &value, wanted.revision)
        }
        (Method::Complete, "completion") => content::short_completion(&value),
        _ => None,
    };
    new.map_or(value, Cow::Owned)
}

fn mapped<'v>(key: &str, value: &'v str, wanted: Wanted<'_>) -> Cow<'v, str> {
    let Some(uris) = wanted.uris else { return Cow::Borrowed(value) };
    links::rewrite_member(key, value, &exposing(uris)).map_or(Cow::Borrowed(value), Cow::Owned)
}

fn exposing(uris: UriMap<'_>) -> impl Fn(&str) -> Cow<'_, str> {
    move |uri| uris.expose(uri)
}

fn write_meta(w: &mut ObjectWriter<'_>, raw: Option<&str>, wanted: Wanted<'_>) {
    let from = raw.map(|text| mapped("_meta", text, wanted));
    let from = from.as_deref().and_then(|text| Object::parse(text).ok());
    let modern = wanted.revision.era() == Era::Modern;
    meta::write_for_downstream(w, from.as_ref(), modern.then_some(wanted.server_info));
}

/// What a legacy upstream leaves out and a modern downstream needs.
fn complete(w: &mut ObjectWriter<'_>, result: &Object<'_>, wanted: Wanted<'_>) {
    let has = |key| result.get(key).is_some_and(|value| keeps_modern(key, value, wanted));
    if !has("resultType") {
        w.string("resultType", "complete");
    }
    if wanted.method.has_cache_hints() && (wanted.from == Era::Legacy || kind(result) == Kind::Complete) {
        if !has("ttlMs") {
            w.integer("ttlMs", 0);
        }
        if !has("cacheScope") {
            w.string("cacheScope", "private");
        }
    }
}

/// Legacy hosts show content; what is there as structured content only is shown to them as text.
fn show_structured(w: &mut ObjectWriter<'_>, result: &Object<'_>) {
    let content = w.key("content");
    match result.get_some("structuredContent") {
        Some(value) => {
            content.extend_from_slice(b"[{\"type\":\"text\",\"text\":");
            write_string(content, value);
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
        (code::INVALID_PARAMS, Era::Legacy, Method::ResourcesRead)
            if wanted.from == Era::Modern && means_not_found(error) =>
        {
            with_code(error, code::RESOURCE_NOT_FOUND, wanted)
        }
        (code::HEADER_MISMATCH | code::UNSUPPORTED_VERSION, ..) => violation(wanted),
        (code::MISSING_CAPABILITY, Era::Legacy, _) => input(wanted),
        (code::URL_ELICITATION_REQUIRED, ..) if wanted.revision != Revision::V2025_11_25 => input(wanted),
        _ => with_code(error, error.code, wanted),
    }
}

/// The modern code for it has other meanings too; servers say which in data or in words.
fn means_not_found(error: &RpcError<'_>) -> bool {
    let message = error.message.to_ascii_lowercase();
    error.raw.object("data").is_some_and(|data| data.has("uri"))
        || ["not found", "unknown resource", "no such resource"].iter().any(|words| message.contains(words))
}

/// The resource that an error speaks of, as the downstream calls it: JSON text.
fn missing<'a>(error: &RpcError<'_>, wanted: Wanted<'a>) -> Option<&'a str> {
    let is_it = match error.code {
        code::RESOURCE_NOT_FOUND => true,
        code::INVALID_PARAMS => wanted.from == Era::Modern && means_not_found(error),
        _ => false,
    };
    wanted.uri.filter(|_| is_it && wanted.method == Method::ResourcesRead)
}

fn with_code(error: &RpcError<'_>, code: i64, wanted: Wanted<'_>) -> Reply {
    let mut out = Vec::new();
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(wanted.id.as_bytes());
    out.extend_from_slice(b",\"error\":");
    let mut w = ObjectWriter::begin(&mut out);
    let missing = missing(error, wanted);
    for (key, value) in error.raw.iter() {
        match key {
            "code" if error.code != 0 || value == "0" => w.raw(key, &code.to_string()),
            // Not an integer that fits: no peer's parser would take it.
            "code" => w.raw(key, &code::INTERNAL_ERROR.to_string()),
            "message" if !value.starts_with('"') => {}
            "data" if value == "null" && missing.is_some() => {}
            "data" => w.raw(key, &with_uri(value, missing, wanted)),
            _ => w.raw(key, value),
        }
    }
    if !error.raw.has("code") {
        w.raw("code", &code::INTERNAL_ERROR.to_string());
    }
    if !error.raw.get("message").is_some_and(|m| m.starts_with('"')) {
        w.string("message", "the server sent an error without a message");
    }
    if let (Some(uri), None) = (missing, error.raw.get_some("data")) {
        let mut data = ObjectWriter::begin(w.key("data"));
        data.raw("uri", uri);
        data.end();
    }
    w.end();
    out.push(b'}');
    Reply::error(code, out)
}

/// `data.uri` is the URI that the downstream used: `missing`, or else the exposed form of what the upstream says.
fn with_uri<'v>(data: &'v str, missing: Option<&str>, wanted: Wanted<'_>) -> Cow<'v, str> {
    let Ok(object) = Object::parse(data) else { return Cow::Borrowed(data) };
    let theirs = object.string("uri");
    let mut exposed = Vec::new();
    let uri = match (missing, &theirs, wanted.uris) {
        (Some(uri), ..) => uri,
        (None, Some(uri), Some(uris)) => {
            write_string(&mut exposed, &uris.expose(uri));
            std::str::from_utf8(&exposed).unwrap_or("null")
        }
        _ => return Cow::Borrowed(data),
    };
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    for (key, value) in object.iter() {
        w.raw(key, if key == "uri" { uri } else { value });
    }
    if !object.has("uri") {
        w.raw("uri", uri);
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

#[cfg(test)]
mod tests;
