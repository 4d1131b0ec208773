//! Resources that changed, from all upstreams to the gateway's hub, without anybody waiting.
//!
//! Actors put in what their subscribers watch; the hub takes everything at once. One entry a resource, however often it changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::name::ServerName;

/// The letterbox; clones are the same one. Its size is bounded by the number of watched resources.
#[derive(Clone, Debug, Default)]
pub struct Updates(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<BTreeSet<(ServerName, Box<str>)>>,
    wake: Notify,
}

impl Updates {
    /// Notes that a resource changed, by its original URI.
    pub fn add(&self, server: &ServerName, uri: Box<str>) {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert((server.clone(), uri));
        self.0.wake.notify_one();
    }

    /// Waits until something changed and takes all of it. Cancel safe.
    pub async fn take(&self) -> BTreeSet<(ServerName, Box<str>)> {
        loop {
            let woken = self.0.wake.notified();
            let taken = std::mem::take(&mut *self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            if !taken.is_empty() {
                return taken;
            }
            woken.await;
        }
    }
}
