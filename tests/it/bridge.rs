//! A server's question reaches the client of the other era: suspended calls for modern clients (protocol.md §5a), rounds
//! for legacy ones (§5b).

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, text_of};
use crate::support::upstream::{Script, Step, Upstream};

fn asker() -> Script {
    Script::new("s")
        .tool("ask", [Step::elicit("who?"), Step::Answers])
        .tool("twice", [Step::elicit("first?"), Step::Answers])
        .tool("roots", [Step::roots(), Step::Answers])
        .tool("sample", [Step::sample("hi"), Step::Answers])
        .tool("two", [Step::elicit("one?"), Step::roots(), Step::Answers])
}

fn modern(gateway: &Gateway) -> Client {
    let mut client = Client::modern(&gateway.url());
    client.capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    client
}

/// One round: the questions and the state that came with them.
fn asked(result: &Value) -> (&Value, &str) {
    assert_eq!(result["resultType"], "input_required", "{result}");
    (&result["inputRequests"], result["requestState"].as_str().expect("a state"))
}

async fn retry(client: &Client, name: &str, state: &str, responses: Value) -> Value {
    let params = json!({"name": name, "arguments": {}, "requestState": state, "inputResponses": responses});
    client.request("tools/call", params).await
}

async fn every_legacy_transport() -> Vec<(&'static str, Upstream)> {
    vec![
        ("stdio", Upstream::stdio(asker().only_revision("2025-06-18")).await),
        ("http", Upstream::http(asker().legacy_only()).await),
        ("sse", Upstream::sse(asker().legacy_only()).await),
    ]
}

