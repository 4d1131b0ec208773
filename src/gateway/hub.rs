//! Who wants to hear of changes, and the one task that tells them.
//!
//! The catalog says that lists of an endpoint changed, actors say that a watched resource did; legacy sessions hear of
//! it on their own stream, modern listeners on theirs. Telling never waits: equal messages collapse, and a reader that
//! cannot keep up loses its stream, never the hub (style.md §5.6). Rules: protocol.md §2.6, §3.8, §5e.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use dashmap::DashMap;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use super::outlet::Outlet;
use super::session::Session;
use crate::catalog::{Catalog, Changed, Endpoint, Subscription};
use crate::name::ServerName;
use crate::protocol::jsonrpc::{self, OwnedId};
use crate::protocol::meta;
use crate::protocol::method::notification;
use crate::protocol::object::{ObjectWriter, write_string};
use crate::upstream::directory::Directory;
use crate::upstream::updates::Updates;

/// A resource of one server, by its original URI.
pub type Watched = (ServerName, Box<str>);

/// The registry; clones are the same one.
#[derive(Clone, Debug)]
pub struct Hub(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    directory: Directory,
    listeners: DashMap<u64, Arc<Listener>>,
    next: AtomicU64,
}

/// One who is told.
#[derive(Debug)]
struct Listener {
    endpoint: Endpoint,
    lists: Changed,
    target: Target,
    /// What it watches, with the URI that it knows it by.
    watched: Mutex<HashMap<Watched, Box<str>>>,
}

#[derive(Debug)]
enum Target {
    /// A legacy session; it hears of every list.
    Session(Weak<Session>),
    /// A modern listen stream; its messages carry the id of its request, and none comes before its acknowledgement.
    Listen { outlet: Outlet, id: OwnedId, early: Mutex<Option<Vec<Bytes>>> },
}

/// A place in the registry; dropping it leaves, and ends the subscriptions at the upstreams.
#[derive(Debug)]
pub struct Registration {
    hub: Hub,
    key: u64,
    listener: Arc<Listener>,
}

/// A listener watches as much as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many resources are watched")]
pub struct Full;

impl Hub {
    /// An empty registry over these upstreams.
    pub fn new(directory: Directory) -> Self {
        Self(Arc::new(Shared { directory, listeners: DashMap::new(), next: AtomicU64::new(0) }))
    }

    /// A legacy session hears of every list of its endpoint, and of the resources that it subscribes to.
    pub fn add_session(&self, session: &Arc<Session>) -> Registration {
        self.add(session.endpoint.clone(), Changed::ALL, Target::Session(Arc::downgrade(session)))
    }

    /// A modern stream hears of what it asked for, once it was acknowledged.
    pub fn add_stream(&self, endpoint: Endpoint, lists: Changed, outlet: Outlet, id: OwnedId) -> Registration {
        self.add(endpoint, lists, Target::Listen { outlet, id, early: Mutex::new(Some(Vec::new())) })
    }

    fn add(&self, endpoint: Endpoint, lists: Changed, target: Target) -> Registration {
        let key = self.0.next.fetch_add(1, Ordering::Relaxed);
        let listener = Arc::new(Listener { endpoint, lists, target, watched: Mutex::default() });
        self.0.listeners.insert(key, listener.clone());
        Registration { hub: self.clone(), key, listener }
    }

    /// How many are told.
    pub fn len(&self) -> usize {
        self.0.listeners.len()
    }

    /// Nobody is.
    pub fn is_empty(&self) -> bool {
        self.0.listeners.is_empty()
    }

    /// The task: runs until cancelled. `endpoints` are all that exist.
    pub async fn run(self, catalog: Catalog, updates: Updates, endpoints: Vec<Endpoint>, cancel: CancellationToken) {
        let mut changes: FuturesUnordered<_> =
            endpoints.into_iter().map(|endpoint| next(endpoint.clone(), catalog.subscribe(endpoint))).collect();
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                Some((endpoint, changed, subscription)) = changes.next() => {
                    let Some(changed) = changed else { continue };
                    self.lists_changed(&endpoint, changed);
                    changes.push(next(endpoint, subscription));
                }
                updated = updates.take() => updated.iter().for_each(|watched| self.updated(watched)),
            }
        }
    }

    fn lists_changed(&self, endpoint: &Endpoint, changed: Changed) {
        for listener in self.0.listeners.iter().filter(|l| l.endpoint == *endpoint) {
            for (on, wanted, method) in [
                (changed.tools, listener.lists.tools, notification::TOOLS_CHANGED),
                (changed.prompts, listener.lists.prompts, notification::PROMPTS_CHANGED),
                (changed.resources, listener.lists.resources, notification::RESOURCES_CHANGED),
            ] {
                if on && wanted {
                    listener.tell(method, None);
                }
            }
        }
    }

    fn updated(&self, watched: &Watched) {
        for listener in &self.0.listeners {
            let uri = listener.watched().get(watched).cloned();
            if let Some(uri) = uri {
                listener.tell(notification::RESOURCE_UPDATED, Some(&uri));
            }
        }
    }
}

