//! HTTP upstreams that forget our session: one new handshake without the old id, and nobody's call is lost for it.

use futures_util::future::join_all;

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::upstream::{Script, Step, Upstream};
use crate::support::watch::{call_text, server};

fn forgetful(status: u16) -> Script {
    let script = Script::new("a").tool("echo", [Step::Echo]).tool("held", [Step::Hold, Step::Echo]);
    script.legacy_only().with(|s| s.http.lost_status = status)
}

async fn gateway(upstream: &Upstream) -> Gateway {
    let gateway = Gateway::over(&[("a", upstream)]).await;
    gateway.wait_state("a", "ready").await;
    gateway
}

#[tokio::test]
async fn a_lost_session_costs_one_handshake_and_no_call() {
    for status in [404, 400] {
        let upstream = Upstream::http(forgetful(status)).await;
        let gateway = gateway(&upstream).await;
        let client = Client::modern(&gateway.url());
        for round in 1..=3 {
            assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#);
            upstream.forget_sessions().await;
            assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#, "status {status}");
            assert_eq!(upstream.count("initialize"), 1 + round);
        }
        for got in upstream.received().iter().filter(|got| got.method() == "initialize") {
            assert_eq!(got.header("mcp-session-id"), None, "a new session is asked for without the old id");
        }
        assert_eq!(server(&gateway, "a").await["restarts"], 0, "nothing was broken");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn many_calls_that_lose_their_session_shake_hands_once() {
    for status in [404, 400] {
        let upstream = Upstream::http(forgetful(status)).await;
        let gateway = gateway(&upstream).await;
        let client = Client::modern(&gateway.url());
        for round in 1..=5 {
            upstream.forget_sessions().await;
            for text in join_all((0..32).map(|_| call_text(&client, "a__echo"))).await {
                assert_eq!(text, r#"{"n":1}"#);
            }
            assert_eq!(upstream.count("initialize"), 1 + round, "status {status}");
        }
        gateway.stop().await;
    }
}

/// It was taken before the session was lost and has a stream of its own: the new handshake is none of its business.
#[tokio::test]
async fn a_call_in_flight_outlives_the_session_it_was_made_in() {
    let upstream = Upstream::http(forgetful(404)).await;
    let gateway = gateway(&upstream).await;
    let client = Client::modern(&gateway.url());
    let losing = async {
        upstream.wait_for(|got| got.method() == "tools/call").await;
        upstream.forget_sessions().await;
        assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#);
        upstream.release("held").await;
    };
    let (held, ()) = tokio::join!(call_text(&client, "a__held"), losing);
    assert_eq!(held, r#"{"n":1}"#);
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_that_forgets_every_few_requests_is_still_of_use() {
    let upstream = Upstream::http(forgetful(404).with(|s| s.http.forget_after = Some(6))).await;
    let gateway = gateway(&upstream).await;
    let client = Client::modern(&gateway.url());
    for _ in 0..20 {
        assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#);
    }
    gateway.stop().await;
}
