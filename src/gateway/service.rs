//! Carries a routed request to its owner and the answer back: the hot path.
//!
//! ```text
//! Target::read ─► find in the snapshot ─► handle ─► leg on its connection ─► answer ─► Reply
//!                                                    └─ observer: Exchange (progress, logs, questions)
//! ```
//!
//! Decisions are made in pure neighbours (`target`, `answer`, `error`); here they are carried out. What an upstream
//! wants to know in between is `input`'s business.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::HeaderMap;
use tokio::time::Instant;

use super::answer::{self, Kind, Wanted};
use super::error::GatewayError;
use super::exchange::{Exchange, Voice};
use super::outlet::Outlet;
use super::rounds::Retry;
use super::suspended::{Attached, Came};
use super::target::{Edits, Target, write_params};
use super::{Caller, Gateway, Peer, Reply};
use crate::catalog::{Endpoint, Entry, Route, Snapshot};
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::jsonrpc::{self, Message, Outcome, Reading, Request};
use crate::protocol::level::Level;
use crate::protocol::meta::RequestMeta;
use crate::protocol::method::Method;
use crate::protocol::object::Object;
use crate::protocol::revision::{Era, Revision};
use crate::telemetry::metrics::label;
use crate::upstream::connection::{Connection, capabilities_text};
use crate::upstream::error::CallError;
use crate::upstream::handle::Handle;
use crate::upstream::leg::{Leg, Limits, Outgoing};

/// How long a call waits for a new connection after its upstream lost the session.
const RECONNECT_WAIT: Duration = Duration::from_secs(10);

/// One routed request on its way.
pub(super) struct Call<'a, 'p> {
    pub(super) method: Method,
    pub(super) params: &'a Object<'p>,
    pub(super) id: &'a str,
    pub(super) caller: &'a Caller,
    pub(super) route: Route<'a>,
    pub(super) handle: Handle,
    pub(super) exchange: Arc<Exchange>,
    /// What the next leg carries besides.
    pub(super) retry: Retry,
    /// The suspended call that this request continues.
    pub(super) resumed: Option<Attached>,
    pub(super) rounds: u32,
    pub(super) waits: u32,
}

/// How a routed request ended, for the log line and the metrics.
pub(super) struct Ended {
    pub(super) reply: Reply,
    pub(super) outcome: label::Outcome,
}

impl Gateway {
    /// A request that one upstream owns.
    pub(super) async fn route(
        &self,
        method: Method,
        request: &Request<'_>,
        caller: &Caller,
        headers: Option<&HeaderMap>,
        outlet: &Outlet,
    ) -> Reply {
        let fail = |e: &GatewayError| self.failed(e, request, method, caller.era());
        let empty = Object::default();
        let params = request.params.object().unwrap_or(&empty);
        let target = match Target::read(method, params) {
            Ok(target) => target,
            Err(error) => return fail(&error),
        };
        let snapshot = self.snapshot_for(&target, &caller.endpoint).await;
        let view = snapshot.view(&caller.endpoint).ok_or(GatewayError::Method);
        let found = view.and_then(|view| target.find_for(view, caller.capabilities()));
        let route = match found {
            Ok(route) => route,
            Err(error) => return fail(&error),
        };
        let server = route.source.name.clone();
        let Some(handle) = self.0.directory.get(&server) else {
            return fail(&GatewayError::Unavailable { server: server.to_string(), retry_in: None });
        };
        outlet.note(&server, None);
        let now = Instant::now();
        let record = handle.metrics().calls.begin(method, caller.era(), now);
        let voice = Voice::new(caller, outlet, RequestMeta::read(Some(params)).progress_token);
        let exchange = Exchange::new(server.clone(), caller, voice);
        let (id, retry) = (request.id.as_raw(), Retry::default());
        let mut call =
            Call { method, params, id, caller, route, handle, exchange, retry, resumed: None, rounds: 0, waits: 0 };
        let ended = match self.prepare(&mut call, headers) {
            Ok(()) => self.carry(&mut call).await,
            Err(error) => Err(error),
        };
        let ended = ended.unwrap_or_else(|e| Ended { outcome: e.outcome(), reply: fail(&e) });
        record.end(ended.outcome, Instant::now());
        outlet.note(&server, Some(ended.outcome));
        ended.reply
    }

