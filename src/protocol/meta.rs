//! `_meta`: what a modern request says of itself, and what must not cross the gateway (protocol.md §2.8).
//!
//! `downstream` reads a request's metadata; `gateway` writes the metadata of each leg and cleans that of each result.
//! Vendor keys and trace context pass both ways unchanged.

use std::borrow::Cow;

use super::object::{Object, ObjectWriter, is_object};

/// Modern, in requests: the version that this request speaks.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Modern, in requests: who the client is.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Modern, in requests: what the client can be asked.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Modern, in requests: which log messages the client wants for this request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Modern, in results: who answered.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Modern, in messages of a subscription: the id of its listen request.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// 2025-11-25: the task that a message belongs to.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// 2025-11-25 tasks: a hint.
pub const IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
/// Both eras, in requests: the token that progress notifications carry.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// Keys of one hop: never forwarded, written anew where the next hop needs them.
const HOP_KEYS: [&str; 9] = [
    PROTOCOL_VERSION,
    CLIENT_INFO,
    CLIENT_CAPABILITIES,
    LOG_LEVEL,
    SERVER_INFO,
    SUBSCRIPTION_ID,
    RELATED_TASK,
    IMMEDIATE_RESPONSE,
    PROGRESS_TOKEN,
];

/// A request's metadata as far as a gateway reads it.
#[derive(Debug, Default)]
pub struct RequestMeta<'a> {
    /// [`PROTOCOL_VERSION`], where it is a string.
    pub version: Option<Cow<'a, str>>,
    /// Whether [`PROTOCOL_VERSION`] or [`CLIENT_CAPABILITIES`] is there at all: what makes a request modern.
    pub is_modern: bool,
    /// [`CLIENT_CAPABILITIES`], where it is an object: its text.
    pub capabilities: Option<&'a str>,
    /// [`LOG_LEVEL`]: its text, whatever it is.
    pub log_level: Option<&'a str>,
    /// [`PROGRESS_TOKEN`]: its text, where it is a string or a number.
    pub progress_token: Option<&'a str>,
    /// The whole object.
    pub all: Option<Object<'a>>,
}

impl<'a> RequestMeta<'a> {
    /// Reads `params._meta`.
    pub fn read(params: Option<&Object<'a>>) -> Self {
        let Some(all) = params.and_then(|p| p.object("_meta")) else { return Self::default() };
        Self {
            version: all.string(PROTOCOL_VERSION),
            is_modern: all.has(PROTOCOL_VERSION) || all.has(CLIENT_CAPABILITIES),
            capabilities: all.get(CLIENT_CAPABILITIES).filter(|v| is_object(v)),
            log_level: all.get(LOG_LEVEL),
            progress_token: all
                .get(PROGRESS_TOKEN)
                .filter(|v| v.starts_with(['"', '-']) || v.starts_with(|c: char| c.is_ascii_digit())),
            all: Some(all),
        }
    }
}

/// What we say of ourselves on a leg to a modern upstream.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// The revision spoken with this upstream.
    pub version: &'a str,
    /// JSON text of the implementation object.
    pub client_info: &'a str,
    /// JSON text of the capabilities declared for this leg.
    pub capabilities: &'a str,
    /// A level, where the asking peer wants log messages.
    pub log_level: Option<&'a str>,
}

/// Writes the `_meta` member of a leg into `w`: the caller's keys that may cross, then ours. Writes nothing where none are left.
pub fn write_for_upstream(
    w: &mut ObjectWriter<'_>,
    from: Option<&Object<'_>>,
    stamp: Option<Stamp<'_>>,
    progress_token: Option<u64>,
) {
    let crosses = |key: &str| !HOP_KEYS.contains(&key);
    if stamp.is_none() && progress_token.is_none() && !from.is_some_and(|m| m.iter().any(|(k, _)| crosses(k))) {
        return;
    }
    let mut meta = ObjectWriter::begin(w.key("_meta"));
    for (key, value) in from.into_iter().flat_map(Object::iter).filter(|(k, _)| crosses(k)) {
        meta.raw(key, value);
    }
    if let Some(stamp) = stamp {
        meta.string(PROTOCOL_VERSION, stamp.version);
        meta.raw(CLIENT_INFO, stamp.client_info);
        meta.raw(CLIENT_CAPABILITIES, stamp.capabilities);
        if let Some(level) = stamp.log_level {
            meta.string(LOG_LEVEL, level);
        }
    }
    if let Some(token) = progress_token {
        meta.integer(PROGRESS_TOKEN, token);
    }
    meta.end();
}

/// Writes the `_meta` member of a result into `w`: the upstream's keys that may cross, then `server_info` for a modern peer.
/// Writes nothing where none are left.
pub fn write_for_downstream(w: &mut ObjectWriter<'_>, from: Option<&Object<'_>>, server_info: Option<&str>) {
    let crosses = |key: &str| !HOP_KEYS.contains(&key);
    if server_info.is_none() && !from.is_some_and(|m| m.iter().any(|(k, _)| crosses(k))) {
        return;
    }
    let mut meta = ObjectWriter::begin(w.key("_meta"));
    for (key, value) in from.into_iter().flat_map(Object::iter).filter(|(k, _)| crosses(k)) {
        meta.raw(key, value);
    }
    if let Some(info) = server_info {
        meta.raw(SERVER_INFO, info);
    }
    meta.end();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_required_key_makes_a_request_modern() {
        for (params, modern) in [
            (r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#, true),
            (r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}"#, true),
            (r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}"#, true),
            (r#"{"_meta":{"progressToken":1}}"#, false),
            (r#"{"_meta":[]}"#, false),
            ("{}", false),
        ] {
            let params = Object::parse(params).unwrap();
            assert_eq!(RequestMeta::read(Some(&params)).is_modern, modern);
        }
    }

    #[test]
    fn hop_keys_stay_and_vendor_keys_cross() {
        let from = Object::parse(
            r#"{"progressToken":"a","x/y":9007199254740993,"io.modelcontextprotocol/logLevel":"debug","traceparent":"00-1"}"#,
        )
        .unwrap();
        let mut out = Vec::new();
        let mut w = ObjectWriter::begin(&mut out);
        write_for_upstream(&mut w, Some(&from), None, Some(7));
        w.end();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"_meta":{"x/y":9007199254740993,"traceparent":"00-1","progressToken":7}}"#
        );
    }

    #[test]
    fn an_empty_meta_is_not_written() {
        let from = Object::parse(r#"{"io.modelcontextprotocol/serverInfo":{}}"#).unwrap();
        let mut out = Vec::new();
        let mut w = ObjectWriter::begin(&mut out);
        write_for_downstream(&mut w, Some(&from), None);
        write_for_upstream(&mut w, Some(&from), None, None);
        w.end();
        assert_eq!(out, b"{}");
    }
}
