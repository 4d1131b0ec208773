//! The scripted upstream: an MCP server for scenarios, in both eras, on every transport, that misbehaves on demand.
//!
//! ```ignore
//! let files = Upstream::http(Script::new("files").tool("read", [Step::Hold, Step::Echo])).await;
//! // point the gateway at files.url(), start a call, then:
//! files.wait_for(|got| got.method() == "tools/call").await;      // bounded: panics with the log when it does not come
//! files.release("read");                                         // the held call goes on
//! files.set_tools([tool("write")]);
//! files.announce_tools().await;                                  // list_changed, in the form each peer wants
//! files.kill().await;                                            // gone, with every connection
//! files.revive().await;                                          // back, on the same port
//! ```
//!
//! * [`Upstream::http`]: Streamable HTTP at [`Upstream::url`]; [`Upstream::sse`]: the 2024 transport;
//!   [`Upstream::stdio`]: a child process to be started with [`Upstream::command`], [`Upstream::args`], [`Upstream::env`].
//! * [`Script`] says what it offers and how it behaves. What a call does is a list of [`Step`]s.
//! * [`Record`]: everything it received, with headers, verbatim.
//!
//! The stdio child is this test binary itself, which runs its ignored test `scripted_upstream_child`. A small `sh` line
//! hands the real stdout over as descriptor 3, so that the test harness cannot print on it. Child and test talk over a
//! loopback socket whose address is in the child's environment: the child reads its script there when it starts (so a
//! restarted child sees what `set_tools` changed), then takes orders and reports what it receives.
//!
//! Inside: `script` and `record` are plain data; `message` what goes over a leg;
//! `engine` answers messages whatever the transport, with `offer` for lists and
//! `steps` for calls; `http`, `sse` and `child` are the transports; `control` joins a child to its test.

#![allow(dead_code, reason = "a tool box for scenarios: not every tool is out of the box at all times")]

mod child;
mod control;
mod engine;
mod http;
mod message;
mod offer;
mod record;
mod script;
mod sse;
mod steps;
mod web;

use std::net::SocketAddr;
use std::sync::Arc;

pub use record::Record;
pub use script::{Answer, Discover, Paging, Script, Step, tool};

use control::Children;
use engine::Engine;
use record::Log;
use serde_json::{Value, json};
use web::Web;

/// A running scripted upstream, held by the test; dropping it ends it.
pub struct Upstream {
    log: Log,
    place: Place,
}

enum Place {
    Web { web: Web, path: &'static str, engine: Arc<Engine> },
    Children(Children),
}

impl Upstream {
    /// Streamable HTTP on a free loopback port, both eras on `/mcp` (as far as the script speaks them).
    pub async fn http(script: Script) -> Self {
        Self::web(script, "/mcp", http::router).await
    }

    /// The deprecated HTTP+SSE transport: `GET` of [`Upstream::url`] opens the stream. Legacy era only.
    pub async fn sse(script: Script) -> Self {
        Self::web(script, "/base/sse", sse::router).await
    }

    async fn web(script: Script, path: &'static str, router: fn(Arc<Engine>) -> axum::Router) -> Self {
        let log = Log::default();
        let engine = Engine::new(script, log.clone());
        let web = Web::start(router(engine.clone())).await;
        Self { log, place: Place::Web { web, path, engine } }
    }

    /// A child process for each time that the gateway starts the command.
    pub async fn stdio(script: Script) -> Self {
        let log = Log::default();
        let children = Children::listen(script, log.clone()).await;
        Self { log, place: Place::Children(children) }
    }

    /// Where the gateway finds it. For HTTP transports only.
    pub fn url(&self) -> String {
        match &self.place {
            Place::Web { web, path, .. } => format!("http://{}{path}", web.address()),
            Place::Children(_) => panic!("a stdio upstream has a command, not a url"),
        }
    }

    /// The port it listens on: of MCP for HTTP, of the control channel for stdio.
    pub fn address(&self) -> SocketAddr {
        match &self.place {
            Place::Web { web, .. } => web.address(),
            Place::Children(children) => children.address(),
        }
    }

    /// The program that the gateway starts. For stdio only, as are [`Self::args`] and [`Self::env`].
    pub fn command(&self) -> String {
        "sh".into()
    }

    pub fn args(&self) -> Vec<String> {
        self.children().args()
    }

    pub fn env(&self) -> Vec<(String, String)> {
        self.children().env()
    }

