//! What is wrong with a configuration, said so that it can be put right: `cli` prints it, `admin` answers it on a reload.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

/// A position in a configuration file. It starts at 1, and columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, as it was named.
    pub file: PathBuf,
    /// 0 when the file as a whole is meant.
    pub line: usize,
    /// 0 when the file as a whole is meant.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 { write!(f, ":{}:{}", self.line, self.column) } else { Ok(()) }
    }
}

/// Whether a configuration can be used in spite of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but something in it does nothing.
    Warning,
}

/// One thing to put right. No part of it holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Error or warning.
    pub severity: Severity,
    /// The key path, such as `mcpServers.github.headers.Authorization`; empty when the whole file is meant.
    pub path: String,
    /// Where it is written; none for the environment.
    pub place: Option<Place>,
    /// What happened.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem of a file as a whole.
    pub fn of_file(file: &Path, message: impl Into<String>, hint: Option<&str>) -> Self {
        let place = Some(Place { file: file.to_owned(), line: 0, column: 0 });
        let hint = hint.map(str::to_owned);
        Self { severity: Severity::Error, path: String::new(), place, message: message.into(), hint }
    }

    /// Whether it keeps the configuration from being used.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    /// One line, for logs: `file:line:column: path: message (hint)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

/// A page of problems for a terminal: a paragraph each, in file order, then one line that counts them.
pub fn render(problems: &[Problem], color: bool) -> String {
    let paint = |code: &'static str| if color { code } else { "" };
    let mut sorted: Vec<&Problem> = problems.iter().collect();
    sorted.sort_by(|a, b| a.place.cmp(&b.place));
    let mut out = String::new();
    for problem in &sorted {
        let (word, code) = match problem.severity {
            Severity::Error => ("error", paint("\x1b[1;31m")),
            Severity::Warning => ("warning", paint("\x1b[1;33m")),
        };
        let path = if problem.path.is_empty() { String::new() } else { format!("[{}]", problem.path) };
        let _ = writeln!(out, "{code}{word}{path}{}: {}", paint("\x1b[0m"), problem.message);
        if let Some(place) = &problem.place {
            let _ = writeln!(out, "  {}-->{} {place}", paint("\x1b[34m"), paint("\x1b[0m"));
        }
        if let Some(hint) = &problem.hint {
            let _ = writeln!(out, "  {}help:{} {hint}", paint("\x1b[36m"), paint("\x1b[0m"));
        }
        out.push('\n');
    }
    let errors = sorted.iter().filter(|problem| problem.is_error()).count();
    let _ = writeln!(out, "{}, {}", counted(errors, "error"), counted(sorted.len() - errors, "warning"));
    out
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `a.b."c.d"`: a key is quoted where a reader could take it for more than one.
pub(super) fn join(path: &[String]) -> String {
    let mut out = String::new();
    for key in path {
        if !out.is_empty() && !key.starts_with('[') {
            out.push('.');
        }
        let plain =
            !key.is_empty() && !key.contains(|c: char| c == '.' || c == '"' || c.is_whitespace() || c.is_control());
        if plain {
            out.push_str(key);
        } else {
            let _ = write!(out, "{key:?}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(severity: Severity, line: usize, hint: Option<&str>) -> Problem {
        let place = Some(Place { file: "m.yaml".into(), line, column: 3 });
        let hint = hint.map(str::to_owned);
        Problem { severity, path: "timeouts.cal".to_owned(), place, message: "unknown key".to_owned(), hint }
    }

    #[test]
    fn problems_are_paragraphs_in_file_order_with_a_sum() {
        let page = render(
            &[problem(Severity::Warning, 9, None), problem(Severity::Error, 2, Some("did you mean `call`?"))],
            false,
        );
        assert_eq!(
            page,
            "error[timeouts.cal]: unknown key\n  --> m.yaml:2:3\n  help: did you mean `call`?\n\n\
             warning[timeouts.cal]: unknown key\n  --> m.yaml:9:3\n\n1 error, 1 warning\n"
        );
        assert!(render(&[problem(Severity::Error, 1, None)], true).starts_with("\x1b[1;31merror"));
    }

    #[test]
    fn paths_quote_only_what_could_mislead() {
        let path = ["mcpServers", "my server", "args", "[2]", "x"].map(str::to_owned);
        assert_eq!(join(&path), "mcpServers.\"my server\".args[2].x");
    }
}
