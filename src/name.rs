//! Names: what an operator calls an upstream, and what a downstream calls an entry of it.
//!
//! `config` makes a [`ServerName`] and its prefix from a key of `mcpServers`; `catalog` makes exposed names from
//! prefix, server and original name. A name is a pure function of those three: no arrival order, no counters, so
//! that a tool keeps its name over restarts, outages and neighbours (design §5, "Names"). Nobody splits a name:
//! the way back is always a look-up in a snapshot.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// Between the prefix and the original name in an exposed name.
pub const SEPARATOR: &str = "__";

/// Between the prefix and the original URI in an exposed resource URI.
pub const URI_SEPARATOR: char = '+';

/// Longest prefix that a server key is cut to, in characters. Hosts allow 64 for a whole name; half of it is left to the tool.
pub const PREFIX_MAX: usize = 32;

/// Default limit of an exposed name, in characters: what the strictest well-known hosts and model APIs accept (protocol.md §7.1).
pub const EXPOSED_MAX: usize = 64;

/// Characters of the hash that marks a changed name.
const HASH_LEN: usize = 6;

/// The configured name of an upstream: the key in `mcpServers`, exactly as the user wrote it. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(Arc<str>);

impl ServerName {
    /// Takes any key; `config` has refused the empty one.
    pub fn new(key: &str) -> Self {
        Self(Arc::from(key))
    }

    /// The key as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl Borrow<str> for ServerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The prefix that a server key stands for: lower-case `[a-z0-9-]`, at most [`PREFIX_MAX`] characters, never empty.
///
/// `My Server` becomes `my-server`. A key that loses letters on the way (other scripts, accents, too long) ends in a
/// short hash of the whole key, so that `café`, `cafè` and `数据库` stay distinct (bug report kind "unicode in names").
pub fn slug(key: &str) -> String {
    let mut out = String::with_capacity(key.len().min(PREFIX_MAX));
    let mut lossy = false;
    for c in key.chars() {
        match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => out.push(c),
            c => {
                lossy |= !c.is_ascii();
                if !out.is_empty() && !out.ends_with('-') {
                    out.push('-');
                }
            }
        }
    }
    let kept = out.trim_end_matches('-').len();
    out.truncate(kept);
    if lossy || out.is_empty() || out.len() > PREFIX_MAX {
        let head = out.len().min(PREFIX_MAX - HASH_LEN - 1);
        out.truncate(head);
        let kept = out.trim_end_matches('-').len();
        out.truncate(kept);
        if !out.is_empty() {
            out.push('-');
        }
        out.push_str(&hash(key, ""));
    }
    out
}

/// The exposed name of a tool or prompt: `prefix__original`, or just `original` under the empty prefix.
///
/// Characters that hosts refuse (outside `[A-Za-z0-9_-]`) become `_`. A name that was changed, or is longer than `limit`
/// characters, keeps its head and ends in `_` and six characters of a hash of (server, original).
/// `limit` is at least 16 by config's rule; smaller values are treated as 16.
pub fn exposed<'a>(prefix: &str, server: &ServerName, original: &'a str, limit: usize) -> Cow<'a, str> {
    let limit = limit.max(16);
    let clean = !original.is_empty() && original.bytes().all(is_plain);
    let head_len = if prefix.is_empty() { 0 } else { prefix.len() + SEPARATOR.len() };
    if clean && head_len + original.len() <= limit {
        return if prefix.is_empty() {
            Cow::Borrowed(original)
        } else {
            Cow::Owned(format!("{prefix}{SEPARATOR}{original}"))
        };
    }
    let mut name = String::with_capacity(limit);
    if !prefix.is_empty() {
        name.push_str(prefix);
        name.push_str(SEPARATOR);
    }
    name.extend(original.chars().map(|c| if c.is_ascii() && is_plain(c as u8) { c } else { '_' }));
    name.truncate(limit - HASH_LEN - 1);
    name.push('_');
    name.push_str(&hash(server.as_str(), original));
    Cow::Owned(name)
}

fn is_plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

/// Six characters of `[a-z2-7]`: 30 bits of SHA-256 over both parts, with a separator that no JSON string key needs.
fn hash(first: &str, second: &str) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let digest = Sha256::new().chain_update(first).chain_update([0]).chain_update(second).finalize();
    let bits = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    (0..HASH_LEN).map(|i| char::from(ALPHABET[(bits >> (27 - 5 * i)) as usize & 31])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slug_is_short_plain_and_never_empty() {
        for (key, want) in
            [("files", "files"), ("My Server", "my-server"), ("a.b/c_d", "a-b-c-d"), ("--x--", "x"), ("UPPER", "upper")]
        {
            assert_eq!(slug(key), want, "{key}");
        }
        for key in ["数据库", "", "***", &"x".repeat(40), "é"] {
            let s = slug(key);
            assert!(!s.is_empty() && s.len() <= PREFIX_MAX, "{key}: {s}");
            assert!(s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{s}");
        }
    }

    #[test]
    fn unicode_keys_that_differ_only_in_accents_keep_distinct_prefixes() {
        let all = ["café", "cafè", "cafe", "数据库", "数据"].map(slug);
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b), "{all:?}");
        }
        assert!(all[0].starts_with("caf-"), "{all:?}");
    }

    #[test]
    fn exposed_names_are_prefixed_clean_and_bounded() {
        let s = ServerName::new("files");
        assert_eq!(exposed("files", &s, "read_file", 64), "files__read_file");
        assert_eq!(exposed("", &s, "read_file", 64), "read_file");
        let changed = exposed("files", &s, "read.file", 64);
        assert!(changed.starts_with("files__read_file_") && changed.len() == "files__read_file_".len() + 6);
        let tool = "t".repeat(60);
        let long = exposed(&slug(&"k".repeat(40)), &s, &tool, 64);
        assert_eq!(long.len(), 64);
        assert!(exposed("files", &s, "日本", 64).bytes().all(is_plain));
        assert!(exposed("files", &s, "", 64).starts_with("files___"));
    }

    #[test]
    fn names_that_sanitise_alike_stay_apart() {
        let s = ServerName::new("files");
        assert_ne!(exposed("f", &s, "a.b", 64), exposed("f", &s, "a/b", 64));
        assert_ne!(exposed("f", &s, "a.b", 64), exposed("f", &ServerName::new("g"), "a.b", 64));
    }
}
