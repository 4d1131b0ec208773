//! Where everybody finds the handle of an upstream. The supervisor writes, `gateway` and `admin` read.

use std::sync::Arc;

use dashmap::DashMap;

use super::handle::Handle;
use crate::name::ServerName;

/// Handles by server; clones are the same directory.
#[derive(Clone, Debug, Default)]
pub struct Directory(Arc<DashMap<ServerName, Handle>>);

impl Directory {
    /// The handle of a server that is configured and not disabled.
    pub fn get(&self, name: &ServerName) -> Option<Handle> {
        self.0.get(name).map(|h| h.value().clone())
    }

    /// All handles, in config order.
    pub fn all(&self) -> Vec<Handle> {
        let mut all: Vec<Handle> = self.0.iter().map(|h| h.value().clone()).collect();
        all.sort_by_key(|h| h.source().order);
        all
    }

    /// Adds or replaces a handle.
    pub fn insert(&self, handle: Handle) {
        self.0.insert(handle.source().name.clone(), handle);
    }

    /// Takes a handle out.
    pub fn remove(&self, name: &ServerName) {
        self.0.remove(name);
    }
}
