//! One MCP endpoint, spoken to as a modern client: a POST a request, the answer as JSON or as an event stream.
//!
//! Used by `ask`. It declares no capabilities, so no tool can ask it anything back. Headers are made from the body by
//! `protocol::header`, answers are cut by `protocol::framing`: nothing of the protocol is decided here.
//!
//! Rules: <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method as Verb, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::protocol::framing::sse::EventDecoder;
use crate::protocol::header;
use crate::protocol::jsonrpc::{self, Message, Outcome, Reading};
use crate::protocol::meta::{self, Stamp};
use crate::protocol::method::Method;
use crate::protocol::object::{Object, ObjectWriter};
use crate::protocol::revision::Revision;

/// Bytes of one answer or event: far above what anybody reads in a terminal, far below what would hurt a laptop.
const ANSWER_MAX: usize = 64 * 1024 * 1024;
/// Characters of an answer that is no message, as far as it is shown.
const SNIPPET: usize = 200;
/// Until the connection stands. A gateway that does not take one within this is as good as not there.
const CONNECT: Duration = Duration::from_secs(10);

const CLIENT_INFO: &str = concat!(r#"{"name":"manifold-cli","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum EndpointError {
    /// The URL is none, or of another scheme.
    #[error("{0:?} is not an http:// or https:// URL")]
    Url(String),
    /// This machine's root certificates cannot be read.
    #[error("cannot set up TLS: {0}")]
    Tls(std::io::Error),
    /// No connection, or it broke.
    #[error("cannot reach {url}: {reason}; is the gateway running there?")]
    Unreachable { url: Uri, reason: String },
    /// An answer that is no MCP.
    #[error(
        "{url} does not answer like an MCP endpoint: {reason}; it is the line `endpoint` of what serve says when it starts"
    )]
    NotMcp { url: Uri, reason: String },
    /// Not within `--timeout`.
    #[error("{url} did not answer within {}; --timeout allows more", humantime::format_duration(*after))]
    Timeout { url: Uri, after: Duration },
}

/// How a request ended.
#[derive(Debug)]
pub(super) enum Answer {
    /// JSON text of the result object.
    Result(String),
    /// A JSON-RPC error.
    Error { code: i64, message: String },
}

/// An endpoint. Connections are kept between requests.
#[derive(Debug)]
pub(super) struct Endpoint {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
    timeout: Duration,
}

/// What goes out: built as a value, so that a test reads what a gateway would.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    /// The method.
    pub method: Method,
    /// Members of `params`, without `_meta`: raw JSON values.
    pub params: &'a [(&'a str, &'a str)],
    /// Target as `Mcp-Name` mirrors it.
    pub name: Option<&'a str>,
    /// Headers that mirror arguments of a tool.
    pub mirrored: Vec<(http::HeaderName, HeaderValue)>,
}

/// The id of every request: only one is in flight on a POST.
const ID: &str = "1";

impl Outgoing<'_> {
    fn body(&self) -> Vec<u8> {
        let stamp = Stamp {
            version: Revision::NEWEST_MODERN.as_str(),
            client_info: CLIENT_INFO,
            capabilities: "{}",
            log_level: None,
        };
        let mut body = Vec::new();
        jsonrpc::begin_request(&mut body, ID, self.method.as_str());
        let mut params = ObjectWriter::begin(&mut body);
        for (key, value) in self.params {
            params.raw(key, value);
        }
        meta::write_for_upstream(&mut params, None, Some(stamp), self.method.may_ask().then_some(1));
        params.end();
        body.push(b'}');
        body
    }

    fn headers(&self) -> Result<HeaderMap, header::HeaderError> {
        let mut headers = standing_headers("application/json, text/event-stream");
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        header::insert_standard(&mut headers, Revision::NEWEST_MODERN.as_str(), self.method.as_str(), self.name)?;
        headers.extend(self.mirrored.iter().cloned());
        Ok(headers)
    }
}

fn standing_headers(accept: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("manifold-cli/", env!("CARGO_PKG_VERSION"))));
    headers
}

