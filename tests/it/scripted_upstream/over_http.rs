//! Streamable HTTP.

use serde_json::{Value, json};

use super::wire::{Reply, http, initialize, modern, post_modern, request, text};
use crate::support::upstream::{Answer, Paging, Script, Step, Upstream, tool};

const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");

async fn open(upstream: &Upstream) -> String {
    let reply = http("POST", &upstream.url(), &[BOTH], &initialize("2025-06-18")).await.unwrap();
    let session = reply.header("mcp-session-id").to_owned();
    assert_eq!(reply.json().await["result"]["protocolVersion"], "2025-06-18");
    session
}

async fn post(upstream: &Upstream, session: &str, message: &str) -> Reply {
    http("POST", &upstream.url(), &[BOTH, ("mcp-session-id", session)], message).await.unwrap()
}

fn call(id: u64, tool: &str) -> String {
    request(id, "tools/call", json!({"name": tool}))
}

#[tokio::test]
async fn a_legacy_session_opens_lists_calls_and_closes() {
    let upstream = Upstream::http(Script::new("a").tool("t", [])).await;
    let session = open(&upstream).await;
    let list = post(&upstream, &session, &request(2, "tools/list", json!({}))).await.json().await;
    assert_eq!(list["result"]["tools"], json!([tool("t")]));
    let raw = r#"{"id": 9007199254740993, "x": 1.10, "y": 1e400,  "z": -0}"#;
    let message =
        format!(r#"{{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{{"name":"t","arguments":{raw}}}}}"#);
    let echo = post(&upstream, &session, &message).await.json().await;
    assert_eq!((text(&echo).as_str(), &echo["id"]), (raw, &json!("s")));
    assert_eq!(upstream.wait_for(|got| got.id() == Some("\"s\"".into())).await.body, message);
    let get = http("GET", &upstream.url(), &[("mcp-session-id", &session)], "").await.unwrap();
    assert_eq!((get.status, upstream.open_streams()), (200, 1));
    for status in [204, 404] {
        let reply = http("DELETE", &upstream.url(), &[("mcp-session-id", &session)], "").await.unwrap();
        assert_eq!(reply.status, status);
    }
    assert_eq!(post(&upstream, &session, &call(3, "t")).await.status, 404);
    assert_eq!(post(&upstream, "", &call(3, "t")).await.status, 400);
}

#[tokio::test]
async fn absent_null_and_empty_arguments_are_told_apart() {
    let upstream = Upstream::http(Script::new("a").tool("t", [])).await;
    for (arguments, echo) in [("", "absent"), (r#","arguments":null"#, "null"), (r#","arguments":{ }"#, "{ }")] {
        let message = modern(1, "tools/call", json!({"name": "t"}))
            .replace(r#""name":"t""#, &format!(r#""name":"t"{arguments}"#));
        assert_eq!(text(&post_modern(&upstream.url(), &message).await.json().await), echo);
    }
}

#[tokio::test]
async fn a_list_can_be_held_or_spoiled() {
    let script = Script::new("a").on("tools/list", [Step::Hold]).on("server/discover", [Step::Status(500, "".into())]);
    let upstream = Upstream::http(script).await;
    assert_eq!(post_modern(&upstream.url(), &modern(1, "server/discover", json!({}))).await.status, 500);
    let list = modern(2, "tools/list", json!({}));
    let release = async {
        upstream.wait_for(|got| got.method() == "tools/list").await;
        upstream.release("tools/list").await;
    };
    let url = upstream.url();
    let (reply, ()) = tokio::join!(post_modern(&url, &list), release);
    assert_eq!(reply.json().await["result"]["tools"], json!([]));
}

#[tokio::test]
async fn a_modern_peer_is_served_on_the_same_path_and_its_headers_are_checked() {
    let upstream = Upstream::http(Script::new("a").tool("t", [Step::Name]).resource("x://1").prompt("p")).await;
    let discover = post_modern(&upstream.url(), &modern(1, "server/discover", json!({}))).await.json().await;
    assert_eq!(discover["result"]["supportedVersions"][0], "2026-07-28");
    let answer = post_modern(&upstream.url(), &modern(2, "tools/call", json!({"name": "t"}))).await.json().await;
    assert_eq!((text(&answer).as_str(), &answer["result"]["resultType"]), ("a", &json!("complete")));
    let read = post_modern(&upstream.url(), &modern(3, "resources/read", json!({"uri": "x://1"}))).await.json().await;
    assert_eq!(read["result"]["contents"][0]["uri"], "x://1");
    let prompts = post_modern(&upstream.url(), &modern(4, "prompts/list", json!({}))).await.json().await;
    assert_eq!(prompts["result"]["ttlMs"], 0);
    let ping = post_modern(&upstream.url(), &modern(5, "ping", json!({}))).await;
    assert_eq!((ping.status, ping.json().await["error"]["code"].clone()), (404, json!(-32601)));
    let headers = [BOTH, ("mcp-protocol-version", "2026-07-28")];
    let bare = http("POST", &upstream.url(), &headers, &modern(6, "tools/list", json!({}))).await.unwrap();
    assert_eq!((bare.status, bare.json().await["error"]["code"].clone()), (400, json!(-32020)));
}

#[tokio::test]
async fn a_script_speaks_only_the_eras_it_names() {
    let old = Upstream::http(Script::new("old").only_revision("2024-11-05")).await;
    assert_eq!(post_modern(&old.url(), &modern(1, "server/discover", json!({}))).await.status, 400);
    let reply = http("POST", &old.url(), &[BOTH], &initialize("2025-11-25")).await.unwrap().json().await;
    assert_eq!(reply["result"]["protocolVersion"], "2024-11-05");
    let new = Upstream::http(Script::new("new").modern_only()).await;
    assert_eq!(http("GET", &new.url(), &[], "").await.unwrap().status, 405);
    let headers = [BOTH, ("mcp-method", "initialize")];
    let reply = http("POST", &new.url(), &headers, &initialize("2025-11-25")).await.unwrap();
    assert_eq!(reply.json().await["error"]["code"], -32601);
}

#[tokio::test]
async fn progress_streams_while_the_call_is_held() {
    let steps = [Step::Progress(1), Step::Hold, Step::Progress(2), Step::log("info", "x"), Step::Echo];
    let upstream = Upstream::http(Script::new("a").tool("t", steps)).await;
    let session = open(&upstream).await;
    let params = json!({"name": "t", "_meta": {"progressToken": "p"}});
    let mut reply = post(&upstream, &session, &request(2, "tools/call", params)).await;
    assert_eq!(reply.message().await["params"], json!({"progressToken": "p", "progress": 1}));
    upstream.release("t").await;
    assert_eq!(reply.message().await["params"]["progress"], 2);
    assert_eq!(reply.message().await["params"]["progress"], 3);
    assert_eq!(reply.message().await["method"], "notifications/message");
    assert_eq!(text(&reply.message().await), "absent");
    assert_eq!(reply.event().await, None);
}

#[tokio::test]
async fn a_stream_closed_early_goes_on_for_who_resumes_it() {
    let upstream = Upstream::http(Script::new("a").tool("t", [Step::Park, Step::log("info", "x"), Step::Name])).await;
    let session = open(&upstream).await;
    let parked = post(&upstream, &session, &call(2, "t")).await.bytes().await.unwrap();
    let id = std::str::from_utf8(&parked).unwrap().lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    for (event, status) in [("other", 400), (id, 200), (id, 400)] {
        let headers = [("mcp-session-id", session.as_str()), ("last-event-id", event)];
        let mut rest = http("GET", &upstream.url(), &headers, "").await.unwrap();
        assert_eq!(rest.status, status);
        if status == 200 {
            assert_eq!(rest.message().await["method"], "notifications/message");
            assert_eq!(text(&rest.message().await), "a");
        }
    }
}

#[tokio::test]
async fn a_legacy_peer_is_asked_on_the_stream_of_its_call() {
    let upstream =
        Upstream::http(Script::new("a").tool("t", [Step::elicit("who?"), Step::roots(), Step::Answers])).await;
    let session = open(&upstream).await;
    let mut reply = post(&upstream, &session, &call(2, "t")).await;
    let question = reply.message().await;
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    assert_eq!(post(&upstream, &session, &answer.to_string()).await.status, 202);
    let question = reply.message().await;
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32601, "message": "no"}});
    post(&upstream, &session, &answer.to_string()).await;
    let answers: Value = serde_json::from_str(&text(&reply.message().await)).unwrap();
    assert_eq!(answers, json!([{"action": "decline"}, {"error": {"code": -32601, "message": "no"}}]));
}

