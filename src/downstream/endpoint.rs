//! `/mcp` and `/mcp/{name}`: from an HTTP request to the exchange, the stream or the refusal that it gets.
//!
//! The front door of the HTTP edge; `app` puts [`router`] on a listener. No layers: a request passes the guards, and
//! its exchange runs inside the connection's task.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use axum::routing::any;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use super::converse::Posted;
use super::guard::{self, Accepts};
use super::pending::{Pending, Ticket};
use super::record::{Outcome, record};
use super::refusal;
use super::replay::EventId;
use super::reply;
use super::resume::{self, Reading};
use super::session::{Sessions, Visit};
use super::settings::Settings;
use super::stream::{Events, Start};
use crate::catalog::Endpoint;
use crate::gateway::Gateway;
use crate::gateway::outlet::{About, Outlet};
use crate::policy::host::Hosts;
use crate::policy::principal::Principal;
use crate::protocol::classify::{self, Refusal};
use crate::protocol::code;
use crate::protocol::header::LAST_EVENT_ID;
use crate::telemetry::metrics::label::StreamKind;

/// What every request of the listener shares.
pub struct Edge {
    pub gateway: Gateway,
    pub settings: Settings,
    pub sessions: Sessions,
    pub hosts: Hosts,
}

/// The MCP listener's routes.
pub fn router(gateway: Gateway, settings: Settings, sessions: Sessions) -> Router {
    let hosts = Hosts::new(&settings.allowed_hosts);
    let edge = Arc::new(Edge { gateway, settings, sessions, hosts });
    Router::new()
        .route("/mcp", any(merged))
        .route("/mcp/", any(merged))
        .route("/mcp/{name}", any(single))
        .fallback(nothing_here)
        .with_state(edge)
}

async fn merged(State(edge): State<Arc<Edge>>, request: Request) -> Response {
    answer(edge, None, request).await
}

/// A name that is no text is the name of nobody; who asks for it passes the guards first, as for any other.
async fn single(
    State(edge): State<Arc<Edge>>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let name = name.map(|Path(name)| name).unwrap_or_default();
    answer(edge, Some(&name), request).await
}

async fn nothing_here(State(edge): State<Arc<Edge>>, request: Request) -> Response {
    let served = guard::check(&request, &edge.hosts, &edge.settings);
    let refusal = served.err().filter(|refusal| refusal.status == StatusCode::FORBIDDEN);
    let refusal = refusal.unwrap_or_else(|| not_found("nothing is served here; the MCP endpoint is /mcp"));
    edge.gateway.metrics().refusal(refusal::label(&refusal));
    refused(&refusal, guard::is_person(&request))
}

fn refused(refusal: &Refusal, is_person: bool) -> Response {
    if is_person { reply::for_a_person(refusal) } else { reply::refused(refusal, None) }
}

async fn answer(edge: Arc<Edge>, name: Option<&str>, request: Request) -> Response {
    let began = Instant::now();
    let metrics = Arc::clone(edge.gateway.metrics());
    let is_person = guard::is_person(&request);
    let admitted = admitted(edge, name, request).await;
    match admitted.inspect_err(|refusal| metrics.refusal(refusal::label(refusal))) {
        Ok(response) => response,
        Err(refusal) => {
            record(None, began, Some(refusal.status), Outcome::refused(&refusal), About::default());
            refused(&refusal, is_person)
        }
    }
}

async fn admitted(edge: Arc<Edge>, name: Option<&str>, request: Request) -> Result<Response, Refusal> {
    let accepts = guard::check(&request, &edge.hosts, &edge.settings)?;
    let endpoint = edge.gateway.endpoint(name).ok_or_else(|| {
        not_found("no server of this name is configured; /mcp serves all of them, /mcp/{prefix} one alone")
    })?;
    let principal = Principal::local();
    let (parts, body) = request.into_parts();
    match parts.method {
        Method::POST => post(edge, endpoint, principal, accepts, parts.headers, body).await,
        Method::GET => open_stream(&edge, &visit(&edge, &endpoint, &principal, &parts.headers)?, &parts.headers),
        _ => {
            edge.sessions.end(&visit(&edge, &endpoint, &principal, &parts.headers)?);
            Ok(reply::bare(StatusCode::NO_CONTENT))
        }
    }
}