#[tokio::test]
async fn a_modern_client_is_asked_a_legacy_servers_question_and_gets_the_result() {
    for (transport, upstream) in every_legacy_transport().await {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        let client = modern(&gateway);
        for (tool, method, answer) in [
            ("s__ask", "elicitation/create", json!({"action": "accept", "content": {"answer": "me", "n": 1.5}})),
            ("s__roots", "roots/list", json!({"roots": [{"uri": "file:///a"}]})),
            (
                "s__sample",
                "sampling/createMessage",
                json!({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}),
            ),
        ] {
            let first = client.result("tools/call", json!({"name": tool, "arguments": {}})).await;
            let (requests, state) = asked(&first);
            let (key, request) = requests.as_object().unwrap().iter().next().unwrap();
            assert_eq!(request["method"], method, "{transport}");
            let last = retry(&client, tool, state, json!({ key: answer })).await;
            let answers: Value = serde_json::from_str(text_of(&last["result"])).unwrap();
            assert_eq!(answers, json!([answer]), "{transport} {tool}");
            assert_eq!(last["result"]["resultType"], "complete");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_state_that_is_not_ours_or_not_for_this_call_never_runs_anything() {
    let upstream = Upstream::stdio(asker().legacy_only()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let client = modern(&gateway);
    let first = client.result("tools/call", json!({"name": "s__ask", "arguments": {}})).await;
    let (_, state) = asked(&first);
    let calls = upstream.count("tools/call");
    let answer = json!({"e1": {"action": "accept", "content": {}}});
    let mut tampered = state.to_owned().into_bytes();
    let last = tampered.len() - 5;
    tampered[last] ^= 1;
    let tampered = String::from_utf8(tampered).unwrap();
    for (name, state) in [("s__ask", tampered.as_str()), ("s__ask", "x"), ("s__roots", state)] {
        let refused = retry(&client, name, state, answer.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let other = json!({"name": "s__ask", "arguments": {"other": 1}, "requestState": state, "inputResponses": answer});
    assert_eq!(client.request("tools/call", other).await["error"]["code"], -32602);
    assert_eq!(upstream.count("tools/call"), calls, "nothing ran");
    // The call itself is unharmed.
    let done = retry(&client, "s__ask", state, answer.clone()).await;
    assert!(done["result"]["content"].is_array(), "{done}");
    let replayed = retry(&client, "s__ask", state, answer).await;
    assert_eq!(replayed["error"]["code"], -32602, "a state works once");
    gateway.stop().await;
}

#[tokio::test]
async fn malformed_answers_leave_the_call_as_it_was() {
    let upstream = Upstream::stdio(asker().legacy_only()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let client = modern(&gateway);
    let first = client.result("tools/call", json!({"name": "s__ask", "arguments": {}})).await;
    let (_, state) = asked(&first);
    for bad in [json!(null), json!(3), json!({"e1": 3}), json!({"e1": {}}), json!({"e1": {"action": "perhaps"}})] {
        let refused = retry(&client, "s__ask", state, bad.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{bad}");
    }
    // An answer to something else is no answer: the same question comes again, with a new state.
    let again = retry(&client, "s__ask", state, json!({"zz": {"action": "accept"}})).await;
    let (requests, next) = asked(&again["result"]);
    assert!(requests.get("e1").is_some());
    assert_ne!(next, state);
    let done = retry(&client, "s__ask", next, json!({"e1": {"action": "decline"}})).await;
    assert_eq!(text_of(&done["result"]), r#"[{"action":"decline"}]"#);
    gateway.stop().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_or_never_returns_cancels_the_call() {
    let upstream = Upstream::stdio(asker().legacy_only()).await;
    let config = json!({"timeouts": {"userInput": "200ms"}, "mcpServers": {"s": upstream.config()}});
    let gateway = Gateway::with(config).await;
    let client = modern(&gateway);
    let first = client.result("tools/call", json!({"name": "s__ask", "arguments": {}})).await;
    let (_, state) = asked(&first);
    let call = upstream.wait_for(|r| r.method() == "tools/call").await.id().expect("a request");
    let cancel = upstream.wait_for(|r| r.method() == "notifications/cancelled").await;
    assert_eq!(cancel.json()["params"]["requestId"].to_string(), call);
    let late = retry(&client, "s__ask", state, json!({"e1": {"action": "accept"}})).await;
    assert_eq!(late["error"]["code"], -32602, "{late}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_modern_client_that_declares_nothing_is_not_asked() {
    let upstream = Upstream::stdio(asker().legacy_only()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let client = Client::modern(&gateway.url());
    let done = client.result("tools/call", json!({"name": "s__ask", "arguments": {}})).await;
    assert!(text_of(&done).contains("-32601"), "{done}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_legacy_client_answers_a_modern_servers_questions() {
    for (transport, upstream) in
        [("http", Upstream::http(asker().modern_only()).await), ("stdio", Upstream::stdio(asker().modern_only()).await)]
    {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        let capabilities = json!({"elicitation": {}, "roots": {}, "sampling": {}});
        let client = Client::legacy(&gateway.url(), "2025-06-18", capabilities).await;
        let mut reply = client.open("tools/call", json!({"name": "s__two", "arguments": {}})).await;
        let mut answered = 0;
        let last = loop {
            let message = reply.next().await.expect("an answer");
            match message["method"].as_str() {
                Some("elicitation/create") => {
                    client.answer(&message, json!({"action": "accept", "content": {"answer": "me"}})).await;
                    answered += 1;
                }
                Some("roots/list") => {
                    client.answer(&message, json!({"roots": []})).await;
                    answered += 1;
                }
                _ => break message,
            }
        };
        assert_eq!(answered, 2, "{transport}");
        let answers: Value = serde_json::from_str(text_of(&last["result"])).unwrap();
        assert_eq!(answers[0]["content"]["answer"], "me", "{transport}: {last}");
        assert!(last["result"].get("resultType").is_none());
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_legacy_client_that_cannot_be_asked_gets_a_tool_error() {
    let upstream = Upstream::http(asker().modern_only()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let client = Client::legacy(&gateway.url(), "2025-06-18", json!({})).await;
    let done = client.result("tools/call", json!({"name": "s__ask", "arguments": {}})).await;
    assert_eq!(done["isError"], true, "{done}");
    gateway.stop().await;
}
