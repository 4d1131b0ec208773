//! Streamable HTTP towards an upstream, both eras: a POST a message, many at once.
//!
//! `leg` calls [`HttpLink::exchange`] from the caller's own task, so a call costs no hop to another task. The actor's
//! tasks run [`drive_outbox`] (answers to questions, notifications) and, for a legacy session, [`drive_stream`].
//! Rules: protocol.md §4.2, §4.5.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method as Verb, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::{OnceCell, mpsc};
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::client::{HttpClient, Target};
use crate::protocol::framing::sse::EventDecoder;
use crate::protocol::framing::values::ValueDecoder;
use crate::protocol::header::{self as names, LAST_EVENT_ID, MCP_PROTOCOL_VERSION, MCP_SESSION_ID};
use crate::protocol::jsonrpc::{self, Message, Reading};
use crate::protocol::method::Method;
use crate::protocol::revision::{Era, Revision};
use crate::upstream::error::CallError;
use crate::upstream::leg::Outgoing;
use crate::upstream::wire::Wire;

/// Both media types, always: some servers refuse anything less (bug report kind "Accept strictness").
const ACCEPT: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Longest body of an answer that is an error: it is only read to find a JSON-RPC error in it.
const ERROR_BODY_MAX: usize = 256 * 1024;

/// How long an upstream may take for the POST of an answer or a notification, and for DELETE at the end.
const SMALL_POST: Duration = Duration::from_secs(10);
const DELETE_WAIT: Duration = Duration::from_secs(2);

/// First and longest wait before an ended GET stream is opened again (protocol.md §4.5).
const REOPEN_MIN: Duration = Duration::from_secs(1);
const REOPEN_MAX: Duration = Duration::from_secs(60);
/// Wait after a status that says the stream is not served now.
const REOPEN_REFUSED: Duration = Duration::from_secs(600);

/// The sending half of a Streamable HTTP connection.
#[derive(Debug)]
pub struct HttpLink {
    pub(in crate::upstream) client: HttpClient,
    pub(in crate::upstream) target: Target,
    /// The session the upstream gave us in the handshake.
    session: OnceCell<HeaderValue>,
    gone: AtomicBool,
}

/// What a POST was answered with.
pub(in crate::upstream) enum Posted {
    /// A body to read.
    Body(Response<Incoming>),
    /// A success without a body; whether it was 202, which promises that the answer comes on another stream.
    Nothing { accepted: bool },
    /// A status that is no success, with what its body holds.
    Failed(StatusCode, Bytes),
}

impl HttpLink {
    pub(in crate::upstream) fn new(client: HttpClient, target: Target) -> Self {
        Self { client, target, session: OnceCell::new(), gone: AtomicBool::new(false) }
    }

    /// Sends one request and reads its answer. `None`: accepted without a body, the answer comes on another stream.
    pub(in crate::upstream) async fn exchange(
        &self,
        wire: &Wire,
        id: u64,
        revision: Option<Revision>,
        out: &Outgoing,
    ) -> Result<Option<Bytes>, CallError> {
        let headers = self.headers(revision, Some(out));
        match self.post(headers, out.body.clone()).await? {
            Posted::Body(response) => {
                if out.method == Method::Initialize.as_str() {
                    self.keep_session(response.headers());
                }
                self.answer(wire, id, response).await.map(Some)
            }
            // Odd servers of the legacy era answer on the session's stream (protocol.md §4.5).
            Posted::Nothing { accepted: true } if revision.is_some_and(|r| r.era() == Era::Legacy) => Ok(None),
            Posted::Nothing { .. } => Err(CallError::Violation("it is empty")),
            Posted::Failed(status, body) => self.failed(wire, id, status, body).map(Some),
        }
    }

    /// One POST, as far as its status.
    pub(in crate::upstream) async fn post(&self, headers: HeaderMap, body: Bytes) -> Result<Posted, CallError> {
        let response = self.client.send(Verb::POST, &self.target, &headers, body).await?;
        let status = response.status();
        if !status.is_success() {
            return Ok(Posted::Failed(status, collect(response, ERROR_BODY_MAX).await.unwrap_or_default()));
        }
        let empty = response.headers().get(header::CONTENT_LENGTH).is_some_and(|l| l == "0");
        let accepted = status == StatusCode::ACCEPTED;
        let nothing = accepted || empty || status == StatusCode::NO_CONTENT;
        Ok(if nothing { Posted::Nothing { accepted } } else { Posted::Body(response) })
    }

