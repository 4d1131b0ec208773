//! The actor while it is connected: lists are read, notices heard, resources watched, the era checked once more.
//!
//! Everything slow is a future in [`Serving::work`], so the loop never waits for the upstream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, info, warn};

use super::super::connection::Connection;
use super::super::dial::{Live, message};
use super::super::error::CallError;
use super::super::expiry::{self, Expiry};
use super::super::handle::{Command, SubscribeError};
use super::super::leg::{Leg, Limits};
use super::super::listen::{self, Listening};
use super::super::listing::{self, Listed};
use super::super::notices::Pending;
use super::super::status::Phase;
use super::super::subscriptions::Subscriptions;
use super::super::wire::Unobserved;
use super::{Actor, next_dice};
use crate::catalog::{Changed, Contribution, Kind, List, Offer, PendingGuard, Update};
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::jsonrpc::{self, Message, Outcome, Reading};
use crate::protocol::level::Level;
use crate::protocol::method::Method;
use crate::protocol::object::ObjectWriter;
use crate::protocol::opening::{self, Discovered};
use crate::protocol::revision::Revision;
use crate::telemetry::metrics::label::EntryKind;

/// Waits before a server that counts as legacy only by its silence is probed again; after the last one it is believed.
const REPROBES: [Duration; 3] = [Duration::from_secs(30), Duration::from_secs(120), Duration::from_secs(600)];

