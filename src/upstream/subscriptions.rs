//! Which resources of one upstream are watched, and by how many. Pure; the actor owns one.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Watched resources by original URI, with their subscribers. One that the last subscriber has left stays watched for a
/// while, because clients leave and come back (protocol.md §5e).
#[derive(Clone, Debug, Default)]
pub struct Subscriptions(BTreeMap<Box<str>, Watched>);

#[derive(Clone, Copy, Debug)]
enum Watched {
    By(usize),
    Forsaken(Instant),
}

impl Subscriptions {
    /// One subscriber more; true if the upstream does not know of it yet.
    pub fn add(&mut self, uri: &str) -> bool {
        match self.0.get_mut(uri) {
            Some(Watched::By(count)) => *count += 1,
            Some(forsaken) => *forsaken = Watched::By(1),
            None => return self.0.insert(uri.into(), Watched::By(1)).is_none(),
        }
        false
    }

    /// One subscriber less.
    pub fn remove(&mut self, uri: &str, now: Instant) {
        match self.0.get_mut(uri) {
            Some(Watched::By(count)) if *count > 1 => *count -= 1,
            Some(watched @ Watched::By(_)) => *watched = Watched::Forsaken(now),
            Some(Watched::Forsaken(_)) | None => {}
        }
    }

    /// When the first resource has been without subscribers for `linger`.
    pub fn due(&self, linger: Duration) -> Option<Instant> {
        self.0.values().filter_map(|watched| watched.forsaken()).min().map(|since| since + linger)
    }

    /// Takes out the resources that have been without subscribers for `linger`.
    pub fn take_due(&mut self, now: Instant, linger: Duration) -> Vec<Box<str>> {
        let due = |watched: &Watched| watched.forsaken().is_some_and(|since| since + linger <= now);
        self.0.extract_if(.., |_, watched| due(watched)).map(|(uri, _)| uri).collect()
    }

    /// Keeps one that was taken out watched for a while longer.
    pub fn add_forsaken(&mut self, uri: &str, now: Instant) {
        self.0.insert(uri.into(), Watched::Forsaken(now));
    }

    /// The connection on which they were watched is gone: what nobody wants is not asked for again.
    pub fn drop_forsaken(&mut self) {
        self.0.retain(|_, watched| watched.forsaken().is_none());
    }

    /// All its subscribers were told that it cannot be watched.
    pub fn forget(&mut self, uri: &str) {
        self.0.remove(uri);
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

impl Watched {
    fn forsaken(self) -> Option<Instant> {
        match self {
            Self::Forsaken(since) => Some(since),
            Self::By(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINGER: Duration = Duration::from_secs(30);

    #[test]
    fn the_first_subscriber_subscribes_and_the_last_unsubscribes_after_a_while() {
        let now = Instant::now();
        let later = now + LINGER;
        let mut s = Subscriptions::default();
        assert!(s.add("a") && !s.add("a") && s.add("b"));
        s.remove("a", now);
        assert_eq!(s.due(LINGER), None, "one is left");
        s.remove("a", now);
        s.remove("a", later);
        assert_eq!(s.due(LINGER), Some(later), "more leave than came");
        assert!(s.take_due(later - Duration::from_millis(1), LINGER).is_empty());
        assert_eq!(s.take_due(later, LINGER), ["a".into()]);
        assert_eq!((s.due(LINGER), s.uris().collect::<Vec<_>>()), (None, vec!["b"]));
    }

    #[test]
    fn who_comes_back_in_time_joins_what_is_still_watched() {
        let now = Instant::now();
        let mut s = Subscriptions::default();
        s.add("a");
        s.remove("a", now);
        assert!(!s.add("a"), "the upstream still knows");
        assert!(s.take_due(now + LINGER, LINGER).is_empty());
        s.remove("a", now);
        s.drop_forsaken();
        assert!(s.add("a"), "a new connection does not");
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
