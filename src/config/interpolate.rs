//! `${...}`: what a file leaves to the environment or to secret files.
//!
//! It works on string values after parsing, so a value can never change the shape of the file, and what it brings in
//! is marked so that it never prints. `$${` is a literal `${`; a `$` before anything else is just a `$`.

use std::path::Path;

use super::tree::{Node, Value};
use super::walk::Walk;

/// Longest `${file:...}`, in bytes: tokens and keys are far smaller.
pub const SECRET_FILE_MAX: u64 = 64 * 1024;

/// Where `${...}` looks. A test answers from a map; the program from its environment and disk.
pub trait Lookup {
    /// The value of an environment variable; `Err` says why it cannot be used.
    fn variable(&self, name: &str) -> Result<Option<String>, String>;
    /// The text of a file; `Err` says why it cannot be read.
    fn file(&self, path: &Path) -> Result<String, String>;
}

/// The environment and disk of this process.
#[derive(Debug, Clone, Copy)]
pub struct System;

impl Lookup for System {
    fn variable(&self, name: &str) -> Result<Option<String>, String> {
        match std::env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err("is not UTF-8".to_owned()),
        }
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        use std::io::Read as _;
        let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
        let mut text = String::new();
        file.take(SECRET_FILE_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
        if text.len() as u64 > SECRET_FILE_MAX { Err("is larger than 64 KiB".to_owned()) } else { Ok(text) }
    }
}

/// Replaces every `${...}` below `node`. A failure is reported and leaves [`Value::Broken`].
pub(super) fn interpolate(node: &mut Node, folder: &Path, lookup: &dyn Lookup, walk: &mut Walk<'_>) {
    let replaced = match &mut node.value {
        Value::Text(text) if text.contains("${") => expand(text, folder, lookup),
        Value::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk.enter(format!("[{index}]"), |walk| interpolate(item, folder, lookup, walk));
            }
            return;
        }
        Value::Map(entries) => {
            for entry in entries {
                walk.enter(&entry.key, |walk| interpolate(&mut entry.node, folder, lookup, walk));
            }
            return;
        }
        _ => return,
    };
    match replaced {
        Ok((text, hidden)) => {
            node.value = Value::Text(text);
            node.hidden |= hidden;
        }
        Err(Missing { message, hint }) => {
            walk.error(&node.origin, message, Some(hint));
            node.value = Value::Broken;
        }
    }
}

#[derive(Debug, PartialEq)]
struct Missing {
    message: String,
    hint: String,
}

impl Missing {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// The text with everything replaced, and whether anything was.
fn expand(text: &str, folder: &Path, lookup: &dyn Lookup) -> Result<(String, bool), Missing> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut replaced = false;
    while let Some(at) = rest.find("${") {
        let (head, tail) = (&rest[..at], &rest[at + 2..]);
        if let Some(escaped) = head.strip_suffix('$') {
            out.push_str(escaped);
            out.push_str("${");
            rest = tail;
            continue;
        }
        let end = tail.find('}').ok_or_else(|| {
            Missing::new("a `${` is not closed", "close it with `}`, or write `$${` for a literal `${`")
        })?;
        out.push_str(head);
        out.push_str(&resolve(&tail[..end], folder, lookup)?);
        replaced = true;
        rest = &tail[end + 1..];
    }
    out.push_str(rest);
    Ok((out, replaced))
}

