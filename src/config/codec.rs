//! How one value of the file becomes one field, and back: a module a kind, named in the `keys!` tables.
//!
//! `read` sets the field or reports what it expected; `show` gives a value in the file's words, for the layer of defaults.

mod upstream;

use std::net::SocketAddr;
use std::time::Duration;

use super::settings::LogFormat;
use super::tree::{Node, Origin, Value};
use super::walk::{Walk, did_you_mean};
pub(super) use upstream::*;

/// A kind whose value is one scalar: what was expected, how to parse it, how to write it.
macro_rules! scalars {
    ($($(#[$doc:meta])* $name:ident: $T:ty, $wanted:literal, $parse:expr, $show:expr;)*) => {$(
        $(#[$doc])*
        pub(in crate::config) mod $name {
            use super::*;

            pub fn read(slot: &mut $T, node: &Node, walk: &mut Walk<'_>) {
                let parse: fn(&Node) -> Option<$T> = $parse;
                match parse(node) {
                    Some(value) => *slot = value,
                    None => walk.expected(node, $wanted),
                }
            }

            pub fn show(value: &$T) -> Node {
                let show: fn(&$T) -> Value = $show;
                Node::new(show(value), Origin::Default)
            }
        }
    )*};
}
pub(in crate::config) use scalars;

scalars! {
    duration: Duration, "a duration such as `500ms`, `30s` or `5m`",
        |node| humantime::parse_duration(string(node)?).ok(),
        |value| Value::Text(humantime::format_duration(*value).to_string());
    bytes: usize, "a size such as `64KiB`, `32MiB` or a number of bytes", |node| size(&scalar(node)?),
        |value| Value::Text(written_size(*value));
    count: usize, "a whole number", |node| number(node)?.replace('_', "").parse().ok(),
        |value| Value::Number(value.to_string());
    flag: bool, "`true` or `false`", |node| match &node.value {
            Value::Bool(value) => Some(*value),
            Value::Text(text) if node.is_loose() => text.to_ascii_lowercase().parse().ok(),
            _ => None,
        },
        |value| Value::Bool(*value);
    address: SocketAddr, "an address with a port, such as `127.0.0.1:8080` or `[::1]:8080`",
        |node| address_of(string(node)?),
        |value| Value::Text(value.to_string());
    level: String, "a level (`error`, `warn`, `info`, `debug`, `trace`, `off`) or a list such as `info,mcp_manifold=debug`",
        |node| string(node).filter(|text| text.split(',').all(is_level)).map(str::to_owned),
        |value| Value::Text(value.clone());
}

/// An address with its port; `localhost` is 127.0.0.1.
pub fn address_of(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?))),
        None => text.parse().ok(),
    }
}

/// A list of texts; one text alone is a list of one, and a variable separates with commas.
pub(super) mod words {
    use super::*;

    pub fn read(slot: &mut Vec<String>, node: &Node, walk: &mut Walk<'_>) {
        match &node.value {
            Value::List(items) => {
                slot.clear();
                each(items, walk, |item, walk| match string(item) {
                    Some(text) => slot.push(text.to_owned()),
                    None => walk.expected(item, "a text"),
                });
            }
            Value::Text(text) if matches!(node.origin, Origin::Variable(_)) => {
                *slot = text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect();
            }
            Value::Text(text) => *slot = vec![text.clone()],
            _ => walk.expected(node, "a list of texts"),
        }
    }

    pub fn show(value: &[String]) -> Node {
        Node::new(Value::List(value.iter().map(Node::text).collect()), Origin::Default)
    }
}

/// A struct with a table of its own.
pub(super) mod section {
    use super::super::section::Section;
    use super::*;

    pub fn read<S: Section>(slot: &mut S, node: &Node, walk: &mut Walk<'_>) {
        slot.read(node, walk);
    }

    pub fn show<S: Section>(value: &S) -> Node {
        Node::new(Value::Map(value.layer()), Origin::Default)
    }
}

pub(super) mod log_format {
    use super::*;

    const WORDS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

    pub fn read(slot: &mut LogFormat, node: &Node, walk: &mut Walk<'_>) {
        choose(slot, WORDS, 2, node, walk);
    }

    pub fn show(value: &LogFormat) -> Node {
        chosen(value, WORDS)
    }
}

/// One of a few words. The first `shown` of them are named in messages, the others are spellings that hosts use.
fn choose<T: Copy>(slot: &mut T, words: &[(&str, T)], shown: usize, node: &Node, walk: &mut Walk<'_>) {
    let names: Vec<&str> = words.iter().take(shown).map(|(word, _)| *word).collect();
    match string(node) {
        Some(text) => match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => *slot = *value,
            None => {
                let message = format!("expected one of `{}`, found {}", names.join("`, `"), node.quote());
                let hint = if node.hidden { None } else { did_you_mean(text, &names) };
                walk.error(&node.origin, message, hint);
            }
        },
        None => walk.expected(node, &format!("one of `{}`", names.join("`, `"))),
    }
}

fn chosen<T: PartialEq>(value: &T, words: &[(&str, T)]) -> Node {
    Node::text(words.iter().find(|(_, candidate)| candidate == value).map_or("", |(word, _)| *word))
}

fn each(items: &[Node], walk: &mut Walk<'_>, mut read: impl FnMut(&Node, &mut Walk<'_>)) {
    for (index, item) in items.iter().enumerate() {
        walk.enter(format!("[{index}]"), |walk| read(item, walk));
    }
}

/// A text, and nothing that merely looks like one.
fn string(node: &Node) -> Option<&str> {
    if let Value::Text(text) = &node.value { Some(text) } else { None }
}

/// A number, or a text where only texts can be.
fn number(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Number(number) => Some(number),
        Value::Text(text) if node.is_loose() => Some(text),
        _ => None,
    }
}

/// Any scalar as text: people write `PORT: 8080` and mean "8080".
fn scalar(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) | Value::Number(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

/// `debug` or `target=debug`.
fn is_level(part: &str) -> bool {
    let word = part.rsplit_once('=').map_or(part, |(_, word)| word).trim();
    ["error", "warn", "info", "debug", "trace", "off"].iter().any(|level| level.eq_ignore_ascii_case(word))
}

const UNITS: &[(&str, usize)] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1), ("", 1)];

fn size(text: &str) -> Option<usize> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_').len();
    let (number, unit) = text.split_at(digits);
    let factor = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()))?.1;
    number.replace('_', "").parse::<usize>().ok()?.checked_mul(factor)
}

fn written_size(bytes: usize) -> String {
    let unit = UNITS.iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| bytes.to_string(), |(name, factor)| format!("{}{name}", bytes / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_or_are_bytes() {
        for (text, want) in [
            ("32MiB", Some(32 << 20)),
            ("64 kib", Some(64 << 10)),
            ("1_000", Some(1000)),
            ("7B", Some(7)),
            ("1GiB", Some(1 << 30)),
            ("10MB", None),
            ("MiB", None),
            ("-1", None),
            ("1.5MiB", None),
            ("99999999999999999999", None),
            ("18446744073709551615GiB", None),
        ] {
            assert_eq!(size(text), want, "{text}");
        }
        assert_eq!([32 << 20, 64 << 10, 1000].map(written_size), ["32MiB", "64KiB", "1000B"]);
    }

    #[test]
    fn texts_stand_for_numbers_only_where_nothing_else_can() {
        let mut node = Node::text("5");
        assert_eq!(number(&node), None);
        node.origin = Origin::Variable("MANIFOLD_PAGESIZE".to_owned());
        assert_eq!(number(&node), Some("5"));
    }
}