    /// Keeps the session id of a handshake. Ids on other answers mean nothing; some mocks send them in the modern era.
    fn keep_session(&self, headers: &HeaderMap) {
        if let Some(session) = headers.get(MCP_SESSION_ID)
            && self.session.set(session.clone()).is_err()
        {
            debug!("a second handshake on one connection: its session id was ignored");
        }
    }

    /// Headers for the next message. Before the opening is settled only what every era takes is sent.
    pub(in crate::upstream) fn headers(&self, revision: Option<Revision>, out: Option<&Outgoing>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(header::ACCEPT, ACCEPT);
        headers.insert(header::CONTENT_TYPE, JSON);
        match (revision, out) {
            (Some(r), Some(out)) if r.era() == Era::Modern => {
                // Revision and method are our own constants and always sendable; a name is encoded where it must be.
                let _ = names::insert_standard(&mut headers, r.as_str(), out.method, out.name.as_deref());
                headers.extend(out.params.iter().map(|(n, v)| (n.clone(), v.clone())));
            }
            (Some(r), _) => self.legacy_headers(&mut headers, r),
            (None, _) => {}
        }
        headers
    }

    fn legacy_headers(&self, headers: &mut HeaderMap, revision: Revision) {
        if revision.has_version_header() {
            headers.insert(MCP_PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        }
        if let Some(session) = self.session.get() {
            headers.insert(MCP_SESSION_ID, session.clone());
        }
    }

    async fn answer(&self, wire: &Wire, id: u64, response: Response<Incoming>) -> Result<Bytes, CallError> {
        let limit = wire.limits.message;
        if is_event_stream(response.headers()) {
            return self.answer_in_stream(wire, id, response).await;
        }
        if response.headers().contains_key(header::CONTENT_LENGTH) {
            let body = collect(response, limit).await?;
            return match wire.receive(body.clone(), Some(id)) {
                Some(text) => Ok(text),
                None => {
                    let mut values = ValueDecoder::new(limit);
                    let found = self.answer_in_values(wire, id, &mut values, body)?;
                    found.map_or_else(|| self.last_value(wire, id, &mut values), Ok)
                }
            };
        }
        self.answer_in_chunks(wire, id, response).await
    }

    /// A body without a length may be one value, or several that come one after the other (protocol.md §4.2).
    async fn answer_in_chunks(
        &self,
        wire: &Wire,
        id: u64,
        mut response: Response<Incoming>,
    ) -> Result<Bytes, CallError> {
        let mut values = ValueDecoder::new(wire.limits.message);
        while let Some(frame) = response.body_mut().frame().await {
            let frame = frame.map_err(|_| CallError::Lost { sent: true })?;
            let Ok(chunk) = frame.into_data() else { continue };
            if let Some(text) = self.answer_in_values(wire, id, &mut values, chunk)? {
                return Ok(text);
            }
        }
        self.last_value(wire, id, &mut values)
    }

    fn last_value(&self, wire: &Wire, id: u64, values: &mut ValueDecoder) -> Result<Bytes, CallError> {
        let last = values.finish().and_then(Result::ok);
        let answer = last.and_then(|text| wire.receive(text, Some(id)));
        answer.ok_or(CallError::Violation("it holds no answer to the request"))
    }

    fn answer_in_values(
        &self,
        wire: &Wire,
        id: u64,
        values: &mut ValueDecoder,
        mut chunk: Bytes,
    ) -> Result<Option<Bytes>, CallError> {
        let mut found = None;
        while let Some(value) = values.decode(&mut chunk) {
            let value = value.map_err(|_| CallError::TooLarge(wire.limits.message))?;
            let answer = wire.receive(value, Some(id));
            found = found.or(answer);
        }
        Ok(found)
    }

    /// Reads an event stream until the answer is in it. A legacy stream that ends early is resumed where it can be (protocol.md §4.5).
    async fn answer_in_stream(&self, wire: &Wire, id: u64, response: Response<Incoming>) -> Result<Bytes, CallError> {
        let mut stream = Stream::default();
        let mut response = response;
        loop {
            if let Some(text) = stream.read(wire, Some(id), response).await? {
                return Ok(text);
            }
            let modern = wire.revision().is_some_and(|r| r.era() == Era::Modern);
            let Some(last) = stream.last_id.as_deref().filter(|_| !modern) else {
                return Err(CallError::Lost { sent: true });
            };
            let last = HeaderValue::from_str(last).map_err(|_| CallError::Lost { sent: true })?;
            sleep(stream.retry.unwrap_or(REOPEN_MIN)).await;
            response = self.open_stream(wire, Some(last)).await?;
            if !response.status().is_success() || !is_event_stream(response.headers()) {
                return Err(CallError::Lost { sent: true });
            }
        }
    }

    async fn open_stream(&self, wire: &Wire, last: Option<HeaderValue>) -> Result<Response<Incoming>, CallError> {
        let mut headers = self.headers(wire.revision(), None);
        headers.remove(header::CONTENT_TYPE);
        headers.insert(header::ACCEPT, EVENT_STREAM);
        if let Some(last) = last {
            headers.insert(LAST_EVENT_ID, last);
        }
        self.client.send(Verb::GET, &self.target, &headers, Bytes::new()).await
    }

    /// What a failure status means: a lost session, a JSON-RPC answer, or just the status.
    fn failed(&self, wire: &Wire, id: u64, status: StatusCode, body: Bytes) -> Result<Bytes, CallError> {
        let answer = answers(&body, id);
        if self.session.initialized() && is_session_lost(status, &body, answer == Some(true)) {
            // The first to notice closes the connection; the actor shakes hands anew.
            if !self.gone.swap(true, Ordering::Relaxed) {
                debug!(server = %wire.server, "the upstream lost our session");
            }
            return Err(CallError::SessionGone);
        }
        match status.as_u16() {
            401 | 403 => Err(CallError::Unauthorized),
            _ if answer.is_some() => Ok(body),
            status => Err(CallError::Status(status)),
        }
    }

    /// Ends the session at the upstream; it may refuse, and it may be gone.
    pub(in crate::upstream) async fn end_session(&self, wire: &Wire) {
        if self.session.initialized() && !self.gone.load(Ordering::Relaxed) {
            let headers = self.headers(wire.revision(), None);
            let farewell = self.client.send(Verb::DELETE, &self.target, &headers, Bytes::new());
            if timeout(DELETE_WAIT, farewell).await.is_err() {
                debug!(server = %wire.server, "the upstream did not answer DELETE in time");
            }
        }
    }
}

/// Whether `body` is a JSON-RPC response, and if so, whether it answers request `id`.
fn answers(body: &[u8], id: u64) -> Option<bool> {
    match jsonrpc::parse(std::str::from_utf8(body).ok()?, Reading::Lenient) {
        Ok(Message::Response(response)) => Some(response.id.and_then(jsonrpc::Id::as_own) == Some(id)),
        _ => None,
    }
}

/// 404 means a lost session (protocol.md §4.5). Some upstreams say 400 (bug report kind "session 400 from an upstream"),
/// which counts only where the error speaks of a session and does not answer our request by its id.
fn is_session_lost(status: StatusCode, body: &[u8], is_ours: bool) -> bool {
    match status {
        StatusCode::NOT_FOUND => true,
        StatusCode::BAD_REQUEST => !is_ours && body.windows(7).any(|w| w.eq_ignore_ascii_case(b"session")),
        _ => false,
    }
}

pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .is_some_and(|v| v.split(';').next().is_some_and(|m| m.trim().eq_ignore_ascii_case("text/event-stream")))
}

