//! PURE. What a routed request aims at, who owns that, and how its parameters read on the way there.
//!
//! The service asks in this order: [`Target::read`], [`Target::find`] in the current snapshot, [`write_params`] for the leg.

use std::borrow::Cow;

use super::error::GatewayError;
use crate::catalog::{Entry, Lookup, Route, View};
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::meta::{self, Stamp};
use crate::protocol::method::Method;
use crate::protocol::object::{Object, ObjectWriter};
use crate::protocol::revision::{Era, Revision};

/// What a request names.
#[derive(Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A tool, by its name.
    Tool(Cow<'a, str>),
    /// A prompt, by its name.
    Prompt(Cow<'a, str>),
    /// A resource, by its URI.
    Resource(Cow<'a, str>),
    /// A resource or template that something is completed for.
    ResourceRef(Cow<'a, str>),
}

impl<'a> Target<'a> {
    /// Reads it from the parameters of `method`.
    pub fn read(method: Method, params: &Object<'a>) -> Result<Self, GatewayError> {
        let name = |p: &Object<'a>| p.string("name").ok_or(GatewayError::Params("name is missing or not a string"));
        let uri = |p: &Object<'a>| p.string("uri").ok_or(GatewayError::Params("uri is missing or not a string"));
        match method {
            Method::ToolsCall => name(params).map(Self::Tool),
            Method::PromptsGet => name(params).map(Self::Prompt),
            Method::ResourcesRead | Method::Subscribe | Method::Unsubscribe => uri(params).map(Self::Resource),
            Method::Complete => {
                let wrong = GatewayError::Params("ref is missing or not an object");
                let reference = params.object("ref").ok_or(wrong)?;
                match reference.string("type").as_deref() {
                    Some("ref/prompt") => name(&reference).map(Self::Prompt),
                    Some("ref/resource") => uri(&reference).map(Self::ResourceRef),
                    _ => Err(GatewayError::Params("ref.type is neither ref/prompt nor ref/resource")),
                }
            }
            _ => Err(GatewayError::Method),
        }
    }

    /// Who owns it.
    pub fn find<'t>(&'t self, view: View<'t>) -> Result<Route<'t>, GatewayError> {
        let found: Lookup<Route<'t>> = match self {
            Self::Tool(name) => view.tool(name),
            Self::Prompt(name) => view.prompt(name),
            Self::Resource(uri) => view.resource(uri),
            Self::ResourceRef(text) => view.completion_resource(text),
        };
        found.route().ok_or_else(|| self.unknown())
    }

    /// The same for a client: a tool that only views may call does not exist for one that shows none.
    pub fn find_for<'t>(&'t self, view: View<'t>, client: &ClientCapabilities) -> Result<Route<'t>, GatewayError> {
        let route = self.find(view)?;
        let hidden = route.entry.is_some_and(Entry::is_for_views_only) && !client.shows_views();
        if hidden { Err(self.unknown()) } else { Ok(route) }
    }

    fn unknown(&self) -> GatewayError {
        match self {
            Self::Tool(name) => GatewayError::UnknownName { noun: "tool", name: name.to_string() },
            Self::Prompt(name) => GatewayError::UnknownName { noun: "prompt", name: name.to_string() },
            Self::Resource(uri) | Self::ResourceRef(uri) => GatewayError::UnknownUri { uri: uri.to_string() },
        }
    }
}

/// How the parameters of one leg differ from the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Edits<'a> {
    /// The target's own name or URI.
    pub original: &'a str,
    /// What is spoken upstream.
    pub revision: Revision,
    /// What we say of ourselves, to a modern upstream.
    pub stamp: Option<Stamp<'a>>,
    /// The token that progress is to carry, where the caller wants some.
    pub progress_token: Option<u64>,
    /// The upstream's own `requestState`, on a retry.
    pub state: Option<&'a str>,
    /// Answers that the gateway collected, JSON text; otherwise the caller's own pass.
    pub responses: Option<&'a str>,
}

/// Writes the parameters of a leg: the caller's members as they stand, but for names, metadata and what belongs to a hop.
pub fn write_params(out: &mut Vec<u8>, method: Method, params: &Object<'_>, edits: Edits<'_>) {
    let modern = edits.revision.era() == Era::Modern;
    let mut w = ObjectWriter::begin(out);
    for (key, value) in params.iter() {
        match (method, key) {
            (Method::ToolsCall | Method::PromptsGet, "name")
            | (Method::ResourcesRead | Method::Subscribe | Method::Unsubscribe, "uri") => w.string(key, edits.original),
            (Method::Complete, "ref") => write_ref(w.key(key), value, edits.original),
            (Method::Complete, "context") if !edits.revision.has_completion_context() => {}
            (_, "_meta" | "requestState" | "task") => {}
            (_, "inputResponses") if edits.responses.is_some() || !(modern && method.may_ask()) => {}
            _ => w.raw(key, value),
        }
    }
    if let Some(responses) = edits.responses.filter(|_| modern) {
        w.raw("inputResponses", responses);
    }
    if let Some(state) = edits.state.filter(|_| modern) {
        w.string("requestState", state);
    }
    meta::write_for_upstream(&mut w, params.object("_meta").as_ref(), edits.stamp, edits.progress_token);
    w.end();
}

fn write_ref(out: &mut Vec<u8>, reference: &str, original: &str) {
    let mut w = ObjectWriter::begin(out);
    let members = Object::parse(reference).unwrap_or_default();
    for (key, value) in members.iter() {
        if matches!(key, "name" | "uri") {
            w.string(key, original);
        } else {
            w.raw(key, value);
        }
    }
    w.end();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(method: Method, params: &str, revision: Revision, token: Option<u64>) -> String {
        let params = Object::parse(params).unwrap();
        let edits =
            Edits { original: "orig", revision, stamp: None, progress_token: token, state: Some("S"), responses: None };
        let mut out = Vec::new();
        write_params(&mut out, method, &params, edits);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn arguments_pass_byte_for_byte_and_absent_stays_absent() {
        let legacy = Revision::V2025_06_18;
        for (params, want) in [
            (
                r#"{"x":1,"name":"p__t","arguments":{"id":9007199254740993,"x":1.10,"y":1e400,"z":-0,"n":null},"v":{ }}"#,
                r#"{"x":1,"name":"orig","arguments":{"id":9007199254740993,"x":1.10,"y":1e400,"z":-0,"n":null},"v":{ }}"#,
            ),
            (r#"{"name":"p__t"}"#, r#"{"name":"orig"}"#),
            (r#"{"name":"p__t","arguments":{}}"#, r#"{"name":"orig","arguments":{}}"#),
            (r#"{"name":"p__t","arguments":null}"#, r#"{"name":"orig","arguments":null}"#),
        ] {
            assert_eq!(written(Method::ToolsCall, params, legacy, None), want);
        }
    }

    #[test]
    fn what_belongs_to_a_hop_stays_there() {
        let params = r#"{"name":"t","task":{},"requestState":"z","inputResponses":{"k":{}},"_meta":{"progressToken":"a","x/y":1}}"#;
        assert_eq!(
            written(Method::ToolsCall, params, Revision::V2025_11_25, Some(5)),
            r#"{"name":"orig","_meta":{"x/y":1,"progressToken":5}}"#
        );
        assert_eq!(
            written(Method::ToolsCall, params, Revision::V2026_07_28, None),
            r#"{"name":"orig","inputResponses":{"k":{}},"requestState":"S","_meta":{"x/y":1}}"#
        );
    }

    #[test]
    fn a_completion_names_the_original_and_old_servers_get_no_context() {
        let params =
            r#"{"ref":{"type":"ref/prompt","name":"p__g","x":1},"argument":{"name":"a","value":"b"},"context":{}}"#;
        assert_eq!(
            written(Method::Complete, params, Revision::V2025_03_26, None),
            r#"{"ref":{"type":"ref/prompt","name":"orig","x":1},"argument":{"name":"a","value":"b"}}"#
        );
        assert!(written(Method::Complete, params, Revision::V2025_06_18, None).contains("context"));
    }

    #[test]
    fn a_target_is_read_from_where_its_method_has_it() {
        let read = |m, p: &str| Target::read(m, &Object::parse(p).unwrap()).map(|t| format!("{t:?}"));
        assert_eq!(read(Method::ToolsCall, r#"{"name":"n\u0061"}"#).unwrap(), r#"Tool("na")"#);
        assert_eq!(read(Method::ResourcesRead, r#"{"uri":"x://y"}"#).unwrap(), r#"Resource("x://y")"#);
        assert!(read(Method::ToolsCall, r#"{"name":7}"#).is_err());
        assert!(read(Method::Complete, r#"{"ref":{"type":"ref/other"}}"#).is_err());
        assert!(read(Method::Complete, r"{}").is_err());
    }
}
