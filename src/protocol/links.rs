//! Resource URIs inside results: where they stand, and a rewrite that touches nothing else.
//!
//! `gateway` gives a result and a mapping when a server's URIs are exposed under its prefix; `catalog` does the same with
//! the `_meta` of list entries. The places (protocol.md §2.8): `content[]` blocks of type `resource_link` and `resource`,
//! the same blocks in `messages[].content`, `contents[].uri`, and the two spellings of a tool's UI link in `_meta`.
//! Texts, structured content and every other byte stay as they are.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;
use serde_json::value::RawValue;

use super::object::{Object, ObjectWriter, is_object, string, write_string};

/// How one URI is shown to the other side.
pub type UriMapping<'m> = dyn Fn(&str) -> Cow<'_, str> + 'm;

/// Whether `text` may hold one of the places, judged by bytes alone: a result that says no needs no parsing.
///
/// `"resource` stands in both block types and in `resourceUri`; the flat key is looked for without its start, because
/// some encoders escape the slash.
pub fn may_hold_links(text: &[u8]) -> bool {
    const NEEDLES: [&[u8]; 4] = [b"\"resource", b"\"contents\"", b"/resourceUri", b"\"ui\""];
    NEEDLES.iter().any(|needle| memmem::find(text, needle).is_some())
}

/// Writes `result` with its URIs mapped to `out` and says true; or says false and writes nothing, if no URI changes.
pub fn rewrite_result(result: &Object<'_>, out: &mut Vec<u8>, map: &UriMapping<'_>) -> bool {
    let changed: Vec<(&str, String)> =
        result.iter().filter_map(|(key, value)| rewrite_member(key, value, map).map(|text| (key, text))).collect();
    if changed.is_empty() {
        return false;
    }
    let mut writer = ObjectWriter::begin(out);
    for (key, value) in result.iter() {
        let new = changed.iter().find(|(k, _)| *k == key);
        writer.raw(key, new.map_or(value, |(_, text)| text));
    }
    writer.end();
    true
}

/// The new text of member `key` of a result, or `None` if it stays as it is. For callers that write a result themselves.
pub fn rewrite_member(key: &str, value: &str, map: &UriMapping<'_>) -> Option<String> {
    if !matches!(key, "content" | "contents" | "messages" | "_meta") {
        return None;
    }
    if key != "contents" && !may_hold_links(value.as_bytes()) {
        return None;
    }
    let mut edits = Edits { text: value, map, found: Vec::new() };
    match key {
        "content" => edits.blocks(value),
        "contents" => each(value, |item| edits.member(item, "uri")),
        "messages" => each(value, |message| {
            if let Some(content) = Object::parse(message).ok().and_then(|m| m.get("content")) {
                edits.blocks(content);
            }
        }),
        _ => edits.meta(value),
    }
    edits.apply()
}

/// Calls `visit` with each element of the array `text`; with nothing if it is no array.
fn each<'t>(text: &'t str, mut visit: impl FnMut(&'t str)) {
    if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(text) {
        items.into_iter().for_each(|item| visit(item.get()));
    }
}

/// What to replace in `text`, in the order of the text.
struct Edits<'t, 'm> {
    text: &'t str,
    map: &'m UriMapping<'m>,
    found: Vec<(Range<usize>, String)>,
}