    /// The current snapshot; where the target is not in it and servers are still starting, the one after they have.
    async fn snapshot_for(&self, target: &Target<'_>, endpoint: &Endpoint) -> Arc<Snapshot> {
        let snapshot = self.0.catalog.load();
        let known = snapshot.view(endpoint).is_some_and(|view| target.find(view).is_ok());
        if known {
            return snapshot;
        }
        self.0.catalog.settled(endpoint, self.0.settings.startup_wait).await;
        self.0.catalog.load()
    }

    /// Checks that need the route: mirrored parameters, answers to questions, and the state that came back.
    fn prepare(&self, call: &mut Call<'_, '_>, headers: Option<&HeaderMap>) -> Result<(), GatewayError> {
        if !call.method.may_ask() {
            return Ok(());
        }
        if let (Some(headers), Some(tool)) = (headers, call.route.entry.and_then(Entry::tool)) {
            let checked = tool.param_headers.check(headers, call.params.get("arguments"));
            checked.map_err(|e| GatewayError::Header(e.to_string()))?;
        }
        match call.caller.era() {
            Era::Legacy => Ok(()),
            Era::Modern => self.take_back(call),
        }
    }

    async fn carry(&self, call: &mut Call<'_, '_>) -> Result<Ended, GatewayError> {
        if let Some(attached) = call.resumed.take() {
            return match attached.wait().await {
                Came::Asks(attached) => self.suspend(call, attached),
                Came::Answer(answer) => self.finish(call, Era::Legacy, answer).await?.ok_or(GatewayError::State),
            };
        }
        loop {
            let (era, came) = self.once(call).await?;
            let answer = match came {
                Came::Asks(attached) => return self.suspend(call, attached),
                Came::Answer(answer) => answer,
            };
            if let Some(ended) = self.finish(call, era, answer).await? {
                return Ok(ended);
            }
        }
    }

    /// Sends it, once more where the upstream cannot have run it or running it twice is harmless.
    async fn once(&self, call: &Call<'_, '_>) -> Result<(Era, Came), GatewayError> {
        let name = call.route.source.name.as_str();
        let unavailable = |why| GatewayError::unavailable(name, &why);
        let mut connection = match call.handle.connection() {
            Ok(connection) => connection,
            Err(_) => call.handle.connected(self.0.settings.startup_wait).await.map_err(unavailable)?,
        };
        let mut came = self.leg(call, &connection).await;
        if let Came::Answer(Err(error)) = &came
            && may_repeat(call.method, error)
        {
            if *error == CallError::SessionGone || connection.is_closed() {
                let next = call.handle.next_connection(&connection, RECONNECT_WAIT).await;
                connection = next.map_err(unavailable)?;
            }
            came = self.leg(call, &connection).await;
        }
        Ok((connection.era(), came))
    }

    /// One leg: the call as the upstream reads it, to its answer, or to a question that suspends it.
    async fn leg(&self, call: &Call<'_, '_>, connection: &Connection) -> Came {
        let level = call.exchange.log_level();
        if let (Some(level), Era::Legacy, Era::Modern) = (level, connection.era(), call.caller.era()) {
            call.handle.want_level(level).await;
        }
        let leg = connection.open(call.exchange.clone());
        let out = match outgoing(call, connection, &leg, level) {
            Ok(out) => out,
            Err(error) => return Came::Answer(Err(error)),
        };
        let limits = limits(call);
        let Peer::Modern(peer) = &call.caller.peer else { return Came::Answer(leg.run(out, limits).await) };
        let may_suspend = connection.era() == Era::Legacy
            && call.method.may_ask()
            && peer.capabilities != ClientCapabilities::default();
        if !may_suspend {
            return Came::Answer(leg.run(out, limits).await);
        }
        // The wait for the user is the suspended call's here, and ends before the leg's own.
        let running = leg.run(out, Limits { question: limits.question * 2, ..limits }).boxed();
        self.0.suspended.run(&call.exchange, running, limits.question).await
    }

