//! Content of results for revisions that know fewer kinds of it (protocol.md §5j): a block that an old library would
//! refuse, and the whole result with it, becomes a text; every other byte stays.
//!
//! `gateway` asks member by member. Newer *fields* harm nobody and are kept; only new kinds of blocks, structured content
//! that is no object, and lists beyond their limit are touched.

use std::borrow::Cow;
use std::fmt::Write as _;

use memchr::memmem;
use serde_json::value::RawValue;

use super::object::{Object, ObjectWriter, is_object};
use super::revision::Revision;

/// Values of one completion (protocol.md §2.5).
const COMPLETIONS_MAX: usize = 100;

/// The new text of member `key` of a result for a peer of `revision`, or `None` if it stays as it is. `content` and
/// `messages` are looked into only if their bytes may hold a block that the revision lacks.
pub fn for_revision(key: &str, value: &str, revision: Revision) -> Option<String> {
    if !may_hold_unknown(value.as_bytes(), revision) {
        return None;
    }
    match key {
        "content" => blocks(value, revision),
        "messages" => array(value, |message| in_message(message, revision)),
        _ => None,
    }
}

/// Bytes alone: what says no needs no parsing.
fn may_hold_unknown(text: &[u8], revision: Revision) -> bool {
    let has = |needle: &[u8]| memmem::find(text, needle).is_some();
    (!revision.has_resource_links() && has(b"\"resource_link\"")) || (!revision.has_audio() && has(b"\"audio\""))
}

fn in_message(message: &str, revision: Revision) -> Option<String> {
    let object = Object::parse(message).ok()?;
    let new = blocks(object.get("content")?, revision)?;
    replaced(&object, "content", &new)
}

/// One block, or an array of blocks: prompts of some revisions allow either.
fn blocks(content: &str, revision: Revision) -> Option<String> {
    if is_object(content) { block(content, revision) } else { array(content, |b| block(b, revision)) }
}

fn block(text: &str, revision: Revision) -> Option<String> {
    let block = Object::parse(text).ok()?;
    match block.string("type")?.as_ref() {
        "resource_link" if !revision.has_resource_links() => Some(as_text(&block, &link(&block))),
        "audio" if !revision.has_audio() => Some(as_text(&block, &audio(&block))),
        _ => None,
    }
}

fn link(block: &Object<'_>) -> String {
    let text = |key| block.string(key).unwrap_or_default();
    let mut line = match text("name") {
        name if name.is_empty() => text("uri").into_owned(),
        name => format!("{name}: {}", text("uri")),
    };
    if let Some(description) = block.string("description") {
        let _ = write!(line, " ({description})");
    }
    line
}

fn audio(block: &Object<'_>) -> String {
    let kind = block.string("mimeType").unwrap_or(Cow::Borrowed("of an unknown type"));
    format!("[audio, {kind}: not shown, because protocol revision 2024-11-05 has no audio]")
}

/// A text in place of a block; what every block may carry stays with it.
fn as_text(block: &Object<'_>, text: &str) -> String {
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    w.string("type", "text");
    w.string("text", text);
    for (key, value) in block.iter().filter(|(key, _)| matches!(*key, "annotations" | "_meta")) {
        w.raw(key, value);
    }
    w.end();
    String::from_utf8_lossy(&out).into_owned()
}

/// The array with some elements replaced; `None` if none is, or if it is no array.
fn array(text: &str, new: impl Fn(&str) -> Option<String>) -> Option<String> {
    let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    let changed: Vec<Option<String>> = items.iter().map(|item| new(item.get())).collect();
    changed.iter().any(Option::is_some).then(|| {
        let parts: Vec<&str> =
            items.iter().zip(&changed).map(|(old, new)| new.as_deref().unwrap_or_else(|| old.get())).collect();
        format!("[{}]", parts.join(","))
    })
}

fn replaced(object: &Object<'_>, key: &str, new: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    for (name, value) in object.iter() {
        w.raw(name, if name == key { new } else { value });
    }
    w.end();
    String::from_utf8(out).ok()
}

/// Whether a tool's result shows nothing but structured content: legacy hosts show content only, so it gets a text.
pub fn lacks_text(result: &Object<'_>) -> bool {
    result.get_some("structuredContent").is_some()
        && result.get_some("content").is_none_or(|c| c.trim_start_matches('[').trim_start() == "]")
}

/// `completion` with at most as many values as a peer may get; `None` if it is short enough.
pub fn short_completion(completion: &str) -> Option<String> {
    // The shortest value and its comma are three bytes.
    if completion.len() < COMPLETIONS_MAX * 3 {
        return None;
    }
    let object = Object::parse(completion).ok()?;
    let values: Vec<&RawValue> = serde_json::from_str(object.get("values")?).ok()?;
    if values.len() <= COMPLETIONS_MAX {
        return None;
    }
    let kept: Vec<&str> = values.iter().take(COMPLETIONS_MAX).map(|v| v.get()).collect();
    let short = format!("[{}]", kept.join(","));
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    for (key, value) in object.iter().filter(|(key, _)| *key != "hasMore") {
        w.raw(key, if key == "values" { &short } else { value });
    }
    w.raw("hasMore", "true");
    w.end();
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests;
