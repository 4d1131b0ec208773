//! A downstream of a scenario: plain HTTP and JSON, both eras, nothing hidden, so that a test sees what goes over the wire.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use mcp_manifold::protocol::framing::sse::EventDecoder;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::app::PATIENCE;

type Http = HyperClient<HttpConnector, Full<Bytes>>;

/// The modern revision.
pub const MODERN: &str = "2026-07-28";

/// A client of one endpoint.
pub struct Client {
    http: Http,
    url: String,
    /// `None`: modern.
    session: Option<Session>,
    next: AtomicU64,
    /// Declared by a modern client with each request.
    pub capabilities: Value,
}

struct Session {
    id: String,
    version: String,
}

/// What came back for one POST or GET: a JSON body, or an event stream to read from.
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    events: EventDecoder,
    ready: VecDeque<Value>,
    /// The id of the newest event that arrived.
    pub last_event: Option<String>,
    /// The last `retry` that arrived, in milliseconds.
    pub retry: Option<u64>,
    /// Everything of the body so far that was not an event stream.
    json: Vec<u8>,
}

impl Client {
    /// Speaks 2026-07-28.
    pub fn modern(url: &str) -> Self {
        Self {
            http: HyperClient::builder(TokioExecutor::new()).build_http(),
            url: url.to_owned(),
            session: None,
            next: AtomicU64::new(1),
            capabilities: json!({}),
        }
    }

    /// Shakes hands at `version` and says `initialized`.
    pub async fn legacy(url: &str, version: &str, capabilities: Value) -> Self {
        let mut client = Self::modern(url);
        let params = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "scenario", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let reply = client.send(Method::POST, HeaderMap::new(), body.to_string()).await;
        assert_eq!(reply.status, StatusCode::OK, "initialize");
        let id = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let answer = reply.last().await;
        let version = answer["result"]["protocolVersion"].as_str().unwrap().to_owned();
        client.session = Some(Session { id, version });
        client.notify("notifications/initialized", json!({})).await;
        client
    }

    /// The session's id.
    pub fn session(&self) -> &str {
        &self.session.as_ref().expect("a legacy client").id
    }

