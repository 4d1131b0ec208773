//! Upstreams that take too long: silence and the whole of a call are bounded, progress buys time but not for ever, and the
//! upstream is told to stop in its own words.

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, text_of};
use crate::support::upstream::{Script, Step, Upstream};
use crate::support::watch::{call_failure, call_text, with};

fn slow(steps: Vec<Step>) -> Script {
    Script::new("a").tool("echo", [Step::Echo]).tool("slow", steps)
}

async fn gateway(upstream: &Upstream, timeouts: Value) -> Gateway {
    let config = with(upstream, json!({ "timeouts": timeouts }));
    let gateway = Gateway::with(json!({"mcpServers": {"a": config}})).await;
    gateway.wait_state("a", "ready").await;
    gateway
}

#[tokio::test]
async fn silence_ends_a_call_and_a_legacy_upstream_gets_a_cancel_with_its_own_id() {
    let script = slow(vec![Step::Never]).legacy_only();
    let rows =
        [Upstream::stdio(script.clone()).await, Upstream::http(script.clone()).await, Upstream::sse(script).await];
    for upstream in rows {
        let gateway = gateway(&upstream, json!({"call": "200ms"})).await;
        for client in [Client::modern(&gateway.url()), Client::legacy(&gateway.url(), "2025-06-18", json!({})).await] {
            let before = upstream.count("notifications/cancelled");
            let failure = call_failure(&client, "a__slow").await;
            assert!(failure.contains("\"a\"") && failure.contains("did not answer within 200ms"), "{failure}");
            let cancelled = upstream.wait_for_nth(before + 1, |got| got.method() == "notifications/cancelled").await;
            let calls: Vec<_> = upstream.received().into_iter().filter(|got| got.method() == "tools/call").collect();
            let last = calls.last().unwrap().json();
            assert_eq!(cancelled.json()["params"]["requestId"], last["id"]);
            assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#);
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn silence_of_a_modern_upstream_ends_in_a_cancel_or_a_closed_stream() {
    for (upstream, by_message) in [
        (Upstream::stdio(slow(vec![Step::Never])).await, true),
        (Upstream::http(slow(vec![Step::Never])).await, false),
        (Upstream::http(slow(vec![Step::Noise(": so far".into()), Step::Never])).await, false),
    ] {
        let gateway = gateway(&upstream, json!({"call": "200ms"})).await;
        let client = Client::modern(&gateway.url());
        call_failure(&client, "a__slow").await;
        if by_message {
            upstream.wait_for(|got| got.method() == "notifications/cancelled").await;
        } else {
            upstream.wait_for(|got| got.is_gone() && got.body.contains("tools/call")).await;
            assert_eq!(upstream.count("notifications/cancelled"), 0);
        }
        assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#);
        gateway.stop().await;
    }
}

/// Ten pieces of progress, 300 ms apart: each gap is far below the idle limit, the whole far above it.
fn working() -> Vec<Step> {
    (0..10).flat_map(|_| [Step::Progress(1), Step::Pause(300)]).chain([Step::Echo]).collect()
}

async fn with_progress(client: &Client) -> Value {
    let params = json!({"name": "a__slow", "arguments": {"n": 1}, "_meta": {"progressToken": 1}});
    client.result("tools/call", params).await
}

#[tokio::test]
async fn progress_buys_time() {
    for upstream in [Upstream::stdio(slow(working())).await, Upstream::http(slow(working()).legacy_only()).await] {
        let gateway = gateway(&upstream, json!({"call": "1500ms", "callMax": "1m"})).await;
        let result = with_progress(&Client::modern(&gateway.url())).await;
        assert_eq!(text_of(&result), r#"{"n":1}"#);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn progress_does_not_buy_time_for_ever() {
    for upstream in [Upstream::stdio(slow(working())).await, Upstream::http(slow(working()).legacy_only()).await] {
        let gateway = gateway(&upstream, json!({"call": "1s", "callMax": "1s"})).await;
        let result = with_progress(&Client::modern(&gateway.url())).await;
        assert_eq!(result["isError"], true, "{result}");
        assert!(text_of(&result).contains("did not answer within 1s"), "{result}");
        upstream.wait_for(|got| got.method() == "notifications/cancelled").await;
        gateway.stop().await;
    }
}