async fn next(endpoint: Endpoint, mut subscription: Subscription) -> (Endpoint, Option<Changed>, Subscription) {
    let changed = subscription.changed().await;
    (endpoint, changed, subscription)
}

impl Listener {
    fn watched(&self) -> MutexGuard<'_, HashMap<Watched, Box<str>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, method: &str, uri: Option<&str>) {
        match &self.target {
            Target::Session(session) => {
                if let Some(session) = session.upgrade() {
                    session.push(message(method, uri, None));
                }
            }
            Target::Listen { outlet, id, early } => {
                let message = message(method, uri, Some(id));
                match &mut *early.lock().unwrap_or_else(PoisonError::into_inner) {
                    // Bounded by what it asked for: equal messages are kept once.
                    Some(early) if early.contains(&message) => {}
                    Some(early) => early.push(message),
                    // A closed stream's request is about to end and to leave the registry.
                    None => drop(outlet.send_once(message)),
                }
            }
        }
    }
}

fn message(method: &str, uri: Option<&str>, subscription: Option<&OwnedId>) -> Bytes {
    let mut params = Vec::new();
    let mut w = ObjectWriter::begin(&mut params);
    if let Some(uri) = uri {
        w.string("uri", uri);
    }
    if let Some(id) = subscription {
        let mut m = ObjectWriter::begin(w.key("_meta"));
        m.raw(meta::SUBSCRIPTION_ID, id.as_raw());
        m.end();
    }
    w.end();
    jsonrpc::notification(method, &String::from_utf8_lossy(&params)).into()
}

impl Registration {
    /// Sends a listen stream its acknowledgement, then what it could not hear before that. False: the stream is closed.
    pub fn acknowledge(&self, lists: Changed, uris: &[&str]) -> bool {
        let Target::Listen { outlet, id, early } = &self.listener.target else { return false };
        let mut early = early.lock().unwrap_or_else(PoisonError::into_inner);
        let first = [acknowledgement(lists, uris, id)];
        first.into_iter().chain(early.take().unwrap_or_default()).all(|message| outlet.send(message).is_ok())
    }

    /// From now on the listener hears of `watched`, called `uri`. False if it does already.
    pub fn watch(&self, watched: Watched, uri: &str) -> bool {
        self.listener.watched().insert(watched, uri.into()).is_none()
    }

    /// The same, where the listener watches fewer than `most`; what it watches already is no more of it.
    ///
    /// # Errors
    /// [`Full`].
    pub fn watch_within(&self, watched: Watched, uri: &str, most: usize) -> Result<bool, Full> {
        let mut all = self.listener.watched();
        if all.len() >= most && !all.contains_key(&watched) {
            return Err(Full);
        }
        Ok(all.insert(watched, uri.into()).is_none())
    }

    /// It does not any more. False if it did not.
    pub fn unwatch(&self, watched: &Watched) -> bool {
        self.listener.watched().remove(watched).is_some()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.hub.0.listeners.remove(&self.key);
        let watched = std::mem::take(&mut *self.listener.watched());
        for (server, uri) in watched.into_keys() {
            if let Some(handle) = self.hub.0.directory.get(&server) {
                handle.unsubscribe(&uri);
            }
        }
    }
}

/// The acknowledgement of a listen request: what is heard, and its id.
fn acknowledgement(lists: Changed, uris: &[&str], id: &OwnedId) -> Bytes {
    let mut params = Vec::new();
    let mut w = ObjectWriter::begin(&mut params);
    let mut n = ObjectWriter::begin(w.key("notifications"));
    for (on, key) in [
        (lists.tools, "toolsListChanged"),
        (lists.prompts, "promptsListChanged"),
        (lists.resources, "resourcesListChanged"),
    ] {
        if on {
            n.raw(key, "true");
        }
    }
    if !uris.is_empty() {
        let out = n.key("resourceSubscriptions");
        out.push(b'[');
        for (at, uri) in uris.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_string(out, uri);
        }
        out.push(b']');
    }
    n.end();
    let mut m = ObjectWriter::begin(w.key("_meta"));
    m.raw(meta::SUBSCRIPTION_ID, id.as_raw());
    m.end();
    w.end();
    jsonrpc::notification(notification::ACKNOWLEDGED, &String::from_utf8_lossy(&params)).into()
}
