//! Streamable HTTP, both eras on `/mcp`: status codes, sessions, header checks, and the form of an answer.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, header};
use axum::routing::any;
use base64::Engine as _;
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::sync::mpsc;

use super::engine::Engine;
use super::message::{Frame, Incoming, Leg};
use super::record::Record;
use super::script::{Answer, Script};
use super::{offer, web};

pub const SESSION: &str = "mcp-session-id";
pub const VERSION: &str = "mcp-protocol-version";

pub fn router(engine: Arc<Engine>) -> Router {
    Router::new().route("/mcp", any(handle)).route("/mcp/", any(handle)).with_state(engine)
}

async fn handle(State(engine): State<Arc<Engine>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let text = read(body).await;
    let session = value(&head.headers, SESSION).unwrap_or_default().to_owned();
    engine.record(record(&session, &head.method, &head.headers, &text));
    let script = engine.script();
    if script.http.redirect && head.uri.path() == "/mcp" {
        let mut response = status(307, String::new());
        response.headers_mut().insert(header::LOCATION, "/mcp/".parse().unwrap());
        return response;
    }
    match head.method {
        Method::POST => post(&engine, &script, &head.headers, session, text).await,
        Method::GET if script.legacy.is_empty() || !script.http.get_stream => status(405, String::new()),
        Method::GET => match refuse_session(&engine, &script, &session) {
            Some(refusal) => refusal,
            None if head.headers.contains_key("last-event-id") => {
                match value(&head.headers, "last-event-id").and_then(|event| engine.resume(event)) {
                    Some(rest) => web::events(&engine, Vec::new(), rest, Some("message")),
                    None => status(400, String::new()),
                }
            }
            None => {
                let (out, frames) = mpsc::channel(64);
                engine.open_stream(Leg { from: session, out });
                web::events(&engine, Vec::new(), frames, None)
            }
        },
        Method::DELETE if script.legacy.is_empty() => status(405, String::new()),
        Method::DELETE => match engine.state().sessions.remove(&session) {
            Some(_) => status(204, String::new()),
            None => status(404, String::new()),
        },
        _ => status(405, String::new()),
    }
}

async fn post(
    engine: &Arc<Engine>,
    script: &Script,
    headers: &HeaderMap,
    session: String,
    text: String,
) -> Response<Body> {
    let accept = value(headers, "accept").unwrap_or_default();
    let accepts_both = accept.contains("application/json") && accept.contains("text/event-stream");
    if script.http.strict_accept && !accepts_both {
        return status(406, String::new());
    }
    let Ok(message) = serde_json::from_str::<Incoming<'_>>(&text) else {
        return error(400, None, -32700, "not a message");
    };
    let id = message.id.map(|id| id.get());
    let method = message.method.as_deref().unwrap_or_default();
    let mut from = session.clone();
    if engine.is_modern(&message.params) {
        if let Some(why) = wrong_headers(headers, &message).filter(|_| id.is_some()) {
            return error(400, id, -32020, why);
        }
        from = format!("post-{}", engine.serial());
    } else if method == "initialize" {
        from = format!("session-{}", engine.serial());
        let revision = offer::revision(script, message.params.protocol_version.as_deref());
        engine.state().sessions.insert(from.clone(), (revision, 0));
    } else if let Some(refusal) = refuse_session(engine, script, &session) {
        return refusal;
    } else if script.http.strict_version && wrong_version(engine, headers, &session) {
        return error(400, id, -32600, "MCP-Protocol-Version is not the negotiated one");
    }
    let (is_request, opens) = (id.is_some() && message.method.is_some(), method == "initialize");
    let (out, frames) = mpsc::channel(64);
    engine.spawn(text, Leg { from: from.clone(), out });
    if !is_request {
        return status(202, String::new());
    }
    let mut response = reply(engine, script, frames, accept_gzip(headers)).await;
    if opens && script.http.sessions && response.status() == StatusCode::OK {
        response.headers_mut().insert(SESSION, from.parse().unwrap());
    }
    response
}

