//! One gateway over an upstream of every era and transport, and a downstream of every revision, for scenarios that must
//! hold for each pair.

use serde_json::{Value, json};

use super::app::Gateway;
use super::client::Client;
use super::upstream::{Script, Upstream};

/// The upstreams by their names in the gateway.
pub const KINDS: [&str; 5] = ["modern-http", "legacy-http", "sse", "legacy-stdio", "modern-stdio"];

/// The revisions of the downstreams, oldest first.
pub const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// The same script behind every kind of upstream.
pub struct Pairs {
    pub gateway: Gateway,
    pub upstreams: Vec<(&'static str, Upstream)>,
}

impl Pairs {
    pub async fn over(script: Script) -> Self {
        let mut upstreams = Vec::new();
        for kind in KINDS {
            let script = script.clone();
            let upstream = match kind {
                "modern-http" => Upstream::http(script.modern_only()).await,
                "legacy-http" => Upstream::http(script.legacy_only()).await,
                "sse" => Upstream::sse(script.legacy_only()).await,
                "legacy-stdio" => Upstream::stdio(script.legacy_only()).await,
                _ => Upstream::stdio(script.modern_only()).await,
            };
            upstreams.push((kind, upstream));
        }
        let named: Vec<_> = upstreams.iter().map(|(kind, upstream)| (*kind, upstream)).collect();
        let gateway = Gateway::over(&named).await;
        for kind in KINDS {
            gateway.wait_state(kind, "ready").await;
        }
        Self { gateway, upstreams }
    }

    /// A downstream of each revision at `url`.
    pub async fn clients(&self, url: &str, capabilities: Value) -> Vec<(&'static str, Client)> {
        let mut clients = Vec::new();
        for revision in REVISIONS {
            clients.push((revision, client(url, revision, &capabilities).await));
        }
        clients
    }
}

/// A downstream of this revision.
pub async fn client(url: &str, revision: &str, capabilities: &Value) -> Client {
    if revision != super::client::MODERN {
        return Client::legacy(url, revision, capabilities.clone()).await;
    }
    let mut client = Client::modern(url);
    client.capabilities = capabilities.clone();
    client
}

/// Whether a kind of upstream speaks 2026-07-28.
pub fn is_modern(kind: &str) -> bool {
    kind.starts_with("modern")
}

/// The params of a call.
pub fn call(kind: &str, tool: &str) -> Value {
    json!({"name": format!("{kind}__{tool}"), "arguments": {}})
}
