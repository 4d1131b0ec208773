//! From a file and an environment to a [`Config`], or to every problem at once.

use std::path::{Path, PathBuf};

use super::find::Found;
use super::foreign::{self, Foreign};
use super::interpolate::{self, Lookup};
use super::problem::{Problem, Severity};
use super::section::Section;
use super::tree::{Entry, Node, Origin, Value};
use super::validate::{self, Finding};
use super::walk::Walk;
use super::{Config, draft, environment, layers, read};

/// A configuration that can run.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What was asked for.
    pub config: Config,
    /// What does nothing in it.
    pub warnings: Vec<Problem>,
    /// The file it came from; none for the built-in demo.
    pub source: Option<PathBuf>,
}

/// Loads what [`super::find()`] found. `variables` is the environment; `lookup` answers `${...}`; `exe` runs the demo.
///
/// # Errors
/// Every problem, warnings included, when at least one is an error.
pub fn load(
    found: &Found,
    variables: impl IntoIterator<Item = (String, String)>,
    lookup: &dyn Lookup,
    exe: &Path,
) -> Result<Loaded, Vec<Problem>> {
    let Found::File(file) = found else {
        let mut loaded = assemble(Config::demo(exe), None, variables, lookup)?;
        loaded.config.share_defaults();
        return Ok(loaded);
    };
    let bytes = read_file(file).map_err(|error| {
        vec![Problem::of_file(file, format!("cannot read the file: {error}"), Some("name another with --config"))]
    })?;
    parse(file, &bytes, variables, lookup)
}

