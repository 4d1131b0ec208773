//! Within the legacy era a server's question goes to the client whose call it is, never to anybody else, and the answer goes
//! back (protocol.md §5d).

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, text_of};
use crate::support::upstream::{Script, Step, Upstream};

fn all() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

fn ask(method: &str, params: Value) -> Step {
    Step::Ask(method.into(), params.to_string())
}

async fn legacy(gateway: &Gateway, capabilities: Value) -> Client {
    Client::legacy(&gateway.url(), "2025-11-25", capabilities).await
}

/// The answers that the upstream got, as it says in its result.
fn answers(message: &Value) -> Value {
    serde_json::from_str(text_of(&message["result"])).unwrap()
}

fn is_question(message: &Value) -> bool {
    message.get("method").is_some() && message.get("id").is_some()
}

/// Calls `tool`, answers its one question with `marker` if it is the one in `about`, and checks that the marker arrived.
async fn round(client: &Client, tool: &str, about: &str, marker: &str) {
    let mut reply = client.open("tools/call", json!({"name": format!("s__{tool}"), "arguments": {}})).await;
    let question = reply.find(is_question).await;
    assert_eq!(question["params"]["message"], about, "{marker}");
    assert!(question["id"].as_str().unwrap().starts_with("gw-"), "{question}");
    let answer = json!({"action": "accept", "content": {"answer": marker, "n": 9_007_199_254_740_993_i64}});
    client.answer(&question, answer.clone()).await;
    let rest = reply.all().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(answers(&rest[0]), json!([answer]));
}

fn two_askers() -> Script {
    Script::new("s")
        .legacy_only()
        .tool("one", [Step::elicit("for one"), Step::Answers])
        .tool("two", [Step::elicit("for two"), Step::Answers])
}

