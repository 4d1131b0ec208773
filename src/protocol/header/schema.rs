//! Finds the `x-mcp-header` annotations of a JSON Schema, in one pass over its text.
//!
//! `param` reads them and cuts them out through here. The text is walked, not parsed into a tree:
//! cutting must leave every other byte alone, and a schema nested a million deep must cost neither
//! stack nor quadratic time. What decides is where an object stands: a property *named*
//! `x-mcp-header`, or a default value with such a key, annotates nothing.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

/// The annotation's key.
pub(super) const KEYWORD: &str = "x-mcp-header";

/// How deep brackets may nest before what is inside is no longer looked at: the protocol's own
/// bound on the depth of a message.
const MAX_DEPTH: usize = 128;

/// One annotation, lent out while the walk stands at the end of its schema object.
pub(super) struct Found<'w> {
    walk: &'w Walk<'w>,
    frame: &'w Frame,
}

/// What an object or array is, by where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A schema. `reachable`: from the root through `properties` alone.
    Schema { reachable: bool },
    /// Names to schemas.
    Schemas { reachable: bool },
    /// An array of schemas.
    List,
    /// Instance data or names.
    Data,
}

#[derive(Debug)]
struct Frame {
    role: Role,
    object: bool,
    /// Where the current member's key stands, with quotes; empty while none was read.
    key: Range<usize>,
    /// Where the current member's value begins, once the colon was read.
    value: Option<usize>,
    /// Behind the last member that stays, or behind the opening bracket.
    kept: usize,
    annotation: Option<Range<usize>>,
    kind: Option<Range<usize>>,
    /// Number of annotation members: a second one makes the schema ambiguous.
    count: usize,
}

pub(super) struct Walk<'a> {
    text: &'a str,
    stack: Vec<Frame>,
    cuts: Vec<Range<usize>>,
    stopped: bool,
}

impl Found<'_> {
    /// The property names from the arguments' root to the annotated value; `None` when the
    /// annotation stands where no property is. Undecodable names end up as `None` too.
    pub(super) fn path(&self) -> Option<Vec<String>> {
        if self.frame.role != (Role::Schema { reachable: true }) {
            return None;
        }
        let names = self.walk.stack.iter();
        names
            .filter(|frame| matches!(frame.role, Role::Schemas { .. }))
            .map(|frame| Some(decoded(&self.walk.text[frame.key.clone()])?.into_owned()))
            .collect::<Option<Vec<_>>>()
            .filter(|path| !path.is_empty())
    }

    /// Where the annotation stands: the keys down to it.
    pub(super) fn location(&self) -> String {
        let frames = self.walk.stack.iter().filter(|frame| frame.object);
        let keys: Vec<_> =
            frames.map(|frame| decoded(&self.walk.text[frame.key.clone()]).unwrap_or_default()).collect();
        keys.join("/")
    }

    /// The annotation's JSON text; `None` when the object has more than one.
    pub(super) fn value(&self) -> Option<&str> {
        let range = self.frame.annotation.clone().filter(|_| self.frame.count == 1)?;
        Some(self.walk.text[range].trim())
    }

    /// The JSON text of the `type` beside it.
    pub(super) fn kind(&self) -> Option<&str> {
        Some(self.walk.text[self.frame.kind.clone()?].trim())
    }
}