    /// Sends a request and gives the whole response message. Panics when none comes in time.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        self.open(method, params).await.last().await
    }

    /// Sends a request and gives its result. Panics with the error.
    pub async fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.request(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Every entry of a list, page by page; `method` is for instance `tools/list`.
    pub async fn list(&self, method: &str) -> Vec<Value> {
        let member = member_of(method);
        let (mut all, mut params) = (Vec::new(), json!({}));
        loop {
            let page = self.result(method, params).await;
            all.extend(page[member].as_array().unwrap_or_else(|| panic!("no {member} in {page}")).clone());
            match page.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return all,
            }
        }
    }

    /// The names (URIs, templates) of every entry of a list.
    pub async fn names(&self, method: &str) -> Vec<String> {
        let key = match method {
            "resources/list" => "uri",
            "resources/templates/list" => "uriTemplate",
            _ => "name",
        };
        self.list(method).await.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
    }

    /// Sends a request and leaves the reply to be read.
    pub async fn open(&self, method: &str, params: Value) -> Reply {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.open_as(json!(id), method, params).await
    }

    /// The same with an id of the test's choice.
    pub async fn open_as(&self, id: Value, method: &str, params: Value) -> Reply {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": self.with_meta(params)});
        self.post(method, &body).await
    }

    /// Sends a request whose params are this very text; a modern client's metadata is put in front of its members.
    pub async fn open_raw(&self, method: &str, params: &str) -> Reply {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.open_raw_as(&id.to_string(), method, params).await
    }

    /// The same with an id of the test's choice, as JSON text.
    pub async fn open_raw_as(&self, id: &str, method: &str, params: &str) -> Reply {
        #[derive(serde::Deserialize, serde::Serialize)]
        struct Named {
            name: Option<String>,
            uri: Option<String>,
        }
        let named: Named = serde_json::from_str(params).expect("valid params");
        let inner = params.trim().strip_prefix('{').and_then(|p| p.strip_suffix('}')).expect("an object").trim();
        let meta = self.session.is_none().then(|| format!("\"_meta\":{}", self.with_meta(json!({}))["_meta"]));
        let members: Vec<_> = meta.into_iter().chain((!inner.is_empty()).then(|| inner.to_owned())).collect();
        let params = members.join(",");
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#);
        self.send(Method::POST, self.headers(method, &json!({"params": named})), text).await
    }

    /// Sends a message of any kind.
    pub async fn post(&self, method: &str, message: &Value) -> Reply {
        self.send(Method::POST, self.headers(method, message), message.to_string()).await
    }

    /// Sends a notification; it must be accepted.
    pub async fn notify(&self, method: &str, params: Value) {
        let reply = self.post(method, &json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
        assert_eq!(reply.status, StatusCode::ACCEPTED, "{method}");
    }

    /// Answers a question of the server.
    pub async fn answer(&self, question: &Value, result: Value) {
        let reply = self.post("", &json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
        assert_eq!(reply.status, StatusCode::ACCEPTED, "answer");
    }

    /// Opens the standalone stream of a legacy session.
    pub async fn stream(&self) -> Reply {
        let reply = self.send(Method::GET, self.headers("", &Value::Null), String::new()).await;
        assert_eq!(reply.status, StatusCode::OK, "GET");
        reply
    }

    /// Reads a stream on after this event, whatever comes of it.
    pub async fn resume(&self, last: &str) -> Reply {
        let mut headers = self.headers("", &Value::Null);
        headers.insert("last-event-id", last.parse().unwrap());
        self.send(Method::GET, headers, String::new()).await
    }

    /// Says goodbye.
    pub async fn delete(&self) -> StatusCode {
        self.send(Method::DELETE, self.headers("", &Value::Null), String::new()).await.status
    }

    fn with_meta(&self, mut params: Value) -> Value {
        if self.session.is_none() {
            let meta = params.as_object_mut().expect("params are an object").entry("_meta").or_insert(json!({}));
            let meta = meta.as_object_mut().expect("_meta is an object");
            meta.insert("io.modelcontextprotocol/protocolVersion".into(), json!(MODERN));
            meta.insert("io.modelcontextprotocol/clientCapabilities".into(), self.capabilities.clone());
            meta.insert("io.modelcontextprotocol/clientInfo".into(), json!({"name": "scenario", "version": "1"}));
        }
        params
    }

    /// The headers that this message needs.
    pub fn headers(&self, method: &str, message: &Value) -> HeaderMap {
        let mut headers = HeaderMap::new();
        match &self.session {
            Some(session) => {
                headers.insert("mcp-session-id", session.id.parse().unwrap());
                headers.insert("mcp-protocol-version", session.version.parse().unwrap());
            }
            None => {
                headers.insert("mcp-protocol-version", MODERN.parse().unwrap());
                headers.insert("mcp-method", method.parse().unwrap());
                let name = if method == "resources/read" { "uri" } else { "name" };
                if let Some(name) = message["params"][name].as_str() {
                    let name = mcp_manifold::protocol::header::encode_value(name).into_owned();
                    headers.insert("mcp-name", name.parse().unwrap());
                }
            }
        }
        headers
    }

    /// Sends a request to a gateway that may end meanwhile: the status, if there is an answer at all.
    pub async fn attempt(&self, method: &str, params: Value) -> Option<StatusCode> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": self.with_meta(params)});
        let mut request = Request::new(Full::new(Bytes::from(message.to_string())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.parse().unwrap();
        *request.headers_mut() = self.headers(method, &message);
        request.headers_mut().insert("content-type", "application/json".parse().unwrap());
        request.headers_mut().insert("accept", "application/json, text/event-stream".parse().unwrap());
        self.http.request(request).await.ok().map(|response| response.status())
    }

    /// Sends anything. `Content-Type` and `Accept` are added where the test did not set them.
    pub async fn send(&self, verb: Method, mut headers: HeaderMap, body: impl Into<Bytes>) -> Reply {
        headers.entry("content-type").or_insert("application/json".parse().unwrap());
        headers.entry("accept").or_insert("application/json, text/event-stream".parse().unwrap());
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = verb;
        *request.uri_mut() = self.url.parse().unwrap();
        *request.headers_mut() = headers;
        let response = timeout(PATIENCE, self.http.request(request)).await;
        Reply::new(response.expect("a response in time").expect("a response"))
    }
}

impl Reply {
    fn new(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        Self {
            status: head.status,
            headers: head.headers,
            body,
            events: EventDecoder::new(64 << 20),
            ready: VecDeque::new(),
            last_event: None,
            retry: None,
            json: Vec::new(),
        }
    }

    /// Whether it is an event stream.
    pub fn is_stream(&self) -> bool {
        self.headers.get("content-type").is_some_and(|v| v.to_str().unwrap().starts_with("text/event-stream"))
    }

    /// The next message; `None` at the end. Panics when nothing comes in time.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            let frame = timeout(PATIENCE, self.body.frame()).await.expect("something in time");
            let Some(frame) = frame else { return self.rest() };
            let Ok(mut chunk) = frame.expect("an unbroken body").into_data() else { continue };
            if !self.is_stream() {
                self.json.extend_from_slice(&chunk);
                continue;
            }
            while let Some(event) = self.events.decode(&mut chunk) {
                let event = event.expect("a short event");
                self.last_event = event.id.or(self.last_event.take());
                self.retry = event.retry_ms.or(self.retry);
                let data = event.data.filter(|d| !d.is_empty());
                self.ready.extend(data.map(|d| serde_json::from_slice::<Value>(&d).expect("JSON in an event")));
            }
        }
    }

    fn rest(&mut self) -> Option<Value> {
        let json = std::mem::take(&mut self.json);
        (!json.is_empty()).then(|| serde_json::from_slice(&json).expect("a JSON body"))
    }

    /// The next message that satisfies `wanted`; others are skipped.
    pub async fn find(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut skipped = Vec::new();
        // Bounded as a whole: comments that keep a stream alive are something too.
        let found = async {
            loop {
                let message = self.next().await.expect("the stream ended first");
                if wanted(&message) {
                    return message;
                }
                skipped.push(message);
            }
        };
        let found = timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| panic!("it did not come; what came: {skipped:?}"))
    }

    /// All messages to the end.
    pub async fn all(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }

    /// The last message: the response.
    pub async fn last(self) -> Value {
        self.all().await.pop().expect("a message")
    }

    /// The body as it came, for JSON replies.
    pub async fn text(mut self) -> String {
        let mut all = Vec::new();
        while let Some(frame) = timeout(PATIENCE, self.body.frame()).await.expect("a body in time") {
            if let Ok(chunk) = frame.expect("an unbroken body").into_data() {
                all.extend_from_slice(&chunk);
            }
        }
        String::from_utf8(all).expect("UTF-8")
    }
}

/// The member that holds the entries in the result of a list.
pub fn member_of(method: &str) -> &'static str {
    match method {
        "tools/list" => "tools",
        "prompts/list" => "prompts",
        "resources/list" => "resources",
        "resources/templates/list" => "resourceTemplates",
        _ => panic!("{method} is no list"),
    }
}

/// GETs a JSON page.
pub async fn get_json(url: &str) -> Value {
    serde_json::from_str(&get(url).await.1).expect("JSON")
}

/// GETs a page: status and text.
pub async fn get(url: &str) -> (StatusCode, String) {
    let client = Client::modern(url);
    let mut headers = HeaderMap::new();
    headers.insert("accept", "*/*".parse().unwrap());
    let reply = client.send(Method::GET, headers, String::new()).await;
    (reply.status, reply.text().await)
}

/// The text of the first block of a tool's result.
pub fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}
