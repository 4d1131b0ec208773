//! YAML, with budgets: an alias that unfolds into millions of nodes is an error and not a full memory.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::{Fault, Lines};
use crate::config::tree::{Entry, Node, Value};

/// Values and keys as written. A gateway with a thousand servers has about 20,000.
const NODES_MAX: usize = 200_000;
/// Values and keys that aliases add.
const ALIASED_MAX: usize = 20_000;
/// Maps and lists inside each other. The schema needs 5.
const DEPTH_MAX: usize = 32;

pub(super) fn read(text: &str, lines: &Lines<'_>) -> Result<Node, Vec<Fault>> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_events: NODES_MAX,
            max_nodes: NODES_MAX,
            max_aliases: 1000,
            max_recorded_anchor_events: ALIASED_MAX
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_MAX, max_replay_stack_depth: DEPTH_MAX },
        strict_booleans: true,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Spanned<Tree>>(text, options) {
        Ok(tree) => Ok(node(tree, text, lines)),
        Err(error) => {
            let offset = error.location().map_or(0, |location| offset(text, lines, location));
            Err(vec![Fault::new(offset, format!("not valid YAML: {}", message(&error)))])
        }
    }
}

/// The parser's sentence alone: the place is ours to add, and it may come with a picture of the line.
fn message(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let first = text.lines().next().unwrap_or_default();
    first.split(" at line ").next().unwrap_or(first).trim_start_matches("error: ").to_owned()
}

fn offset(text: &str, lines: &Lines<'_>, location: Location) -> usize {
    if let Some(offset) = location.span().byte_offset() {
        return usize::try_from(offset).unwrap_or(0).min(text.len());
    }
    let line = usize::try_from(location.line()).unwrap_or(1).saturating_sub(1);
    lines.starts.get(line).copied().unwrap_or(text.len())
        + usize::try_from(location.column()).unwrap_or(1).saturating_sub(1)
}

fn node(tree: Spanned<Tree>, text: &str, lines: &Lines<'_>) -> Node {
    let origin = lines.origin(offset(text, lines, tree.referenced));
    let value = match tree.value {
        Tree::Null => Value::Null,
        Tree::Bool(value) => Value::Bool(value),
        Tree::Number(shown) => Value::Number(as_written(text, tree.defined).unwrap_or(shown)),
        Tree::Text(value) => Value::Text(value),
        Tree::List(items) => Value::List(items.into_iter().map(|item| node(item, text, lines)).collect()),
        Tree::Map(pairs) => Value::Map(
            pairs
                .into_iter()
                .map(|(key, value)| {
                    let origin = lines.origin(offset(text, lines, key.referenced));
                    Entry { key: key.value, origin, node: node(value, text, lines) }
                })
                .collect(),
        ),
    };
    Node::new(value, origin)
}

/// The number's own letters: `1.10` is an argument that must not become `1.1`.
fn as_written(text: &str, location: Location) -> Option<String> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let end = start.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
    let written = text.get(start..end)?.trim();
    (!written.is_empty() && !written.contains(char::is_whitespace)).then(|| written.to_owned())
}

enum Tree {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Tree, E> {
        Ok(Tree::Number(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Tree, E> {
        Ok(Tree::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Tree::Map(pairs))
    }
}
