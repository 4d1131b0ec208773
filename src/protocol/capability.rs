//! What a client said it can be asked, and what we say of ourselves to an upstream (protocol.md §6.4).
//!
//! `downstream` reads a client's capabilities from `initialize` or from a modern request's metadata; `gateway` checks
//! questions against them; `upstream` writes them for its peer.

use super::object::{Object, ObjectWriter, is_object};
use super::revision::Revision;

/// The client capabilities that a gateway acts on. Others are not passed on (design §5, "extensions").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// `roots/list` may be asked.
    pub roots: bool,
    /// `sampling/createMessage` may be asked.
    pub sampling: bool,
    /// Sampling may carry tools.
    pub sampling_tools: bool,
    /// Elicitation with a form. A bare `elicitation: {}` means this one.
    pub form: bool,
    /// Elicitation by URL.
    pub url: bool,
    /// The value of the UI extension, as the client wrote it.
    pub ui: Option<Box<str>>,
}

/// The key of MCP Apps among `extensions`.
pub const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";

/// The kind of view that MCP Apps defines (protocol.md §7.6).
const VIEW_TYPE: &str = "text/html;profile=mcp-app";

/// What we say of views for ourselves: servers leave out their views, and tools with them, for who cannot show any.
const VIEWS: &str = r#"{"mimeTypes":["text/html;profile=mcp-app"]}"#;

impl ClientCapabilities {
    /// Everything we can carry to some client: what a connection shared by all of them declares.
    pub fn bridged() -> Self {
        Self { roots: true, sampling: true, sampling_tools: true, form: true, url: true, ui: Some(VIEWS.into()) }
    }

    /// Whether the client shows views of MCP Apps.
    pub fn shows_views(&self) -> bool {
        let types = self.ui.as_deref().and_then(|ui| Object::parse(ui).ok()?.get("mimeTypes"));
        let types = types.and_then(|raw| serde_json::from_str::<Vec<String>>(raw).ok());
        types.is_some_and(|types| types.iter().any(|t| t == VIEW_TYPE))
    }

    /// Reads a `capabilities` or `clientCapabilities` object.
    pub fn parse(raw: &str) -> Self {
        let Ok(all) = Object::parse(raw) else { return Self::default() };
        let declared = |key| all.get(key).filter(|v| is_object(v)).and_then(|v| Object::parse(v).ok());
        let sampling = declared("sampling");
        let elicitation = declared("elicitation");
        let has = |o: &Option<Object<'_>>, key| o.as_ref().is_some_and(|o| o.get(key).is_some_and(is_object));
        let url = has(&elicitation, "url");
        Self {
            roots: declared("roots").is_some(),
            sampling_tools: has(&sampling, "tools"),
            sampling: sampling.is_some(),
            form: elicitation.is_some() && (has(&elicitation, "form") || !url),
            url,
            ui: declared("extensions").and_then(|e| e.get(UI_EXTENSION).filter(|v| is_object(v)).map(Box::from)),
        }
    }