impl<'t> Edits<'t, '_> {
    /// One block, or an array of blocks: prompts allow either.
    fn blocks(&mut self, content: &'t str) {
        if is_object(content) {
            self.block(content);
        } else {
            each(content, |block| self.block(block));
        }
    }

    fn block(&mut self, block: &'t str) {
        let Ok(object) = Object::parse(block) else { return };
        match object.string("type").as_deref() {
            Some("resource_link") => self.string(object.get("uri")),
            Some("resource") => {
                if let Some(resource) = object.get("resource") {
                    self.member(resource, "uri");
                }
            }
            _ => {}
        }
    }

    fn meta(&mut self, meta: &'t str) {
        let Ok(object) = Object::parse(meta) else { return };
        for (key, value) in object.iter() {
            match key {
                "ui/resourceUri" => self.string(Some(value)),
                "ui" => self.member(value, "resourceUri"),
                _ => {}
            }
        }
    }

    fn member(&mut self, object: &'t str, key: &str) {
        if let Ok(object) = Object::parse(object) {
            self.string(object.get(key));
        }
    }

    fn string(&mut self, raw: Option<&'t str>) {
        let Some(raw) = raw else { return };
        let Some(uri) = string(raw) else { return };
        let new = (self.map)(&uri);
        if new == uri {
            return;
        }
        // `raw` is a slice of `text`, so its place follows from where the two begin.
        let Some(start) = (raw.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize) else { return };
        let mut quoted = Vec::with_capacity(new.len() + 2);
        write_string(&mut quoted, &new);
        self.found.push((start..start + raw.len(), String::from_utf8_lossy(&quoted).into_owned()));
    }

    fn apply(self) -> Option<String> {
        if self.found.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(self.text.len() + 32 * self.found.len());
        let mut at = 0;
        for (range, new) in self.found {
            out.push_str(self.text.get(at..range.start)?);
            out.push_str(&new);
            at = range.end;
        }
        out.push_str(self.text.get(at..)?);
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposed(uri: &str) -> Cow<'_, str> {
        Cow::Owned(format!("p+{uri}"))
    }

    fn rewritten(text: &str) -> Option<String> {
        let mut out = Vec::new();
        let changed = rewrite_result(&Object::parse(text).unwrap(), &mut out, &exposed);
        assert_eq!(changed, !out.is_empty());
        changed.then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn every_place_is_rewritten_and_every_other_byte_survives() {
        for (text, want) in [
            (
                r#"{"content":[ {"type":"resource_link","uri":"file:///a","x":1.10} ,{"type":"text","text":"\"resource\" file:///a"}],"isError":false}"#,
                r#"{"content":[ {"type":"resource_link","uri":"p+file:///a","x":1.10} ,{"type":"text","text":"\"resource\" file:///a"}],"isError":false}"#,
            ),
            (
                r#"{"content":[{"resource":{"text":"t","uri":"a:b","n":9007199254740993},"type":"resource"}]}"#,
                r#"{"content":[{"resource":{"text":"t","uri":"p+a:b","n":9007199254740993},"type":"resource"}]}"#,
            ),
            (
                r#"{"contents":[{"uri":"a:1","text":"\u65e5 a:1"},{ "uri" : "a:2" , "blob":"" }]}"#,
                r#"{"contents":[{"uri":"p+a:1","text":"\u65e5 a:1"},{ "uri" : "p+a:2" , "blob":"" }]}"#,
            ),
            (
                r#"{"messages":[{"role":"user","content":{"type":"resource_link","uri":"a:\"q\""}},{"content":[{"type":"resource","resource":{"uri":"a:2"}}]}]}"#,
                r#"{"messages":[{"role":"user","content":{"type":"resource_link","uri":"p+a:\"q\""}},{"content":[{"type":"resource","resource":{"uri":"p+a:2"}}]}]}"#,
            ),
            (
                r#"{"content":[],"_meta":{"ui":{"resourceUri":"ui://a","csp":{}},"ui\/resourceUri":"ui:\/\/a","v":1}}"#,
                r#"{"content":[],"_meta":{"ui":{"resourceUri":"p+ui://a","csp":{}},"ui\/resourceUri":"p+ui://a","v":1}}"#,
            ),
        ] {
            assert_eq!(rewritten(text).as_deref(), Some(want));
        }
    }

    #[test]
    fn texts_structured_content_and_odd_shapes_are_left_alone() {
        for text in [
            r#"{"content":[{"type":"text","text":"see file:///a"}]}"#,
            r#"{"structuredContent":{"content":[{"type":"resource_link","uri":"a:b"}],"contents":[{"uri":"a:b"}]}}"#,
            r#"{"content":[{"type":"text","resource":{"uri":"a:b"}},{"type":"resource_link","uri":null},{"type":"resource"}]}"#,
            r#"{"contents":"x"}"#,
            r#"{"contents":[]}"#,
            r#"{"messages":[3,{"content":"resource"}],"_meta":["ui"]}"#,
            "{}",
        ] {
            assert_eq!(rewritten(text), None, "{text}");
        }
    }

    #[test]
    fn nothing_is_written_when_the_mapping_changes_nothing() {
        let mut out = Vec::new();
        let result = Object::parse(r#"{"contents":[{"uri":"a:1"}]}"#).unwrap();
        assert!(!rewrite_result(&result, &mut out, &|uri| Cow::Borrowed(uri)) && out.is_empty());
    }

    #[test]
    fn bytes_tell_whether_parsing_is_worth_it() {
        for (text, want) in [
            (r#"{"content":[{"type":"text","text":"a resource"}]}"#, false),
            (r#"{"content":[{"type":"resource_link"}]}"#, true),
            (r#"{"_meta":{"ui\/resourceUri":"x"}}"#, true),
            (r#"{"contents":[]}"#, true),
        ] {
            assert_eq!(may_hold_links(text.as_bytes()), want, "{text}");
        }
    }
}
