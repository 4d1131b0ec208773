//! One entry of an upstream's list: read once into what routing and the gateway's rules ask about it.
//!
//! Made by `contribution`; `view` hands it out with a route. The text itself stays as it was received; `shape` dresses it.

use std::sync::Arc;

use memchr::memmem;

use super::kind::{Kind, Shape};
use super::offer::Reason;
use super::shape;
use super::source::Source;
use super::template::Template;
use crate::protocol::depth::is_too_deep;
use crate::protocol::header::ParamHeaders;
use crate::protocol::object::{Object, is_object};
use crate::protocol::revision::Era;

/// The annotation that makes a parameter travel as an HTTP header too.
pub(super) const HEADER_ANNOTATION: &[u8] = b"x-mcp-header";

/// One tool, prompt, resource or template.
#[derive(Debug)]
pub struct Entry {
    pub(super) original: Arc<str>,
    pub(super) exposed: Arc<str>,
    pub(super) raw: Box<str>,
    pub(super) tool: Option<Box<Tool>>,
    pub(super) template: Option<Template>,
    pub(super) legacy: InLegacy,
}

/// What a legacy list makes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InLegacy {
    /// The same text as in a modern list.
    Same,
    /// Another text.
    Changed,
    /// Nothing.
    Hidden,
}

/// What the gateway asks about a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tool {
    /// Parameters that travel as headers; empty unless the upstream is a modern one over HTTP.
    pub param_headers: ParamHeaders,
    /// `annotations.readOnlyHint`: an untrusted hint.
    pub read_only: bool,
    /// `annotations.idempotentHint`: an untrusted hint.
    pub idempotent: bool,
    /// `execution.taskSupport`, of the legacy experiment with tasks.
    pub tasks: TaskSupport,
    /// Who the tool is for.
    pub visibility: Visibility,
    /// A view shows its results.
    pub has_view: bool,
    /// Modern lists show an `outputSchema`.
    pub has_output_schema: bool,
    /// Legacy lists show it too: its root is an object. Then, and only then, results must keep `structuredContent` (protocol.md §5j).
    pub has_legacy_output_schema: bool,
}

/// Whether a tool may, must or cannot run as a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// It cannot; the default.
    #[default]
    Forbidden,
    /// It may.
    Optional,
    /// It must.
    Required,
}

/// `_meta.ui.visibility` of a tool: both unless it says otherwise (protocol.md §7.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visibility {
    /// The model may call it.
    pub model: bool,
    /// Views of the same server may call it.
    pub app: bool,
}

impl Default for Visibility {
    fn default() -> Self {
        Self { model: true, app: true }
    }
}

impl Entry {
    /// Its own name or URI.
    pub fn original(&self) -> &Arc<str> {
        &self.original
    }

    /// Its name or URI on the merged endpoint.
    pub fn exposed(&self) -> &Arc<str> {
        &self.exposed
    }

    /// The item as it was received.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// What is known of it if it is a tool.
    pub fn tool(&self) -> Option<&Tool> {
        self.tool.as_deref()
    }

    /// The matcher if it is a well-formed template.
    pub fn template(&self) -> Option<&Template> {
        self.template.as_ref()
    }

    /// Whether a list of this shape shows it.
    pub(super) fn is_shown(&self, shape: Shape) -> bool {
        (shape.era() == Era::Modern || self.legacy != InLegacy::Hidden)
            && (shape.has_apps() || !self.is_for_views_only())
    }

    /// A tool that the model may not call (protocol.md §7.6). Who cannot show views is not told of it.
    pub fn is_for_views_only(&self) -> bool {
        self.tool.as_ref().is_some_and(|tool| !tool.visibility.model)
    }

    /// Reads one item. With an entry may come a reason to complain all the same.
    pub(super) fn read(
        source: &Source,
        kind: Kind,
        raw: Box<str>,
        binding_headers: bool,
    ) -> Result<(Self, Option<Reason>), Refusal> {
        if is_too_deep(raw.as_bytes()) {
            return Err(Refusal { item: None, reason: Reason::TooDeep });
        }
        let (mut entry, complaint) = Self::read_text(source, kind, &raw, binding_headers)?;
        entry.raw = raw;
        Ok((entry, complaint))
    }

