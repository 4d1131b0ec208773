//! What the catalog must know of a server: all that exposed names and URIs depend on, and nothing that can change while it runs.
//!
//! Whoever starts an upstream builds the [`Source`] from its config; routes hand it back to `gateway`, which also maps the
//! URIs in results with it. URIs under a prefix: design §5, "Resource URIs".

use std::borrow::Cow;

use crate::name::{self, ServerName, URI_SEPARATOR};

/// Scheme of MCP Apps views. Hosts look at it, so it stays in front of the prefix (protocol.md §7.4).
const UI_SCHEME: &str = "ui://";

/// Stands before a prefix that cannot begin a URI scheme, because it begins with a digit. A slug has no dot, so no prefix is hit.
const SCHEME_START: &str = "x.";

/// One server as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The key in the config.
    pub name: ServerName,
    /// Before every exposed name and URI; may be empty, which exposes names and URIs as they are.
    pub prefix: String,
    /// Place in the config: lists follow it.
    pub order: usize,
    /// What people see instead of the key.
    pub title: Option<String>,
    /// Whether URIs get the prefix.
    pub uris: Uris,
    /// Longest exposed name, in characters ([`name::EXPOSED_MAX`] unless configured).
    pub name_limit: usize,
    /// Whether the server's instructions are shown downstream.
    pub instructions: bool,
}

/// How URIs of a server are exposed on the merged endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Uris {
    /// `prefix+<original>`: always unique.
    Prefixed,
    /// As they are: readable, but two servers with one URI hide each other.
    Verbatim,
}

impl Source {
    /// The exposed name of a tool or prompt.
    pub fn exposed<'a>(&self, original: &'a str) -> Cow<'a, str> {
        name::exposed(&self.prefix, &self.name, original, self.name_limit)
    }

    /// The way between original and exposed URIs.
    pub fn uri_map(&self) -> UriMap<'_> {
        UriMap { prefix: (self.uris == Uris::Prefixed).then_some(self.prefix.as_str()).filter(|p| !p.is_empty()) }
    }

    /// Whether both give every entry the same names: then a contribution of one is good for the other.
    pub fn names_like(&self, other: &Self) -> bool {
        self.name == other.name
            && self.prefix == other.prefix
            && self.uris == other.uris
            && self.name_limit == other.name_limit
    }

    /// What people see: the title, else the key.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(self.name.as_str())
    }
}

/// Maps URIs, and templates of URIs, of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UriMap<'s> {
    /// `None`: verbatim.
    prefix: Option<&'s str>,
}

impl UriMap<'_> {
    /// Whether URIs are exposed as they are.
    pub fn is_verbatim(self) -> bool {
        self.prefix.is_none()
    }

    /// The URI or template as downstreams see it on the merged endpoint.
    pub fn expose(self, original: &str) -> Cow<'_, str> {
        let Some(prefix) = self.prefix else { return Cow::Borrowed(original) };
        Cow::Owned(match original.strip_prefix(UI_SCHEME) {
            Some(rest) => format!("{UI_SCHEME}{prefix}/{rest}"),
            None => format!("{}{URI_SEPARATOR}{original}", scheme(prefix)),
        })
    }

    /// The server's own URI or template; `None` if `exposed` is not under this server's prefix.
    pub fn original(self, exposed: &str) -> Option<Cow<'_, str>> {
        let Some(prefix) = self.prefix else { return Some(Cow::Borrowed(exposed)) };
        if let Some(rest) = exposed.strip_prefix(UI_SCHEME) {
            let rest = rest.strip_prefix(prefix)?.strip_prefix('/')?;
            return Some(Cow::Owned(format!("{UI_SCHEME}{rest}")));
        }
        exposed.strip_prefix(scheme(prefix).as_ref())?.strip_prefix(URI_SEPARATOR).map(Cow::Borrowed)
    }
}

/// The prefix that an exposed URI claims to stand under.
pub(super) fn claimed_prefix(exposed: &str) -> Option<&str> {
    if let Some(rest) = exposed.strip_prefix(UI_SCHEME) {
        return rest.split_once('/').map(|(prefix, _)| prefix);
    }
    let (head, _) = exposed.split_once(URI_SEPARATOR)?;
    Some(head.strip_prefix(SCHEME_START).unwrap_or(head))
}

/// A prefix as the start of a URI scheme, which must be a letter: strict URI parsers refuse a list with anything else.
fn scheme(prefix: &str) -> Cow<'_, str> {
    if prefix.starts_with(|c: char| c.is_ascii_alphabetic()) {
        Cow::Borrowed(prefix)
    } else {
        Cow::Owned(format!("{SCHEME_START}{prefix}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::source;
    use super::*;

    #[test]
    fn uris_are_exposed_under_the_prefix_and_back() {
        let files = source("files", 0);
        let digits = source("3d", 0);
        let verbatim = Source { uris: Uris::Verbatim, ..source("files", 0) };
        let bare = Source { prefix: String::new(), ..source("files", 0) };
        for (source, original, exposed) in [
            (&files, "file:///a", "files+file:///a"),
            (&files, "file:///{+path}", "files+file:///{+path}"),
            (&files, "ui://weather/view.html", "ui://files/weather/view.html"),
            (&files, "ui://", "ui://files/"),
            (&files, "git+ssh://x", "files+git+ssh://x"),
            (&files, "", "files+"),
            (&digits, "file:///a", "x.3d+file:///a"),
            (&digits, "ui://a", "ui://3d/a"),
            (&verbatim, "file:///a", "file:///a"),
            (&bare, "ui://a", "ui://a"),
        ] {
            assert_eq!(source.uri_map().expose(original), exposed);
            assert_eq!(source.uri_map().original(exposed).as_deref(), Some(original));
        }
    }

    #[test]
    fn a_uri_of_another_prefix_is_not_ours() {
        let files = source("files", 0);
        for uri in ["file:///a", "file+file:///a", "files2+file:///a", "ui://file/x", "ui://files", "files", ""] {
            assert_eq!(files.uri_map().original(uri), None, "{uri}");
        }
    }

    proptest! {
        #[test]
        fn every_uri_comes_back_from_its_exposed_form(uri in any::<String>(), ui in any::<bool>(), key in "[a-z0-9][a-z0-9-]{0,8}") {
            let source = source(&key, 0);
            let uri = if ui { format!("ui://{uri}") } else { uri };
            let exposed = source.uri_map().expose(&uri).into_owned();
            let back = source.uri_map().original(&exposed).map(Cow::into_owned);
            prop_assert_eq!(back.as_deref(), Some(uri.as_str()));
            prop_assert_eq!(claimed_prefix(&exposed), Some(key.as_str()));
        }
    }
}