fn resolve(inner: &str, folder: &Path, lookup: &dyn Lookup) -> Result<String, Missing> {
    if let Some(path) = inner.strip_prefix("file:") {
        let path = folder.join(path);
        return match lookup.file(&path) {
            Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
            Err(why) => Err(Missing::new(
                format!("`${{file:...}}`: cannot read {}: {why}", path.display()),
                "check that the file exists and that this user may read it",
            )),
        };
    }
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    let found = if is_name(name) { lookup.variable(name) } else { Err(String::new()) };
    match (found, default) {
        (Ok(Some(value)), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Ok(Some(value)), _) => Ok(value),
        (Ok(None), Some(default)) => Ok(default.to_owned()),
        (Ok(None), None) => Err(missing(inner, name)),
        (Err(_), _) if !is_name(name) => Err(missing(inner, name)),
        (Err(why), _) => Err(Missing::new(format!("the environment variable {name} {why}"), "set it to UTF-8 text")),
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Editors have variables of their own; say what stands in for each.
fn missing(inner: &str, name: &str) -> Missing {
    let kind = inner.split_once(':').map_or(inner, |(kind, _)| kind);
    match kind {
        "input" => Missing::new(
            format!("`${{{inner}}}` asks an editor's user, and there is none here"),
            format!("use an environment variable: `${{{}}}`", shout(inner.trim_start_matches("input:"))),
        ),
        "workspaceFolder" | "workspaceFolderBasename" | "workspaceRoot" | "cwd" | "fileWorkspaceFolder" => {
            Missing::new(
                format!("`${{{inner}}}` is an editor's variable: there is no workspace here"),
                "write the path, or use an environment variable such as `${WORKSPACE}`",
            )
        }
        "userHome" => Missing::new("`${userHome}` is an editor's variable", "write `${HOME}`"),
        "pathSeparator" | "/" => Missing::new(format!("`${{{inner}}}` is an editor's variable"), "write `/`"),
        "command" | "config" | "extensionInstallFolder" => Missing::new(
            format!("`${{{inner}}}` is an editor's variable"),
            "write the value, or use an environment variable",
        ),
        _ if is_name(name) => Missing::new(
            format!("the environment variable {name} is not set"),
            format!("set it, or give a default: `${{{name}:-value}}`"),
        ),
        _ => Missing::new(
            format!("`${{{inner}}}` is not understood"),
            "use `${NAME}`, `${NAME:-default}` or `${file:/path}`; `$${` is a literal `${`",
        ),
    }
}

/// `github-token` as the name of a variable: `GITHUB_TOKEN`.
fn shout(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake;

    impl Lookup for Fake {
        fn variable(&self, name: &str) -> Result<Option<String>, String> {
            match name {
                "TOKEN" => Ok(Some("t0k".to_owned())),
                "EMPTY" => Ok(Some(String::new())),
                "LATIN" => Err("is not UTF-8".to_owned()),
                _ => Ok(None),
            }
        }

        fn file(&self, path: &Path) -> Result<String, String> {
            match path.to_str() {
                Some("/run/x") => Ok("s3c\r\n".to_owned()),
                Some("/etc/m/near") => Ok("n\n".to_owned()),
                _ => Err("no such file".to_owned()),
            }
        }
    }

    #[test]
    fn what_is_there_is_put_in() {
        for (text, want, hidden) in [
            ("Bearer ${TOKEN}", "Bearer t0k", true),
            ("${env:TOKEN}${TOKEN}", "t0kt0k", true),
            ("${NONE:-a:-b}", "a:-b", true),
            ("${EMPTY:-d}|${EMPTY}|${NONE:-}", "d||", true),
            ("${env:NONE:-d}", "d", true),
            ("${file:/run/x}!", "s3c!", true),
            ("${file:near}", "n", true),
            ("$${TOKEN} $$ $HOME 5$", "${TOKEN} $$ $HOME 5$", false),
            ("ü${TOKEN}ü", "üt0kü", true),
        ] {
            assert_eq!(expand(text, Path::new("/etc/m"), &Fake), Ok((want.to_owned(), hidden)), "{text}");
        }
    }

    #[test]
    fn what_is_missing_says_what_to_do() {
        for (text, message, hint) in [
            ("${NONE}", "NONE is not set", "${NONE:-value}"),
            ("${input:github-token}", "editor's user", "${GITHUB_TOKEN}"),
            ("${workspaceFolder}/x", "no workspace", "path"),
            ("${userHome}/x", "editor's variable", "${HOME}"),
            ("${LATIN:-x}", "LATIN is not UTF-8", "UTF-8"),
            ("${open", "not closed", "$${"),
            ("${a b}", "not understood", "${NAME}"),
            ("${}", "not understood", "${NAME}"),
            ("${file:/nope}", "/nope: no such file", "may read it"),
        ] {
            let Err(missing) = expand(text, Path::new("/etc/m"), &Fake) else { panic!("{text}") };
            assert!(missing.message.contains(message) && missing.hint.contains(hint), "{text}: {missing:?}");
        }
    }
}