    fn read_text(
        source: &Source,
        kind: Kind,
        raw: &str,
        binding_headers: bool,
    ) -> Result<(Self, Option<Reason>), Refusal> {
        let item = Object::parse(raw).map_err(|_| Refusal { item: None, reason: Reason::NotAnObject })?;
        let known_by = item.string(kind.key()).filter(|s| !s.is_empty());
        let refuse = |reason| Refusal { item: known_by.as_deref().map(str::to_owned), reason };
        let original: Arc<str> = Arc::from(known_by.as_deref().ok_or_else(|| refuse(Reason::Missing(kind.key())))?);
        item.string("name").filter(|s| !s.is_empty()).ok_or_else(|| refuse(Reason::Missing("name")))?;
        let mut entry = Self {
            exposed: exposed(source, kind, &original),
            tool: None,
            template: None,
            legacy: InLegacy::Same,
            original,
            raw: Box::default(),
        };
        let complaint = entry.read_kind(kind, &item, binding_headers).map_err(refuse)?;
        Ok((entry, complaint))
    }

    fn read_kind(&mut self, kind: Kind, item: &Object<'_>, binding_headers: bool) -> Result<Option<Reason>, Reason> {
        match kind {
            Kind::Tools => {
                self.tool = Some(Box::new(Tool::read(item, binding_headers)?));
                self.legacy = shape::in_legacy(item, binding_headers);
                Ok((self.legacy == InLegacy::Hidden).then_some(Reason::SchemaRoot))
            }
            Kind::Templates => {
                self.template = Template::parse(&self.original);
                Ok(self.template.is_none().then_some(Reason::Template))
            }
            Kind::Prompts | Kind::Resources => Ok(None),
        }
    }
}

/// An item that is left out, and what it is known by if that can be told.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) item: Option<String>,
    pub(super) reason: Reason,
}

/// Shares the original's text where nothing changes.
fn exposed(source: &Source, kind: Kind, original: &Arc<str>) -> Arc<str> {
    let exposed = match kind {
        Kind::Tools | Kind::Prompts => source.exposed(original),
        Kind::Resources | Kind::Templates => source.uri_map().expose(original),
    };
    if *exposed == **original { original.clone() } else { Arc::from(exposed.as_ref()) }
}

impl Tool {
    fn read(item: &Object<'_>, binding_headers: bool) -> Result<Self, Reason> {
        let schema = item.get("inputSchema").filter(|s| is_object(s)).ok_or(Reason::NoSchema)?;
        let output = item.get_some("outputSchema");
        let annotations = item.object("annotations").unwrap_or_default();
        let flag = |key| annotations.get(key) == Some("true");
        Ok(Self {
            param_headers: param_headers(schema, binding_headers)?,
            read_only: flag("readOnlyHint"),
            idempotent: flag("idempotentHint"),
            tasks: task_support(item),
            visibility: visibility(item),
            has_view: item.object("_meta").is_some_and(|m| m.has("ui") || m.has("ui/resourceUri")),
            has_output_schema: output.is_some(),
            has_legacy_output_schema: output.is_some_and(shape::has_object_root),
        })
    }
}

fn param_headers(schema: &str, binding: bool) -> Result<ParamHeaders, Reason> {
    if !binding || memmem::find(schema.as_bytes(), HEADER_ANNOTATION).is_none() {
        return Ok(ParamHeaders::default());
    }
    ParamHeaders::parse(schema).map_err(Reason::Annotation)
}

fn task_support(item: &Object<'_>) -> TaskSupport {
    match item.object("execution").and_then(|e| e.get("taskSupport")) {
        Some("\"optional\"") => TaskSupport::Optional,
        Some("\"required\"") => TaskSupport::Required,
        _ => TaskSupport::Forbidden,
    }
}

fn visibility(item: &Object<'_>) -> Visibility {
    let listed = item.object("_meta").and_then(|m| m.object("ui")).and_then(|ui| ui.get("visibility"));
    let Some(words) = listed.and_then(|raw| serde_json::from_str::<Vec<String>>(raw).ok()) else {
        return Visibility::default();
    };
    Visibility { model: words.iter().any(|w| w == "model"), app: words.iter().any(|w| w == "app") }
}