#[tokio::test]
async fn two_sessions_at_once_are_each_asked_their_own_over_one_http_upstream() {
    let upstream = Upstream::http(two_askers()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let (one, two) = (legacy(&gateway, all()).await, legacy(&gateway, all()).await);
    for n in 0..100 {
        let (mine, theirs) = (format!("one {n}"), format!("two {n}"));
        tokio::join!(round(&one, "one", "for one", &mine), round(&two, "two", "for two", &theirs));
    }
    gateway.stop().await;
}

#[tokio::test]
async fn one_call_in_flight_is_asked_over_a_connection_without_streams_of_its_own() {
    for upstream in [Upstream::stdio(two_askers()).await, Upstream::sse(two_askers()).await] {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        let (one, two) = (legacy(&gateway, all()).await, legacy(&gateway, all()).await);
        for n in 0..20 {
            round(&one, "one", "for one", &format!("one {n}")).await;
            round(&two, "two", "for two", &format!("two {n}")).await;
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_question_that_may_be_anybodys_is_refused_and_nobody_is_asked() {
    let script = two_askers().tool("slow", [Step::Hold, Step::Echo]);
    for upstream in [Upstream::stdio(script.clone()).await, Upstream::sse(script.clone()).await] {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        let (asker, other) = (legacy(&gateway, all()).await, legacy(&gateway, all()).await);
        let slow = other.open("tools/call", json!({"name": "s__slow", "arguments": {}}));
        let asked = async {
            upstream.wait_for(|got| got.method() == "tools/call").await;
            let refused = asker.request("tools/call", json!({"name": "s__one", "arguments": {}})).await;
            upstream.release("slow").await;
            refused
        };
        let (slow, refused) = tokio::join!(slow, asked);
        let error = &answers(&refused)[0]["error"];
        assert_eq!(error["code"], -32603, "{refused}");
        assert!(error["message"].as_str().unwrap().len() > 10, "says why: {error}");
        assert_eq!(slow.all().await.len(), 1, "the other session hears nothing");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn every_kind_of_question_goes_through_verbatim_and_so_does_its_answer() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"number","minimum":1.10,"x-new":[null]}}}"#;
    let elicitation = format!(r#"{{"message":"日本","requestedSchema":{schema},"later":9007199254740993}}"#);
    let sampling = json!({"messages": [], "maxTokens": 10, "temperature": 0.5, "stopSequences": ["x"]});
    let script = Script::new("s")
        .legacy_only()
        .tool("elicit", [Step::Ask("elicitation/create".into(), elicitation.clone()), Step::Answers])
        .tool("sample", [ask("sampling/createMessage", sampling.clone()), Step::Answers])
        .tool("roots", [Step::roots(), Step::Answers]);
    let upstream = Upstream::stdio(script).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let client = legacy(&gateway, all()).await;
    for (tool, method, params, answer) in [
        ("elicit", "elicitation/create", serde_json::from_str(&elicitation).unwrap(), json!({"action": "decline"})),
        (
            "sample",
            "sampling/createMessage",
            sampling,
            json!({"role": "assistant", "model": "m", "content": {"type": "x"}}),
        ),
        ("roots", "roots/list", json!({}), json!({"roots": [{"uri": "file:///a", "name": "日本", "x": null}]})),
    ] {
        let mut reply = client.open("tools/call", json!({"name": format!("s__{tool}")})).await;
        let question = reply.next().await.unwrap();
        assert_eq!((&question["method"], &question["params"]), (&json!(method), &params));
        client.answer(&question, answer.clone()).await;
        assert_eq!(answers(&reply.last().await), json!([answer]));
        // An error of the client's goes back as it is.
        let mut reply = client.open("tools/call", json!({"name": format!("s__{tool}")})).await;
        let question = reply.next().await.unwrap();
        let error = json!({"code": -1, "message": "User rejected", "data": {"n": 1}});
        let message = json!({"jsonrpc": "2.0", "id": question["id"], "error": error});
        assert_eq!(client.post("", &message).await.status, 202);
        assert_eq!(answers(&reply.last().await), json!([{"error": error}]));
    }
    gateway.stop().await;
}

#[tokio::test]
async fn what_a_client_did_not_declare_is_refused_at_once() {
    let by_url = json!({"mode": "url", "message": "m", "url": "https://example.com", "elicitationId": "1"});
    let tools = json!({"messages": [], "maxTokens": 1, "tools": []});
    let script = Script::new("s")
        .legacy_only()
        .tool("elicit", [Step::elicit("who?"), Step::Answers])
        .tool("url", [ask("elicitation/create", by_url), Step::Answers])
        .tool("sample", [Step::sample("hi"), Step::Answers])
        .tool("tools", [ask("sampling/createMessage", tools), Step::Answers])
        .tool("roots", [Step::roots(), Step::Answers])
        .tool("odd", [ask("no/such", json!({})), Step::Answers]);
    for upstream in [Upstream::stdio(script.clone()).await, Upstream::http(script.clone()).await] {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        for (capabilities, tool, code) in [
            (json!({}), "elicit", -32601),
            (json!({}), "sample", -32601),
            (json!({}), "roots", -32601),
            (json!({"sampling": {}, "roots": {}}), "elicit", -32601),
            (json!({"elicitation": {}}), "url", -32602),
            (json!({"elicitation": {"url": {}}}), "elicit", -32602),
            (json!({"sampling": {}}), "tools", -32602),
            (all(), "odd", -32601),
        ] {
            let client = legacy(&gateway, capabilities.clone()).await;
            let all = client.open("tools/call", json!({"name": format!("s__{tool}")})).await.all().await;
            assert_eq!(all.len(), 1, "{capabilities} {tool}: {all:?}");
            assert_eq!(answers(&all[0])[0]["error"]["code"], code, "{capabilities} {tool}: {}", all[0]);
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_cancelled_call_takes_its_question_back() {
    for upstream in [Upstream::stdio(two_askers()).await, Upstream::http(two_askers()).await] {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        let client = legacy(&gateway, all()).await;
        let mut reply = client.open_as(json!("call"), "tools/call", json!({"name": "s__one"})).await;
        let question = reply.next().await.unwrap();
        client.notify("notifications/cancelled", json!({"requestId": "call"})).await;
        let rest = reply.all().await;
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!(rest[0]["method"], "notifications/cancelled");
        assert_eq!(rest[0]["params"]["requestId"], question["id"]);
        upstream.wait_for(|got| got.method() == "notifications/cancelled").await;
        // Too late, and nobody is told.
        client.answer(&question, json!({"action": "accept", "content": {}})).await;
        let stray = upstream.received().into_iter().find(|got| got.json()["result"]["action"] == "accept");
        assert!(stray.is_none(), "{stray:?}");
        round(&client, "one", "for one", "afterwards").await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn another_session_cannot_answer() {
    let upstream = Upstream::http(two_askers()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let (client, thief) = (legacy(&gateway, all()).await, legacy(&gateway, all()).await);
    let mut reply = client.open("tools/call", json!({"name": "s__one"})).await;
    let question = reply.next().await.unwrap();
    thief.answer(&question, json!({"action": "accept", "content": {"answer": "theft"}})).await;
    client.answer(&question, json!({"action": "accept", "content": {"answer": "mine"}})).await;
    assert_eq!(answers(&reply.last().await)[0]["content"]["answer"], "mine");
    gateway.stop().await;
}

#[tokio::test]
async fn two_calls_of_one_session_are_its_own_and_two_modern_ones_are_anybodys() {
    let script = two_askers().tool("slow", [Step::Hold, Step::Echo]);
    let upstream = Upstream::stdio(script).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let session = legacy(&gateway, all()).await;
    let slow = session.result("tools/call", json!({"name": "s__slow"}));
    let asked = async {
        upstream.wait_for(|got| got.method() == "tools/call").await;
        round(&session, "one", "for one", "mine").await;
        upstream.release("slow").await;
    };
    tokio::join!(slow, asked);
    let mut modern = Client::modern(&gateway.url());
    modern.capabilities = all();
    let calls = upstream.count("tools/call");
    let slow = modern.result("tools/call", json!({"name": "s__slow"}));
    let asked = async {
        upstream.wait_for_nth(calls + 1, |got| got.method() == "tools/call").await;
        let refused = modern.request("tools/call", json!({"name": "s__one", "arguments": {}})).await;
        upstream.release("slow").await;
        refused
    };
    let (slow, refused) = tokio::join!(slow, asked);
    assert_eq!(answers(&refused)[0]["error"]["code"], -32603, "{refused}");
    assert_eq!(slow["resultType"], "complete");
    gateway.stop().await;
}

#[tokio::test]
async fn prompts_and_resources_may_ask_too() {
    let script = Script::new("s")
        .legacy_only()
        .prompt("p")
        .on("p", [Step::elicit("for p"), Step::Answers])
        .resource("file:///r")
        .on("file:///r", [Step::elicit("for r"), Step::Answers]);
    let upstream = Upstream::http(script).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let client = legacy(&gateway, all()).await;
    for (method, params) in
        [("prompts/get", json!({"name": "s__p"})), ("resources/read", json!({"uri": "s+file:///r"}))]
    {
        let mut reply = client.open(method, params).await;
        let question = reply.find(is_question).await;
        client.answer(&question, json!({"action": "decline"})).await;
        let answer = reply.last().await;
        assert!(answer["result"].to_string().contains("decline"), "{method}: {answer}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_question_that_nobody_waits_for_any_more_is_taken_back_at_the_client() {
    let question = r#"{"jsonrpc":"2.0","id":"mine","method":"elicitation/create","params":{"message":"m"}}"#;
    let withdrawn = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine"}}"#;
    let script = Script::new("s")
        .legacy_only()
        .tool("impatient", [Step::Noise(question.into()), Step::Name])
        .tool("withdraws", [Step::Noise(question.into()), Step::Noise(withdrawn.into()), Step::Name]);
    let upstream = Upstream::stdio(script).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let client = legacy(&gateway, all()).await;
    for (tool, answers) in [("withdraws", 0), ("impatient", 1)] {
        let told = client.open("tools/call", json!({"name": format!("s__{tool}")})).await.all().await;
        assert_eq!(told.len(), 3, "{tool}: {told:?}");
        assert_eq!(told[0]["params"]["message"], "m");
        assert_eq!(told[1]["method"], "notifications/cancelled", "{tool}");
        assert_eq!(told[1]["params"]["requestId"], told[0]["id"], "{tool}");
        assert_eq!(text_of(&told[2]["result"]), "s");
        client.result("tools/call", json!({"name": "s__withdraws"})).await;
        let replies = upstream.received().iter().filter(|got| got.json()["id"] == "mine").count();
        assert_eq!(replies, answers, "{tool}: an answer to a withdrawn question, or none to an open one");
    }
    gateway.stop().await;
}
