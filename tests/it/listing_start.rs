//! The first list: it waits for servers that are still starting, but not for ever, and an empty one can be told from a broken one.

use serde_json::json;

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::upstream::{Script, Step, Upstream};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

fn slow() -> Script {
    Script::new("slow").tool("t", []).on("tools/list", [Step::Hold])
}

#[tokio::test]
async fn the_first_list_waits_for_a_slow_starter() {
    for slow in [Upstream::stdio(slow()).await, Upstream::http(slow().legacy_only()).await] {
        let quick = Upstream::http(Script::new("quick").tool("t", [])).await;
        let gateway = Gateway::over(&[("slow", &slow), ("quick", &quick)]).await;
        let client = Client::modern(&gateway.url());
        let started = async {
            slow.wait_for(|got| got.method() == "tools/list").await;
            slow.release("tools/list").await;
        };
        let (names, ()) = tokio::join!(client.names("tools/list"), started);
        assert_eq!(names, ["slow__t", "quick__t"]);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn after_the_startup_wait_a_list_has_what_is_there_and_the_rest_is_announced() {
    let slow = Upstream::http(slow()).await;
    let quick = Upstream::http(Script::new("quick").tool("t", [])).await;
    let servers = json!({"slow": slow.config(), "quick": quick.config()});
    let gateway = Gateway::with(json!({"startupWait": "20ms", "mcpServers": servers})).await;
    gateway.wait_state("quick", "ready").await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let mut stream = client.stream().await;
    slow.wait_for(|got| got.method() == "tools/list").await;
    assert_eq!(client.names("tools/list").await, ["quick__t"]);
    assert_eq!(Client::modern(&gateway.url_of("quick")).names("tools/list").await, ["t"]);
    slow.release("tools/list").await;
    stream.find(|m| m["method"] == TOOLS_CHANGED).await;
    assert_eq!(client.names("tools/list").await, ["quick__t", "slow__t"]);
    gateway.stop().await;
}

#[tokio::test]
async fn an_only_server_that_is_down_shows_as_a_failure_and_heals() {
    let only = Upstream::http(Script::new("only").tool("t", [])).await;
    only.kill().await;
    let gateway = Gateway::over(&[("only", &only)]).await;
    gateway.wait_state("only", "backing_off").await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let mut stream = client.stream().await;
    assert_eq!(client.names("tools/list").await, Vec::<String>::new());
    let facts = gateway.server("only").await;
    assert!(facts["lastError"].as_str().is_some_and(|e| !e.is_empty()), "{facts}");
    assert!(facts["retryInMs"].is_u64() || facts["state"] != "backing_off", "{facts}");
    only.revive().await;
    stream.find(|m| m["method"] == TOOLS_CHANGED).await;
    assert_eq!(client.names("tools/list").await, ["only__t"]);
    gateway.stop().await;
}
