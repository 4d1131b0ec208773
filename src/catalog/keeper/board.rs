//! Who is told that lists changed: counters per endpoint and list, on a watch.
//!
//! A slow subscriber loses nothing and fills nothing: it compares counters with those that it saw last, so any number of changes in
//! between become one (bug report kind "list_changed storm").

use std::time::Duration;

use hashbrown::HashMap;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::catalog::diff::Changed;
use crate::catalog::kind::Endpoint;
use crate::name::ServerName;

/// Least time between two notices to one subscriber. The first comes at once; a storm becomes twenty a second (design §5, "Freshness").
const SPACING: Duration = Duration::from_millis(50);

/// How often each list changed, by endpoint. Entries of removed servers stay, so that a count never goes back.
#[derive(Debug, Default)]
pub(super) struct Board {
    merged: Counters,
    servers: HashMap<ServerName, Counters>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    tools: u64,
    prompts: u64,
    resources: u64,
}

impl Board {
    /// Counts a change of a server's lists where they show: on its own endpoint and on the merged one.
    pub(super) fn tell_server(&mut self, server: &ServerName, changed: Changed) {
        self.tell_merged(changed);
        self.tell_alone(server, changed);
    }

    pub(super) fn tell_merged(&mut self, changed: Changed) {
        self.merged.count(changed);
    }

    pub(super) fn tell_alone(&mut self, server: &ServerName, changed: Changed) {
        self.servers.entry(server.clone()).or_default().count(changed);
    }

    fn of(&self, endpoint: &Endpoint) -> Counters {
        match endpoint {
            Endpoint::Merged => self.merged,
            Endpoint::Server(name) => self.servers.get(name).copied().unwrap_or_default(),
        }
    }
}

impl Counters {
    fn count(&mut self, changed: Changed) {
        self.tools += u64::from(changed.tools);
        self.prompts += u64::from(changed.prompts);
        self.resources += u64::from(changed.resources);
    }

    fn since(self, seen: Self) -> Changed {
        Changed {
            tools: self.tools != seen.tools,
            prompts: self.prompts != seen.prompts,
            resources: self.resources != seen.resources,
        }
    }
}

/// The list changes of one endpoint, for one subscriber.
#[derive(Debug)]
pub struct Subscription {
    board: watch::Receiver<Board>,
    endpoint: Endpoint,
    seen: Counters,
    quiet_until: Option<Instant>,
}

impl Subscription {
    pub(super) fn new(mut board: watch::Receiver<Board>, endpoint: Endpoint) -> Self {
        let seen = board.borrow_and_update().of(&endpoint);
        Self { board, endpoint, seen, quiet_until: None }
    }

    /// Waits for the next change and says which lists changed since the last answer; `None` when the catalog is gone. Safe to
    /// drop half-way: nothing is lost.
    pub async fn changed(&mut self) -> Option<Changed> {
        if let Some(until) = self.quiet_until {
            sleep_until(until).await;
        }
        loop {
            let counters = self.board.borrow_and_update().of(&self.endpoint);
            let changed = counters.since(self.seen);
            if changed.any() {
                self.seen = counters;
                self.quiet_until = Some(Instant::now() + SPACING);
                return Some(changed);
            }
            self.board.changed().await.ok()?;
        }
    }
}
