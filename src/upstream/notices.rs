//! What an upstream tells on its own account: its lists changed, a resource changed. Collected here by the connection's
//! readers without ever waiting, taken by the actor when it has time; ten notices of a kind are one (bug report kind
//! "list_changed storm").

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// Changed resources remembered one by one until the actor takes them; beyond, all subscribed ones count as changed.
const UPDATED_MAX: usize = 1024;

/// The letterbox between readers and actor.
#[derive(Debug, Default)]
pub struct Notices {
    pending: Mutex<Pending>,
    wake: Notify,
}

/// What was told since the actor looked last.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Pending {
    /// `notifications/tools/list_changed`
    pub tools: bool,
    /// `notifications/prompts/list_changed`
    pub prompts: bool,
    /// `notifications/resources/list_changed`: resources and templates.
    pub resources: bool,
    /// `notifications/resources/updated`, original URIs.
    pub updated: BTreeSet<Box<str>>,
    /// More resources changed than were remembered.
    pub updated_overflow: bool,
    /// A stream of notices, or a call, lost its connection: the upstream may be gone, or a new one may stand in its place.
    pub broken: bool,
    /// A stream of notices that was broken is open again: what changed in between, nobody was told.
    pub resumed: bool,
}

impl Pending {
    /// Nothing was told.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Notices {
    /// Notes something.
    pub fn add(&self, note: impl FnOnce(&mut Pending)) {
        note(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }

    /// Notes that a resource changed.
    pub fn add_updated(&self, uri: &str) {
        self.add(|p| {
            if p.updated.len() < UPDATED_MAX {
                p.updated.insert(uri.into());
            } else {
                p.updated_overflow = true;
            }
        });
    }

    /// Waits until something was told, and takes all of it. Cancel safe.
    pub async fn take(&self) -> Pending {
        loop {
            let woken = self.wake.notified();
            let pending = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
            if !pending.is_empty() {
                return pending;
            }
            woken.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_storm_of_notices_is_taken_at_once() {
        let notices = Notices::default();
        for i in 0..2000 {
            notices.add(|p| p.tools = true);
            notices.add_updated(&format!("file:///{i}"));
        }
        let taken = notices.take().await;
        assert!(taken.tools && !taken.prompts && taken.updated_overflow);
        assert_eq!(taken.updated.len(), UPDATED_MAX);
    }
}