#[tokio::test]
async fn a_modern_peer_is_asked_in_rounds_and_its_state_is_checked() {
    let steps = [Step::elicit("who?"), Step::sample("hi"), Step::Progress(1), Step::roots(), Step::Answers];
    let upstream = Upstream::http(Script::new("a").tool("t", steps)).await;
    let ask = async |params: &Value| {
        post_modern(&upstream.url(), &modern(1, "tools/call", params.clone())).await.json().await
    };
    let mut params = json!({"name": "t"});
    let first = ask(&params).await["result"].clone();
    assert_eq!(first["inputRequests"].as_object().unwrap().len(), 2);
    params["requestState"] = first["requestState"].clone();
    params["inputResponses"] = json!({"q0": {"action": "accept"}, "q1": {"role": "assistant"}});
    let second = ask(&params).await["result"].clone();
    assert_eq!(second["inputRequests"], json!({"q3": {"method": "roots/list", "params": {}}}));
    params["requestState"] = second["requestState"].clone();
    params["inputResponses"] = json!({"q3": {"roots": []}});
    let answers: Value = serde_json::from_str(&text(&ask(&params).await)).unwrap();
    assert_eq!(answers, json!([{"action": "accept"}, {"role": "assistant"}, {"roots": []}]));
    params["requestState"] = "forged".into();
    assert_eq!(ask(&params).await["error"]["code"], -32602);
}

