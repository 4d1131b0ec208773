//! `MANIFOLD_...` variables as a layer: `MANIFOLD_ADMIN__LISTEN` is `admin.listen`.
//!
//! `__` goes one level down; case and single `_` do not count, so `MANIFOLD_STARTUP_WAIT` and `MANIFOLD_STARTUPWAIT`
//! are both `startupWait`. Lists are separated by commas. An empty variable is as good as none. Servers come from a file.

use super::tree::{Entry, Node, Origin, Value};
use super::walk::{Walk, nearest, plain};

const PREFIX: &str = "MANIFOLD_";

/// Variables that are ours but no keys.
const OTHERS: &[&str] =
    &["MANIFOLD_CONFIG", "MANIFOLD_LOG", "MANIFOLD_URL", "MANIFOLD_ADMIN_URL", "MANIFOLD_STATE_DIR"];

/// The variables of this process, for [`super::load()`]. One that is not UTF-8 cannot be a setting and reads as wrong.
pub fn variables() -> Vec<(String, String)> {
    let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
}

/// Builds the layer. `known` is the layer of defaults: it has every key that a variable can set.
pub(super) fn layer(variables: impl IntoIterator<Item = (String, String)>, known: &Node, walk: &mut Walk<'_>) -> Node {
    let mut layer = Node::new(Value::Map(Vec::new()), Origin::Default);
    let mut ours: Vec<(String, String)> = variables
        .into_iter()
        .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty())
        .filter(|(name, _)| !OTHERS.contains(&name.as_str()) && !is_service_link(name))
        .collect();
    ours.sort();
    for (name, value) in ours {
        match key_path(&name, known) {
            Some(path) => {
                let node = Node::new(Value::Text(value), Origin::Variable(name));
                if let Err(other) = insert(&mut layer, &path, &node) {
                    walk.error(
                        &node.origin,
                        format!("sets the same key as {other}"),
                        Some("keep one of them".to_owned()),
                    );
                }
            }
            None => {
                let hint = suggestion(&name, known);
                walk.error(&Origin::Variable(name), "no setting has this name", Some(hint));
            }
        }
    }
    layer
}

/// Kubernetes sets `MANIFOLD_PORT=tcp://...` and its like in every pod beside a service called manifold.
fn is_service_link(name: &str) -> bool {
    ["_SERVICE_HOST", "_SERVICE_PORT"].iter().any(|part| name.contains(part))
        || name.ends_with("_PORT")
        || name.contains("_PORT_") && ["_TCP", "_UDP", "_SCTP"].iter().any(|part| name.contains(part))
}

/// The keys that a name stands for, if it leads to a value.
fn key_path(name: &str, known: &Node) -> Option<Vec<String>> {
    let mut path = Vec::new();
    let mut node = known;
    for segment in name.strip_prefix(PREFIX)?.split("__") {
        let entry = node.entries().iter().find(|entry| plain(&entry.key) == plain(segment))?;
        path.push(entry.key.clone());
        node = &entry.node;
    }
    (!matches!(node.value, Value::Map(_))).then_some(path)
}

fn insert(layer: &mut Node, path: &[String], node: &Node) -> Result<(), String> {
    let (Value::Map(entries), Some((key, rest))) = (&mut layer.value, path.split_first()) else { return Ok(()) };
    let at = entries.iter().position(|entry| entry.key == *key);
    match (at, rest) {
        (Some(at), []) => match &entries[at].node.origin {
            Origin::Variable(other) => Err(other.clone()),
            _ => Ok(()),
        },
        (None, []) => {
            entries.push(Entry::new(key, node.clone()));
            Ok(())
        }
        (Some(at), rest) => insert(&mut entries[at].node, rest, node),
        (None, rest) => {
            let mut map = Node::new(Value::Map(Vec::new()), Origin::Default);
            let result = insert(&mut map, rest, node);
            entries.push(Entry::new(key, map));
            result
        }
    }
}

fn suggestion(name: &str, known: &Node) -> String {
    let mut all = Vec::new();
    names(PREFIX.trim_end_matches('_'), "_", known, &mut all);
    if plain(name).starts_with("manifoldmcpservers") {
        return "servers come from the file; use `${NAME}` in it".to_owned();
    }
    match nearest(name, all.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => "`__` goes one level down, as in MANIFOLD_ADMIN__LISTEN; unset it if it is not meant for the gateway"
            .to_owned(),
    }
}

/// Every name that [`key_path`] knows.
fn names(head: &str, separator: &str, node: &Node, out: &mut Vec<String>) {
    for entry in node.entries() {
        let name = format!("{head}{separator}{}", entry.key.to_ascii_uppercase());
        if matches!(entry.node.value, Value::Map(_)) { names(&name, "__", &entry.node, out) } else { out.push(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::section::Section as _;

    fn read(pairs: &[(&str, &str)]) -> (Node, Vec<String>) {
        let known = Node::new(Value::Map(Config::default().layer()), Origin::Default);
        let mut walk = Walk::new(None);
        let variables = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let layer = layer(variables, &known, &mut walk);
        (layer, walk.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn names_reach_every_level_whatever_their_case() {
        let (layer, problems) = read(&[
            ("MANIFOLD_ADMIN__LISTEN", "a"),
            ("MANIFOLD_TIMEOUTS__CALL_MAX", "b"),
            ("MANIFOLD_STARTUPWAIT", "c"),
            ("MANIFOLD_CONFIG", "x"),
            ("MANIFOLD_LISTEN", ""),
            ("PATH", "y"),
            ("MANIFOLD_PORT", "tcp://10.0.0.1:80"),
            ("MANIFOLD_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("MANIFOLD_SERVICE_HOST", "10.0.0.1"),
        ]);
        assert!(problems.is_empty(), "{problems:?}");
        let at = |path: &[&str]| {
            let node = path.iter().try_fold(&layer, |node, key| node.get(key).map(|entry| &entry.node));
            node.map(|node| node.value.clone())
        };
        for (path, want) in [(&["admin", "listen"][..], "a"), (&["timeouts", "callMax"], "b"), (&["startupWait"], "c")]
        {
            assert_eq!(at(path), Some(Value::Text(want.to_owned())), "{path:?}");
        }
        assert_eq!(at(&["listen"]), None);
    }

    #[test]
    fn a_variable_that_sets_nothing_is_an_error() {
        for (name, want) in [
            ("MANIFOLD_LISTN", "MANIFOLD_LISTEN"),
            ("MANIFOLD_ADMIN_LISTEN", "MANIFOLD_ADMIN__LISTEN"),
            ("MANIFOLD_TIMEOUTS", "`__`"),
            ("MANIFOLD_MCPSERVERS__X__URL", "come from the file"),
        ] {
            let (_, problems) = read(&[(name, "1")]);
            assert!(problems.len() == 1 && problems[0].contains(want), "{name}: {problems:?}");
        }
        let (_, problems) = read(&[("MANIFOLD_PAGE_SIZE", "1"), ("MANIFOLD_PAGESIZE", "2")]);
        assert!(problems.len() == 1 && problems[0].contains("same key"), "{problems:?}");
    }
}
