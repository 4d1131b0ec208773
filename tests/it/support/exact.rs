//! Messages written by hand, for scenarios in which a single header or byte matters.

use http::{HeaderMap, HeaderName, Method, StatusCode};
use serde_json::{Value, json};

use super::client::{Client, MODERN, Reply};

/// What one request got: everything that a refusal is judged by.
#[derive(Debug)]
pub struct Told {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Null when there was no body.
    pub body: Value,
}

impl Told {
    /// Status, JSON-RPC code (0: none) and id (null: none). An explicit `"id": null` shows as the text `null`.
    pub fn brief(&self) -> (u16, i64, Value) {
        let id = match self.body.get("id") {
            Some(Value::Null) => json!("null"),
            Some(id) => id.clone(),
            None => Value::Null,
        };
        (self.status.as_u16(), self.code(), id)
    }

    pub fn code(&self) -> i64 {
        self.body["error"]["code"].as_i64().unwrap_or(0)
    }

    pub fn message(&self) -> &str {
        self.body["error"]["message"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// Sends this and leaves the reply to be read. Headers may repeat; the usual two are added unless they are here.
pub async fn open(url: &str, verb: Method, headers: &[(&str, &str)], body: impl Into<bytes::Bytes>) -> Reply {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    Client::modern(url).send(verb, map, body).await
}

/// Sends this and reads the whole answer.
pub async fn send(url: &str, verb: Method, headers: &[(&str, &str)], body: impl Into<bytes::Bytes>) -> Told {
    let reply = open(url, verb, headers, body).await;
    let (status, headers) = (reply.status, reply.headers.clone());
    let body = reply.all().await.pop().unwrap_or_default();
    Told { status, headers, body }
}

/// POSTs this.
pub async fn post(url: &str, headers: &[(&str, &str)], body: impl Into<bytes::Bytes>) -> Told {
    send(url, Method::POST, headers, body).await
}

/// A request of the legacy era.
pub fn request(id: Value, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// The metadata that every modern request needs.
pub fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// A request of the modern era.
pub fn modern(id: Value, method: &str, mut params: Value) -> String {
    params["_meta"] = meta();
    request(id, method, params)
}

/// An `initialize` at `revision`.
pub fn initialize(revision: &str) -> String {
    let info = json!({"name": "scenario", "version": "1"});
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": info});
    request(json!(0), "initialize", params)
}
