//! The kinds of values that stand only inside a server.

use ::url::Url;
use http::{HeaderName, HeaderValue};

use super::{choose, chosen, each, scalar, scalars, string};
use crate::config::draft::Kind;
use crate::config::secret::{MASK, Secret, SecretUrl, Text};
use crate::config::server::{ProtocolPin, Root, UriMode};
use crate::config::tree::{Entry, Node, Origin, Value};
use crate::config::walk::Walk;

/// Headers that the transport sets itself; many files in the wild repeat them, so they are dropped and not refused.
const OURS: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

scalars! {
    text: Option<Text>, "a text",
        |node| { let text = string(node)?; (!text.contains('\0')).then(|| Some(Text::new(text, node.hidden))) },
        |value| value.as_ref().map_or(Value::Null, |text| Value::Text(text.to_string()));
    prefix: Option<String>, "up to 32 letters, digits, `_` or `-`, or an empty text for no prefix",
        |node| {
            let text = string(node)?;
            let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            (plain && text.len() <= crate::name::PREFIX_MAX).then(|| Some(text.to_owned()))
        },
        |value| value.as_ref().map_or(Value::Null, |text| Value::Text(text.clone()));
}

/// An address, of which not even a malformed one prints: its password or key is in it all the same.
pub(in crate::config) mod url {
    use super::*;

    pub fn read(slot: &mut Option<SecretUrl>, node: &Node, walk: &mut Walk<'_>) {
        const WANTED: &str = "an address such as `https://example.com/mcp`";
        match string(node).map(Url::parse) {
            Some(Ok(url)) => *slot = Some(SecretUrl::new(url, node.hidden)),
            Some(Err(error)) => walk.error(&node.origin, format!("expected {WANTED}: {error}"), None),
            None => walk.expected_unseen(node, WANTED),
        }
    }

    pub fn show(value: &Option<SecretUrl>) -> Node {
        Node::new(value.as_ref().map_or(Value::Null, |url| Value::Text(url.to_string())), Origin::Default)
    }
}

/// A list of scalars that never print.
pub(in crate::config) mod secrets {
    use super::*;

    pub fn read(slot: &mut Vec<Secret>, node: &Node, walk: &mut Walk<'_>) {
        let Value::List(items) = &node.value else {
            return walk.expected_unseen(node, "a list of texts");
        };
        each(items, walk, |item, walk| match scalar(item) {
            Some(text) if !text.contains('\0') => slot.push(Secret::new(text)),
            _ => walk.expected_unseen(item, "a text"),
        });
    }

    pub fn show(value: &[Secret]) -> Node {
        Node::new(Value::List(value.iter().map(|_| Node::text(MASK)).collect()), Origin::Default)
    }
}

/// Environment variables of a child.
pub(in crate::config) mod variables {
    use super::*;

    pub fn read(slot: &mut Vec<(String, Secret)>, node: &Node, walk: &mut Walk<'_>) {
        let Value::Map(entries) = &node.value else {
            return walk.expected_unseen(node, "a map of names and texts");
        };
        for entry in entries {
            walk.enter(&entry.key, |walk| {
                if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
                    walk.error(&entry.origin, "not a name for an environment variable", None);
                }
                match scalar(&entry.node) {
                    Some(text) if !text.contains('\0') => slot.push((entry.key.clone(), Secret::new(text))),
                    _ => walk.expected_unseen(&entry.node, "a text"),
                }
            });
        }
    }

    pub fn show(value: &[(String, Secret)]) -> Node {
        masked(value.iter().map(|(name, _)| name.as_str()))
    }
}

/// HTTP headers sent with every request to an upstream.
pub(in crate::config) mod headers {
    use super::*;

    pub fn read(slot: &mut Vec<(HeaderName, Secret)>, node: &Node, walk: &mut Walk<'_>) {
        let Value::Map(entries) = &node.value else {
            return walk.expected_unseen(node, "a map of names and texts");
        };
        for entry in entries {
            walk.enter(&entry.key, |walk| {
                if let Some(header) = header(slot, entry, walk) {
                    slot.push(header);
                }
            });
        }
    }

