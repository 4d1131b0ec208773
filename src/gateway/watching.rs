//! Watching resources and lists: `resources/subscribe` of legacy sessions and `subscriptions/listen` of modern clients.
//!
//! Both end in the hub's registry and in a reference count at the upstream's actor (protocol.md §2.6, §5e).

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::error::GatewayError;
use super::hub::{Full, Registration, Watched};
use super::local;
use super::outlet::Outlet;
use super::target::Target;
use super::{Caller, Gateway, Peer, Reply};
use crate::catalog::Changed;
use crate::protocol::jsonrpc::{self, OwnedId, Request};
use crate::protocol::meta;
use crate::protocol::method::Method;
use crate::protocol::object::{Object, ObjectWriter};

/// How long upstreams may take to accept subscriptions before a listen request is acknowledged without them.
const SUBSCRIBE_WAIT: Duration = Duration::from_secs(3);

/// Resources that one listen request may name: the specification has no limit, and each costs an upstream something.
const URIS_MAX: usize = 1_000;

impl Gateway {
    /// `resources/subscribe`.
    pub(super) async fn subscribe(&self, request: &Request<'_>, caller: &Caller) -> Result<Reply, GatewayError> {
        let Peer::Legacy(session) = &caller.peer else { return Err(GatewayError::Method) };
        let (watched, uri) = self.watched(Method::Subscribe, request, caller).await?;
        let Some(registration) = session.registration() else { return Err(GatewayError::Draining) };
        let most = self.0.settings.subscriptions;
        match registration.watch_within(watched.clone(), &uri, most) {
            Ok(true) => {}
            Ok(false) => return Ok(local::empty(request.id)),
            Err(Full) => return Err(GatewayError::TooManySubscriptions { most }),
        }
        let subscribed = match self.0.directory.get(&watched.0) {
            Some(handle) => handle.subscribe(&watched.1).await,
            None => Err(crate::upstream::handle::SubscribeError::Unavailable),
        };
        if let Err(error) = subscribed {
            registration.unwatch(&watched);
            return Err(GatewayError::Subscribe { server: watched.0.to_string(), error });
        }
        Ok(local::empty(request.id))
    }

    /// `resources/unsubscribe`; of something not subscribed it is fine too.
    pub(super) async fn unsubscribe(&self, request: &Request<'_>, caller: &Caller) -> Result<Reply, GatewayError> {
        let Peer::Legacy(session) = &caller.peer else { return Err(GatewayError::Method) };
        if let Ok((watched, _)) = self.watched(Method::Unsubscribe, request, caller).await
            && session.registration().is_some_and(|r| r.unwatch(&watched))
            && let Some(handle) = self.0.directory.get(&watched.0)
        {
            handle.unsubscribe(&watched.1);
        }
        Ok(local::empty(request.id))
    }

    async fn watched(
        &self,
        method: Method,
        request: &Request<'_>,
        caller: &Caller,
    ) -> Result<(Watched, String), GatewayError> {
        let params = request.params.object().ok_or(GatewayError::Params("params is missing"))?;
        let target = Target::read(method, params)?;
        let watched = self.owner(&target, caller).await?;
        match target {
            Target::Resource(uri) => Ok((watched, uri.into_owned())),
            _ => Err(GatewayError::Method),
        }
    }

    /// Who owns it, once that server is there: during the start this waits as the first list does.
    async fn owner(&self, target: &Target<'_>, caller: &Caller) -> Result<Watched, GatewayError> {
        let found = self.owner_now(target, caller);
        let starts = |watched: &Watched| {
            self.0.directory.get(&watched.0).is_some_and(|h| h.connection().is_err_and(|why| why.retry_in.is_none()))
        };
        if found.as_ref().is_ok_and(|watched| !starts(watched)) {
            return found;
        }
        self.0.catalog.settled(&caller.endpoint, self.0.settings.startup_wait).await;
        self.owner_now(target, caller)
    }

    fn owner_now(&self, target: &Target<'_>, caller: &Caller) -> Result<Watched, GatewayError> {
        let snapshot = self.0.catalog.load();
        let view = snapshot.view(&caller.endpoint).ok_or(GatewayError::Method)?;
        let route = target.find(view)?;
        Ok((route.source.name.clone(), route.original.as_ref().into()))
    }

    /// `subscriptions/listen`: runs until the caller goes or the gateway drains.
    pub(super) async fn listen(
        &self,
        request: &Request<'_>,
        caller: &Caller,
        outlet: &Outlet,
    ) -> Result<Reply, GatewayError> {
        let wanted = request.params.object().and_then(|p| p.object("notifications"));
        let wanted = wanted.ok_or(GatewayError::Params("notifications is missing or not an object"))?;
        let flag = |key| wanted.get(key) == Some("true");
        let lists = Changed {
            tools: flag("toolsListChanged"),
            prompts: flag("promptsListChanged"),
            resources: flag("resourcesListChanged"),
        };
        let uris = uris(&wanted)?;
        let id = OwnedId::from(request.id);
        let registration = self.0.hub.add_stream(caller.endpoint.clone(), lists, outlet.clone(), id.clone());
        let honoured = self.watch_all(&registration, &uris, caller).await;
        if !registration.acknowledge(lists, &honoured) {
            return Err(GatewayError::Draining);
        }
        self.0.draining.cancelled().await;
        drop(registration);
        Ok(listen_result(&id, &self.0.server_info))
    }

    /// Subscribes to each resource that has an owner who can; gives those that stand.
    async fn watch_all<'u>(&self, registration: &Registration, uris: &'u [String], caller: &Caller) -> Vec<&'u str> {
        let each = uris.iter().map(|uri| async move {
            let watched = self.owner(&Target::Resource(uri.as_str().into()), caller).await.ok()?;
            let handle = self.0.directory.get(&watched.0)?;
            // Registered first, so that an update which comes at once finds its listener.
            if !registration.watch(watched.clone(), uri) {
                return Some(uri.as_str());
            }
            match timeout(SUBSCRIBE_WAIT, handle.subscribe(&watched.1)).await {
                Ok(Ok(())) => Some(uri.as_str()),
                Ok(Err(_)) => {
                    registration.unwatch(&watched);
                    None
                }
                Err(_) => {
                    // It may still be granted, and is not wanted any more.
                    registration.unwatch(&watched);
                    handle.unsubscribe(&watched.1);
                    None
                }
            }
        });
        join_all(each).await.into_iter().flatten().collect()
    }
}

fn uris(wanted: &Object<'_>) -> Result<Vec<String>, GatewayError> {
    let Some(raw) = wanted.get_some("resourceSubscriptions") else { return Ok(Vec::new()) };
    let uris: Vec<String> = serde_json::from_str(raw)
        .map_err(|_| GatewayError::Params("resourceSubscriptions is not an array of strings"))?;
    if uris.len() > URIS_MAX {
        return Err(GatewayError::Params("resourceSubscriptions names too many resources"));
    }
    Ok(uris)
}

fn listen_result(id: &OwnedId, server_info: &str) -> Reply {
    let mut out = Vec::new();
    jsonrpc::begin_result(&mut out, id.as_raw());
    let mut w = ObjectWriter::begin(&mut out);
    w.string("resultType", "complete");
    let mut m = ObjectWriter::begin(w.key("_meta"));
    m.raw(meta::SUBSCRIPTION_ID, id.as_raw());
    m.raw(meta::SERVER_INFO, server_info);
    m.end();
    w.end();
    out.push(b'}');
    Reply::result(out)
}
