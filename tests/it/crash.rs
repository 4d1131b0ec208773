//! Upstreams that are missing, die, and come back: their trouble stays theirs, is plain to see, and ends by itself.

use std::net::TcpListener;

use serde_json::json;

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::scrape::Scrape;
use crate::support::upstream::{Script, Step, Upstream, tool};
use crate::support::watch::{call_failure, call_text, server, tool_names, wait_server, with};

fn echo(name: &str) -> Script {
    Script::new(name).tool("echo", [Step::Echo])
}

/// An address on which nobody listens.
fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/mcp", listener.local_addr().unwrap())
}

#[tokio::test]
async fn dead_servers_cost_nobody_else_anything_and_say_what_is_wrong() {
    let ok = Upstream::stdio(echo("ok")).await;
    let gateway = Gateway::with(json!({"mcpServers": {
        "missing": {"command": "no-such-program"},
        "nowhere": {"command": "true", "cwd": "/no/such/folder"},
        "closed": {"url": closed_port()},
        "leaves": {"command": "false"},
        "ok": ok.config(),
    }}))
    .await;
    for client in [Client::modern(&gateway.url()), Client::legacy(&gateway.url(), "2025-06-18", json!({})).await] {
        assert_eq!(tool_names(&client).await, ["ok__echo"]);
        assert_eq!(call_text(&client, "ok__echo").await, r#"{"n":1}"#);
    }
    for (name, says) in [
        ("missing", &["no-such-program", "No such file"][..]),
        ("nowhere", &["true", "working directory"]),
        ("closed", &["cannot connect"]),
        ("leaves", &["ended", "exit status: 1"]),
    ] {
        let row = wait_server(&gateway, name, |row| row["failedAttempts"].as_u64() > Some(1)).await;
        let error = row["lastError"].as_str().unwrap();
        assert!(says.iter().all(|part| error.contains(part)), "{name}: {error}");
        assert_eq!(row["restarts"], 0, "{name} never ran");
    }
    assert_eq!(server(&gateway, "ok").await["restarts"], 0);
    gateway.stop().await;
}

#[tokio::test]
async fn an_only_server_that_is_down_is_no_empty_success_and_heals_by_itself() {
    let upstream = Upstream::http(echo("only")).await;
    upstream.kill().await;
    let gateway = Gateway::over(&[("only", &upstream)]).await;
    let client = Client::modern(&gateway.url());
    let row = wait_server(&gateway, "only", |row| row["state"] == "backing_off").await;
    assert!(row["lastError"].as_str().unwrap().contains("cannot connect"), "{row}");
    assert_eq!(tool_names(&client).await, [""; 0]);
    upstream.revive().await;
    gateway.wait_state("only", "ready").await;
    assert_eq!(tool_names(&client).await, ["only__echo"]);
    gateway.stop().await;
}

#[tokio::test]
async fn a_call_that_kills_its_server_fails_with_its_name_and_the_next_one_works() {
    let script = || echo("frail").tool("boom", [Step::Die]);
    for upstream in [Upstream::stdio(script()).await, Upstream::stdio(script().legacy_only()).await] {
        let gateway = Gateway::over(&[("frail", &upstream)]).await;
        gateway.wait_state("frail", "ready").await;
        let client = Client::modern(&gateway.url());
        let failure = call_failure(&client, "frail__boom").await;
        assert!(failure.contains("\"frail\"") && failure.contains("lost"), "{failure}");
        wait_server(&gateway, "frail", |row| row["state"] == "ready" && row["restarts"] == 1).await;
        assert_eq!(call_text(&client, "frail__echo").await, r#"{"n":1}"#);
        assert!(server(&gateway, "frail").await["lastError"].as_str().unwrap().contains("exit status: 1"));
        gateway.stop().await;
    }
}

#[tokio::test]
async fn calls_while_it_is_gone_fail_at_once_and_say_when_it_is_tried_again() {
    let upstream = Upstream::http(echo("gone")).await;
    let slow = with(&upstream, json!({"restart": {"backoffMin": "1h", "backoffMax": "1h"}}));
    let gateway = Gateway::with(json!({"mcpServers": {"gone": slow}})).await;
    gateway.wait_state("gone", "ready").await;
    upstream.kill().await;
    let client = Client::modern(&gateway.url());
    // The first call may be the one that finds out.
    call_failure(&client, "gone__echo").await;
    wait_server(&gateway, "gone", |row| row["state"] == "backing_off").await;
    assert_eq!(tool_names(&client).await, ["gone__echo"], "its entries stay for the grace period");
    let failure = call_failure(&client, "gone__echo").await;
    assert!(failure.contains("\"gone\"") && failure.contains("tried again in"), "{failure}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_child_that_comes_back_with_another_offer_is_announced() {
    let upstream = Upstream::stdio(echo("a")).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    gateway.wait_state("a", "ready").await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    assert_eq!(tool_names(&client).await, ["a__echo"]);
    let mut stream = client.stream().await;
    upstream.set_tools([tool("other")]).await;
    upstream.kill().await;
    stream.find(|m| m["method"] == "notifications/tools/list_changed").await;
    assert_eq!(tool_names(&client).await, ["a__other"]);
    gateway.stop().await;
}

#[tokio::test]
async fn reconnecting_never_gives_up() {
    let upstream = Upstream::http(echo("late")).await;
    upstream.kill().await;
    let gateway = Gateway::over(&[("late", &upstream)]).await;
    wait_server(&gateway, "late", |row| row["failedAttempts"].as_u64() > Some(20)).await;
    upstream.revive().await;
    gateway.wait_state("late", "ready").await;
    assert_eq!(call_text(&Client::modern(&gateway.url()), "late__echo").await, r#"{"n":1}"#);
    gateway.stop().await;
}

#[tokio::test]
async fn attempts_that_fail_are_counted_apart_from_restarts() {
    let upstream = Upstream::http(echo("a")).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    gateway.wait_state("a", "ready").await;
    upstream.kill().await;
    // A server over HTTP is known to be gone when it is asked.
    call_failure(&Client::modern(&gateway.url()), "a__echo").await;
    let row = wait_server(&gateway, "a", |row| row["failedAttempts"].as_u64() > Some(2)).await;
    assert_eq!(row["restarts"], 1, "{row}");
    upstream.revive().await;
    let row = wait_server(&gateway, "a", |row| row["state"] == "ready").await;
    assert_eq!((&row["restarts"], &row["failedAttempts"]), (&json!(1), &json!(0)), "{row}");
    let scrape = Scrape::of(&gateway).await;
    assert_eq!(scrape.value(r#"manifold_upstream_restarts_total{reason="closed",server="a"}"#), 1.0);
    assert!(scrape.value(r#"manifold_upstream_failed_attempts_total{server="a"}"#) > 2.0);
    gateway.stop().await;
}

/// Without a reset the eleventh wait alone would be 20 s.
#[tokio::test]
async fn health_starts_the_waits_over() {
    let upstream = Upstream::stdio(echo("a")).await;
    let config = with(&upstream, json!({"restart": {"backoffMin": "20ms", "backoffMax": "60s", "resetAfter": "1ms"}}));
    let gateway = Gateway::with(json!({"mcpServers": {"a": config}})).await;
    let client = Client::modern(&gateway.url());
    for round in 0..12 {
        wait_server(&gateway, "a", |row| row["state"] == "ready" && row["restarts"] == round).await;
        assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#);
        upstream.kill().await;
    }
    wait_server(&gateway, "a", |row| row["state"] == "ready" && row["restarts"] == 12).await;
    gateway.stop().await;
}
