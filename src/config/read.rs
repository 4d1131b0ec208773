//! From the bytes of a file to a [`Node`]: one reader a format, chosen by the file's ending.
//!
//! Readers report where, and never quote the line: it may hold a secret.

mod json;
mod toml;
mod yaml;

use std::path::Path;

use super::problem::{Place, Problem};
use super::tree::{Node, Origin, Value};

/// Longest file, in bytes: real ones have a few KiB; a log given by mistake should not fill the memory.
pub const FILE_MAX: usize = 4 * 1024 * 1024;

/// What a reader found wrong, by byte offset.
struct Fault {
    offset: usize,
    path: Vec<String>,
    message: String,
    hint: Option<String>,
}

impl Fault {
    fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, path: Vec::new(), message: message.into(), hint: None }
    }

    fn into_problem(self, file: &Path, lines: &Lines<'_>) -> Problem {
        let (line, column) = lines.position(self.offset);
        let place = Some(Place { file: file.to_owned(), line, column });
        let path = super::problem::join(&self.path);
        Problem { severity: super::Severity::Error, path, place, message: self.message, hint: self.hint }
    }
}

/// Reads `bytes` in the format that the ending of `file` names; the top level is a map.
pub(super) fn read(file: &Path, bytes: &[u8]) -> Result<Node, Vec<Problem>> {
    let text = text(bytes).map_err(|(message, hint)| vec![Problem::of_file(file, message, Some(hint))])?;
    let lines = Lines::new(text);
    let reader = match file.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("yaml" | "yml") => yaml::read,
        Some("toml") => toml::read,
        Some("json" | "jsonc") => json::read,
        _ => {
            let hint = "name it .yaml, .yml, .toml, .json or .jsonc";
            return Err(vec![Problem::of_file(file, "the file's ending does not say its format", Some(hint))]);
        }
    };
    let node = reader(text, &lines)
        .map_err(|faults| faults.into_iter().map(|fault| fault.into_problem(file, &lines)).collect::<Vec<_>>())?;
    match node.value {
        Value::Map(_) => Ok(node),
        Value::Null => {
            Err(vec![Problem::of_file(file, "the file is empty", Some("the least is a map: `mcpServers: {}`"))])
        }
        _ => {
            let message = format!("expected a map of settings at the top, found {}", node.kind());
            Err(vec![Problem::of_file(file, message, Some("begin with a key such as `mcpServers`"))])
        }
    }
}

/// The file as text, without a byte order mark, or what is wrong and what to do.
fn text(bytes: &[u8]) -> Result<&str, (&'static str, &'static str)> {
    if bytes.len() > FILE_MAX {
        return Err(("the file is larger than 4 MiB", "is this the right file?"));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(("the file is UTF-16", "save it as UTF-8"));
    }
    let bytes = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes);
    if bytes.contains(&0) {
        return Err(("the file is binary: it holds NUL bytes", "is this the right file? It must be UTF-8 text"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| ("the file is not UTF-8", "save it as UTF-8"))?;
    if text.trim().is_empty() {
        return Err(("the file is empty", "the least is a map: `mcpServers: {}`"));
    }
    Ok(text)
}

/// Turns byte offsets into lines and columns.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts[line - 1];
        let column = self.text.get(start..offset).map_or(0, |head| head.chars().count());
        (line, column + 1)
    }

    fn origin(&self, offset: usize) -> Origin {
        let (line, column) = self.position(offset);
        Origin::File(line, column)
    }
}

#[cfg(test)]
mod tests;
