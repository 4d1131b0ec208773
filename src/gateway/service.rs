//! Carries a routed request to its owner and the answer back: the hot path.
//!
//! ```text
//! Target::read ─► find in the snapshot ─► handle ─► leg on its connection ─► answer ─► Reply
//!                                                    └─ observer: Exchange (progress, logs, questions)
//! ```
//!
//! Decisions are made in pure neighbours (`target`, `answer`, `error`); here they are carried out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::time::Instant;
use tracing::info;

use super::answer::{self, Kind, Wanted};
use super::error::GatewayError;
use super::exchange::Exchange;
use super::outlet::Outlet;
use super::state::{Binding, digest};
use super::target::{Edits, Target, write_params};
use super::{Caller, Gateway, Peer, Reply};
use crate::catalog::{Endpoint, Entry, Route};
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::jsonrpc::{self, Message, Outcome, Reading, Request};
use crate::protocol::meta::RequestMeta;
use crate::protocol::method::Method;
use crate::protocol::object::{Object, is_object};
use crate::protocol::revision::{Era, Revision};
use crate::telemetry::metrics::label;
use crate::upstream::connection::{Connection, capabilities_text};
use crate::upstream::error::CallError;
use crate::upstream::handle::Handle;
use crate::upstream::leg::{Limits, Outgoing};

/// How long a call waits for a new connection after its upstream lost the session.
const RECONNECT_WAIT: Duration = Duration::from_secs(10);

/// One routed request on its way.
struct Call<'a, 'p> {
    method: Method,
    params: &'a Object<'p>,
    id: &'a str,
    caller: &'a Caller,
    route: Route<'a>,
    handle: Handle,
    exchange: Arc<Exchange>,
    /// The upstream's own state, on a retry.
    state: Option<String>,
}