#[tokio::test]
async fn pages_come_as_scripted() {
    let script = || Script::new("a").tool("1", []).tool("2", []).tool("3", []);
    let cases = [
        (Paging::Whole, json!(null), "absent", 3),
        (Paging::Of(2), json!(null), "\"from-2\"", 2),
        (Paging::Of(2), json!("from-2"), "absent", 1),
        (Paging::NullAtEnd(2), json!("from-2"), "null", 1),
        (Paging::Repeating, json!("x"), "\"x\"", 3),
    ];
    for (paging, cursor, next, count) in cases {
        let upstream = Upstream::http(script().with(|script| script.paging = paging)).await;
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let list = post_modern(&upstream.url(), &modern(1, "tools/list", params)).await.json().await["result"].clone();
        assert_eq!(list["tools"].as_array().unwrap().len(), count, "{paging:?}");
        assert_eq!(list.get("nextCursor").map_or("absent".into(), Value::to_string), next, "{paging:?}");
    }
}

#[tokio::test]
async fn a_change_reaches_legacy_streams_and_modern_listens() {
    let upstream = Upstream::http(Script::new("a").tool("old", [])).await;
    let session = open(&upstream).await;
    let mut stream = http("GET", &upstream.url(), &[("mcp-session-id", &session)], "").await.unwrap();
    let wish = json!({"notifications": {"toolsListChanged": true}});
    let mut listen = post_modern(&upstream.url(), &modern(7, "subscriptions/listen", wish)).await;
    assert_eq!(listen.message().await["method"], "notifications/subscriptions/acknowledged");
    upstream.set_tools([tool("new")]).await;
    upstream.announce_tools().await;
    assert_eq!(stream.message().await["method"], "notifications/tools/list_changed");
    let changed = listen.message().await;
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    let list = post_modern(&upstream.url(), &modern(8, "tools/list", json!({}))).await.json().await;
    assert_eq!(list["result"]["tools"][0]["name"], "new");
}

