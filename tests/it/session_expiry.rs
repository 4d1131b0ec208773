//! Limits of legacy sessions (protocol.md §3.7): how many, how long, how much each may watch.

use http::StatusCode;
use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::exact::{initialize, post};
use crate::support::upstream::{Script, Upstream};

async fn gateway(sessions: Value) -> (Gateway, Upstream) {
    let script = Script::new("a").resource("mem:///1").resource("mem:///2").resource("mem:///3");
    let upstream = Upstream::http(script).await;
    let server: Value = serde_json::from_str(&upstream.config().to_string()).unwrap();
    let gateway = Gateway::with(json!({"sessions": sessions, "mcpServers": {"a": server}})).await;
    gateway.wait_state("a", "ready").await;
    (gateway, upstream)
}

#[tokio::test]
async fn one_caller_has_so_many_sessions_and_is_told_what_to_do() {
    let (gateway, _upstream) = gateway(json!({"maxPerPrincipal": 2})).await;
    let first = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let _second = Client::legacy(&gateway.url(), "2025-06-18", json!({})).await;
    let refused = post(&gateway.url(), &[], initialize("2025-11-25")).await;
    assert_eq!(refused.brief(), (429, -32603, json!(0)));
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("sessions.maxPerPrincipal"), "{refused:?}");
    assert_eq!(refused.header("retry-after"), "5");
    assert_eq!(first.delete().await, StatusCode::NO_CONTENT);
    Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_session_watches_so_many_resources_and_unsubscribing_makes_room() {
    let (gateway, _upstream) = gateway(json!({"subscriptions": 2})).await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let uris = client.names("resources/list").await;
    for uri in [&uris[0], &uris[1], &uris[0]] {
        client.result("resources/subscribe", json!({ "uri": uri })).await;
    }
    let third = json!({"uri": uris[2]});
    let refused = client.request("resources/subscribe", third.clone()).await;
    assert_eq!((&refused["error"]["code"], &refused["error"]["data"]["reason"]), (&json!(-32603), &json!("limit")));
    client.result("resources/unsubscribe", json!({"uri": uris[0]})).await;
    client.result("resources/subscribe", third).await;
    gateway.stop().await;
}
