//! Upstreams of 2024, HTTP+SSE: where their endpoint is, where it must not be, and what the end of their stream means.

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::upstream::{Script, Step, Upstream};
use crate::support::watch::{call_failure, call_text, wait_server};

fn at(endpoint: &str) -> Script {
    let script = Script::new("a").legacy_only().tool("echo", [Step::Echo]).tool("held", [Step::Hold, Step::Echo]);
    script.with(|s| s.http.endpoint = endpoint.into())
}

#[tokio::test]
async fn an_endpoint_is_resolved_against_the_address_of_the_stream() {
    for endpoint in
        ["messages?sid={sid}", "/base/messages?sid={sid}", "./deep/er?x=1&sid={sid}", "  messages?sid={sid} "]
    {
        for crlf in [false, true] {
            let upstream = Upstream::sse(at(endpoint).with(|s| s.http.crlf = crlf)).await;
            let gateway = Gateway::over(&[("a", &upstream)]).await;
            gateway.wait_state("a", "ready").await;
            assert_eq!(call_text(&Client::modern(&gateway.url()), "a__echo").await, r#"{"n":1}"#, "{endpoint}");
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn an_endpoint_elsewhere_is_refused() {
    let other = Upstream::sse(at("messages?sid={sid}")).await;
    let foreign = format!("http://{}/base/messages?sid={{sid}}", other.address());
    for endpoint in [&foreign, "//evil.example/m?sid={sid}", "https://127.0.0.1/m?sid={sid}"] {
        let upstream = Upstream::sse(at(endpoint)).await;
        let gateway = Gateway::over(&[("a", &upstream)]).await;
        let row = wait_server(&gateway, "a", |row| row["state"] == "backing_off").await;
        assert!(row["lastError"].as_str().unwrap().contains("another origin"), "{row}");
        gateway.stop().await;
    }
    assert!(other.received().is_empty());
}

#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_the_session() {
    let upstream = Upstream::sse(at("messages?sid={sid}")).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    gateway.wait_state("a", "ready").await;
    let client = Client::modern(&gateway.url());
    let falling = async {
        upstream.wait_for(|got| got.method() == "tools/call").await;
        upstream.kill().await;
    };
    let (failure, ()) = tokio::join!(call_failure(&client, "a__held"), falling);
    assert!(failure.starts_with("server \"a\": "), "{failure}");
    upstream.revive().await;
    wait_server(&gateway, "a", |row| row["state"] == "ready" && row["restarts"].as_u64() > Some(0)).await;
    assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#);
    assert_eq!(upstream.count("initialize"), 2);
    gateway.stop().await;
}
