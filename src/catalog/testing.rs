//! What the tests of the catalog build offers and snapshots from.

use std::sync::Arc;

use super::*;
use crate::name::{EXPOSED_MAX, ServerName};
use crate::protocol::revision::Era;

/// A server whose prefix is its key.
pub fn source(key: &str, order: usize) -> Source {
    Source {
        name: ServerName::new(key),
        prefix: key.to_owned(),
        order,
        title: None,
        uris: Uris::Prefixed,
        name_limit: EXPOSED_MAX,
        instructions: true,
    }
}

/// A list of these items, read at no known time.
pub fn list(items: &[&str]) -> List {
    List { items: items.iter().map(|&i| i.into()).collect(), ..List::default() }
}

/// A tool that every peer accepts.
pub fn tool(name: &str) -> String {
    format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#)
}

/// A modern offer over HTTP with these lists.
pub fn offer(lists: &[(Kind, &[&str])]) -> Offer {
    let mut offer = Offer::new(Era::Modern, true);
    for (kind, items) in lists {
        offer.set(*kind, list(items));
    }
    offer
}

/// A fresh part with these lists and nothing to complain about.
pub fn part(source: Source, lists: &[(Kind, &[&str])]) -> Part {
    let source = Arc::new(source);
    let (contribution, complaints) = Contribution::new(source.clone(), offer(lists));
    assert_eq!(complaints, []);
    Part { source, contribution: Arc::new(contribution), standing: Standing::Fresh }
}

/// A fresh part with tools of these names.
pub fn tools(source: Source, names: &[&str]) -> Part {
    let items: Vec<String> = names.iter().map(|n| tool(n)).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    part(source, &[(Kind::Tools, &items)])
}

/// A whole list as text.
pub fn text(view: View<'_>, kind: Kind, shape: Shape) -> String {
    String::from_utf8(view.list(kind, shape, None, usize::MAX).unwrap().to_vec()).unwrap()
}
