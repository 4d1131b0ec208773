//! The life of a legacy session (protocol.md §3.7, §3.8): begun once, used by its id, ended once.

use std::collections::HashSet;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::exact::{initialize, post, request, send};
use crate::support::upstream::{Script, Upstream};

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

async fn gateway() -> (Gateway, Upstream) {
    let upstream = Upstream::http(Script::new("a").tool("echo", [])).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    gateway.wait_state("a", "ready").await;
    (gateway, upstream)
}

fn ping() -> String {
    request(json!("p"), "ping", json!({}))
}

#[tokio::test]
async fn a_handshake_agrees_on_the_revision_that_is_asked_for() {
    let (gateway, _upstream) = gateway().await;
    for (asked, got) in
        REVISIONS.map(|r| (r, r)).into_iter().chain([("1999-01-01", "2025-11-25"), ("2026-07-28", "2025-11-25")])
    {
        let told = post(&gateway.url(), &[], initialize(asked)).await;
        assert_eq!(told.body["result"]["protocolVersion"], got, "{asked}: {told:?}");
        let result = &told.body["result"];
        assert_eq!(result["capabilities"]["tools"]["listChanged"], true);
        assert_eq!(result["capabilities"]["resources"]["subscribe"], true);
        assert!(result["serverInfo"]["name"].is_string() && result["serverInfo"]["version"].is_string());
        assert!(result.get("resultType").is_none());
        let id = told.header("mcp-session-id");
        assert!(id.len() >= 22 && id.bytes().all(|b| (0x21..=0x7e).contains(&b)), "{id}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_ping_before_initialized_is_answered_with_exactly_nothing() {
    let (gateway, _upstream) = gateway().await;
    let told = post(&gateway.url(), &[], initialize("2025-11-25")).await;
    let session = [("mcp-session-id", told.header("mcp-session-id"))];
    let told = post(&gateway.url(), &session, ping()).await;
    assert_eq!(told.body, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    let set = request(json!(1), "logging/setLevel", json!({"level": "info"}));
    assert_eq!(post(&gateway.url(), &session, set).await.body["result"], json!({}));
    let loud = request(json!(1), "logging/setLevel", json!({"level": "loud"}));
    assert_eq!(post(&gateway.url(), &session, loud).await.brief(), (200, -32602, json!(1)));
    gateway.stop().await;
}

#[tokio::test]
async fn a_session_begins_once_and_ends_once() {
    let (gateway, _upstream) = gateway().await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let session = [("mcp-session-id", client.session())];
    assert_eq!(post(&gateway.url(), &session, initialize("2025-11-25")).await.brief(), (400, -32600, json!(0)));
    assert_eq!(client.result("ping", json!({})).await, json!({}));
    assert_eq!(client.delete().await, StatusCode::NO_CONTENT);
    assert_eq!(post(&gateway.url(), &session, ping()).await.brief(), (404, -32600, json!("p")));
    assert_eq!(client.delete().await, StatusCode::NOT_FOUND);
    assert_eq!(send(&gateway.url(), Method::GET, &session, "").await.status, 404);
    let again = post(&gateway.url(), &session, initialize("2025-11-25")).await;
    assert_eq!(again.status, 200, "a lost session is no bar to a new one: {again:?}");
    assert_ne!(again.header("mcp-session-id"), client.session());
    gateway.stop().await;
}

#[tokio::test]
async fn get_and_delete_without_a_session_are_refused_at_once() {
    let (gateway, _upstream) = gateway().await;
    for verb in [Method::GET, Method::DELETE] {
        assert_eq!(send(&gateway.url(), verb.clone(), &[], "").await.status, 400);
        assert_eq!(send(&gateway.url(), verb, &[("mcp-session-id", "none")], "").await.status, 404);
    }
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let headers = [("mcp-session-id", client.session()), ("accept", "application/json")];
    assert_eq!(send(&gateway.url(), Method::GET, &headers, "").await.status, 406);
    gateway.stop().await;
}

#[tokio::test]
async fn ten_thousand_handshakes_stay_within_the_cap() {
    let upstream = Upstream::http(Script::new("a")).await;
    let config = json!({"mcpServers": {"a": upstream.config()}, "sessions": {"max": 20}});
    let gateway = Gateway::with(config).await;
    let client = Client::modern(&gateway.url());
    let (mut opened, mut refused) = (HashSet::new(), 0);
    for _ in 0..10_000 {
        let reply = client.send(Method::POST, Default::default(), initialize("2025-11-25")).await;
        match reply.status.as_u16() {
            200 => {
                opened.insert(reply.headers["mcp-session-id"].to_str().unwrap().to_owned());
            }
            503 => {
                assert!(reply.headers.contains_key("retry-after"));
                refused += 1;
            }
            other => panic!("status {other}"),
        }
        let answer = reply.last().await;
        assert!(answer["result"].is_object() || answer["error"]["data"]["reason"] == "limit", "{answer}");
    }
    assert_eq!((opened.len(), refused), (20, 9980));
    let one = opened.iter().next().unwrap();
    let session = [("mcp-session-id", one.as_str())];
    assert_eq!(send(&gateway.url(), Method::DELETE, &session, "").await.status, 204);
    assert_eq!(post(&gateway.url(), &[], initialize("2025-11-25")).await.status, 200, "a place became free");
    gateway.stop().await;
}

#[tokio::test]
async fn a_session_belongs_to_the_endpoint_that_it_began_at() {
    let (gateway, _upstream) = gateway().await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let session = [("mcp-session-id", client.session())];
    assert_eq!(post(&gateway.url_of("a"), &session, ping()).await.brief(), (404, -32600, json!("p")));
    gateway.stop().await;
}

#[tokio::test]
async fn the_version_header_of_a_session_may_be_absent_or_another_legacy_one() {
    let (gateway, _upstream) = gateway().await;
    let client = Client::legacy(&gateway.url(), "2025-06-18", json!({})).await;
    let session = ("mcp-session-id", client.session());
    assert_eq!(post(&gateway.url(), &[session], ping()).await.status, 200);
    for version in REVISIONS {
        let headers = [session, ("mcp-protocol-version", version)];
        assert_eq!(post(&gateway.url(), &headers, ping()).await.status, 200, "{version}");
    }
    let headers = [session, ("mcp-protocol-version", "1999-01-01")];
    assert_eq!(post(&gateway.url(), &headers, ping()).await.status, 400);
    gateway.stop().await;
}

#[tokio::test]
async fn methods_that_a_session_does_not_have_are_errors_with_200() {
    let (gateway, _upstream) = gateway().await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    for method in ["server/discover", "subscriptions/listen", "tasks/list", "tasks/get", "no/such"] {
        let reply = client.open(method, json!({})).await;
        assert_eq!(reply.status, 200, "{method}");
        assert_eq!(reply.last().await["error"]["code"], -32601, "{method}");
    }
    let unknown = json!({"jsonrpc": "2.0", "method": "notifications/no/such"});
    assert_eq!(client.post("", &unknown).await.status, 202);
    let stray = json!({"jsonrpc": "2.0", "id": "gw-99", "result": {}});
    assert_eq!(client.post("", &stray).await.status, 202);
    gateway.stop().await;
}

#[tokio::test]
async fn deleting_a_session_cancels_what_runs_in_it() {
    let upstream =
        Upstream::http(Script::new("a").legacy_only().tool("slow", [crate::support::upstream::Step::Never])).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let mut stream = client.stream().await;
    let (answer, ()) =
        tokio::join!(async { client.open("tools/call", json!({"name": "a__slow"})).await.all().await }, async {
            let call = upstream.wait_for(|got| got.method() == "tools/call").await;
            assert_eq!(client.delete().await, StatusCode::NO_CONTENT);
            let cancel = upstream.wait_for(|got| got.method() == "notifications/cancelled").await;
            assert_eq!(cancel.json()["params"]["requestId"].to_string(), call.id().unwrap());
        });
    assert_eq!(answer, Vec::<Value>::new());
    assert_eq!(stream.next().await, None, "its stream ends too");
    gateway.stop().await;
}
