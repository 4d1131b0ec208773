//! What comes before an answer: progress, log messages, and the streams they come on (protocol.md §3.6, §3.8, §5f).

use http::StatusCode;
use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, Reply, text_of};
use crate::support::pairs::{KINDS, Pairs, call};
use crate::support::upstream::{Script, Step, Upstream};

fn with_token(kind: &str, tool: &str, token: Value) -> Value {
    let mut params = call(kind, tool);
    params["_meta"] = json!({"progressToken": token});
    params
}

fn progress(messages: &[Value]) -> Vec<(&Value, i64)> {
    let of = |m: &'_ &Value| m["method"] == "notifications/progress";
    messages
        .iter()
        .filter(of)
        .map(|m| (&m["params"]["progressToken"], m["params"]["progress"].as_i64().unwrap()))
        .collect()
}

#[tokio::test]
async fn two_clients_with_one_token_each_see_only_their_own() {
    let steps = [Step::Progress(2), Step::Hold, Step::Progress(1), Step::Echo];
    let pairs = Pairs::over(Script::new("s").tool("slow", steps)).await;
    let url = pairs.gateway.url();
    for ((revision, one), (_, two)) in
        pairs.clients(&url, json!({})).await.iter().zip(pairs.clients(&url, json!({})).await.iter())
    {
        for (kind, upstream) in &pairs.upstreams {
            let mut first = one.open("tools/call", with_token(kind, "slow", json!(1))).await;
            let mut second = two.open("tools/call", with_token(kind, "slow", json!(1))).await;
            for reply in [&mut first, &mut second] {
                assert!(reply.is_stream(), "{revision} {kind}");
                for value in [1, 2] {
                    // Before the call is released: each goes out as it comes.
                    let message = reply.next().await.unwrap();
                    assert_eq!(progress(&[message]), [(&json!(1), value)], "{revision} {kind}");
                }
            }
            let before = upstream.count("tools/call");
            let third = async { one.open("tools/call", call(kind, "slow")).await };
            let released = async {
                upstream.wait_for_nth(before + 1, |got| got.method() == "tools/call").await;
                for _ in 0..3 {
                    upstream.release("slow").await;
                }
            };
            let (third, ()) = tokio::join!(third, released);
            assert!(!third.is_stream(), "{revision} {kind}: without a token there is nothing to tell");
            for reply in [first, second] {
                let rest = reply.all().await;
                assert_eq!(progress(&rest), [(&json!(1), 3)], "{revision} {kind}");
                assert_eq!(rest.len(), 2, "{revision} {kind}: {rest:?}");
            }
            third.last().await;
            let tokens: Vec<_> = upstream
                .received()
                .iter()
                .filter(|got| got.method() == "tools/call")
                .map(|got| got.json()["params"]["_meta"]["progressToken"].clone())
                .filter(|token| !token.is_null())
                .collect();
            let distinct: std::collections::HashSet<_> = tokens.iter().map(Value::to_string).collect();
            assert_eq!(distinct.len(), tokens.len(), "{kind}: tokens of two calls are the same");
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn a_token_keeps_its_type_and_values_only_rise() {
    let steps = [Step::ProgressAt(vec![1, 1, 5, 3, 5, 6]), Step::Echo];
    let pairs = Pairs::over(Script::new("s").tool("odd", steps)).await;
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for kind in KINDS {
            for token in [json!("a/é"), json!(""), json!(0), json!(9_007_199_254_740_993_i64)] {
                let all = client.open("tools/call", with_token(kind, "odd", token.clone())).await.all().await;
                let want = [(&token, 1), (&token, 5), (&token, 6)];
                assert_eq!(progress(&all), want, "{revision} {kind}");
                assert_eq!(text_of(&all.last().unwrap()["result"]), "{}");
            }
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn an_answer_is_json_unless_something_came_before_it() {
    let steps = [Step::Progress(1), Step::Echo];
    let upstream = Upstream::http(Script::new("s").tool("plain", []).tool("talks", steps)).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let legacy = Client::legacy(&gateway.url(), "2025-06-18", json!({})).await;
    for client in [&Client::modern(&gateway.url()), &legacy] {
        let reply = client.open("tools/call", with_token("s", "plain", json!(1))).await;
        assert_eq!((reply.status, reply.is_stream()), (StatusCode::OK, false));
        let reply = client.open("tools/call", with_token("s", "talks", json!(1))).await;
        is_a_stream(&reply);
        assert!(!reply.headers.contains_key("content-length"));
        for method in ["tools/list", "prompts/list", "resources/list"] {
            assert!(!client.open(method, json!({})).await.is_stream(), "{method}");
        }
    }
    is_a_stream(&legacy.stream().await);
    gateway.stop().await;
}

fn is_a_stream(reply: &Reply) {
    assert_eq!(reply.headers["content-type"], "text/event-stream");
    assert!(reply.headers["cache-control"].to_str().unwrap().contains("no-cache"));
    assert_eq!(reply.headers["x-accel-buffering"], "no");
}

#[tokio::test]
async fn who_reads_only_json_gets_only_the_answer() {
    let steps = [Step::Progress(3), Step::Echo];
    let upstream = Upstream::http(Script::new("s").tool("talks", steps)).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let client = Client::legacy(&gateway.url(), "2025-06-18", json!({})).await;
    let message =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": with_token("s", "talks", json!(1))});
    let mut headers = client.headers("tools/call", &message);
    headers.insert("accept", "application/json".parse().unwrap());
    let reply = client.send(http::Method::POST, headers, message.to_string()).await;
    assert!(!reply.is_stream());
    assert_eq!(reply.all().await.len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_second_standalone_stream_replaces_the_first_and_messages_go_to_one() {
    let upstream = Upstream::http(Script::new("s").legacy_only().tool("t", [])).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    gateway.wait_state("s", "ready").await;
    let client = Client::legacy(&gateway.url(), "2025-06-18", json!({})).await;
    let mut first = client.stream().await;
    let mut second = client.stream().await;
    while let Some(message) = first.next().await {
        assert_eq!(message["method"], "notifications/tools/list_changed", "{message}");
    }
    let changed = |m: &Value| m["method"] == "notifications/tools/list_changed";
    upstream.set_tools([crate::support::upstream::tool("new")]).await;
    upstream.announce_tools().await;
    second.find(changed).await;
    // Without a stream it waits for the next.
    drop(second);
    upstream.set_tools([]).await;
    upstream.announce_tools().await;
    client.stream().await.find(changed).await;
    gateway.stop().await;
}

fn levels(messages: &[Value]) -> Vec<(&str, &str)> {
    let of = |m: &'_ &Value| m["method"] == "notifications/message";
    messages
        .iter()
        .filter(of)
        .map(|m| (m["params"]["level"].as_str().unwrap_or("-"), m["params"]["logger"].as_str().unwrap_or("-")))
        .collect()
}

#[tokio::test]
async fn log_messages_come_as_far_as_they_were_asked_for() {
    let named = r#"{"level":"warning","logger":"db","data":{"n":1.10}}"#;
    let steps = [
        Step::log("debug", "d"),
        Step::log("info", "i"),
        Step::Notify("notifications/message".into(), named.into()),
        Step::log("error", "e"),
        Step::Echo,
    ];
    let pairs = Pairs::over(Script::new("s").tool("logs", steps)).await;
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for (kind, upstream) in &pairs.upstreams {
            if revision == "2026-07-28" {
                let silent = client.open("tools/call", call(kind, "logs")).await.all().await;
                assert_eq!(levels(&silent), [], "{revision} {kind}: no level, no messages");
            }
            for (level, count) in [("debug", 4), ("info", 3), ("warning", 2), ("error", 1), ("emergency", 0)] {
                let mut params = call(kind, "logs");
                if revision == "2026-07-28" {
                    params["_meta"] = json!({"io.modelcontextprotocol/logLevel": level});
                } else {
                    assert_eq!(client.result("logging/setLevel", json!({"level": level})).await, json!({}));
                }
                let all = client.open("tools/call", params).await.all().await;
                let db = format!("{kind}/db");
                let want = [("debug", *kind), ("info", kind), ("warning", &db), ("error", kind)];
                assert_eq!(levels(&all), want[4 - count..], "{revision} {kind} {level}");
                if kind.starts_with("modern") {
                    let last = upstream.received().into_iter().rfind(|got| got.method() == "tools/call").unwrap();
                    let meta = &last.json()["params"]["_meta"];
                    assert_eq!(meta["io.modelcontextprotocol/logLevel"], level, "{revision} {kind}");
                }
            }
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn a_session_without_a_level_hears_no_log_messages_and_one_server_alone_names_none() {
    let pairs = Pairs::over(Script::new("s").tool("logs", [Step::log("emergency", "!"), Step::Echo])).await;
    for kind in KINDS {
        let client = Client::legacy(&pairs.gateway.url_of(kind), "2025-11-25", json!({})).await;
        let params = json!({"name": "logs"});
        assert_eq!(client.open("tools/call", params.clone()).await.all().await.len(), 1, "{kind}");
        client.result("logging/setLevel", json!({"level": "error"})).await;
        let all = client.open("tools/call", params).await.all().await;
        assert_eq!(levels(&all), [("emergency", "-")], "{kind}");
    }
    pairs.gateway.stop().await;
}