#[tokio::test]
async fn http_misbehaves_as_scripted() {
    let script = Script::new("a").tool("t", [Step::Name]).with(|script| {
        script.http.redirect = true;
        script.http.strict_accept = true;
    });
    let upstream = Upstream::http(script).await;
    let moved = http("POST", &upstream.url(), &[BOTH], &initialize("2025-06-18")).await.unwrap();
    assert_eq!((moved.status, moved.header("location")), (307, "/mcp/"));
    let url = format!("{}/", upstream.url());
    assert_eq!(http("POST", &url, &[("accept", "*/*")], "{}").await.unwrap().status, 406);
    assert_eq!(http("POST", &url, &[BOTH], &initialize("2025-06-18")).await.unwrap().status, 200);

    let script = Script::new("a").tool("t", [Step::Name]).with(|script| {
        script.http.answer = Answer::Sse;
        script.http.crlf = true;
        script.http.strict_version = true;
        script.http.forget_after = Some(2);
        script.http.lost_status = 400;
    });
    let upstream = Upstream::http(script).await;
    let mut reply = http("POST", &upstream.url(), &[BOTH], &initialize("2025-06-18")).await.unwrap();
    assert_eq!(reply.header("content-type"), "text/event-stream");
    let session = reply.header("mcp-session-id").to_owned();
    assert_eq!(reply.message().await["id"], 1);
    let wrong = [BOTH, ("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    assert_eq!(http("POST", &upstream.url(), &wrong, &call(2, "t")).await.unwrap().status, 400);
    let raw = post(&upstream, &session, &call(2, "t")).await.bytes().await.unwrap();
    assert!(raw.ends_with(b"\r\n\r\n"));
    let lost = post(&upstream, &session, &call(3, "t")).await;
    assert_eq!((lost.status, lost.json().await["id"].clone()), (400, Value::Null));
}

#[tokio::test]
async fn answers_can_be_compressed_wrong_or_cut_off() {
    let script = Script::new("a")
        .tool("garbage", [Step::Garbage("<html>".into())])
        .tool("status", [Step::Status(503, "busy".into())])
        .tool("error", [Step::Error(r#"{"code":7,"message":"m","data":1.10}"#.into())])
        .tool("huge", [Step::Huge(1 << 20)])
        .tool("die", [Step::Die])
        .tool("late", [Step::Noise(": noise".into()), Step::Hold, Step::Die])
        .with(|script| (script.http.gzip, script.http.sessions) = (true, false));
    let upstream = Upstream::http(script).await;
    let reply = async |tool: &str| http("POST", &upstream.url(), &[], &call(1, tool)).await;
    assert_eq!(reply("garbage").await.unwrap().bytes().await.unwrap(), "<html>");
    assert_eq!(reply("status").await.unwrap().status, 503);
    let error = reply("error").await.unwrap().bytes().await.unwrap();
    assert_eq!(error, r#"{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"m","data":1.10}}"#);
    assert!(reply("huge").await.unwrap().bytes().await.unwrap().len() > 1 << 20);
    assert!(reply("die").await.is_err());
    let late = reply("late").await.unwrap();
    upstream.release("late").await;
    assert!(late.bytes().await.is_err());
    let zipped = http("POST", &upstream.url(), &[("accept-encoding", "gzip")], &call(1, "garbage")).await.unwrap();
    assert_eq!(zipped.header("content-encoding"), "gzip");
    // CRC-32 of "<html>", by another implementation.
    let (bytes, crc) = (zipped.bytes().await.unwrap(), 0xc743_0c41_u32.to_le_bytes());
    assert_eq!(bytes[bytes.len() - 8..bytes.len() - 4], crc);
}

#[tokio::test]
async fn a_peer_that_hangs_up_is_noticed() {
    let upstream = Upstream::http(Script::new("a").tool("t", [Step::Progress(1), Step::Never])).await;
    let params = json!({"name": "t", "_meta": {"progressToken": 1}});
    let mut reply = post_modern(&upstream.url(), &modern(5, "tools/call", params)).await;
    reply.message().await;
    drop(reply);
    assert_eq!(upstream.wait_for(|got| got.is_gone()).await.id(), Some("5".into()));
}

#[tokio::test]
async fn it_can_be_killed_and_revived_on_the_same_port() {
    let upstream = Upstream::http(Script::new("a").tool("t", [Step::Never])).await;
    let session = open(&upstream).await;
    let mut stream = http("GET", &upstream.url(), &[("mcp-session-id", &session)], "").await.unwrap();
    upstream.kill().await;
    assert_eq!(stream.event().await, None);
    assert!(http("POST", &upstream.url(), &[], "{}").await.is_err());
    upstream.revive().await;
    assert_eq!(post(&upstream, &session, &call(1, "t")).await.status, 404);
    assert_eq!(upstream.count("initialize"), 1);
}