/// The answer in the form that the first frame asks for.
async fn reply(engine: &Arc<Engine>, script: &Script, mut frames: mpsc::Receiver<Frame>, gzip: bool) -> Response<Body> {
    let http = &script.http;
    match frames.recv().await {
        None | Some(Frame::Die) => web::cut(),
        Some(Frame::Answer(200, body)) if http.answer == Answer::Sse => {
            web::events(engine, vec![Frame::Answer(200, body)], frames, Some("message"))
        }
        Some(Frame::Answer(code, body)) => {
            let mut response = status(code, body);
            response.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
            if http.gzip && gzip { compress(response).await } else { response }
        }
        Some(first) => web::events(engine, vec![first], frames, Some("message")),
    }
}

/// Counts a request of a session, and says what is wrong with the session.
fn refuse_session(engine: &Engine, script: &Script, session: &str) -> Option<Response<Body>> {
    if !script.http.sessions {
        return None;
    }
    if session.is_empty() {
        return Some(error(400, None, -32000, "Bad Request: No valid session ID provided"));
    }
    let mut state = engine.state();
    if let Some((_, served)) = state.sessions.get_mut(session) {
        *served += 1;
        if script.http.forget_after.is_none_or(|limit| *served <= limit) {
            return None;
        }
        state.sessions.remove(session);
    }
    let why =
        if script.http.lost_status == 404 { "Session not found" } else { "Bad Request: No valid session ID provided" };
    Some(error(script.http.lost_status, None, -32000, why))
}

fn wrong_version(engine: &Engine, headers: &HeaderMap, session: &str) -> bool {
    let state = engine.state();
    let negotiated = state.sessions.get(session).map(|(revision, _)| revision.as_str());
    let sent = value(headers, VERSION);
    sent.is_some() && negotiated.is_some() && sent != negotiated
}

/// The rules of 2026-07-28 for headers that repeat the body.
fn wrong_headers(headers: &HeaderMap, message: &Incoming<'_>) -> Option<&'static str> {
    let params = &message.params;
    let version = params.meta["io.modelcontextprotocol/protocolVersion"].as_str();
    let method = message.method.as_deref();
    let name = match method {
        Some("tools/call" | "prompts/get") => params.name.clone(),
        Some("resources/read") => params.uri.clone(),
        _ => None,
    };
    if version.is_some() && value(headers, VERSION) != version {
        return Some("MCP-Protocol-Version is not the one of _meta");
    }
    if value(headers, "mcp-method") != method {
        return Some("Mcp-Method is not the method");
    }
    (name.is_some() && value(headers, "mcp-name").and_then(decode) != name).then_some("Mcp-Name is not the name")
}

fn decode(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|value| value.strip_suffix("?=")) {
        None => Some(value.to_owned()),
        Some(encoded) => String::from_utf8(base64::engine::general_purpose::STANDARD.decode(encoded).ok()?).ok(),
    }
}

pub fn record(from: &str, verb: &Method, headers: &HeaderMap, body: &str) -> Record {
    let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    Record { from: from.into(), verb: verb.to_string(), headers, body: body.into() }
}

pub async fn read(body: Body) -> String {
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub fn status(code: u16, body: String) -> Response<Body> {
    Response::builder().status(code).body(Body::from(body)).unwrap()
}

fn error(code: u16, id: Option<&str>, rpc: i64, why: &str) -> Response<Body> {
    let error = json!({"code": rpc, "message": why});
    let mut response = status(code, format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.unwrap_or("null")));
    response.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    response
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn accept_gzip(headers: &HeaderMap) -> bool {
    value(headers, "accept-encoding").is_some_and(|accept| accept.contains("gzip"))
}

async fn compress(response: Response<Body>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    let plain = read(body).await;
    head.headers.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
    Response::from_parts(head, Body::from(gzip(plain.as_bytes())))
}

/// A valid gzip file of stored blocks: it need not be small, only impossible to read without decoding.
pub fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for block in plain.chunks(usize::from(u16::MAX)) {
        let length = u16::try_from(block.len()).unwrap();
        file.push(0);
        file.extend(length.to_le_bytes());
        file.extend((!length).to_le_bytes());
        file.extend(block);
    }
    file.extend([1, 0, 0, 0xff, 0xff]);
    let crc = plain.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
    });
    file.extend((!crc).to_le_bytes());
    file.extend(u32::try_from(plain.len()).unwrap().to_le_bytes());
    file
}
