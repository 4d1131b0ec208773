//! The resources that are watched at a connected upstream, told in the way of its era.
//!
//! Part of [`Serving`]: who subscribes and leaves comes through the actor's inbox; a legacy upstream is asked for each
//! resource, a modern one gets a new listen stream for all of them (protocol.md §5e).

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Actor, Done, Serving, own_request};
use crate::protocol::jsonrpc::{self, Message, Outcome, Reading};
use crate::protocol::method::Method;
use crate::protocol::object::ObjectWriter;
use crate::upstream::connection::Connection;
use crate::upstream::handle::SubscribeError;
use crate::upstream::listen;

/// How long a change of what we listen for may take before subscribers are told that it works.
const LISTEN_WAIT: Duration = Duration::from_secs(3);

impl Serving {
    /// Whoever watched before the connection broke still does; what changed meanwhile nobody knows.
    pub(super) fn watch_again(&mut self, actor: &mut Actor) {
        actor.subscriptions.drop_forsaken();
        drop(self.relisten(actor));
        for uri in actor.subscriptions.uris() {
            if !self.connection.hello.is_modern() {
                let limit = actor.plan.config.timeouts.read;
                let watching = watch(self.connection.clone(), Method::Subscribe, uri.into(), limit);
                self.work.push(watching.map(|_| Done::Nothing).boxed());
            }
            actor.plan.updates.add(&actor.plan.source.name, uri.into());
        }
    }

    /// Tells a modern upstream which resources are watched now, if that is news.
    pub(super) fn tell_watched(&mut self, actor: &Actor) {
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

    pub(super) fn subscribe(
        &mut self,
        actor: &mut Actor,
        uri: Box<str>,
        done: oneshot::Sender<Result<(), SubscribeError>>,
    ) {
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
    pub(super) fn subscribed(&mut self, actor: &mut Actor, uri: Box<str>, result: Result<(), SubscribeError>) {
        for done in self.subscribing.remove(&uri).into_iter().flatten() {
            let _ = done.send(result);
        }
        if result.is_err() {
            actor.subscriptions.forget(&uri);
        }
    }

    /// Tells the upstream to forget the resources that nobody has watched for a while. One that it is still being asked
    /// for waits once more, so that leaving cannot overtake.
    pub(super) fn leave_forsaken(&mut self, actor: &mut Actor) {
        let now = Instant::now();
        for uri in actor.subscriptions.take_due(now, actor.plan.config.timeouts.unsubscribe) {
            match self.subscribing.contains_key(&uri) {
                true => actor.subscriptions.add_forsaken(&uri, now),
                false => self.leave(actor, uri),
            }
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
