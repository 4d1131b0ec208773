//! The actor while it is connected: lists are read, notices heard, resources watched, the era checked once more.
//!
//! What has to do with watched resources is in [`watched`]. Everything slow is a future in [`Serving::work`], so the loop
//! never waits for the upstream.

mod watched;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::super::connection::Connection;
use super::super::dial::{Live, message};
use super::super::error::CallError;
use super::super::expiry::{self, Expiry};
use super::super::handle::{Command, SubscribeError};
use super::super::leg::{Leg, Limits};
use super::super::listen::Listening;
use super::super::listing::{self, Listed};
use super::super::moment::until;
use super::super::notices::Pending;
use super::super::status::Phase;
use super::super::subscriptions::Subscriptions;
use super::super::wire::Unobserved;
use super::{Actor, next_dice};
use crate::catalog::{Changed, Contribution, Kind, List, Offer, PendingGuard, Update};
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::jsonrpc::{self, Message, Reading};
use crate::protocol::level::Level;
use crate::protocol::method::Method;
use crate::protocol::object::ObjectWriter;
use crate::protocol::opening::{self, Discovered};
use crate::protocol::revision::Revision;
use crate::telemetry::metrics::label::EntryKind;

/// Waits before a server that counts as legacy only by its silence is probed again; after the last one it is believed.
const REPROBES: [Duration; 3] = [Duration::from_secs(30), Duration::from_secs(120), Duration::from_secs(600)];

/// How often it is looked whether a connection is idle that another one is to replace.
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// First and longest wait before a list that could not be read is tried again: long enough for a server that is still
/// warming up, short enough that nobody looks for the fault elsewhere.
const REREAD_MIN: Duration = Duration::from_secs(1);
const REREAD_MAX: Duration = Duration::from_secs(60);

/// Why serving ended.
#[derive(Debug)]
pub(super) enum Exit {
    /// The gateway stops, or drops this server.
    Cancelled,
    /// Nothing is broken, but another connection is wanted: the server turned out to be modern, or lost our session.
    Redial,
    /// The connection broke; the text says how.
    Lost(String),
}

/// State of one connection.
pub(super) struct Serving {
    connection: Arc<Connection>,
    offer: Offer,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    refreshing: bool,
    /// Lists that changed while others were being read, with the guards of their announcements.
    again: (Changed, Vec<PendingGuard>),
    /// Lists in a row that could not be read; one attempt to read them again is under way if there are any.
    unread: u32,
    expiry: Expiry,
    listening: Option<Listening>,
    /// Who waits for the upstream's word on a resource, by URI.
    subscribing: BTreeMap<Box<str>, Vec<oneshot::Sender<Result<(), SubscribeError>>>>,
    /// The set of watched resources differs from what the modern upstream was told.
    outdated: bool,
    level: Option<Level>,
}

/// A finished piece of work.
enum Done {
    Listed(Vec<Listed>, Vec<PendingGuard>),
    Reread(Changed),
    Subscribed { uris: Vec<Box<str>>, result: Result<(), SubscribeError> },
    Nothing,
    Probed { modern: bool, certain: bool, attempt: usize },
}

impl Serving {
    pub(super) fn new(connection: Arc<Connection>, earlier: Option<Offer>) -> Self {
        let hello = &connection.hello;
        let mut offer = Offer::new(connection.era(), connection.is_http());
        offer.capabilities = Some(hello.capabilities_raw.clone());
        offer.instructions = hello.instructions.clone();
        offer.server_info = hello.server_info.clone();
        if let Some(mut earlier) = earlier {
            for kind in listing::kinds(&hello.capabilities, Changed::ALL) {
                offer.keep(kind, &mut earlier);
            }
        }
        Self {
            connection,
            offer,
            work: FuturesUnordered::new(),
            refreshing: false,
            again: (Changed::NONE, Vec::new()),
            unread: 0,
            expiry: Expiry::default(),
            listening: None,
            subscribing: BTreeMap::new(),
            outdated: false,
            level: None,
        }
    }