/// Not a byte more than [`read::FILE_MAX`] and one, so that a device or a log cannot fill the memory.
fn read_file(file: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(read::FILE_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same from bytes: nothing is touched but `lookup`.
///
/// # Errors
/// As [`load`].
pub fn parse(
    file: &Path,
    bytes: &[u8],
    variables: impl IntoIterator<Item = (String, String)>,
    lookup: &dyn Lookup,
) -> Result<Loaded, Vec<Problem>> {
    let tree = read::read(file, bytes)?;
    assemble(Config::default(), Some((file, tree)), variables, lookup)
}

fn assemble(
    base: Config,
    file: Option<(&Path, Node)>,
    variables: impl IntoIterator<Item = (String, String)>,
    lookup: &dyn Lookup,
) -> Result<Loaded, Vec<Problem>> {
    let (path, tree) = file.map_or((None, None), |(path, tree)| (Some(path), Some(tree)));
    let folder = path.map(folder_of).unwrap_or_default();
    let mut walk = Walk::new(path);
    let tree = tree.map(|mut tree| {
        resolve(&mut tree, &folder, lookup, &mut walk);
        tree
    });
    let defaults = Node::new(Value::Map(base.layer()), Origin::Default);
    let environment = environment::layer(variables, &defaults, &mut walk);
    let top = layers::merge(&defaults, tree.as_ref(), &environment);
    let config = decode(base, &top, &folder, &mut walk);
    for finding in validate::config(&config) {
        report(finding, &top, &mut walk);
    }
    if walk.problems.iter().any(Problem::is_error) {
        return Err(walk.problems);
    }
    Ok(Loaded { config, warnings: walk.problems, source: path.map(Path::to_owned) })
}

/// Absolute where that can be known, so that a later change of directory moves nothing.
fn folder_of(file: &Path) -> PathBuf {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    file.parent().map(Path::to_owned).unwrap_or_default()
}

/// Replaces `${...}`, but not in what is passed over anyway: hosts' own keys are full of their own variables.
fn resolve(tree: &mut Node, folder: &Path, lookup: &dyn Lookup, walk: &mut Walk<'_>) {
    let Value::Map(entries) = &mut tree.value else { return };
    for entry in
        entries.iter_mut().filter(|entry| !is_note(&entry.key) && Foreign::find(foreign::TOP, &entry.key).is_none())
    {
        walk.enter(&entry.key, |walk| match &mut entry.node.value {
            Value::Map(servers) if SERVERS.contains(&entry.key.as_str()) => {
                for server in servers {
                    walk.enter(&server.key, |walk| resolve_server(&mut server.node, folder, lookup, walk));
                }
            }
            _ => interpolate::interpolate(&mut entry.node, folder, lookup, walk),
        });
    }
}

/// What a disabled server lacks is worth a warning only: nothing needs it.
fn resolve_server(server: &mut Node, folder: &Path, lookup: &dyn Lookup, walk: &mut Walk<'_>) {
    let before = walk.problems.len();
    if let Value::Map(entries) = &mut server.value {
        for entry in entries.iter_mut().filter(|entry| Foreign::find(foreign::SERVER, &entry.key).is_none()) {
            walk.enter(&entry.key, |walk| interpolate::interpolate(&mut entry.node, folder, lookup, walk));
        }
    }
    if is_disabled(server) {
        for problem in &mut walk.problems[before..] {
            problem.severity = Severity::Warning;
            problem.message.push_str("; the server is disabled and left out");
        }
    }
}

/// Keys at the top that are the operator's own: YAML anchors, notes for other programs.
fn is_note(key: &str) -> bool {
    key.starts_with("x-")
}

fn is_disabled(server: &Node) -> bool {
    let says = |key, value| server.get(key).is_some_and(|entry| entry.node.value == Value::Bool(value));
    says("disabled", true) || says("enabled", false)
}

/// `mcpServers`, and the name that VS Code gives it.
const SERVERS: [&str; 2] = ["mcpServers", "servers"];

fn decode(mut config: Config, top: &Node, folder: &Path, walk: &mut Walk<'_>) -> Config {
    let (servers, settings): (Vec<Entry>, Vec<Entry>) = top
        .entries()
        .iter()
        .filter(|entry| !is_note(&entry.key))
        .cloned()
        .partition(|entry| SERVERS.contains(&entry.key.as_str()));
    config.read(&Node::new(Value::Map(settings), top.origin.clone()), walk);
    let mut seen: Vec<&str> = Vec::new();
    for group in &servers {
        walk.enter(&group.key, |walk| {
            if !matches!(group.node.value, Value::Map(_) | Value::Null) {
                walk.expected_unseen(&group.node, "a map of servers");
            }
            for entry in group.node.entries() {
                walk.enter(&entry.key, |walk| {
                    if seen.contains(&entry.key.as_str()) {
                        let hint = Some("keep one of them".to_owned());
                        walk.error(&entry.origin, "this server is in both `mcpServers` and `servers`", hint);
                    }
                    seen.push(&entry.key);
                    let server = draft::read(entry, top, &config, folder, walk);
                    config.servers.extend(server);
                });
            }
        });
    }
    config
}

/// Gives a finding its place: its own, or that of the nearest key above that is written somewhere.
fn report(finding: Finding, top: &Node, walk: &mut Walk<'_>) {
    let Finding { severity, path, message, hint } = finding;
    let server = path.first().map(String::as_str) == Some(validate::SERVER);
    let path = if server { group_of(top, path) } else { path };
    let (mut node, mut origin) = (top, Origin::Default);
    for key in &path {
        let Some(entry) = node.get(key) else { break };
        node = &entry.node;
        origin = if entry.node.origin == Origin::Default { origin } else { entry.node.origin.clone() };
    }
    walk.at(path, |walk| match severity {
        Severity::Error => walk.error(&origin, message, hint),
        Severity::Warning => walk.warn(&origin, message, hint),
    });
}

/// `validate` does not know which of the two names the file uses.
fn group_of(top: &Node, mut path: Vec<String>) -> Vec<String> {
    let holds = |group: &&'static str| {
        top.get(group).is_some_and(|entry| path.get(1).is_some_and(|key| entry.node.get(key).is_some()))
    };
    let group = SERVERS.into_iter().find(holds).unwrap_or(SERVERS[0]);
    group.clone_into(&mut path[0]);
    path
}

#[cfg(test)]
mod tests;