/// The whole body, up to `limit` bytes.
pub(in crate::upstream) async fn collect(mut response: Response<Incoming>, limit: usize) -> Result<Bytes, CallError> {
    let mut whole: Option<Bytes> = None;
    let mut rest: Vec<u8> = Vec::new();
    while let Some(frame) = response.body_mut().frame().await {
        let frame = frame.map_err(|_| CallError::Lost { sent: true })?;
        let Ok(chunk) = frame.into_data() else { continue };
        if rest.len() + whole.as_ref().map_or(0, Bytes::len) + chunk.len() > limit {
            return Err(CallError::TooLarge(limit));
        }
        match whole.take() {
            None if rest.is_empty() => whole = Some(chunk),
            None => rest.extend_from_slice(&chunk),
            Some(first) => {
                rest.reserve(first.len() + chunk.len());
                rest.extend_from_slice(&first);
                rest.extend_from_slice(&chunk);
            }
        }
    }
    Ok(whole.unwrap_or_else(|| rest.into()))
}

/// Where one event stream stands, across reconnections.
#[derive(Default)]
pub(super) struct Stream {
    last_id: Option<String>,
    retry: Option<Duration>,
}

impl Stream {
    /// Reads to the end of `response`, or to the answer of leg `id`.
    pub(super) async fn read(
        &mut self,
        wire: &Wire,
        id: Option<u64>,
        mut response: Response<Incoming>,
    ) -> Result<Option<Bytes>, CallError> {
        let mut events = EventDecoder::new(wire.limits.message);
        while let Some(frame) = response.body_mut().frame().await {
            // A broken stream is an ended one: whether it can be resumed is decided outside.
            let Ok(frame) = frame else { return Ok(None) };
            let Ok(mut chunk) = frame.into_data() else { continue };
            while let Some(event) = events.decode(&mut chunk) {
                let event = event.map_err(|_| CallError::TooLarge(wire.limits.message))?;
                if let Some(id) = event.id {
                    self.last_id = Some(id);
                }
                if let Some(ms) = event.retry_ms {
                    self.retry = Some(Duration::from_millis(ms));
                }
                let is_message = event.event.as_deref().is_none_or(|e| e == "message");
                let data = event.data.filter(|d| is_message && !d.is_empty());
                if let Some(text) = data.and_then(|data| wire.receive(data, id)) {
                    return Ok(Some(text));
                }
            }
        }
        Ok(None)
    }
}

