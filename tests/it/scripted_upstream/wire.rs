//! Plain peers for these tests: one HTTP request at a time, one child process, and the messages they send.

use std::process::Stdio;

use axum::body::{Body, Bytes};
use futures_util::StreamExt;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::support::upstream::Upstream;

pub fn request(id: u64, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

pub fn initialize(revision: &str) -> String {
    let info = json!({"name": "test", "version": "0"});
    request(1, "initialize", json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": info}))
}

pub fn modern(id: u64, method: &str, mut params: Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    request(id, method, params)
}

/// The text that a call result consists of.
pub fn text(message: &Value) -> String {
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {message}")).to_owned()
}

/// A response whose body is read as it comes.
pub struct Reply {
    pub status: u16,
    pub headers: http::HeaderMap,
    body: axum::body::BodyDataStream,
    seen: String,
}

pub async fn http(verb: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Result<Reply, String> {
    let mut request = http::Request::builder().method(verb).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let (head, body) = client.request(request).await.map_err(|error| error.to_string())?.into_parts();
    let body = Body::new(body).into_data_stream();
    Ok(Reply { status: head.status.as_u16(), headers: head.headers, body, seen: String::new() })
}

/// POSTs a modern message with the headers it needs.
pub async fn post_modern(url: &str, message: &str) -> Reply {
    let parsed: Value = serde_json::from_str(message).unwrap();
    let method = parsed["method"].as_str().unwrap();
    let name = parsed["params"]["name"].as_str().or(parsed["params"]["uri"].as_str()).unwrap_or_default();
    let headers = [
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
        ("mcp-name", name),
    ];
    http("POST", url, &headers, message).await.unwrap()
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub async fn bytes(mut self) -> Result<Bytes, String> {
        let mut all = Vec::new();
        while let Some(chunk) = self.body.next().await {
            all.extend(chunk.map_err(|error| error.to_string())?);
        }
        Ok(all.into())
    }

    pub async fn json(self) -> Value {
        serde_json::from_slice(&self.bytes().await.unwrap()).unwrap()
    }

    /// The data of the next event of a stream; `None` at its end.
    pub async fn event(&mut self) -> Option<String> {
        loop {
            let lines = self.seen.replace("\r\n", "\n");
            if let Some((event, rest)) = lines.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
                self.seen = rest.to_owned();
                match data {
                    Some(data) => return Some(data),
                    None => continue,
                }
            }
            let chunk = self.body.next().await?.ok()?;
            self.seen.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    pub async fn message(&mut self) -> Value {
        serde_json::from_str(&self.event().await.expect("the stream goes on")).unwrap()
    }
}

/// A child started as a gateway would start it.
pub struct Process {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub fn start(upstream: &Upstream) -> Self {
        let mut child = Command::new(upstream.command())
            .args(upstream.args())
            .envs(upstream.env())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take(), stdout, child }
    }

    pub async fn send(&mut self, message: &str) {
        self.stdin.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub async fn line(&mut self) -> Option<String> {
        self.stdout.next_line().await.unwrap()
    }

    /// Exactly this many bytes of stdout.
    pub async fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stdout.get_mut().read_exact(&mut bytes).await.unwrap();
        bytes
    }

    pub async fn message(&mut self) -> Value {
        let line = self.line().await.expect("the child is still talking");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"))
    }

    pub async fn ask(&mut self, message: &str) -> Value {
        self.send(message).await;
        self.message().await
    }
}