/// Calls `each` for every annotation of `text`, which must be valid JSON, until it breaks. Answers
/// the byte ranges without which no annotation is left, in order and apart.
pub(super) fn annotations(text: &str, mut each: impl FnMut(&Found<'_>) -> ControlFlow<()>) -> Vec<Range<usize>> {
    let mut walk = Walk { text, stack: Vec::new(), cuts: Vec::new(), stopped: false };
    let mut at = 0;
    let mut ignored = 0_usize;
    while !walk.stopped
        && let Some(&byte) = text.as_bytes().get(at)
    {
        match byte {
            b'"' => {
                let end = string_end(text.as_bytes(), at);
                walk.string(at..end);
                at = end;
                continue;
            }
            b'{' | b'[' if ignored > 0 || walk.stack.len() == MAX_DEPTH => ignored += 1,
            b'}' | b']' if ignored > 0 => ignored -= 1,
            _ if ignored > 0 => {}
            b'{' | b'[' => walk.open(byte == b'{', at),
            b':' => walk.colon(at),
            b',' => walk.comma(at),
            b'}' | b']' => walk.close(at, &mut each),
            _ => {}
        }
        at += 1;
    }
    merged(walk.cuts)
}

/// Whether a look at the text is worth while: the key stands there, or could behind an escape.
pub(super) fn may_have_annotations(text: &str) -> bool {
    let has = |needle: &str| memchr::memmem::find(text.as_bytes(), needle.as_bytes()).is_some();
    has(KEYWORD) || has("\\u")
}

impl Walk<'_> {
    fn string(&mut self, range: Range<usize>) {
        if let Some(frame) = self.stack.last_mut()
            && frame.object
            && frame.value.is_none()
        {
            frame.key = range;
        }
    }

    fn colon(&mut self, at: usize) {
        if let Some(frame) = self.stack.last_mut() {
            frame.value = Some(at + 1);
        }
    }

    fn open(&mut self, object: bool, at: usize) {
        let role = match self.stack.last() {
            None if object => Role::Schema { reachable: true },
            None => Role::Data,
            Some(parent) => self.role_inside(parent, object),
        };
        self.stack.push(Frame {
            role,
            object,
            key: 0..0,
            value: None,
            kept: at + 1,
            annotation: None,
            kind: None,
            count: 0,
        });
    }

    fn role_inside(&self, parent: &Frame, object: bool) -> Role {
        match parent.role {
            Role::Data => Role::Data,
            Role::Schemas { reachable } if object => Role::Schema { reachable },
            Role::Schemas { .. } => Role::Data,
            Role::List if object => Role::Schema { reachable: false },
            Role::List => Role::List,
            Role::Schema { reachable } => {
                let key = decoded(&self.text[parent.key.clone()]);
                role_of_keyword(key.as_deref().unwrap_or_default(), reachable, object)
            }
        }
    }

    fn comma(&mut self, at: usize) {
        if let Some(frame) = self.stack.last_mut()
            && frame.object
            && let Some(key) = end_member(self.text, frame, at)
        {
            let next = self.text[at + 1..].trim_start();
            self.cuts.push(key.start..self.text.len() - next.len());
        }
    }

    fn close(&mut self, at: usize, each: &mut impl FnMut(&Found<'_>) -> ControlFlow<()>) {
        let Some(mut frame) = self.stack.pop() else {
            return;
        };
        if frame.object && end_member(self.text, &mut frame, at).is_some() {
            let end = self.text[..at].trim_end().len();
            self.cuts.push(frame.kept..end);
        }
        if frame.count > 0 {
            self.stopped = each(&Found { walk: self, frame: &frame }).is_break();
        }
    }
}

/// Notes the member that ends before `at`; answers its key's place if it is to be cut out.
fn end_member(text: &str, frame: &mut Frame, at: usize) -> Option<Range<usize>> {
    let value = frame.value.take()?..at;
    let key = decoded(&text[frame.key.clone()]);
    let is_schema = matches!(frame.role, Role::Schema { .. });
    match key.as_deref() {
        Some(KEYWORD) if is_schema => {
            frame.annotation = Some(value);
            frame.count += 1;
            return Some(frame.key.clone());
        }
        Some("type") if is_schema => frame.kind = Some(value),
        _ => {}
    }
    frame.kept = text[..at].trim_end().len();
    None
}

fn role_of_keyword(key: &str, reachable: bool, object: bool) -> Role {
    match key {
        "properties" if object => Role::Schemas { reachable },
        "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" if object => {
            Role::Schemas { reachable: false }
        }
        "const" | "enum" | "default" | "examples" | "example" | "required" | "dependentRequired" | KEYWORD => {
            Role::Data
        }
        // Unknown keywords too: a reader that does know one would find the annotation there.
        _ if object => Role::Schema { reachable: false },
        _ => Role::List,
    }
}

fn decoded(quoted: &str) -> Option<Cow<'_, str>> {
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(quoted).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// Behind the closing quote of the string that begins at `start`.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(next) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += next;
        if text[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

/// Cuts of one object can overlap where several annotations stand at its end.
fn merged(mut cuts: Vec<Range<usize>>) -> Vec<Range<usize>> {
    cuts.sort_by_key(|cut| cut.start);
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(cuts.len());
    for cut in cuts {
        match apart.last_mut() {
            Some(last) if cut.start <= last.end => last.end = last.end.max(cut.end),
            _ => apart.push(cut),
        }
    }
    apart
}