    pub(super) async fn run(
        &mut self,
        actor: &mut Actor,
        live: &mut Live,
        pid: Option<u32>,
        cancel: &CancellationToken,
    ) -> Exit {
        self.begin(actor, pid);
        loop {
            self.tell_watched(actor);
            let forsaken = actor.subscriptions.due(actor.plan.config.timeouts.unsubscribe);
            let closed = self.connection.wire.closed().clone();
            let notices = self.connection.wire.notices.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Exit::Cancelled,
                Some(command) = actor.inbox.recv() => self.commands(actor, command),
                () = closed.cancelled() => return lost(&self.connection.clone(), live).await,
                Some(done) = self.work.next() => if let Some(exit) = self.done(actor, done).await { return exit },
                pending = notices.take() => self.noticed(actor, pending),
                () = until(forsaken) => self.leave_forsaken(actor),
                // Nobody waits for it: lists are answered from what there is meanwhile.
                () = until(self.expiry.next()), if !self.refreshing => {
                    self.refresh(actor, self.expiry.due(Instant::now()), Vec::new());
                }
            }
        }
    }

    fn begin(&mut self, actor: &mut Actor, pid: Option<u32>) {
        let connection = self.connection.clone();
        let hello = &connection.hello;
        actor.set(|s| {
            (s.revision, s.pid) = (Some(hello.revision), pid);
            s.server_info = hello.server_info.clone();
            s.capabilities = Some(hello.capabilities_raw.clone());
        });
        let guards = actor.starting.take().into_iter().collect();
        self.refresh(actor, Changed::ALL, guards);
        if self.connection.provisional {
            self.reprobe(actor, 0);
        }
        self.watch_again(actor);
        if let Some(level) = actor.level {
            self.set_level(actor, level, None);
        }
    }

    /// Stops what runs, and gives back what was offered; legs that are dropped are cancelled upstream.
    pub(super) async fn close(mut self, subscriptions: &mut Subscriptions) -> Offer {
        self.work.clear();
        for uri in self.subscribing.into_keys() {
            // Who waits for it learns that it cannot be watched when its sender is dropped.
            subscriptions.forget(&uri);
        }
        if let Some(listening) = self.listening.take() {
            listening.end().await;
        }
        self.offer
    }

    /// Takes everything that waits in the inbox, so that a thousand resources to watch become one new listen.
    fn commands(&mut self, actor: &mut Actor, first: Command) {
        self.command(actor, first);
        while let Ok(command) = actor.inbox.try_recv() {
            self.command(actor, command);
        }
    }

    fn command(&mut self, actor: &mut Actor, command: Command) {
        match command {
            Command::Refresh => self.refresh(actor, Changed::ALL, Vec::new()),
            Command::Outdated(kind) => self.outdated(actor, kind),
            Command::Subscribe { uri, done } => self.subscribe(actor, uri, done),
            Command::Unsubscribe { uri } => actor.subscriptions.remove(&uri, Instant::now()),
            Command::Level { level, done } => {
                let lower = actor.level.is_none_or(|l| level < l);
                actor.level = Some(actor.level.map_or(level, |l| l.min(level)));
                if lower {
                    self.set_level(actor, level, Some(done));
                }
            }
        }
    }

    /// Reads lists again. One refresh runs; what comes meanwhile is one more (bug report kind "list_changed storm").
    fn refresh(&mut self, actor: &Actor, changed: Changed, guards: Vec<PendingGuard>) {
        if self.refreshing {
            self.again.0 = self.again.0 | changed;
            self.again.1.extend(guards);
            return;
        }
        let kinds = listing::kinds(&self.connection.hello.capabilities, changed);
        self.refreshing = true;
        let (connection, limit) = (self.connection.clone(), actor.plan.config.timeouts.list);
        self.work.push(async move { Done::Listed(listing::read(&connection, &kinds, limit).await, guards) }.boxed());
    }

    fn noticed(&mut self, actor: &Actor, pending: Pending) {
        let changed = Changed { tools: pending.tools, prompts: pending.prompts, resources: pending.resources };
        if changed.any() {
            debug!(tools = changed.tools, prompts = changed.prompts, resources = changed.resources, "lists changed");
            let guard = actor.plan.catalog.announce(&actor.plan.source.name, changed);
            self.refresh(actor, changed, vec![guard]);
        }
        let server = &actor.plan.source.name;
        if pending.broken || pending.resumed {
            // Nobody is told unless something differs; lists wait for what is read now.
            let guard = actor.plan.catalog.pending(server);
            self.refresh(actor, Changed::ALL, vec![guard]);
        }
        if pending.updated_overflow || pending.resumed {
            actor.subscriptions.uris().for_each(|uri| actor.plan.updates.add(server, uri.into()));
        }
        for uri in &pending.updated {
            actor.subscriptions.concerned(uri).for_each(|watched| actor.plan.updates.add(server, watched.into()));
        }
    }

    async fn done(&mut self, actor: &mut Actor, done: Done) -> Option<Exit> {
        match done {
            Done::Listed(lists, guards) => match self.lost(&lists) {
                Some(exit) => return Some(exit),
                None => self.listed(actor, lists, guards).await,
            },
            Done::Reread(changed) => {
                let guard = actor.plan.catalog.pending(&actor.plan.source.name);
                self.refresh(actor, changed, vec![guard]);
            }
            Done::Subscribed { uris, result } => {
                uris.into_iter().for_each(|uri| self.subscribed(actor, uri, result));
            }
            Done::Nothing => {}
            Done::Probed { modern: true, .. } if self.connection.in_flight() > 0 => {
                // Nothing is wrong with this connection: what runs on it ends first.
                self.work.push(sleep(IDLE_LOOK).map(|()| done).boxed());
            }
            Done::Probed { modern: true, .. } => {
                info!("the server turned out to be modern; connecting anew");
                actor.known_legacy = false;
                return Some(Exit::Redial);
            }
            Done::Probed { certain: false, attempt, .. } if attempt < REPROBES.len() => self.reprobe(actor, attempt),
            Done::Probed { .. } => actor.known_legacy = true,
        }
        None
    }

    /// Whether reading lists has shown that there is nothing to read from any more.
    fn lost(&self, lists: &[Listed]) -> Option<Exit> {
        lists.iter().find_map(|listed| match listed.list {
            Err(CallError::Lost { .. }) => Some(Exit::Lost("the connection was lost".into())),
            Err(CallError::SessionGone) => {
                self.connection.renew();
                Some(Exit::Redial)
            }
            _ => None,
        })
    }

    async fn listed(&mut self, actor: &mut Actor, lists: Vec<Listed>, mut guards: Vec<PendingGuard>) {
        let source = actor.plan.source.clone();
        let mut unread = Changed::NONE;
        let mut unreadable = Vec::new();
        for Listed { kind, list, truncated } in lists {
            match list {
                Ok(list) => self.keep(actor, kind, list),
                Err(error) => {
                    self.expiry.failed(kind, Instant::now());
                    // The last good list stays (protocol.md §4.8).
                    warn!(list = kind.list_method(), error = %error, "a list could not be read; it is tried again");
                    unread = unread | Changed::only(kind);
                    unreadable.push(format!("{} could not be read: {error}", kind.list_method()));
                }
            }
            if truncated {
                actor.plan.metrics.truncation(entry_kind(kind));
                warn!(list = kind.list_method(), "the list was cut");
            }
        }
        let (contribution, complaints) = Contribution::new(source.clone(), self.offer.clone());
        for complaint in &complaints {
            warn!("{complaint}");
        }
        for kind in Kind::ALL {
            actor.plan.metrics.set_entries(entry_kind(kind), contribution.entries(kind).len());
        }
        let update = Update::Offer(Arc::new(contribution));
        let last = guards.pop();
        let told = match last {
            Some(guard) => guard.publish(update).await,
            None => actor.plan.catalog.publish(source.name.clone(), update).await,
        };
        drop(guards);
        if told.is_err() {
            debug!("the catalog is closed already");
        }
        actor.backoff.serving(Instant::now());
        actor.set(|s| {
            s.phase = Phase::Ready;
            (s.failing, s.failed_attempts) = (false, 0);
            s.complaints = unreadable.into_iter().chain(complaints.iter().map(ToString::to_string)).collect();
        });
        self.refreshing = false;
        self.reread(unread);
        let (changed, guards) = std::mem::replace(&mut self.again, (Changed::NONE, Vec::new()));
        if changed.any() {
            self.refresh(actor, changed, guards);
        }
    }

    /// Takes over a list that was read.
    fn keep(&mut self, actor: &mut Actor, kind: Kind, list: List) {
        actor.dice = next_dice(actor.dice);
        let changed = self.offer.list(kind).is_none_or(|old| old.items != list.items);
        self.expiry.read(kind, &list, self.connection.era(), changed, Instant::now(), actor.dice);
        self.offer.set(kind, list);
    }

    /// A downstream got a list whose time had run out.
    fn outdated(&mut self, actor: &Actor, kind: Kind) {
        let (era, now) = (self.connection.era(), Instant::now());
        let is_worth_it = self.offer.list(kind).is_some_and(|list| expiry::is_worth_rereading(list, era, now));
        // After a failure it is tried again on a schedule of its own.
        if is_worth_it && !self.refreshing && self.unread == 0 {
            self.refresh(actor, Changed::only(kind), Vec::new());
        }
    }

    /// Tries lists again that could not be read.
    fn reread(&mut self, unread: Changed) {
        if !unread.any() {
            self.unread = 0;
            return;
        }
        let wait = REREAD_MIN.saturating_mul(1 << self.unread.min(6)).min(REREAD_MAX);
        self.unread += 1;
        self.work.push(sleep(wait).map(move |()| Done::Reread(unread)).boxed());
    }

    fn set_level(&mut self, actor: &Actor, level: Level, done: Option<oneshot::Sender<()>>) {
        let hello = &self.connection.hello;
        if hello.is_modern() || !hello.capabilities.logging || self.level.is_some_and(|l| l <= level) {
            return;
        }
        self.level = Some(level);
        let mut params = Vec::new();
        let mut w = ObjectWriter::begin(&mut params);
        w.string("level", level.as_str());
        w.end();
        let asking = own_request(self.connection.clone(), Method::SetLevel, params, actor.plan.config.timeouts.read);
        self.work.push(
            async move {
                if asking.await.is_err() {
                    debug!("the server did not take the log level");
                }
                drop(done);
                Done::Nothing
            }
            .boxed(),
        );
    }

    /// A verdict that came from silence is checked again later: the server may just have been slow (protocol.md §1.5).
    fn reprobe(&mut self, actor: &Actor, attempt: usize) {
        let Some(wait) = REPROBES.get(attempt).copied() else { return };
        let (connection, limit) = (self.connection.clone(), actor.plan.config.timeouts.probe);
        let client_info = actor.plan.client_info.clone();
        self.work.push(
            async move {
                sleep(wait).await;
                let revision = Revision::NEWEST_MODERN;
                let params = opening::discover_params(&client_info, &ClientCapabilities::bridged(), revision);
                let leg = Leg::open(&connection.wire, Arc::new(Unobserved)).speaking(revision);
                let out = message(leg.id(), Method::Discover, &params);
                let answer = leg.run(out, Limits::of(limit)).await;
                let found = answer.as_ref().ok().and_then(|text| discovered(text, revision));
                let modern = matches!(found, Some(Discovered::Modern(_) | Discovered::Retry(_)));
                Done::Probed { modern, certain: found.is_some(), attempt: attempt + 1 }
            }
            .boxed(),
        );
    }
}

