//! The deprecated HTTP+SSE transport.

use serde_json::json;

use super::wire::{Reply, http, initialize, request, text};
use crate::support::upstream::{Script, Step, Upstream};

async fn open(upstream: &Upstream) -> (Reply, String) {
    let mut stream = http("GET", &upstream.url(), &[("accept", "text/event-stream")], "").await.unwrap();
    let endpoint = stream.event().await.unwrap();
    let endpoint = url::Url::parse(&upstream.url()).unwrap().join(&endpoint).unwrap().to_string();
    (stream, endpoint)
}

#[tokio::test]
async fn every_answer_comes_on_the_stream_that_names_the_endpoint() {
    for endpoint in ["messages?sid={sid}", "/base/messages?sid={sid}"] {
        let script = Script::new("a").tool("t", [Step::elicit("who?"), Step::Answers]);
        let upstream = Upstream::sse(script.with(|script| script.http.endpoint = endpoint.into())).await;
        let (mut stream, endpoint) = open(&upstream).await;
        let reply = http("POST", &endpoint, &[], &initialize("2024-11-05")).await.unwrap();
        assert_eq!(reply.status, 202);
        assert_eq!(stream.message().await["result"]["protocolVersion"], "2024-11-05");
        let call = request(2, "tools/call", json!({"name": "t"}));
        http("POST", &endpoint, &[], &call).await.unwrap();
        let question = stream.message().await;
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "cancel"}});
        http("POST", &endpoint, &[], &answer.to_string()).await.unwrap();
        assert_eq!(text(&stream.message().await), r#"[{"action":"cancel"}]"#);
        upstream.announce_tools().await;
        assert_eq!(stream.message().await["method"], "notifications/tools/list_changed");
        assert_eq!(upstream.open_streams(), 1);
    }
}

#[tokio::test]
async fn a_wrong_endpoint_and_a_wrong_session_are_not_found() {
    let upstream = Upstream::sse(Script::new("a")).await;
    let (_stream, endpoint) = open(&upstream).await;
    for wrong in [endpoint.replace("/base", ""), endpoint.replace("sid=", "sid=x")] {
        assert_eq!(http("POST", &wrong, &[], &initialize("2024-11-05")).await.unwrap().status, 404, "{wrong}");
    }
    assert_eq!(http("POST", &upstream.url(), &[], &initialize("2024-11-05")).await.unwrap().status, 405);
}
