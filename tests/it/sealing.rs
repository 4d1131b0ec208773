//! The key that seals `requestState`: kept over a restart, shared by instances, replaced without losing anybody.

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::upstream::{Script, Step, Upstream};

async fn asker() -> Upstream {
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}}).to_string();
    let steps = [Step::Ask("elicitation/create".into(), form), Step::Answers];
    Upstream::http(Script::new("s").tool("ask", steps).modern_only()).await
}

fn client(gateway: &Gateway) -> Client {
    let mut client = Client::modern(&gateway.url());
    client.capabilities = json!({"elicitation": {}});
    client
}

/// Calls, and gives the parameters of the retry that brings the state and the answer back.
async fn asked(gateway: &Gateway) -> Value {
    let first = client(gateway).result("tools/call", json!({"name": "s__ask", "arguments": {}})).await;
    assert_eq!(first["resultType"], "input_required", "{first}");
    let answers = json!({"q0": {"action": "accept", "content": {}}});
    json!({"name": "s__ask", "arguments": {}, "requestState": first["requestState"], "inputResponses": answers})
}

async fn answered(gateway: &Gateway, retry: &Value) {
    let last = client(gateway).result("tools/call", retry.clone()).await;
    assert_eq!(last["resultType"], "complete", "{last}");
}

async fn refused(gateway: &Gateway, upstream: &Upstream, retry: &Value) {
    let before = upstream.count("tools/call");
    let answer = client(gateway).request("tools/call", retry.clone()).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(upstream.count("tools/call"), before, "nothing ran");
}

fn with_keys(upstream: &Upstream, keys: &[&str]) -> Value {
    json!({"mcpServers": {"s": upstream.config()}, "sealing": {"keys": keys}})
}

const OLD: &str = "the old key, which is long enough";
const NEW: &str = "the new key, which is long enough";

#[tokio::test]
async fn a_state_outlives_a_restart_with_its_folder_and_not_without() {
    let upstream = asker().await;
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"mcpServers": {"s": upstream.config()}});
    let first = Gateway::with_state(config.clone(), folder.path()).await;
    let retry = asked(&first).await;
    first.stop().await;
    let second = Gateway::with_state(config.clone(), folder.path()).await;
    answered(&second, &retry).await;
    second.stop().await;
    let elsewhere = Gateway::with(config).await;
    refused(&elsewhere, &upstream, &retry).await;
    elsewhere.stop().await;
}

#[tokio::test]
async fn instances_with_the_same_keys_take_each_others_states_while_a_key_is_replaced() {
    let upstream = asker().await;
    let old = Gateway::with(with_keys(&upstream, &[OLD])).await;
    let both = Gateway::with(with_keys(&upstream, &[NEW, OLD])).await;
    let new = Gateway::with(with_keys(&upstream, &[NEW])).await;
    let (by_old, by_both) = (asked(&old).await, asked(&both).await);
    answered(&both, &by_old).await;
    answered(&new, &by_both).await;
    refused(&new, &upstream, &by_old).await;
    refused(&old, &upstream, &by_both).await;
    for gateway in [old, both, new] {
        gateway.stop().await;
    }
}

/// An instance that has run for hours and one that has just started agree on when a state runs out.
#[tokio::test]
async fn how_long_an_instance_has_run_does_not_matter_to_a_state() {
    let upstream = asker().await;
    let old = Gateway::with(with_keys(&upstream, &[OLD])).await;
    old.wait_state("s", "ready").await;
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(2 * 3600)).await;
    tokio::time::resume();
    let young = Gateway::with(with_keys(&upstream, &[OLD])).await;
    let (by_old, by_young) = (asked(&old).await, asked(&young).await);
    answered(&young, &by_old).await;
    answered(&old, &by_young).await;
    old.stop().await;
    young.stop().await;
}

/// Instances share keys, not calls: a state names a call of the process that sealed it, never one of another.
#[tokio::test]
async fn a_call_that_waits_at_one_instance_is_not_taken_for_one_at_another() {
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}}).to_string();
    let steps = [Step::Ask("elicitation/create".into(), form), Step::Answers];
    let upstream = Upstream::http(Script::new("s").tool("ask", steps).legacy_only()).await;
    let (one, other) =
        (Gateway::with(with_keys(&upstream, &[OLD])).await, Gateway::with(with_keys(&upstream, &[OLD])).await);
    let answer = |first: &Value| {
        let key = first["inputRequests"].as_object().expect("questions").keys().next().expect("one").clone();
        let answers = json!({ key: {"action": "accept", "content": {}} });
        json!({"name": "s__ask", "arguments": {}, "requestState": first["requestState"], "inputResponses": answers})
    };
    let call = json!({"name": "s__ask", "arguments": {}});
    let at_one = client(&one).result("tools/call", call.clone()).await;
    let at_other = client(&other).result("tools/call", call).await;
    let misled = client(&other).request("tools/call", answer(&at_one)).await;
    assert_eq!(misled["error"]["code"], -32602, "{misled}");
    answered(&other, &answer(&at_other)).await;
    answered(&one, &answer(&at_one)).await;
    one.stop().await;
    other.stop().await;
}