const fn entry_kind(kind: Kind) -> EntryKind {
    match kind {
        Kind::Tools => EntryKind::Tools,
        Kind::Prompts => EntryKind::Prompts,
        Kind::Resources => EntryKind::Resources,
        Kind::Templates => EntryKind::Templates,
    }
}

fn discovered(text: &Bytes, asked: Revision) -> Option<Discovered> {
    match jsonrpc::parse(std::str::from_utf8(text).ok()?, Reading::Lenient) {
        Ok(Message::Response(response)) => Some(opening::discovered(&response.outcome, asked)),
        _ => None,
    }
}

/// A small request of our own on a legacy connection.
async fn own_request(
    connection: Arc<Connection>,
    method: Method,
    params: Vec<u8>,
    limit: Duration,
) -> Result<Bytes, CallError> {
    let leg = Leg::open(&connection.wire, Arc::new(Unobserved));
    let out = message(leg.id(), method, &params);
    leg.run(out, Limits::of(limit)).await
}

async fn lost(connection: &Connection, live: &mut Live) -> Exit {
    if connection.wire.is_renewing() {
        info!("the server lost our session; shaking hands anew");
        return Exit::Redial;
    }
    Exit::Lost(how_it_ended(live).await)
}

/// A child that closed its output has usually just ended: say how.
async fn how_it_ended(live: &mut Live) -> String {
    const REAP: Duration = Duration::from_secs(1);
    match live.child.as_mut() {
        Some(child) => match tokio::time::timeout(REAP, child.wait()).await {
            Ok(how) => format!("the process ended{how}"),
            Err(_) => "the process closed its output".into(),
        },
        None => "the connection was lost".into(),
    }
}