    /// Makes a reply of an answer; `None`: another round, with what `call.retry` holds now.
    async fn finish(
        &self,
        call: &mut Call<'_, '_>,
        era: Era,
        answer: Result<Bytes, CallError>,
    ) -> Result<Option<Ended>, GatewayError> {
        let server = call.route.source.name.clone();
        let broken = |what| GatewayError::upstream(server.as_str(), CallError::Violation(what));
        let text = answer.map_err(|error| GatewayError::upstream(server.as_str(), error))?;
        let utf8 = std::str::from_utf8(&text).map_err(|_| broken("it is not UTF-8"))?;
        let Ok(Message::Response(response)) = jsonrpc::parse(utf8, Reading::Lenient) else {
            return Err(broken("it is not a JSON-RPC response"));
        };
        let Outcome::Result(result) = &response.outcome else {
            let reply = answer::write(&response.outcome, self.wanted(call, era));
            return Ok(Some(Ended { reply, outcome: label::Outcome::RpcError }));
        };
        if era == Era::Modern {
            match (answer::kind(result), &call.caller.peer) {
                (Kind::Complete, _) => {}
                (Kind::Unknown, _) => return Err(broken("its resultType is unknown")),
                (Kind::InputRequired, Peer::Modern(_)) => return self.pass_questions(call, result).map(Some),
                (Kind::InputRequired, Peer::Legacy(session)) => {
                    let session = session.clone();
                    return self.next_round(call, &session, result).await.map(|()| None);
                }
            }
        }
        let failed = call.method == Method::ToolsCall && answer::is_tool_error(result);
        let outcome = if failed { label::Outcome::ToolError } else { label::Outcome::Ok };
        Ok(Some(Ended { reply: answer::write(&response.outcome, self.wanted(call, era)), outcome }))
    }

    /// What an answer to this call is written for, which has the form of era `from`.
    pub(super) fn wanted<'w>(&'w self, call: &'w Call<'_, '_>, from: Era) -> Wanted<'w> {
        let source = call.route.source;
        let prefixed = call.caller.endpoint == Endpoint::Merged;
        Wanted {
            id: call.id,
            method: call.method,
            revision: call.caller.revision(),
            from,
            uri: call.params.get("uri"),
            is_retry: call.params.has("requestState") || call.params.has("inputResponses"),
            server_info: &self.0.server_info,
            server: source.name.as_str(),
            uris: prefixed.then(|| source.uri_map()).filter(|map| !map.is_verbatim()),
        }
    }
}

/// The message of one leg.
fn outgoing(
    call: &Call<'_, '_>,
    connection: &Connection,
    leg: &Leg,
    level: Option<Level>,
) -> Result<Outgoing, CallError> {
    let declared = declared(call, connection.revision());
    let edits = Edits {
        original: &call.route.original,
        revision: connection.revision(),
        stamp: connection.stamp(&declared, level.map(Level::as_str)),
        progress_token: call.exchange.wants_progress().then(|| leg.id()),
        state: call.retry.state.as_deref(),
        responses: call.retry.responses.as_deref(),
    };
    let mut body = Vec::with_capacity(512 + call.params.get("arguments").map_or(0, str::len));
    jsonrpc::begin_request(&mut body, &leg.id().to_string(), call.method.as_str());
    write_params(&mut body, call.method, call.params, edits);
    body.push(b'}');
    Ok(Outgoing {
        method: call.method.as_str(),
        name: call.method.named_by().map(|_| Box::from(call.route.original.as_ref())),
        params: mirrored(call, connection)?,
        body: body.into(),
    })
}

/// What a modern upstream is told that it may ask: as much as this client declared.
fn declared(call: &Call<'_, '_>, revision: Revision) -> Box<str> {
    let capabilities = call.caller.capabilities();
    match *capabilities == ClientCapabilities::default() {
        true => "{}".into(),
        false => capabilities_text(capabilities, revision),
    }
}

fn mirrored(
    call: &Call<'_, '_>,
    connection: &Connection,
) -> Result<Vec<(http::HeaderName, http::HeaderValue)>, CallError> {
    let tool = call.route.entry.and_then(Entry::tool).filter(|t| !t.param_headers.is_empty());
    match tool {
        Some(tool) if connection.is_http() && connection.era() == Era::Modern => {
            let arguments = call.params.get("arguments");
            tool.param_headers
                .headers_for(arguments)
                .map_err(|_| CallError::Violation("its x-mcp-header cannot be met"))
        }
        _ => Ok(Vec::new()),
    }
}

fn may_repeat(method: Method, error: &CallError) -> bool {
    match error {
        CallError::SessionGone | CallError::Lost { sent: false } => true,
        CallError::Lost { sent: true } => method.is_repeatable(),
        _ => false,
    }
}

fn limits(call: &Call<'_, '_>) -> Limits {
    let timeouts = &call.handle.config().timeouts;
    match call.method {
        Method::ToolsCall => Limits { idle: timeouts.call, max: timeouts.call_max, question: timeouts.user_input },
        Method::Complete => Limits::of(timeouts.completion),
        _ => Limits { idle: timeouts.read, max: timeouts.call_max, question: timeouts.user_input },
    }
}
