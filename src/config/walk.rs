//! The walk over a tree that becomes settings: it knows the key path, and collects every problem instead of stopping at
//! the first, which is what serde would do.

use std::path::Path;

use super::problem::{Place, Problem, Severity, join};
use super::tree::{Node, Origin, Value};

/// Collects problems; knows where it is.
pub(super) struct Walk<'a> {
    file: Option<&'a Path>,
    path: Vec<String>,
    pub problems: Vec<Problem>,
}

impl<'a> Walk<'a> {
    pub fn new(file: Option<&'a Path>) -> Self {
        Self { file, path: Vec::new(), problems: Vec::new() }
    }

    /// Runs `inside` one key further down.
    pub fn enter<R>(&mut self, key: impl Into<String>, inside: impl FnOnce(&mut Self) -> R) -> R {
        self.path.push(key.into());
        let result = inside(self);
        self.path.pop();
        result
    }

    /// Runs `inside` at another path.
    pub fn at(&mut self, path: Vec<String>, inside: impl FnOnce(&mut Self)) {
        let here = std::mem::replace(&mut self.path, path);
        inside(self);
        self.path = here;
    }

    fn path(&self) -> String {
        join(&self.path)
    }

    pub fn error(&mut self, origin: &Origin, message: impl Into<String>, hint: Option<String>) {
        self.report(Severity::Error, origin, message.into(), hint);
    }

    pub fn warn(&mut self, origin: &Origin, message: impl Into<String>, hint: Option<String>) {
        self.report(Severity::Warning, origin, message.into(), hint);
    }

    /// A value of the wrong kind. `wanted` reads on from "expected".
    pub fn expected(&mut self, node: &Node, wanted: &str) {
        if node.value != Value::Broken {
            self.error(&node.origin, format!("expected {wanted}, found {}", node.quote()), None);
        }
    }

    /// The same where a secret may stand: what was found is not repeated.
    pub fn expected_unseen(&mut self, node: &Node, wanted: &str) {
        if node.value != Value::Broken {
            self.error(&node.origin, format!("expected {wanted}, found {}", node.kind()), None);
        }
    }

    fn report(&mut self, severity: Severity, origin: &Origin, message: String, hint: Option<String>) {
        let (place, message) = match (origin, self.file) {
            (Origin::File(line, column), Some(file)) => {
                (Some(Place { file: file.to_owned(), line: *line, column: *column }), message)
            }
            (Origin::Variable(name), _) => (None, format!("{message} (environment variable {name})")),
            _ => (None, message),
        };
        self.problems.push(Problem { severity, path: self.path(), place, message, hint });
    }
}

/// The candidate that a mistyped `word` most likely meant.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let plain = plain(word);
    let allowed = (plain.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&plain, &self::plain(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Without what people vary: case, `_` and `-`.
pub(super) fn plain(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// A hint for an unknown key or word.
pub(super) fn did_you_mean(word: &str, candidates: &[&str]) -> Option<String> {
    nearest(word, candidates.iter().copied()).map(|near| format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_key() {
        let keys = ["timeouts", "limits", "listen", "mcpServers", "call", "callMax"];
        for (word, want) in [
            ("timeout", Some("timeouts")),
            ("mcp_servers", Some("mcpServers")),
            ("lsiten", Some("listen")),
            ("cal", Some("call")),
            ("callmax", Some("callMax")),
            ("x", None),
            ("banana", None),
        ] {
            assert_eq!(nearest(word, keys), want, "{word}");
        }
    }
}
