//! The HTTP+SSE transport of revision 2024-11-05: one event stream down, a POST for each message up.
//!
//! `dial` opens it for `type: sse`, and as the fallback where a URL knows no POST (protocol.md §1.6, §4.7).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::{OnceCell, mpsc};
use tokio::time::timeout;
use tracing::debug;
use url::Url;

use super::client::{HttpClient, Target};
use super::http::is_event_stream;
use crate::protocol::clipped::Whose;
use crate::protocol::framing::sse::EventDecoder;
use crate::upstream::error::{CallError, DialError};
use crate::upstream::wire::Wire;

/// How long an upstream may take to accept one message.
const POST_WAIT: Duration = Duration::from_secs(30);
/// How long the `endpoint` event may take after the stream is open.
const ENDPOINT_WAIT: Duration = Duration::from_secs(10);

/// The sending half.
#[derive(Debug)]
pub struct SseLink {
    client: HttpClient,
    target: Target,
    post: OnceCell<Target>,
}

/// An open event stream whose endpoint is known.
#[derive(Debug)]
pub(in crate::upstream) struct OpenStream {
    response: Response<Incoming>,
    events: EventDecoder,
    rest: Bytes,
}

impl SseLink {
    pub(in crate::upstream) fn new(client: HttpClient, target: Target) -> Self {
        Self { client, target, post: OnceCell::new() }
    }

    /// Opens the stream and learns where to POST.
    pub(in crate::upstream) async fn open(&self, limit: usize) -> Result<OpenStream, DialError> {
        let mut headers = HeaderMap::with_capacity(1);
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let response = self
            .client
            .send(Method::GET, &self.target, &headers, Bytes::new())
            .await
            .map_err(|e| DialError::Connect(e.to_string()))?;
        match response.status().as_u16() {
            200..=299 if is_event_stream(response.headers()) => {}
            status @ (401 | 403) => return Err(DialError::Unauthorized(status)),
            status => return Err(DialError::Handshake(format!("GET gives status {status} and no event stream"))),
        }
        timeout(ENDPOINT_WAIT, self.endpoint(response, limit)).await.unwrap_or(Err(DialError::Silent(ENDPOINT_WAIT)))
    }

    async fn endpoint(&self, mut response: Response<Incoming>, limit: usize) -> Result<OpenStream, DialError> {
        let mut events = EventDecoder::new(limit);
        while let Some(Ok(frame)) = response.body_mut().frame().await {
            let Ok(mut chunk) = frame.into_data() else { continue };
            while let Some(event) = events.decode(&mut chunk) {
                let Ok(event) = event else { return Err(DialError::Handshake("its first event is too long".into())) };
                let Some(data) = event.data else { continue };
                if event.event.as_deref() != Some("endpoint") {
                    return Err(DialError::Handshake("its first event is not `endpoint`".into()));
                }
                let post = self.resolve(&data)?;
                // The first endpoint stands: a second one would be a second stream.
                let _ = self.post.set(post);
                return Ok(OpenStream { response, events, rest: chunk });
            }
        }
        Err(DialError::Handshake("its stream ended before the `endpoint` event".into()))
    }

    /// Resolves by RFC 3986 against the stream's address; another origin is refused (protocol.md §4.7).
    fn resolve(&self, data: &[u8]) -> Result<Target, DialError> {
        let text = String::from_utf8_lossy(data);
        let url: Url = self
            .target
            .url
            .join(text.trim())
            .map_err(|_| DialError::Handshake("its endpoint event holds no address".into()))?;
        if url.origin() != self.target.url.origin() {
            return Err(DialError::Handshake("its endpoint event names another origin".into()));
        }
        self.target.at(url)
    }

    /// POSTs one message; any 2xx is fine and its body means nothing.
    pub(in crate::upstream) async fn post(&self, wire: &Wire, message: Bytes) -> Result<(), CallError> {
        let Some(target) = self.post.get() else { return Err(CallError::Lost { sent: false }) };
        let mut headers = HeaderMap::with_capacity(2);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(revision) = wire.revision().filter(|r| r.has_version_header()) {
            headers.insert(crate::protocol::header::MCP_PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        }
        let sending = self.client.send(Method::POST, target, &headers, message);
        let response = timeout(POST_WAIT, sending).await.map_err(|_| CallError::Timeout { after: POST_WAIT })??;
        match response.status().as_u16() {
            200..=299 => Ok(()),
            401 | 403 => Err(CallError::Unauthorized),
            404 => Err(CallError::SessionGone),
            status => Err(CallError::Status(status)),
        }
    }
}

/// Reads the stream; its end is the end of the connection.
pub(in crate::upstream) async fn drive_stream(wire: Arc<Wire>, stream: OpenStream) {
    let OpenStream { mut response, mut events, rest } = stream;
    let mut chunk = rest;
    loop {
        while let Some(event) = events.decode(&mut chunk) {
            let Ok(event) = event else {
                wire.too_large(Whose::Unknown);
                continue;
            };
            let is_message = event.event.as_deref().is_none_or(|e| e == "message");
            if let Some(data) = event.data.filter(|d| is_message && !d.is_empty()) {
                wire.receive(data, None);
            }
        }
        match response.body_mut().frame().await {
            Some(Ok(frame)) => chunk = frame.into_data().unwrap_or_default(),
            _ => break,
        }
    }
    debug!(server = %wire.server, "the upstream's event stream ended");
    wire.close();
}

/// POSTs what is not a request.
pub(in crate::upstream) async fn drive_outbox(wire: Arc<Wire>, mut outbox: mpsc::Receiver<Bytes>) {
    let super::Link::Sse(link) = &wire.link else { return };
    while let Some(message) = outbox.recv().await {
        if link.post(&wire, message).await.is_err() {
            debug!(server = %wire.server, "a message did not reach the upstream");
        }
    }
}