    /// An entry of `mcpServers` that names this upstream, as JSON.
    pub fn config(&self) -> Value {
        match &self.place {
            Place::Web { path: "/mcp", .. } => json!({"type": "http", "url": self.url()}),
            Place::Web { .. } => json!({"type": "sse", "url": self.url()}),
            Place::Children(_) => {
                let env: serde_json::Map<_, _> = self.env().into_iter().map(|(k, v)| (k, v.into())).collect();
                json!({"command": self.command(), "args": self.args(), "env": env})
            }
        }
    }

    /// Everything received so far, in order of arrival.
    pub fn received(&self) -> Vec<Record> {
        self.log.all()
    }

    /// How many requests or notifications of this method were received.
    pub fn count(&self, method: &str) -> usize {
        self.received().iter().filter(|record| record.method() == method).count()
    }

    /// The first record, past or future, that fits. Panics, showing the log, when none comes within ten seconds.
    pub async fn wait_for(&self, fits: impl Fn(&Record) -> bool) -> Record {
        self.log.wait_for(1, fits).await
    }

    /// As [`Self::wait_for`], for the `n`th that fits (1 is the first).
    pub async fn wait_for_nth(&self, n: usize, fits: impl Fn(&Record) -> bool) -> Record {
        self.log.wait_for(n, fits).await
    }

    /// Lets one held call of this tool (prompt, resource URI) go on: the one waiting longest, or else the next to come.
    pub async fn release(&self, what: &str) {
        self.order(Order::Release(what.into())).await;
    }

    /// Replaces the tools. Says nothing about it: see [`Self::announce_tools`].
    pub async fn set_tools(&self, tools: impl IntoIterator<Item = Value>) {
        self.order(Order::SetTools(tools.into_iter().map(|tool| tool.to_string()).collect())).await;
    }

    /// Changes anything else of its script, for what it is asked from now on and for children that start later.
    pub async fn change(&self, change: impl FnOnce(&mut Script)) {
        let mut script = match &self.place {
            Place::Web { engine, .. } => engine.script(),
            Place::Children(children) => children.script(),
        };
        change(&mut script);
        self.order(Order::SetScript(Box::new(script))).await;
    }

    pub async fn announce_tools(&self) {
        self.announce("notifications/tools/list_changed", json!({})).await;
    }

    pub async fn announce_resource(&self, uri: &str) {
        self.announce("notifications/resources/updated", json!({"uri": uri})).await;
    }

    /// Sends a notification outside of any call: to the open streams of legacy peers, and to modern listens that asked
    /// for it, tagged with their ids.
    pub async fn announce(&self, method: &str, params: Value) {
        self.order(Order::Announce(method.into(), params.to_string())).await;
    }

    /// Forgets every legacy HTTP session, as a restart would.
    pub async fn forget_sessions(&self) {
        self.order(Order::ForgetSessions).await;
    }

    /// Streams on which it could speak unasked: GET streams, HTTP+SSE streams and listens; for stdio, live children.
    pub fn open_streams(&self) -> usize {
        match &self.place {
            Place::Web { engine, .. } => engine.open_streams(),
            Place::Children(children) => children.pids().len(),
        }
    }

    /// Process ids of the live children, oldest first. Empty for HTTP.
    pub fn pids(&self) -> Vec<u32> {
        match &self.place {
            Place::Web { .. } => Vec::new(),
            Place::Children(children) => children.pids(),
        }
    }

    /// Ends it the hard way: HTTP stops listening and drops every connection; children get SIGKILL.
    pub async fn kill(&self) {
        match &self.place {
            Place::Web { web, engine, .. } => {
                web.stop().await;
                engine.forget_everything();
            }
            Place::Children(children) => children.kill(),
        }
    }

    /// Listens again, on the same port, after [`Self::kill`]. For stdio there is nothing to do.
    pub async fn revive(&self) {
        if let Place::Web { web, .. } = &self.place {
            web.listen().await;
        }
    }

    async fn order(&self, order: Order) {
        match &self.place {
            Place::Web { engine, .. } => engine.obey(order).await,
            Place::Children(children) => children.order(order).await,
        }
    }

    fn children(&self) -> &Children {
        match &self.place {
            Place::Children(children) => children,
            Place::Web { .. } => panic!("an HTTP upstream has a url, not a command"),
        }
    }
}

/// What a test tells an upstream to do while it runs.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
enum Order {
    SetTools(Vec<String>),
    SetScript(Box<Script>),
    Release(String),
    Announce(String, String),
    ForgetSessions,
}
