//! A server that is gone: its entries stay for a while and fail clearly, then go, and come back under the same names.

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, Reply, text_of};
use crate::support::upstream::{Script, Step, Upstream};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";

fn script() -> Script {
    Script::new("s").tool("t", []).prompt("p")
}

async fn one_of_each() -> Vec<(&'static str, Upstream)> {
    vec![
        ("stdio, legacy", Upstream::stdio(script().legacy_only()).await),
        ("stdio, modern", Upstream::stdio(script().modern_only()).await),
        ("http, legacy", Upstream::http(script().legacy_only()).await),
        ("http, modern", Upstream::http(script().modern_only()).await),
        ("sse", Upstream::sse(script()).await),
    ]
}

/// Ends it so that it cannot be started again until [`back`].
async fn gone(upstream: &Upstream) {
    upstream.change(|s| s.stdio.exit_at_start = true).await;
    upstream.kill().await;
}

async fn back(upstream: &Upstream) {
    upstream.change(|s| s.stdio.exit_at_start = false).await;
    upstream.revive().await;
}

async fn with_grace(grace: &str, upstream: &Upstream) -> (Gateway, Client, Reply) {
    let gateway = Gateway::with(json!({"staleGrace": grace, "mcpServers": {"s": upstream.config()}})).await;
    gateway.wait_state("s", "ready").await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let stream = client.stream().await;
    (gateway, client, stream)
}

/// The next notice on the stream is one that the upstream sends now: nothing was told before.
async fn assert_nothing_was_told(upstream: &Upstream, stream: &mut Reply) {
    upstream.announce(PROMPTS_CHANGED, json!({})).await;
    let first = stream.next().await.expect("an open stream");
    assert_eq!(first["method"], PROMPTS_CHANGED, "{first}");
}

#[tokio::test]
async fn entries_of_a_gone_server_stay_listed_and_calls_name_it() {
    for (kind, upstream) in one_of_each().await {
        let (gateway, client, _stream) = with_grace("1h", &upstream).await;
        gone(&upstream).await;
        gateway.wait_state("s", "backing_off").await;
        assert_eq!(client.names("tools/list").await, ["s__t"], "{kind}");
        let result = client.result("tools/call", json!({"name": "s__t"})).await;
        assert_eq!(result["isError"], true, "{kind}: {result}");
        assert!(text_of(&result).contains("\"s\""), "{kind}: {result}");
        back(&upstream).await;
        gateway.wait_state("s", "ready").await;
        let result = client.result("tools/call", json!({"name": "s__t"})).await;
        assert_ne!(result["isError"], true, "{kind}: {result}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn after_the_grace_entries_are_withdrawn_and_come_back_under_the_same_names() {
    for (kind, upstream) in one_of_each().await {
        let (gateway, client, mut stream) = with_grace("1ms", &upstream).await;
        gone(&upstream).await;
        stream.find(|m| m["method"] == TOOLS_CHANGED).await;
        assert_eq!(client.names("tools/list").await, Vec::<String>::new(), "{kind}");
        back(&upstream).await;
        stream.find(|m| m["method"] == TOOLS_CHANGED).await;
        assert_eq!(client.names("tools/list").await, ["s__t"], "{kind}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn an_outage_within_the_grace_changes_nothing_and_tells_nobody() {
    let upstream = Upstream::stdio(script()).await;
    let (gateway, client, mut stream) = with_grace("1h", &upstream).await;
    for _ in 0..3 {
        gone(&upstream).await;
        gateway.wait_state("s", "backing_off").await;
        assert_eq!(client.names("tools/list").await, ["s__t"]);
        back(&upstream).await;
        gateway.wait_state("s", "ready").await;
        assert_eq!(client.names("tools/list").await, ["s__t"]);
    }
    assert_nothing_was_told(&upstream, &mut stream).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_list_that_fails_after_a_restart_keeps_the_last_good_one() {
    let upstream = Upstream::stdio(script()).await;
    let (gateway, client, mut stream) = with_grace("1h", &upstream).await;
    let failing = vec![Step::Error(r#"{"code":-32603,"message":"not yet"}"#.into())];
    upstream.change(|s| drop(s.behaviours.insert("tools/list".into(), failing))).await;
    upstream.kill().await;
    let again = |s: &Value| s["state"] == "ready" && s["restarts"].as_u64() > Some(0);
    gateway.wait_server("s", "ready again", again).await;
    assert_eq!(client.names("tools/list").await, ["s__t"]);
    assert_eq!(client.names("prompts/list").await, ["s__p"]);
    assert_nothing_was_told(&upstream, &mut stream).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_list_that_could_not_be_read_is_tried_again() {
    let failing = script().on("tools/list", [Step::Error(r#"{"code":-32603,"message":"not yet"}"#.into())]);
    for upstream in [Upstream::stdio(failing.clone()).await, Upstream::http(failing.legacy_only()).await] {
        let (gateway, client, mut stream) = with_grace("1h", &upstream).await;
        assert_eq!(client.names("tools/list").await, Vec::<String>::new());
        assert_eq!(client.names("prompts/list").await, ["s__p"], "the other lists are there");
        upstream.change(|s| drop(s.behaviours.remove("tools/list"))).await;
        stream.find(|m| m["method"] == TOOLS_CHANGED).await;
        assert_eq!(client.names("tools/list").await, ["s__t"]);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_gone_server_changes_nothing_for_the_others() {
    let other = Upstream::http(Script::new("o").tool("t", [Step::Name])).await;
    let upstream = Upstream::http(script()).await;
    let servers = json!({"s": upstream.config(), "o": other.config()});
    let gateway = Gateway::with(json!({"staleGrace": "1ms", "mcpServers": servers})).await;
    gateway.wait_state("s", "ready").await;
    gateway.wait_state("o", "ready").await;
    gone(&upstream).await;
    gateway.wait_state("s", "backing_off").await;
    let client = Client::modern(&gateway.url());
    let result = client.result("tools/call", json!({"name": "o__t"})).await;
    assert_eq!(text_of(&result), "o");
    assert_eq!(Client::modern(&gateway.url_of("o")).names("tools/list").await, ["t"]);
    gateway.stop().await;
}