/// POSTs what is not a request: answers to questions, cancellations, `initialized`. Ends with the connection.
pub(in crate::upstream) async fn drive_outbox(wire: Arc<Wire>, mut outbox: mpsc::Receiver<Bytes>) {
    let super::Link::Http(link) = &wire.link else { return };
    while let Some(message) = outbox.recv().await {
        let headers = link.headers(wire.revision(), None);
        match timeout(SMALL_POST, link.post(headers, message)).await {
            Ok(Ok(Posted::Failed(status, _))) => {
                debug!(server = %wire.server, status = status.as_u16(), "the upstream refused a message");
            }
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => debug!(server = %wire.server, "a message did not reach the upstream"),
        }
    }
}

/// Keeps the GET stream of a legacy session open, where the upstream serves one.
pub(in crate::upstream) async fn drive_stream(wire: Arc<Wire>) {
    let super::Link::Http(link) = &wire.link else { return };
    let mut stream = Stream::default();
    let mut failures = 0u32;
    let mut heard = false;
    loop {
        let last = stream.last_id.as_deref().and_then(|id| HeaderValue::from_str(id).ok());
        let wait = match link.open_stream(&wire, last).await {
            Ok(response) if response.status().is_success() && is_event_stream(response.headers()) => {
                failures = 0;
                if std::mem::replace(&mut heard, true) {
                    wire.notices.add(|p| p.resumed = true);
                }
                if stream.read(&wire, None, response).await.is_err() {
                    debug!(server = %wire.server, "an event on the upstream's stream is too large");
                }
                // The end of a stream alone means nothing; whether the upstream is still there, the actor finds out.
                wire.notices.add(|p| p.broken = true);
                stream.retry.unwrap_or(REOPEN_MIN)
            }
            // A 404 here alone does not mean that the session is lost.
            Ok(response) if response.status() == StatusCode::METHOD_NOT_ALLOWED => return,
            Ok(_) => {
                stream.last_id = None;
                if heard {
                    wire.notices.add(|p| p.broken = true);
                }
                REOPEN_REFUSED
            }
            Err(_) => {
                failures += 1;
                wire.notices.add(|p| p.broken = true);
                REOPEN_MIN.saturating_mul(1 << failures.min(6)).min(REOPEN_MAX)
            }
        };
        sleep(wait).await;
    }
}
