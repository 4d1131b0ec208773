//! The endpoint against scripted listeners on real sockets.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;

const LIST: Outgoing<'static> = Outgoing { method: Method::ToolsList, params: &[], name: None, mirrored: Vec::new() };

/// A listener that answers one request with `response`, and gives back what it was sent.
async fn scripted(tasks: &mut JoinSet<String>, response: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tasks.spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut seen = String::new();
        let mut bytes = [0; 4096];
        // Every body that is sent here ends the JSON object it is.
        while !seen.contains("\r\n\r\n") || !seen.ends_with('}') && seen.starts_with("POST") {
            let n = socket.read(&mut bytes).await.unwrap();
            seen.push_str(std::str::from_utf8(&bytes[..n]).unwrap());
        }
        socket.write_all(response.as_bytes()).await.unwrap();
        seen
    });
    url
}

fn http(status: &str, kind: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

async fn ask(response: String, outgoing: &Outgoing<'_>) -> (Result<Answer, EndpointError>, Vec<String>, String) {
    let mut tasks = JoinSet::new();
    let url = scripted(&mut tasks, response).await;
    let mut heard = Vec::new();
    let endpoint = Endpoint::new(&url, Duration::from_secs(20)).unwrap();
    let answer = endpoint.request(outgoing, &mut |method, _| heard.push(method.to_owned())).await;
    (answer, heard, tasks.join_next().await.unwrap().unwrap())
}

#[tokio::test]
async fn a_request_is_a_modern_post_with_headers_that_match_its_body() {
    let params = [("name", r#""files__läs""#), ("arguments", r#"{"n":9007199254740993}"#)];
    let outgoing =
        Outgoing { method: Method::ToolsCall, params: &params, name: Some("files__läs"), mirrored: Vec::new() };
    let (answer, _, seen) =
        ask(http("200 OK", "application/json", r#"{"jsonrpc":"2.0","id":1,"result":{"a": 1.0}}"#), &outgoing).await;
    assert!(matches!(answer, Ok(Answer::Result(text)) if text == r#"{"a": 1.0}"#));
    let (head, body) = seen.split_once("\r\n\r\n").unwrap();
    let mut headers = HeaderMap::new();
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(": ").unwrap();
        headers.insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    assert!(head.starts_with("POST /mcp HTTP/1.1"), "{head}");
    assert_eq!(headers["accept"], "application/json, text/event-stream");
    assert_eq!(headers["mcp-protocol-version"], "2026-07-28");
    header::check_method(&headers, "tools/call").unwrap();
    header::check_name(&headers, "files__läs").unwrap();
    assert!(body.contains(r#""arguments":{"n":9007199254740993}"#) && body.contains(r#""progressToken":1"#), "{body}");
    assert!(body.contains(r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#), "{body}");
}

#[tokio::test]
async fn an_event_stream_yields_notifications_then_the_answer() {
    let body = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":1}}\n\n\
                :\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";
    let (answer, heard, _) = ask(http("200 OK", "text/event-stream; charset=utf-8", body), &LIST).await;
    assert!(matches!(answer, Ok(Answer::Result(text)) if text == "{}"));
    assert_eq!(heard, ["notifications/progress"]);
}

#[tokio::test]
async fn whatever_is_no_answer_says_what_it_is() {
    for (response, want) in [
        (http("403 Forbidden", "text/plain", "not this host"), "status 403 Forbidden: not this host"),
        (http("204 No Content", "text/plain", ""), "no body"),
        (http("200 OK", "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1"), "ended before the answer"),
    ] {
        let (answer, _, _) = ask(response, &LIST).await;
        let text = answer.unwrap_err().to_string();
        assert!(text.contains(want), "{text}");
    }
}

#[tokio::test]
async fn an_rpc_error_is_an_answer_whatever_the_status() {
    let body = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"header"}}"#;
    let (answer, _, _) = ask(http("400 Bad Request", "application/json", body), &LIST).await;
    assert!(matches!(answer, Ok(Answer::Error { code: -32020, message }) if message == "header"));
}

#[tokio::test]
async fn nobody_there_is_told_from_a_wrong_url() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let error = Endpoint::new(&url, Duration::from_secs(20)).unwrap().request(&LIST, &mut |_, _| {}).await.unwrap_err();
    assert!(matches!(error, EndpointError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains(&url), "{error}");
    for bad in ["", "localhost:8080", "/mcp", "ftp://localhost/", "http://"] {
        assert!(matches!(Endpoint::new(bad, CONNECT), Err(EndpointError::Url(_))), "{bad}");
    }
}

#[tokio::test]
async fn silence_ends_with_the_time_that_was_allowed() {
    // Bound and never accepted from: the connection stands in the backlog, the answer never comes.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let endpoint = Endpoint::new(&url, Duration::from_millis(50)).unwrap();
    let error = endpoint.request(&LIST, &mut |_, _| {}).await.unwrap_err();
    assert!(error.to_string().contains("within 50ms"), "{error}");
}