/// How long a change of what we listen for may take before subscribers are told that it works.
const LISTEN_WAIT: Duration = Duration::from_secs(3);

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
    /// Dropped, it ends the wait for what `expiry` says.
    waiting: Option<DropGuard>,
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
    Expired,
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
            waiting: None,
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
            let closed = self.connection.wire.closed().clone();
            let notices = self.connection.wire.notices.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Exit::Cancelled,
                Some(command) = actor.inbox.recv() => self.commands(actor, command),
                () = closed.cancelled() => return lost(&self.connection.clone(), live).await,
                Some(done) = self.work.next() => if let Some(exit) = self.done(actor, done).await { return exit },
                pending = notices.take() => self.noticed(actor, pending),
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
        drop(self.relisten(actor));
        // Whoever watched before the connection broke still does; what changed meanwhile nobody knows.
        for uri in actor.subscriptions.uris() {
            if !hello.is_modern() {
                self.work.push(
                    watch(self.connection.clone(), Method::Subscribe, uri.into(), actor.plan.config.timeouts.read)
                        .map(|_| Done::Nothing)
                        .boxed(),
                );
            }
            actor.plan.updates.add(&actor.plan.source.name, uri.into());
        }
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

    /// Tells a modern upstream which resources are watched now, if that is news.
    fn tell_watched(&mut self, actor: &Actor) {
        if !std::mem::take(&mut self.outdated) {
            return;
        }
        let uris: Vec<Box<str>> = self.subscribing.keys().cloned().collect();
        let settled = self.relisten(actor);
        self.work.push(
            async move {
                let _ = tokio::time::timeout(LISTEN_WAIT, settled).await;
                Done::Subscribed { uris, result: Ok(()) }
            }
            .boxed(),
        );
    }

    fn command(&mut self, actor: &mut Actor, command: Command) {
        match command {
            Command::Refresh => self.refresh(actor, Changed::ALL, Vec::new()),
            Command::Outdated(kind) => self.outdated(actor, kind),
            Command::Subscribe { uri, done } => self.subscribe(actor, uri, done),
            Command::Unsubscribe { uri } => self.unsubscribe(actor, uri),
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
            // Nobody waits for it: lists are answered from what there is meanwhile.
            Done::Expired if self.refreshing => {}
            Done::Expired => self.refresh(actor, self.expiry.due(Instant::now()), Vec::new()),
            Done::Subscribed { uris, result } => {
                uris.into_iter().for_each(|uri| self.subscribed(actor, uri, result));
            }
            Done::Nothing => {}
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
            Err(CallError::SessionGone) => Some(Exit::Redial),
            _ => None,
        })
    }

    async fn listed(&mut self, actor: &mut Actor, lists: Vec<Listed>, mut guards: Vec<PendingGuard>) {
        let source = actor.plan.source.clone();
        let mut unread = Changed::NONE;
        for Listed { kind, list, truncated } in lists {
            match list {
                Ok(list) => self.keep(actor, kind, list),
                Err(error) => {
                    self.expiry.failed(kind, Instant::now());
                    // The last good list stays (protocol.md §4.8).
                    warn!(list = kind.list_method(), error = %error, "a list could not be read; it is tried again");
                    unread = unread | Changed::only(kind);
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
            s.settled = true;
            s.complaints = complaints.iter().map(ToString::to_string).collect();
        });
        self.refreshing = false;
        self.reread(unread);
        self.wait_for_expiry();
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

    /// One wait at a time, for whatever is due first.
    fn wait_for_expiry(&mut self) {
        let stop = CancellationToken::new();
        self.waiting = Some(stop.clone().drop_guard());
        let Some(next) = self.expiry.next() else { return };
        self.work.push(
            async move {
                tokio::select! {
                    () = stop.cancelled() => Done::Nothing,
                    () = sleep_until(next) => Done::Expired,
                }
            }
            .boxed(),
        );
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

    fn subscribe(&mut self, actor: &mut Actor, uri: Box<str>, done: oneshot::Sender<Result<(), SubscribeError>>) {
        if !self.connection.hello.capabilities.resources_subscribe {
            let _ = done.send(Err(SubscribeError::Unsupported));
            return;
        }
        let first = actor.subscriptions.add(&uri);
        if let Some(waiting) = self.subscribing.get_mut(&uri) {
            waiting.push(done);
            return;
        }
        if !first {
            let _ = done.send(Ok(()));
            return;
        }
        self.subscribing.insert(uri.clone(), vec![done]);
        if self.connection.hello.is_modern() {
            self.outdated = true;
            return;
        }
        let watching = watch(self.connection.clone(), Method::Subscribe, uri.clone(), actor.plan.config.timeouts.read);
        self.work.push(watching.map(|result| Done::Subscribed { uris: vec![uri], result }).boxed());
    }

    /// The upstream's word on a resource reaches everybody who waits for it. Who left meanwhile has unsubscribed already.
    fn subscribed(&mut self, actor: &mut Actor, uri: Box<str>, result: Result<(), SubscribeError>) {
        for done in self.subscribing.remove(&uri).into_iter().flatten() {
            let _ = done.send(result);
        }
        match result {
            Ok(()) if !actor.subscriptions.has(&uri) => self.leave(actor, uri),
            Ok(()) => {}
            Err(_) => actor.subscriptions.forget(&uri),
        }
    }

    fn unsubscribe(&mut self, actor: &mut Actor, uri: Box<str>) {
        // While the upstream is still being asked, leaving waits, so that it cannot overtake.
        if actor.subscriptions.remove(&uri) && !self.subscribing.contains_key(&uri) {
            self.leave(actor, uri);
        }
    }

    fn leave(&mut self, actor: &Actor, uri: Box<str>) {
        if self.connection.hello.is_modern() {
            self.outdated = true;
            return;
        }
        let leaving = watch(self.connection.clone(), Method::Unsubscribe, uri, actor.plan.config.timeouts.read);
        self.work.push(leaving.map(|_| Done::Nothing).boxed());
    }

    /// Towards a modern upstream: listens for what is wanted now. The old stream ends when the new one stands, so that
    /// nothing is missed. What is returned ends when it does.
    fn relisten(&mut self, actor: &Actor) -> BoxFuture<'static, ()> {
        if !self.connection.hello.is_modern() {
            return std::future::ready(()).boxed();
        }
        let uris: Vec<Box<str>> = actor.subscriptions.uris().map(Box::from).collect();
        if !listen::is_wanted(&self.connection.hello.capabilities, &uris) {
            return std::future::ready(()).boxed();
        }
        let old = self.listening.take();
        let fresh = listen::start(self.connection.clone(), uris);
        let stands = fresh.acknowledged();
        self.listening = Some(fresh);
        if let Some(old) = old {
            let stands = stands.clone();
            self.work.push(
                async move {
                    let _ = tokio::time::timeout(LISTEN_WAIT, stands.cancelled()).await;
                    old.end().await;
                    Done::Nothing
                }
                .boxed(),
            );
        }
        async move { stands.cancelled().await }.boxed()
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

/// `resources/subscribe` or `resources/unsubscribe` at a legacy upstream.
async fn watch(
    connection: Arc<Connection>,
    method: Method,
    uri: Box<str>,
    limit: Duration,
) -> Result<(), SubscribeError> {
    let mut params = Vec::new();
    let mut w = ObjectWriter::begin(&mut params);
    w.string("uri", &uri);
    w.end();
    let text = own_request(connection, method, params, limit).await.map_err(|_| SubscribeError::Unavailable)?;
    let utf8 = std::str::from_utf8(&text).map_err(|_| SubscribeError::Refused)?;
    match jsonrpc::parse(utf8, Reading::Lenient) {
        Ok(Message::Response(r)) if matches!(r.outcome, Outcome::Result(_)) => Ok(()),
        _ => Err(SubscribeError::Refused),
    }
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
