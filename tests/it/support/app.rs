//! The gateway of a scenario: the whole app in this process, on free loopback ports.

use std::time::Duration;

use mcp_manifold::app::{Options, Running};
use mcp_manifold::config::{self, Config};
use serde_json::{Value, json};

use super::upstream::Upstream;

/// Longest wait of a scenario for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// One second between restarts is for operators; scenarios have less time.
const RESTART: &str = r#"{"backoffMin":"20ms","backoffMax":"100ms"}"#;

/// A running gateway; stop it with [`Gateway::stop`] to see that it leaves nothing behind.
pub struct Gateway {
    running: Running,
}

impl Gateway {
    /// Over these upstreams, named so, with defaults for everything else.
    pub async fn over(servers: &[(&str, &Upstream)]) -> Self {
        // As text: the order of the servers matters, and a `Value` would sort them.
        let servers: Vec<String> = servers.iter().map(|(n, u)| format!("{}:{}", json!(n), u.config())).collect();
        let listeners = r#""listen":"127.0.0.1:0","admin":{"listen":"127.0.0.1:0"}"#;
        let text = format!(r#"{{{listeners},"restart":{RESTART},"mcpServers":{{{}}}}}"#, servers.join(","));
        Self::start(&text).await
    }

    async fn start(text: &str) -> Self {
        Self::start_with(text, Options::default()).await
    }

    async fn start_with(text: &str, options: Options) -> Self {
        let running = Running::start(Self::config(text), options).await.expect("the gateway starts");
        Self { running }
    }

    /// Of this configuration, with a folder for what outlives a restart.
    pub async fn with_state(config: Value, folder: &std::path::Path) -> Self {
        let options = Options { state: Some(folder.to_owned()), ..Options::default() };
        Self::start_with(&Self::filled(config).to_string(), options).await
    }

    /// Of this configuration; its listeners take free ports, and its servers are in the order of their names.
    pub async fn with(config: Value) -> Self {
        Self::start(&Self::filled(config).to_string()).await
    }

    fn filled(mut config: Value) -> Value {
        let top = config.as_object_mut().expect("a configuration is an object");
        top.entry("listen").or_insert(json!("127.0.0.1:0"));
        top.entry("admin").or_insert(json!({ "listen": "127.0.0.1:0" }));
        top.entry("restart").or_insert(serde_json::from_str(RESTART).expect("it is JSON"));
        config
    }

    fn config(text: &str) -> Config {
        let file = std::path::Path::new("scenario.json");
        match config::parse(file, text.as_bytes(), std::iter::empty(), &config::System) {
            Ok(loaded) => loaded.config,
            Err(problems) => panic!("{}", config::render(&problems, false)),
        }
    }

    /// The merged endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.running.mcp)
    }

    /// One server's own endpoint.
    pub fn url_of(&self, server: &str) -> String {
        format!("{}/{server}", self.url())
    }

    /// A page of the admin listener.
    pub fn admin(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.admin)
    }

    /// What `/api/servers` says of one server.
    pub async fn server(&self, name: &str) -> Value {
        let servers = super::client::get_json(&self.admin("/api/servers")).await;
        let all = servers["servers"].as_array().expect("a list of servers");
        all.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("no {name} in {servers}")).clone()
    }

    /// Waits, bounded, until `/api/servers` shows the server in `state`.
    pub async fn wait_state(&self, server: &str, state: &str) {
        self.wait_server(server, state, |facts| facts["state"] == state).await;
    }

    /// Waits, bounded, until what `/api/servers` says of the server fits; `what` is for the failure.
    pub async fn wait_server(&self, server: &str, what: &str, fits: impl Fn(&Value) -> bool) {
        let waiting = async {
            while !fits(&self.server(server).await) {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(ended.is_ok(), "{server} did not become {what}: {}", self.server(server).await);
    }

    /// Drains and ends it.
    pub async fn stop(self) {
        let ended = tokio::time::timeout(PATIENCE, self.running.stop()).await;
        assert!(ended.is_ok(), "the gateway did not stop");
    }
}
