//! Which resources of one upstream are watched, and by how many. Pure; the actor owns one.

use std::collections::BTreeMap;

/// Watched resources by original URI, with their number of subscribers.
#[derive(Clone, Debug, Default)]
pub struct Subscriptions(BTreeMap<Box<str>, usize>);

impl Subscriptions {
    /// One subscriber more; true if it is the first.
    pub fn add(&mut self, uri: &str) -> bool {
        match self.0.get_mut(uri) {
            Some(count) => {
                *count += 1;
                false
            }
            None => self.0.insert(uri.into(), 1).is_none(),
        }
    }

    /// One subscriber less; true if it was the last.
    pub fn remove(&mut self, uri: &str) -> bool {
        match self.0.get_mut(uri) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(_) => self.0.remove(uri).is_some(),
            None => false,
        }
    }

    /// All its subscribers were told that it cannot be watched.
    pub fn forget(&mut self, uri: &str) {
        self.0.remove(uri);
    }

    /// Whether anybody watches it.
    pub fn has(&self, uri: &str) -> bool {
        self.0.contains_key(uri)
    }

    /// Every watched resource, sorted.
    pub fn uris(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(AsRef::as_ref)
    }

    /// The watched resources that an update of `uri` concerns: itself, and those that it lies inside of, since servers
    /// may report a part of what was subscribed (protocol.md §5e).
    pub fn concerned<'s>(&'s self, uri: &'s str) -> impl Iterator<Item = &'s str> {
        self.uris().filter(move |watched| {
            uri.strip_prefix(watched)
                .is_some_and(|rest| rest.is_empty() || watched.ends_with('/') || rest.starts_with(['/', '#', '?']))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_subscriber_subscribes_and_the_last_unsubscribes() {
        let mut s = Subscriptions::default();
        assert!(s.add("a") && !s.add("a") && s.add("b"));
        assert!(!s.remove("a") && s.remove("a"));
        assert!(!s.remove("a"), "more leave than came");
        assert_eq!(s.uris().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn an_update_inside_a_watched_resource_concerns_it() {
        let mut s = Subscriptions::default();
        for uri in ["file:///a", "file:///a/b", "x://y/"] {
            s.add(uri);
        }
        let concerned = |uri: &str| s.concerned(uri).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(concerned("file:///a"), ["file:///a"]);
        assert_eq!(concerned("file:///a/b"), ["file:///a", "file:///a/b"]);
        assert_eq!(concerned("file:///ab"), Vec::<String>::new());
        assert_eq!(concerned("x://y/z"), ["x://y/"]);
    }
}
