//! Streamable HTTP upstreams and their manners: redirects, encodings, strict headers, odd line ends, cut and parked
//! streams, and answers that are none.

use serde_json::json;

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::upstream::{Answer, Record, Script, Step, Upstream};
use crate::support::watch::{call_failure, call_text, server, wait_server};

fn echo() -> Script {
    Script::new("a").tool("echo", [Step::Echo])
}

async fn gateway(upstream: &Upstream) -> Gateway {
    let gateway = Gateway::over(&[("a", upstream)]).await;
    gateway.wait_state("a", "ready").await;
    gateway
}

/// A client of each era.
async fn clients(gateway: &Gateway) -> [Client; 2] {
    [Client::modern(&gateway.url()), Client::legacy(&gateway.url(), "2025-11-25", json!({})).await]
}

#[tokio::test]
async fn the_manners_of_an_upstream_are_met_and_never_seen_by_the_client() {
    let rows: [(&str, fn(&mut Script)); 6] = [
        ("307 to /mcp/", |s| s.http.redirect = true),
        ("gzip for who asks", |s| s.http.gzip = true),
        ("both media types or 406", |s| s.http.strict_accept = true),
        ("only its own version in the header", |s| s.http.strict_version = true),
        ("CR LF, cut in between", |s| (s.http.crlf, s.http.answer) = (true, Answer::Sse)),
        ("events for every answer", |s| s.http.answer = Answer::Sse),
    ];
    for (what, manners) in rows {
        for script in [echo(), echo().legacy_only(), echo().only_revision("2025-03-26")] {
            let upstream = Upstream::http(script.with(manners)).await;
            let gateway = gateway(&upstream).await;
            for client in clients(&gateway).await {
                assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#, "{what}");
            }
            assert_eq!(server(&gateway, "a").await["restarts"], 0, "{what}");
            let asked = |got: &Record| got.header("accept-encoding").is_some_and(|v| v != "identity");
            assert!(!upstream.received().iter().any(asked), "{what}: nothing is asked for that cannot be decoded");
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn version_and_session_headers_belong_to_one_hop() {
    let upstream = Upstream::http(echo().only_revision("2025-06-18")).await;
    let gateway = gateway(&upstream).await;
    for client in clients(&gateway).await {
        call_text(&client, "a__echo").await;
    }
    let calls: Vec<_> = upstream.received().into_iter().filter(|got| got.method() == "tools/call").collect();
    assert_eq!(calls.len(), 2);
    for call in calls {
        assert_eq!(call.header("mcp-protocol-version"), Some("2025-06-18"));
        assert!(call.header("mcp-session-id").unwrap().starts_with("session-"), "{call:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn events_go_on_as_they_arrive() {
    let steps = [Step::Progress(1), Step::Hold, Step::Progress(1), Step::Hold, Step::Echo];
    for script in [echo(), echo().legacy_only()] {
        for upstream in [
            Upstream::http(script.clone().tool("slow", steps.clone())).await,
            Upstream::stdio(script.tool("slow", steps.clone())).await,
        ] {
            let gateway = gateway(&upstream).await;
            for client in clients(&gateway).await {
                let params = json!({"name": "a__slow", "arguments": {"n": 1}, "_meta": {"progressToken": "mine"}});
                let mut reply = client.open("tools/call", params).await;
                for n in [1, 2] {
                    let progress = reply.next().await.unwrap();
                    assert_eq!(progress["params"]["progressToken"], "mine", "{progress}");
                    assert_eq!(progress["params"]["progress"], n, "{progress}");
                    upstream.release("slow").await;
                }
                assert_eq!(reply.last().await["result"]["content"][0]["text"], r#"{"n":1}"#);
            }
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_closed_early_is_resumed_where_it_stopped() {
    for revision in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let script = echo().only_revision(revision).tool("parked", [Step::Progress(1), Step::Park, Step::Echo]);
        let upstream = Upstream::http(script).await;
        let gateway = gateway(&upstream).await;
        for client in clients(&gateway).await {
            let params = json!({"name": "a__parked", "arguments": {"n": 1}, "_meta": {"progressToken": 1}});
            let answer = client.request("tools/call", params).await;
            assert_eq!(answer["result"]["content"][0]["text"], r#"{"n":1}"#, "{answer}");
        }
        let resumed: Vec<_> = upstream
            .received()
            .into_iter()
            .filter(|got| got.verb == "GET" && got.header("last-event-id").is_some())
            .collect();
        assert_eq!(resumed.len(), 2);
        assert!(resumed.iter().all(|got| got.header("last-event-id").unwrap().starts_with("park-")), "{resumed:?}");
        assert_eq!(upstream.count("tools/call"), 2, "the calls are not sent again");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn answers_that_are_none_fail_that_call_alone() {
    let big = "x".repeat(1000);
    let steps: Vec<(&str, Vec<Step>)> = vec![
        ("cut", vec![Step::Die]),
        ("cut_later", vec![Step::Progress(1), Step::Die]),
        ("garbage", vec![Step::Garbage("{not json".into())]),
        ("html", vec![Step::Garbage(format!("<html>{big}</html>"))]),
        ("empty", vec![Step::Garbage(String::new())]),
        ("other_id", vec![Step::Garbage(r#"{"jsonrpc":"2.0","id":"nobody","result":{}}"#.into())]),
        ("no_result", vec![Step::Garbage(r#"{"jsonrpc":"2.0"}"#.into())]),
        ("wrong_result", vec![Step::Garbage(r#"{"jsonrpc":"2.0","id":1,"result":[]}"#.into())]),
        ("s500", vec![Step::Status(500, "secret stack trace".into())]),
        ("s403", vec![Step::Status(403, String::new())]),
        ("s502", vec![Step::Status(502, "<html>".into())]),
    ];
    for answer in [Answer::Json, Answer::Sse] {
        for base in [echo(), echo().legacy_only()] {
            let script = steps.iter().fold(base, |script, (name, steps)| script.tool(name, steps.clone()));
            let upstream = Upstream::http(script.with(|s| s.http.answer = answer)).await;
            let gateway = gateway(&upstream).await;
            for client in clients(&gateway).await {
                for (name, _) in &steps {
                    let failure = call_failure(&client, &format!("a__{name}")).await;
                    assert!(failure.starts_with("server \"a\": "), "{name}: {failure}");
                    assert!(!failure.contains("secret"), "{name}: {failure}");
                    assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#, "after {name}");
                }
            }
            assert_eq!(server(&gateway, "a").await["restarts"], 0);
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn an_upstream_that_falls_and_rises_again_is_used_again() {
    for script in [echo(), echo().legacy_only()] {
        let upstream = Upstream::http(script.tool("held", [Step::Hold, Step::Echo])).await;
        let gateway = gateway(&upstream).await;
        let client = Client::modern(&gateway.url());
        let falling = async {
            upstream.wait_for(|got| got.method() == "tools/call").await;
            upstream.kill().await;
        };
        let (failure, ()) = tokio::join!(call_failure(&client, "a__held"), falling);
        assert!(failure.starts_with("server \"a\": the connection to the server was lost"), "{failure}");
        upstream.revive().await;
        wait_server(&gateway, "a", |row| row["state"] == "ready").await;
        assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#);
        gateway.stop().await;
    }
}
