//! PURE. How one item is written into a list: under which name, and in which era's form (protocol.md §5j, §3.5, bug report B003).
//!
//! `segment` renders with it; `entry` asks it beforehand what a legacy list will make of a tool. An item is rewritten member
//! by member: a value is either taken over byte for byte, or it is one of the few named here.

use std::borrow::Cow;

use memchr::memmem;

use super::entry::{Entry, HEADER_ANNOTATION, InLegacy};
use super::kind::{Kind, Shape};
use super::source::Source;
use crate::protocol::header;
use crate::protocol::links;
use crate::protocol::object::{Object, ObjectWriter, is_object, write_string};
use crate::protocol::revision::Era;

/// Members whose absence means something and whose `null` means nothing: strict peers refuse the null (bug report kind
/// "null where absent is meant"). Unknown members keep theirs.
fn is_optional(kind: Kind, key: &str) -> bool {
    match key {
        "title" | "description" | "icons" | "_meta" => true,
        "annotations" => kind != Kind::Prompts,
        "outputSchema" | "execution" => kind == Kind::Tools,
        "arguments" => kind == Kind::Prompts,
        "mimeType" => matches!(kind, Kind::Resources | Kind::Templates),
        "size" => kind == Kind::Resources,
        _ => false,
    }
}

/// The same, inside `annotations`, and inside each element of `icons` and of a prompt's `arguments`.
const OPTIONAL_INSIDE: [&str; 13] = [
    "title",
    "description",
    "required",
    "readOnlyHint",
    "destructiveHint",
    "idempotentHint",
    "openWorldHint",
    "audience",
    "priority",
    "lastModified",
    "mimeType",
    "sizes",
    "theme",
];

/// What an item is written for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dress<'a> {
    pub(super) shape: Shape,
    /// The merged endpoint's names and URIs, of this source; `None`: the server's own.
    pub(super) merged: Option<&'a Source>,
    /// `x-mcp-header` annotations bind: the upstream is a modern one over HTTP.
    pub(super) binding_headers: bool,
}

/// Writes `entry` to `out`; the caller has left out what is hidden.
pub(super) fn write(out: &mut Vec<u8>, kind: Kind, entry: &Entry, dress: Dress<'_>) {
    let Ok(item) = Object::parse(&entry.raw) else { return };
    let mut writer = ObjectWriter::begin(out);
    for (key, value) in item.iter() {
        if is_dropped(kind, key, value, dress.shape) {
            continue;
        }
        if key == kind.key() && dress.merged.is_some() && entry.exposed != entry.original {
            write_string(writer.key(key), &entry.exposed);
        } else {
            writer.raw(key, &edited(kind, key, value, dress));
        }
    }
    writer.end();
}

/// What a legacy list makes of a tool, compared with a modern one.
pub(super) fn in_legacy(tool: &Object<'_>, binding_headers: bool) -> InLegacy {
    let schema = tool.get("inputSchema").unwrap_or_default();
    if !has_object_root(schema) {
        return InLegacy::Hidden;
    }
    let dress = |shape| Dress { shape, merged: None, binding_headers };
    let differs = tool.iter().any(|(key, value)| {
        is_dropped(Kind::Tools, key, value, Shape::Legacy) != is_dropped(Kind::Tools, key, value, Shape::Modern)
            || edited(Kind::Tools, key, value, dress(Shape::Legacy))
                != edited(Kind::Tools, key, value, dress(Shape::Modern))
    });
    if differs { InLegacy::Changed } else { InLegacy::Same }
}

/// Whether a schema's root says `"type": "object"`.
pub(super) fn has_object_root(schema: &str) -> bool {
    Object::parse(schema).is_ok_and(|s| s.get("type") == Some("\"object\""))
}

fn is_dropped(kind: Kind, key: &str, value: &str, shape: Shape) -> bool {
    if value == "null" && is_optional(kind, key) {
        return true;
    }
    kind == Kind::Tools
        && match key {
            // Belongs to the legacy experiment with tasks, which is not offered downstream.
            "execution" => true,
            "outputSchema" => shape.era() == Era::Legacy && !has_object_root(value),
            _ => false,
        }
}

fn edited<'v>(kind: Kind, key: &str, value: &'v str, dress: Dress<'_>) -> Cow<'v, str> {
    let new = match (key, dress.shape.era()) {
        ("annotations" | "icons" | "arguments", _) if is_optional(kind, key) => without_nulls(value),
        ("_meta", _) => dress.merged.and_then(|source| {
            let map = source.uri_map();
            links::rewrite_member("_meta", value, &|uri| map.expose(uri))
        }),
        ("inputSchema", Era::Modern) if kind == Kind::Tools && !dress.binding_headers => without_headers(value),
        ("inputSchema" | "outputSchema", Era::Legacy) if kind == Kind::Tools => without_boolean_properties(value),
        _ => None,
    };
    new.map_or(Cow::Borrowed(value), Cow::Owned)
}

/// A modern peer over HTTP would drop the tool, or send headers that nobody asked for.
fn without_headers(schema: &str) -> Option<String> {
    memmem::find(schema.as_bytes(), HEADER_ANNOTATION).map(|_| header::strip(schema))
}

/// Optional members that are `null` taken out of an object, or of the objects in an array.
fn without_nulls(value: &str) -> Option<String> {
    memmem::find(value.as_bytes(), b"null")?;
    let mut out = Vec::with_capacity(value.len());
    if is_object(value) {
        write_without_nulls(&mut out, value);
    } else {
        let items: Vec<&serde_json::value::RawValue> = serde_json::from_str(value).ok()?;
        out.push(b'[');
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            write_without_nulls(&mut out, item.get());
        }
        out.push(b']');
    }
    String::from_utf8(out).ok()
}

fn write_without_nulls(out: &mut Vec<u8>, value: &str) {
    let Ok(object) = Object::parse(value) else {
        out.extend_from_slice(value.as_bytes());
        return;
    };
    let mut writer = ObjectWriter::begin(out);
    for (key, value) in object.iter().filter(|(k, v)| *v != "null" || !OPTIONAL_INSIDE.contains(k)) {
        writer.raw(key, value);
    }
    writer.end();
}

/// `true` and `false` as schemas of properties in their object form: legacy schemas type every property as an object.
fn without_boolean_properties(schema: &str) -> Option<String> {
    let object = Object::parse(schema).ok()?;
    let properties = object.object("properties")?;
    if !properties.iter().any(|(_, v)| matches!(v, "true" | "false")) {
        return None;
    }
    let mut out = Vec::with_capacity(schema.len() + 16);
    let mut writer = ObjectWriter::begin(&mut out);
    for (key, value) in object.iter() {
        if key == "properties" {
            write_properties(writer.key(key), &properties);
        } else {
            writer.raw(key, value);
        }
    }
    writer.end();
    String::from_utf8(out).ok()
}

fn write_properties(out: &mut Vec<u8>, properties: &Object<'_>) {
    let mut writer = ObjectWriter::begin(out);
    for (key, value) in properties.iter() {
        let value = match value {
            "true" => "{}",
            "false" => r#"{"not":{}}"#,
            other => other,
        };
        writer.raw(key, value);
    }
    writer.end();
}