    fn header(slot: &[(HeaderName, Secret)], entry: &Entry, walk: &mut Walk<'_>) -> Option<(HeaderName, Secret)> {
        let Ok(name) = HeaderName::try_from(entry.key.as_str()) else {
            walk.error(&entry.origin, "not a name for an HTTP header", None);
            return None;
        };
        let Some(text) = scalar(&entry.node) else {
            walk.expected_unseen(&entry.node, "a text");
            return None;
        };
        if slot.iter().any(|(other, _)| *other == name) {
            walk.error(&entry.origin, "this header is written twice: case does not tell headers apart", None);
        } else if HeaderValue::from_str(&text).is_err() {
            let hint = "headers hold one line of visible ASCII; a secret file may hold more than the secret".to_owned();
            walk.error(&entry.node.origin, "not a value for an HTTP header", Some(hint));
        } else if OURS.contains(&name.as_str()) {
            walk.warn(&entry.origin, "ignored: the gateway sets this header itself", None);
        } else {
            return Some((name, Secret::new(text)));
        }
        None
    }

    pub fn show(value: &[(HeaderName, Secret)]) -> Node {
        masked(value.iter().map(|(name, _)| name.as_str()))
    }
}

/// A list of `{uri, name}`, or of URIs alone.
pub(in crate::config) mod roots {
    use super::*;
    use crate::config::section::{Section, keys};

    #[derive(Default)]
    struct RootDraft {
        uri: Option<Text>,
        name: Option<Text>,
    }

    keys! { RootDraft { uri: "uri" as text; name: "name" as text; } }

    pub fn read(slot: &mut Vec<Root>, node: &Node, walk: &mut Walk<'_>) {
        let Value::List(items) = &node.value else {
            return walk.expected_unseen(node, "a list of roots such as `{ uri: \"file:///data\" }`");
        };
        each(items, walk, |item, walk| {
            let mut draft = RootDraft::default();
            match string(item) {
                Some(uri) => draft.uri = Some(Text::new(uri, item.hidden)),
                None => draft.read(item, walk),
            }
            match draft.uri {
                Some(uri) => slot.push(Root { uri, name: draft.name }),
                None if item.is_broken() => {}
                None => walk.error(&item.origin, "a root needs a `uri`", None),
            }
        });
    }

    pub fn show(value: &[Root]) -> Node {
        Node::new(Value::List(value.iter().map(|root| Node::text(root.uri.to_string())).collect()), Origin::Default)
    }
}

pub(in crate::config) mod kind {
    use super::*;

    const WORDS: &[(&str, Option<Kind>)] = &[
        ("stdio", Some(Kind::Stdio)),
        ("http", Some(Kind::Http)),
        ("sse", Some(Kind::Sse)),
        ("streamable-http", Some(Kind::Http)),
        ("streamableHttp", Some(Kind::Http)),
        ("streamable_http", Some(Kind::Http)),
    ];

    pub fn read(slot: &mut Option<Kind>, node: &Node, walk: &mut Walk<'_>) {
        choose(slot, WORDS, 3, node, walk);
    }

    pub fn show(value: &Option<Kind>) -> Node {
        chosen(value, WORDS)
    }
}

pub(in crate::config) mod protocol {
    use super::*;

    const WORDS: &[(&str, ProtocolPin)] =
        &[("auto", ProtocolPin::Auto), ("modern", ProtocolPin::Modern), ("legacy", ProtocolPin::Legacy)];

    pub fn read(slot: &mut ProtocolPin, node: &Node, walk: &mut Walk<'_>) {
        choose(slot, WORDS, 3, node, walk);
    }

    pub fn show(value: &ProtocolPin) -> Node {
        chosen(value, WORDS)
    }
}

pub(in crate::config) mod uris {
    use super::*;

    const WORDS: &[(&str, UriMode)] = &[("prefixed", UriMode::Prefixed), ("verbatim", UriMode::Verbatim)];

    pub fn read(slot: &mut UriMode, node: &Node, walk: &mut Walk<'_>) {
        choose(slot, WORDS, 2, node, walk);
    }

    pub fn show(value: &UriMode) -> Node {
        chosen(value, WORDS)
    }
}

fn masked<'n>(names: impl Iterator<Item = &'n str>) -> Node {
    Node::new(Value::Map(names.map(|name| Entry::new(name, Node::text(MASK))).collect()), Origin::Default)
}
