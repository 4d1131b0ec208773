//! Within the modern era a question is a result, and its answer a retry with a state that only the gateway can open
//! (protocol.md §5c).

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::upstream::{Script, Step, Upstream};

fn all() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

fn modern_asker() -> Script {
    Script::new("s")
        .modern_only()
        .tool("ask", [Step::elicit("who?"), Step::elicit("why?"), Step::Answers])
        .tool("other", [Step::elicit("who?"), Step::Answers])
        .prompt("p")
        .on("p", [Step::elicit("who?"), Step::Answers])
        .resource("file:///r")
        .on("file:///r", [Step::elicit("who?"), Step::Answers])
}

fn modern_client(gateway: &Gateway) -> Client {
    let mut client = Client::modern(&gateway.url());
    client.capabilities = all();
    client
}

fn accept(key: &str) -> Value {
    json!({ key: {"action": "accept", "content": {"answer": 1.10}} })
}

#[tokio::test]
async fn a_modern_upstreams_questions_keep_their_keys_and_its_state_comes_back_to_it() {
    for upstream in [Upstream::http(modern_asker()).await, Upstream::stdio(modern_asker()).await] {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        let client = modern_client(&gateway);
        for (method, mut params) in [
            ("tools/call", json!({"name": "s__ask", "arguments": {"x": 1}})),
            ("prompts/get", json!({"name": "s__p"})),
            ("resources/read", json!({"uri": "s+file:///r"})),
        ] {
            let first = client.result(method, params.clone()).await;
            assert_eq!(first["resultType"], "input_required", "{method}: {first}");
            assert_eq!(first["inputRequests"]["q0"]["method"], "elicitation/create");
            let again = client.result(method, params.clone()).await;
            assert_ne!(first["requestState"], again["requestState"], "two rounds, two states");
            params["requestState"] = first["requestState"].clone();
            params["inputResponses"] = accept("q0");
            if method == "tools/call" {
                params["inputResponses"]["q1"] = json!({"action": "decline"});
            }
            let last = client.result(method, params).await;
            assert_eq!(last["resultType"], "complete", "{method}: {last}");
            assert!(last.to_string().contains("accept") && last.get("requestState").is_none(), "{last}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_state_that_was_tampered_with_or_is_for_something_else_runs_nothing() {
    let upstream = Upstream::http(modern_asker()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let client = modern_client(&gateway);
    let first = client.result("tools/call", json!({"name": "s__ask", "arguments": {"x": 1, "y": 2}})).await;
    let state = first["requestState"].as_str().unwrap();
    let calls = upstream.count("tools/call");
    let mut changed = state.to_owned().into_bytes();
    changed[20] = if changed[20] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).unwrap();
    let same = json!({"x": 1, "y": 2});
    for (what, name, arguments, state) in [
        ("tampered", "s__ask", same.clone(), json!(changed)),
        ("cut", "s__ask", same.clone(), json!(state[..state.len() - 4])),
        ("invented", "s__ask", same.clone(), json!("AAAA")),
        ("empty", "s__ask", same.clone(), json!("")),
        ("not a string", "s__ask", same.clone(), json!(7)),
        ("another tool", "s__other", same.clone(), json!(state)),
        ("other arguments", "s__ask", json!({"x": 2, "y": 2}), json!(state)),
        ("no arguments", "s__ask", json!({}), json!(state)),
    ] {
        let params =
            json!({"name": name, "arguments": arguments, "requestState": state, "inputResponses": accept("q0")});
        let answer = client.request("tools/call", params).await;
        assert_eq!(answer["error"]["code"], -32602, "{what}: {answer}");
    }
    assert_eq!(upstream.count("tools/call"), calls, "nothing ran");
    // The same arguments in another order are the same.
    let params = json!({"inputResponses": {"q0": {"action": "cancel"}, "q1": {"action": "cancel"}}, "requestState": state,
        "arguments": {"y": 2.0, "x": 1}, "name": "s__ask"});
    assert_eq!(client.result("tools/call", params).await["resultType"], "complete");
    gateway.stop().await;
}

#[tokio::test]
async fn answers_must_be_an_object_of_objects_and_may_come_without_a_state() {
    let upstream = Upstream::http(modern_asker()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let client = modern_client(&gateway);
    for bad in [json!(null), json!(7), json!([]), json!("x"), json!({"q0": 7}), json!({"q0": null}), json!({"q0": []})]
    {
        let params = json!({"name": "s__other", "inputResponses": bad});
        assert_eq!(client.request("tools/call", params).await["error"]["code"], -32602, "{bad}");
    }
    assert_eq!(upstream.count("tools/call"), 0);
    for (responses, kind) in
        [(accept("zz"), "input_required"), (json!({}), "input_required"), (accept("q0"), "complete")]
    {
        let params = json!({"name": "s__other", "inputResponses": responses});
        assert_eq!(client.result("tools/call", params).await["resultType"], kind);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn the_capabilities_of_each_request_reach_a_modern_upstream() {
    let upstream = Upstream::http(modern_asker().tool("plain", [])).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let mut client = Client::modern(&gateway.url());
    let key = "io.modelcontextprotocol/clientCapabilities";
    for (n, capabilities) in [
        json!({}),
        json!({"elicitation": {"form": {}}}),
        json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}),
        json!({"sampling": {}}),
    ]
    .into_iter()
    .enumerate()
    {
        client.capabilities = capabilities.clone();
        client.result("tools/call", json!({"name": "s__plain"})).await;
        let call = upstream.wait_for_nth(n + 1, |got| got.method() == "tools/call").await;
        assert_eq!(call.json()["params"]["_meta"][key], capabilities);
    }
    // One that it did not declare is never passed on, though the upstream asks.
    client.capabilities = json!({"sampling": {}});
    let answer = client.request("tools/call", json!({"name": "s__ask", "arguments": {}})).await;
    assert!(answer["result"].get("inputRequests").is_none(), "{answer}");
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    gateway.stop().await;
}

#[tokio::test]
async fn the_legacy_code_for_a_page_to_visit_reaches_only_those_who_know_it() {
    let ask = json!({"mode": "url", "elicitationId": "e", "url": "https://example.com", "message": "m"});
    let error = json!({"code": -32042, "message": "visit", "data": {"elicitations": [ask]}}).to_string();
    let upstream = Upstream::http(Script::new("s").legacy_only().tool("t", [Step::Error(error)])).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let mut modern = modern_client(&gateway);
    for capabilities in [all(), json!({}), json!({"elicitation": {"url": {}}})] {
        modern.capabilities = capabilities;
        let answer = modern.request("tools/call", json!({"name": "s__t"})).await;
        assert!(!answer.to_string().contains("-32042"), "{answer}");
    }
    for (revision, knows) in [("2025-06-18", false), ("2025-11-25", true)] {
        let client = Client::legacy(&gateway.url(), revision, all()).await;
        let answer = client.request("tools/call", json!({"name": "s__t"})).await;
        assert_eq!(answer["error"]["code"] == -32042, knows, "{revision}: {answer}");
    }
    gateway.stop().await;
}
