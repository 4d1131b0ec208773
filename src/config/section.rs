//! How a map of the file becomes a struct: each struct has one table of its keys, written with `keys!`, and this file
//! does the rest: unknown keys, keys said twice, other hosts' keys, and the layer of defaults.

use super::foreign::Foreign;
use super::tree::{Entry, Node, Value};
use super::walk::{Walk, did_you_mean};

/// A struct with a table of keys.
pub(super) trait Section: Sized {
    /// The keys, in the order of the table.
    fn keys() -> Vec<&'static str>;
    /// The key that a word stands for: itself, or the one it is another spelling of.
    fn canonical(word: &str) -> Option<&'static str>;
    /// Sets the field of a canonical key.
    fn set(&mut self, key: &str, node: &Node, walk: &mut Walk<'_>);
    /// The values as a map in the file's words.
    fn layer(&self) -> Vec<Entry>;
    /// Keys of other hosts that do nothing here.
    fn foreign() -> &'static [Foreign] {
        &[]
    }

    /// Reads a map over the values that are there: what is not written stays.
    fn read(&mut self, node: &Node, walk: &mut Walk<'_>) {
        let Value::Map(entries) = &node.value else {
            if node.value != Value::Null {
                walk.expected_unseen(
                    node,
                    &format!(
                        "a map with keys such as `{}`",
                        Self::keys().into_iter().take(3).collect::<Vec<_>>().join("`, `")
                    ),
                );
            }
            return;
        };
        let mut seen: Vec<(&'static str, &str)> = Vec::new();
        for entry in entries {
            walk.enter(&entry.key, |walk| match Self::canonical(&entry.key) {
                Some(key) => match seen.iter().find(|(other, _)| *other == key) {
                    Some((_, twin)) => walk.error(
                        &entry.origin,
                        format!("`{}` says the same as `{twin}`", entry.key),
                        Some("keep one of them".to_owned()),
                    ),
                    None => {
                        seen.push((key, &entry.key));
                        if entry.node.value != Value::Null {
                            self.set(key, &entry.node, walk);
                        }
                    }
                },
                None => unknown::<Self>(entry, walk),
            });
        }
    }
}

fn unknown<S: Section>(entry: &Entry, walk: &mut Walk<'_>) {
    match Foreign::find(S::foreign(), &entry.key) {
        Some(foreign) if foreign.note.is_empty() => {}
        Some(foreign) => {
            walk.warn(
                &entry.origin,
                format!("`{}` is ignored: it is another host's key", entry.key),
                Some(foreign.note.to_owned()),
            );
        }
        None => {
            let near = did_you_mean(&entry.key, &S::keys());
            let hint = near.unwrap_or_else(|| format!("known here: {}", S::keys().join(", ")));
            walk.error(&entry.origin, format!("unknown key `{}`", entry.key), Some(hint));
        }
    }
}

/// The table of a struct: `field: "key" | "other spelling" as codec;`. A field that is missing here does not compile.
macro_rules! keys {
    ($name:ident { $($field:ident: $key:literal $(| $alias:literal)* as $codec:ident;)* }
        $(flatten $inner:ident: $Inner:ty;)? $(foreign $foreign:expr;)? $(besides $($other:ident),+;)?) => {
        impl $crate::config::section::Section for $name {
            fn keys() -> Vec<&'static str> {
                #[allow(unused_mut, reason = "only some tables have an inner one")]
                let mut keys = vec![$($key),*];
                $(keys.extend(<$Inner>::keys());)?
                keys
            }

            fn canonical(word: &str) -> Option<&'static str> {
                match word {
                    $($key $(| $alias)* => Some($key),)*
                    _ => None$(.or_else(|| <$Inner>::canonical(word)))?,
                }
            }

            fn set(&mut self, key: &str, node: &$crate::config::tree::Node, walk: &mut $crate::config::walk::Walk<'_>) {
                match key {
                    $($key => $crate::config::codec::$codec::read(&mut self.$field, node, walk),)*
                    _ => { $(self.$inner.set(key, node, walk);)? }
                }
            }

            fn layer(&self) -> Vec<$crate::config::tree::Entry> {
                let Self { $($field,)* $($inner,)? $($($other: _,)+)? } = self;
                #[allow(unused_mut, reason = "only some tables have an inner one")]
                let mut entries = vec![$($crate::config::tree::Entry::new($key, $crate::config::codec::$codec::show($field))),*];
                $(entries.extend($inner.layer());)?
                entries
            }

            $(fn foreign() -> &'static [$crate::config::foreign::Foreign] {
                $foreign
            })?
        }
    };
}
pub(super) use keys;