impl Endpoint {
    /// An endpoint at `url`; each request to it may take `timeout`.
    pub(super) fn new(url: &str, timeout: Duration) -> Result<Self, EndpointError> {
        let parsed: Uri = url.parse().map_err(|_| EndpointError::Url(url.to_owned()))?;
        if !matches!(parsed.scheme_str(), Some("http" | "https")) || parsed.host().is_none() {
            return Err(EndpointError::Url(url.to_owned()));
        }
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT));
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())
            .map_err(EndpointError::Tls)?
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector), url: parsed, timeout })
    }

    /// Sends one request. `heard` gets each notification that comes before the end: its method and parameters.
    pub(super) async fn request(
        &self,
        outgoing: &Outgoing<'_>,
        heard: &mut dyn FnMut(&str, &Object<'_>),
    ) -> Result<Answer, EndpointError> {
        let exchange = async {
            let headers = outgoing.headers().map_err(|error| self.not_mcp(error.to_string()))?;
            let response = self.send(Verb::POST, headers, outgoing.body()).await?;
            let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(is_event_stream);
            match is_stream {
                true => self.read_stream(response.into_body(), heard).await,
                false => self.read_whole(response.status(), response.into_body()).await,
            }
        };
        self.bounded(exchange).await
    }

    /// Reads a resource of the admin listener: its status and text.
    pub(super) async fn get(&self) -> Result<(StatusCode, String), EndpointError> {
        let exchange = async {
            let response = self.send(Verb::GET, standing_headers("application/json"), Vec::new()).await?;
            let status = response.status();
            Ok((status, self.text(response.into_body()).await?))
        };
        self.bounded(exchange).await
    }

    async fn bounded<T>(&self, exchange: impl Future<Output = Result<T, EndpointError>>) -> Result<T, EndpointError> {
        tokio::time::timeout(self.timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(EndpointError::Timeout { url: self.url.clone(), after: self.timeout }))
    }

    async fn send(
        &self,
        verb: Verb,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<http::Response<Incoming>, EndpointError> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = verb;
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = headers;
        self.client.request(request).await.map_err(|error| self.unreachable(&error))
    }

    async fn read_whole(&self, status: StatusCode, body: Incoming) -> Result<Answer, EndpointError> {
        let text = self.text(body).await?;
        match jsonrpc::parse(&text, Reading::Lenient) {
            Ok(Message::Response(response)) => Ok(answer(response.outcome, &text)),
            _ => Err(self.not_mcp(format!("status {status}: {}", snippet(&text)))),
        }
    }

    async fn read_stream(
        &self,
        mut body: Incoming,
        heard: &mut dyn FnMut(&str, &Object<'_>),
    ) -> Result<Answer, EndpointError> {
        let mut decoder = EventDecoder::new(ANSWER_MAX);
        while let Some(frame) = body.frame().await {
            let mut bytes = match frame.map_err(|error| self.unreachable(&error))?.into_data() {
                Ok(bytes) => bytes,
                Err(_trailers) => continue,
            };
            while let Some(event) = decoder.decode(&mut bytes) {
                let data = event.map_err(|error| self.not_mcp(error.to_string()))?.data.unwrap_or_default();
                let text = std::str::from_utf8(&data).map_err(|_| self.not_mcp("an event is not text"))?;
                match jsonrpc::parse(text, Reading::Lenient) {
                    Ok(Message::Response(response)) => return Ok(answer(response.outcome, text)),
                    Ok(Message::Notification(n)) => heard(&n.method, n.params.object().unwrap_or(&Object::default())),
                    // A priming event is empty, and a request we cannot answer: nothing was declared.
                    _ => {}
                }
            }
        }
        Err(self.not_mcp("the event stream ended before the answer"))
    }

    async fn text(&self, body: Incoming) -> Result<String, EndpointError> {
        let whole = Limited::new(body, ANSWER_MAX).collect().await;
        let bytes = whole.map_err(|error| self.unreachable(error.as_ref()))?.to_bytes();
        String::from_utf8(bytes.into()).map_err(|_| self.not_mcp("the answer is not text"))
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> EndpointError {
        // The outer errors only say that sending failed; the reason is the innermost one.
        let reason = std::iter::successors(Some(error), |e| e.source()).last().unwrap_or(error).to_string();
        EndpointError::Unreachable { url: self.url.clone(), reason }
    }

    fn not_mcp(&self, reason: impl Into<String>) -> EndpointError {
        EndpointError::NotMcp { url: self.url.clone(), reason: reason.into() }
    }
}

fn is_event_stream(value: &HeaderValue) -> bool {
    let kind = value.to_str().unwrap_or("").split(';').next().unwrap_or("");
    kind.trim().eq_ignore_ascii_case("text/event-stream")
}

fn answer(outcome: Outcome<'_>, text: &str) -> Answer {
    match outcome {
        // The envelope was read leniently, so `result` is an object that stands in the text as it came.
        Outcome::Result(_) => Answer::Result(
            Object::parse(text).ok().and_then(|message| message.get("result").map(str::to_owned)).unwrap_or_default(),
        ),
        Outcome::Error(error) => Answer::Error { code: error.code, message: error.message.into_owned() },
    }
}

fn snippet(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(SNIPPET) {
        _ if text.is_empty() => "no body".to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