    /// Writes them as a peer of `revision` understands them.
    pub fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let mut w = ObjectWriter::begin(out);
        if self.roots {
            w.raw("roots", "{}");
        }
        if self.sampling {
            let tools = self.sampling_tools && revision.has_elicitation_modes();
            w.raw("sampling", if tools { r#"{"tools":{}}"# } else { "{}" });
        }
        if (self.form || self.url) && revision.has_elicitation() {
            self.write_elicitation(w.key("elicitation"), revision);
        }
        if let Some(ui) = &self.ui {
            let mut extensions = ObjectWriter::begin(w.key("extensions"));
            extensions.raw(UI_EXTENSION, ui);
            extensions.end();
        }
        w.end();
    }

    fn write_elicitation(&self, out: &mut Vec<u8>, revision: Revision) {
        let mut w = ObjectWriter::begin(out);
        if revision.has_elicitation_modes() {
            if self.form {
                w.raw("form", "{}");
            }
            if self.url {
                w.raw("url", "{}");
            }
        }
        w.end();
    }
}

/// What an upstream says it offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the capabilities'")]
pub struct ServerCapabilities {
    pub tools: bool,
    pub tools_list_changed: bool,
    pub prompts: bool,
    pub prompts_list_changed: bool,
    pub resources: bool,
    pub resources_list_changed: bool,
    pub resources_subscribe: bool,
    pub completions: bool,
    pub logging: bool,
}

impl ServerCapabilities {
    /// Reads a `capabilities` object of an `initialize` or `server/discover` result.
    pub fn parse(raw: &str) -> Self {
        let Ok(all) = Object::parse(raw) else { return Self::default() };
        let has = |key| all.get_some(key).is_some();
        let flag = |key: &str, name| all.object(key).is_some_and(|o| o.get(name) == Some("true"));
        Self {
            tools: has("tools"),
            tools_list_changed: flag("tools", "listChanged"),
            prompts: has("prompts"),
            prompts_list_changed: flag("prompts", "listChanged"),
            resources: has("resources"),
            resources_list_changed: flag("resources", "listChanged"),
            resources_subscribe: flag("resources", "subscribe"),
            completions: has("completions"),
            logging: has("logging"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(c: &ClientCapabilities, r: Revision) -> String {
        let mut out = Vec::new();
        c.write(&mut out, r);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_bare_elicitation_capability_means_forms() {
        for (raw, form, url) in [
            (r#"{"elicitation":{}}"#, true, false),
            (r#"{"elicitation":{"form":{}}}"#, true, false),
            (r#"{"elicitation":{"url":{}}}"#, false, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true, true),
            (r#"{"elicitation":null}"#, false, false),
            ("{}", false, false),
        ] {
            let c = ClientCapabilities::parse(raw);
            assert_eq!((c.form, c.url), (form, url), "{raw}");
        }
    }

    #[test]
    fn a_peer_is_told_in_its_own_words() {
        let all = ClientCapabilities::bridged();
        let views = format!(r#""extensions":{{"io.modelcontextprotocol/ui":{VIEWS}}}"#);
        for (revision, want) in [
            (Revision::V2024_11_05, r#""roots":{},"sampling":{}"#),
            (Revision::V2025_06_18, r#""roots":{},"sampling":{},"elicitation":{}"#),
            (Revision::V2026_07_28, r#""roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}"#),
        ] {
            assert_eq!(written(&all, revision), format!("{{{want},{views}}}"));
        }
        assert_eq!(written(&ClientCapabilities::default(), Revision::V2026_07_28), "{}");
    }

    #[test]
    fn the_ui_extension_passes_as_written() {
        let c = ClientCapabilities::parse(
            r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]},"x/y":{}}}"#,
        );
        assert_eq!(
            written(&c, Revision::V2026_07_28),
            r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#
        );
    }

    #[test]
    fn only_a_client_that_names_the_type_shows_views() {
        for (ui, want) in [
            (r#"{"mimeTypes":["text/html;profile=mcp-app"]}"#, true),
            (r#"{"mimeTypes":["x/y","text/html;profile=mcp-app"]}"#, true),
            (r#"{"mimeTypes":["text/html"]}"#, false),
            (r#"{"mimeTypes":"text/html;profile=mcp-app"}"#, false),
            ("{}", false),
            ("true", false),
        ] {
            let raw = format!(r#"{{"extensions":{{"io.modelcontextprotocol/ui":{ui}}}}}"#);
            assert_eq!(ClientCapabilities::parse(&raw).shows_views(), want, "{ui}");
        }
        assert!(ClientCapabilities::bridged().shows_views() && !ClientCapabilities::default().shows_views());
    }

    #[test]
    fn server_capabilities_are_read_with_their_flags() {
        let c =
            ServerCapabilities::parse(r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}"#);
        assert!(c.tools && c.tools_list_changed && c.resources && c.resources_subscribe && c.logging);
        assert!(!c.prompts && !c.resources_list_changed && !c.completions);
    }
}