/// How a routed request ended, for the log line and the metrics.
struct Ended {
    reply: Reply,
    outcome: label::Outcome,
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
        let fail = |e: &GatewayError| {
            self.count_refusal(e);
            e.reply(request.id.as_raw(), method, caller.era(), &self.0.server_info)
        };
        let empty = Object::default();
        let params = request.params.object().unwrap_or(&empty);
        let target = match Target::read(method, params) {
            Ok(target) => target,
            Err(error) => return fail(&error),
        };
        let snapshot = self.0.catalog.load();
        let found = snapshot.view(&caller.endpoint).ok_or(GatewayError::Method).and_then(|view| target.find(view));
        let route = match found {
            Ok(route) => route,
            Err(error) => return fail(&error),
        };
        let server = route.source.name.clone();
        let Some(handle) = self.0.directory.get(&server) else {
            return fail(&GatewayError::Unavailable { server: server.to_string(), retry_in: None });
        };
        let now = Instant::now();
        let record = handle.metrics().calls.begin(method, caller.era(), now);
        let progress = RequestMeta::read(Some(params)).progress_token;
        let exchange = Exchange::new(server.clone(), caller, outlet, progress);
        let mut call = Call { method, params, id: request.id.as_raw(), caller, route, handle, exchange, state: None };
        let ended = match self.prepare(&mut call, headers) {
            Ok(()) => self.carry(&call).await,
            Err(error) => Err(error),
        };
        let ended = ended.unwrap_or_else(|e| Ended { outcome: e.outcome(), reply: fail(&e) });
        let end = Instant::now();
        record.end(ended.outcome, end);
        let duration_us = u64::try_from((end - now).as_micros()).unwrap_or(u64::MAX);
        info!(
            target: "manifold::call",
            server = %server,
            method = method.as_str(),
            era = caller.era().as_str(),
            outcome = ended.outcome.as_str(),
            duration_us,
            "call"
        );
        ended.reply
    }

    /// Checks that need the route: mirrored parameters, answers to questions, and the state that came back.
    fn prepare(&self, call: &mut Call<'_, '_>, headers: Option<&HeaderMap>) -> Result<(), GatewayError> {
        if call.method != Method::ToolsCall && call.method != Method::PromptsGet && call.method != Method::ResourcesRead
        {
            return Ok(());
        }
        if let (Some(headers), Some(tool)) = (headers, call.route.entry.and_then(Entry::tool)) {
            let checked = tool.param_headers.check(headers, call.params.get("arguments"));
            checked.map_err(|e| GatewayError::Header(e.to_string()))?;
        }
        if call.caller.era() == Era::Legacy {
            return Ok(());
        }
        if let Some(responses) = call.params.get("inputResponses") {
            let all_objects = Object::parse(responses).is_ok_and(|o| o.iter().all(|(_, v)| is_object(v)));
            if !all_objects {
                return Err(GatewayError::Params("inputResponses is not an object of objects"));
            }
        }
        if call.params.has("requestState") {
            let text = call.params.string("requestState").ok_or(GatewayError::State)?;
            let opened = self.0.sealer.open(&text, &binding(call), self.seconds()).map_err(|_| GatewayError::State)?;
            call.state = Some(opened);
        }
        Ok(())
    }

    /// Sends it, once more where the upstream cannot have run it or running it twice is harmless.
    async fn carry(&self, call: &Call<'_, '_>) -> Result<Ended, GatewayError> {
        let name = call.route.source.name.as_str();
        let mut connection = call.handle.connection().map_err(|why| GatewayError::unavailable(name, &why))?;
        let mut answer = self.leg(call, &connection).await;
        if let Err(error) = &answer
            && may_repeat(call.method, error)
        {
            if *error == CallError::SessionGone || connection.is_closed() {
                let next = call.handle.next_connection(&connection, RECONNECT_WAIT).await;
                connection = next.map_err(|why| GatewayError::unavailable(name, &why))?;
            }
            answer = self.leg(call, &connection).await;
        }
        match answer {
            Ok(text) => self.read(call, &connection, &text),
            Err(error) => Err(GatewayError::upstream(name, error)),
        }
    }

    async fn leg(&self, call: &Call<'_, '_>, connection: &Connection) -> Result<Bytes, CallError> {
        let leg = connection.open(call.exchange.clone());
        let declared = self.declared(call, connection.revision());
        let level = call.exchange.log_level();
        let edits = Edits {
            original: &call.route.original,
            revision: connection.revision(),
            stamp: connection.stamp(&declared, level.map(crate::protocol::level::Level::as_str)),
            progress_token: call.exchange.wants_progress().then(|| leg.id()),
            state: call.state.as_deref(),
        };
        if let (Some(level), Era::Legacy) = (level.filter(|_| call.caller.era() == Era::Modern), connection.era()) {
            call.handle.want_level(level).await;
        }
        let mut body = Vec::with_capacity(512 + call.params.get("arguments").map_or(0, str::len));
        jsonrpc::begin_request(&mut body, &leg.id().to_string(), call.method.as_str());
        write_params(&mut body, call.method, call.params, edits);
        body.push(b'}');
        let out = Outgoing {
            method: call.method.as_str(),
            name: call.method.named_by().map(|_| Box::from(call.route.original.as_ref())),
            params: mirrored(call, connection)?,
            body: body.into(),
        };
        leg.run(out, limits(call)).await
    }

    /// What a modern upstream is told that it may ask: as much as this client declared, and can be reached with.
    fn declared(&self, call: &Call<'_, '_>, revision: Revision) -> Box<str> {
        match &call.caller.peer {
            Peer::Modern(peer) if peer.capabilities != ClientCapabilities::default() => {
                capabilities_text(&peer.capabilities, revision)
            }
            _ => "{}".into(),
        }
    }

    fn read(&self, call: &Call<'_, '_>, connection: &Connection, text: &Bytes) -> Result<Ended, GatewayError> {
        let server = call.route.source.name.as_str();
        let broken = |what| GatewayError::upstream(server, CallError::Violation(what));
        let utf8 = std::str::from_utf8(text).map_err(|_| broken("it is not UTF-8"))?;
        let Ok(Message::Response(response)) = jsonrpc::parse(utf8, Reading::Lenient) else {
            return Err(broken("it is not a JSON-RPC response"));
        };
        let wanted = Wanted {
            id: call.id,
            method: call.method,
            revision: call.caller.revision(),
            server_info: &self.0.server_info,
            server,
            uris: (call.caller.endpoint == Endpoint::Merged)
                .then(|| call.route.source.uri_map())
                .filter(|map| !map.is_verbatim()),
        };
        let Outcome::Result(result) = &response.outcome else {
            let reply = answer::write(&response.outcome, wanted);
            return Ok(Ended { reply, outcome: label::Outcome::RpcError });
        };
        if connection.era() == Era::Modern {
            match answer::kind(result) {
                Kind::Complete => {}
                Kind::InputRequired => return self.input_required(call, result, wanted),
                Kind::Unknown => return Err(broken("its resultType is unknown")),
            }
        }
        let failed = call.method == Method::ToolsCall && answer::is_tool_error(result);
        let outcome = if failed { label::Outcome::ToolError } else { label::Outcome::Ok };
        Ok(Ended { reply: answer::write(&response.outcome, wanted), outcome })
    }

    /// A modern upstream wants input first. A modern client gets the questions and our seal on the state.
    fn input_required(
        &self,
        call: &Call<'_, '_>,
        result: &Object<'_>,
        wanted: Wanted<'_>,
    ) -> Result<Ended, GatewayError> {
        let server = wanted.server;
        let broken = |what| GatewayError::upstream(server, CallError::Violation(what));
        let Peer::Modern(peer) = &call.caller.peer else {
            return Err(GatewayError::InputNotSupported { server: server.to_owned() });
        };
        if !call.method.may_ask() || !(result.has("inputRequests") || result.has("requestState")) {
            return Err(broken("it asks for input in a way that it must not"));
        }
        if !result
            .object("inputRequests")
            .unwrap_or_default()
            .iter()
            .all(|(_, ask)| is_declared(&peer.capabilities, ask))
        {
            return Err(broken("it asks for input that the client did not offer"));
        }
        let state = match result.get_some("requestState").map(|_| result.string("requestState")) {
            None => None,
            Some(Some(state)) => {
                let sealed = self.0.sealer.seal(binding(call), &state, self.seconds());
                Some(sealed.map_err(|_| broken("its requestState is too long"))?)
            }
            Some(None) => return Err(broken("its requestState is not a string")),
        };
        let text = answer::write_result(result, wanted, state.as_deref());
        Ok(Ended { reply: Reply { error: None, text: text.into() }, outcome: label::Outcome::Ok })
    }

    /// Seconds since the gateway started: the clock of sealed states.
    fn seconds(&self) -> u64 {
        self.0.started.elapsed().as_secs()
    }
}

fn binding(call: &Call<'_, '_>) -> Binding {
    Binding {
        server: call.route.source.name.to_string(),
        principal: call.caller.principal.as_str().to_owned(),
        method: call.method.as_str().to_owned(),
        target: call.route.original.to_string(),
        digest: digest(call.method, call.params),
    }
}

/// Whether a modern client declared that it can be asked this.
fn is_declared(capabilities: &ClientCapabilities, ask: &str) -> bool {
    use crate::protocol::method::question;
    let Ok(ask) = Object::parse(ask) else { return false };
    let by_url = || ask.object("params").and_then(|p| p.string("mode").map(|m| m == "url")).unwrap_or(false);
    match ask.string("method").as_deref() {
        Some(question::ROOTS) => capabilities.roots,
        Some(question::SAMPLING) => capabilities.sampling,
        Some(question::ELICITATION) => {
            if by_url() {
                capabilities.url
            } else {
                capabilities.form
            }
        }
        _ => false,
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