async fn post(
    edge: Arc<Edge>,
    endpoint: Endpoint,
    principal: Principal,
    accepts: Accepts,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = receive(body, &edge.settings).await?;
    let (outlet, ticket) = (Outlet::new(), Ticket::default());
    let posted = Posted {
        edge: Arc::clone(&edge),
        headers,
        body,
        endpoint,
        principal,
        accepts,
        outlet: outlet.clone(),
        ticket: ticket.clone(),
    };
    let (orphans, metrics) = (edge.sessions.orphans().clone(), Arc::clone(edge.gateway.metrics()));
    let pending = Pending::new(posted.converse(), ticket, outlet, orphans, metrics);
    Ok(reply::respond(pending, accepts, &edge.settings).await)
}

/// A new standalone stream, or with `Last-Event-ID` the rest of one that was opened before.
fn open_stream(edge: &Edge, visit: &Visit, headers: &HeaderMap) -> Result<Response, Refusal> {
    let last = headers.get(LAST_EVENT_ID).filter(|last| !last.is_empty());
    let (Some(last), Some(replay)) = (last, visit.replay()) else {
        return Ok(standalone(edge, visit, Start::fresh(visit, true)));
    };
    let seen = last.to_str().ok().and_then(EventId::parse).ok_or_else(resume::unavailable)?;
    let resumed = replay.resume(seen, Instant::now()).ok_or_else(resume::unavailable)?;
    if resumed.is_standalone {
        return Ok(standalone(edge, visit, Start::again(resumed)));
    }
    let (visit, keep_alive) = (visit.again(), edge.settings.keep_alive);
    let open = edge.gateway.metrics().stream(StreamKind::Answer);
    Ok(reply::event_stream(Reading { resumed, seen, visit, keep_alive, _open: open }.into_body()))
}

fn standalone(edge: &Edge, visit: &Visit, start: Start) -> Response {
    let outlet = Outlet::new();
    visit.session().open_standalone(outlet.clone());
    let until = edge.sessions.draining().clone();
    let (metrics, keep_alive) = (edge.gateway.metrics(), edge.settings.keep_alive);
    reply::stream(Events::standalone(outlet, visit.again(), until, keep_alive, metrics).starting(start))
}

/// The session of a GET or DELETE, which exist in the legacy era only.
fn visit(edge: &Edge, endpoint: &Endpoint, principal: &Principal, headers: &HeaderMap) -> Result<Visit, Refusal> {
    match classify::session(headers) {
        Some(id) => edge.sessions.find(id, principal, endpoint).ok_or_else(classify::session_unknown),
        None if classify::is_modern_by_header(headers) => Err(guard::method_not_served()),
        None => Err(classify::session_required()),
    }
}

fn not_found(message: &'static str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, code::INVALID_REQUEST, "path", message)
}

/// Reads a body within its limits. One that came in one piece is not copied.
async fn receive(body: Body, settings: &Settings) -> Result<Bytes, Refusal> {
    match tokio::time::timeout(settings.body_timeout, collect(body, settings.body_limit)).await {
        Ok(body) => body,
        Err(_) => {
            let message = "the request body did not arrive in time";
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, code::INVALID_REQUEST, "body_timeout", message))
        }
    }
}

async fn collect(mut body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let mut whole = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| unreadable())?.into_data() else { continue };
        if whole.len() + joined.len() + data.len() > limit {
            return Err(guard::too_large(limit));
        }
        if whole.is_empty() && joined.is_empty() {
            whole = data;
        } else {
            joined.extend_from_slice(&std::mem::take(&mut whole));
            joined.extend_from_slice(&data);
        }
    }
    Ok(if joined.is_empty() { whole } else { joined.freeze() })
}

fn unreadable() -> Refusal {
    Refusal::invalid("body", "the request body could not be read")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::stream;

    use super::*;

    fn body(chunks: &[&'static str]) -> Body {
        let chunks: Vec<_> =
            chunks.iter().map(|c| Ok::<_, std::convert::Infallible>(Bytes::from_static(c.as_bytes()))).collect();
        Body::from_stream(stream::iter(chunks))
    }

    #[tokio::test]
    async fn a_body_is_read_whole_and_within_its_limit() {
        for (chunks, want) in [
            (&["abcd"][..], Ok("abcd")),
            (&["ab", "", "cd"], Ok("abcd")),
            (&[], Ok("")),
            (&["abc", "de"], Err(413)),
            (&["abcde"], Err(413)),
        ] {
            let got = collect(body(chunks), 4).await.map_err(|r| r.status.as_u16());
            assert_eq!(got.as_deref().map_err(|status| *status), want.map(str::as_bytes), "{chunks:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_given_up() {
        let never = Body::from_stream(stream::pending::<Result<Bytes, std::convert::Infallible>>());
        let settings = Settings { body_timeout: Duration::from_secs(30), ..Settings::default() };
        assert_eq!(receive(never, &settings).await.unwrap_err().status, StatusCode::REQUEST_TIMEOUT);
    }
}
