//! A legacy client whose connection broke reads its streams on with `Last-Event-ID` (protocol.md §3.9).

use http::StatusCode;
use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, Reply, text_of};
use crate::support::upstream::{Script, Step, Upstream};

const RESUMING: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn script() -> Script {
    Script::new("a").legacy_only().tool("slow", [Step::Progress(1), Step::Hold, Step::Progress(2), Step::Name])
}

async fn gateway(sessions: Value) -> (Gateway, Upstream) {
    let upstream = Upstream::http(script()).await;
    let server: Value = serde_json::from_str(&upstream.config().to_string()).unwrap();
    let gateway = Gateway::with(json!({"sessions": sessions, "mcpServers": {"a": server}})).await;
    gateway.wait_state("a", "ready").await;
    (gateway, upstream)
}

/// A call whose stream is open and has told its first progress.
async fn call(client: &Client) -> Reply {
    let mut reply = client.open("tools/call", json!({"name": "a__slow", "_meta": {"progressToken": "p"}})).await;
    assert!(reply.is_stream());
    assert_eq!(reply.next().await.unwrap()["method"], "notifications/progress");
    reply
}

#[tokio::test]
async fn a_result_waits_for_the_client_that_comes_back() {
    for revision in RESUMING {
        let (gateway, upstream) = gateway(json!({})).await;
        let client = Client::legacy(&gateway.url(), revision, json!({})).await;
        let reply = call(&client).await;
        let seen = reply.last_event.clone().expect("an id");
        drop(reply);
        upstream.release("slow").await;
        // Until the answer is there it is waited for, afterwards it is kept: both look the same.
        for _ in 0..2 {
            let all = client.resume(&seen).await.all().await;
            let (answer, progress) = all.split_last().unwrap();
            assert_eq!(text_of(&answer["result"]), "a", "{revision}: {all:?}");
            assert!(progress.iter().all(|m| m["method"] == "notifications/progress"));
            assert_eq!(progress.len(), 2, "exactly what was missed: {all:?}");
        }
        assert!(upstream.received().iter().all(|got| got.method() != "notifications/cancelled"));
        gateway.stop().await;
    }
}

#[tokio::test]
async fn only_the_newest_revision_is_primed() {
    for (revision, primed) in [("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)] {
        let (gateway, upstream) = gateway(json!({})).await;
        let client = Client::legacy(&gateway.url(), revision, json!({})).await;
        let reply = call(&client).await;
        assert_eq!(reply.retry.is_some(), primed, "{revision}");
        upstream.release("slow").await;
        reply.all().await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn the_oldest_revision_and_the_modern_one_have_no_event_ids() {
    let (gateway, upstream) = gateway(json!({})).await;
    for client in [Client::legacy(&gateway.url(), "2024-11-05", json!({})).await, Client::modern(&gateway.url())] {
        let reply = call(&client).await;
        assert_eq!((reply.last_event.clone(), reply.retry), (None, None));
        upstream.release("slow").await;
        reply.all().await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_is_taken_over_by_who_resumes_it() {
    let (gateway, upstream) = gateway(json!({})).await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let first = call(&client).await;
    let seen = first.last_event.clone().unwrap();
    let second = client.resume(&seen).await;
    assert!(first.all().await.is_empty(), "the first connection ends without the answer");
    upstream.release("slow").await;
    assert_eq!(text_of(&second.last().await["result"]), "a");
    gateway.stop().await;
}

#[tokio::test]
async fn what_is_not_kept_is_refused_and_nothing_else_is_told_instead() {
    let (gateway, upstream) = gateway(json!({"replayEvents": 1})).await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let reply = call(&client).await;
    let seen = reply.last_event.clone().unwrap();
    upstream.release("slow").await;
    reply.all().await;
    for last in [seen.as_str(), "9-1", "1-99", "nonsense", "1--1"] {
        let refused = client.resume(last).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{last}");
        assert_eq!(refused.last().await["error"]["code"], -32600);
    }
    let other = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    assert_eq!(other.resume(&seen).await.status, StatusCode::BAD_REQUEST, "of another session");
    assert_eq!(client.delete().await, StatusCode::NO_CONTENT);
    assert_eq!(client.resume(&seen).await.status, StatusCode::NOT_FOUND);
    gateway.stop().await;
}

#[tokio::test]
async fn a_withdrawn_call_ends_the_stream_that_was_resumed() {
    let (gateway, upstream) = gateway(json!({})).await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let reply =
        client.open_as(json!("w"), "tools/call", json!({"name": "a__slow", "_meta": {"progressToken": "p"}})).await;
    let mut reply = reply;
    reply.next().await.unwrap();
    let seen = reply.last_event.clone().unwrap();
    drop(reply);
    let resumed = client.resume(&seen).await;
    client.notify("notifications/cancelled", json!({"requestId": "w"})).await;
    assert!(resumed.all().await.iter().all(|m| m.get("result").is_none()));
    upstream.wait_for(|got| got.method() == "notifications/cancelled").await;
    gateway.stop().await;
}

#[tokio::test]
async fn the_standalone_stream_goes_on_where_it_broke() {
    let (gateway, upstream) = gateway(json!({})).await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let mut stream = client.stream().await;
    upstream.announce_tools().await;
    let is_change = |m: &Value| m["method"] == "notifications/tools/list_changed";
    stream.find(is_change).await;
    let seen = stream.last_event.clone().unwrap();
    let (number, _) = seen.split_once('-').unwrap();
    let beginning = format!("{number}-0");
    drop(stream);
    let mut again = client.resume(&beginning).await;
    assert_eq!(again.status, StatusCode::OK);
    assert!(is_change(&again.next().await.unwrap()), "sent again, for it may not have arrived");
    upstream.announce_tools().await;
    again.find(is_change).await;
    assert!(again.last_event.as_deref().unwrap().starts_with(&format!("{number}-")), "it is still the same stream");
    gateway.stop().await;
}
