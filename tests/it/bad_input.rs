//! What is not a request, or not one for us, is refused with the status and code of protocol.md §11, and hurts nobody.

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::app::{Gateway, PATIENCE};
use crate::support::client::{Client, MODERN};
use crate::support::exact::{initialize, modern, post, request, send};
use crate::support::upstream::{Script, Upstream};

const LIST: [(&str, &str); 2] = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];

async fn gateway() -> (Gateway, Upstream) {
    let upstream = Upstream::http(Script::new("a").tool("echo", [])).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    (gateway, upstream)
}

fn list() -> String {
    modern(json!(1), "tools/list", json!({}))
}

#[tokio::test]
async fn texts_that_are_no_messages_are_400_without_an_id() {
    let (gateway, _upstream) = gateway().await;
    let parse = (400, -32700, Value::Null);
    let invalid = (400, -32600, Value::Null);
    let mut wrong = Vec::new();
    for (body, want) in [
        (&b""[..], &parse),
        (b"{", &parse),
        (b"nonsense", &parse),
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#, &parse),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xff\"}", &parse),
        (b"5", &invalid),
        (b"null", &invalid),
        (b"\"ping\"", &invalid),
        (b"{}", &invalid),
        (b"[]", &invalid),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, &invalid),
        (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, &invalid),
        (br#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, &invalid),
        (br#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, &invalid),
        (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, &invalid),
    ] {
        let told = post(&gateway.url(), &[], body.to_vec()).await;
        if told.brief() != *want {
            wrong.push(format!("{}: wanted {want:?}, got {told:?}", String::from_utf8_lossy(body)));
        }
    }
    for body in [
        r#"{"id":3,"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":5}"#,
    ] {
        let told = post(&gateway.url(), &[], body).await;
        if told.brief() != (400, -32600, json!(3)) {
            wrong.push(format!("{body}: {told:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    gateway.stop().await;
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_403_and_the_setting_is_named() {
    let (gateway, upstream) = gateway().await;
    for (headers, setting) in [
        (("host", "evil.example.com"), "allowedHosts"),
        (("origin", "http://evil.example"), "allowedOrigins"),
        (("origin", "null"), "allowedOrigins"),
    ] {
        for body in [list(), initialize("2025-11-25")] {
            let told = post(&gateway.url(), &[LIST[0], LIST[1], headers], body).await;
            assert_eq!((told.status.as_u16(), told.body.get("id")), (403, None), "{headers:?}: {told:?}");
            assert!(told.message().contains(setting), "{headers:?}: {}", told.message());
        }
        for verb in [Method::GET, Method::DELETE, Method::OPTIONS, Method::PUT] {
            assert_eq!(send(&gateway.url(), verb, &[headers], "").await.status, 403);
        }
    }
    for headers in [("host", "localhost"), ("host", "localhost:1"), ("origin", "http://localhost:3000")] {
        assert_eq!(post(&gateway.url(), &[LIST[0], LIST[1], headers], list()).await.status, 200, "{headers:?}");
    }
    assert_eq!(upstream.count("tools/call"), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_host_that_the_configuration_allows_is_served_with_and_without_a_port() {
    let upstream = Upstream::http(Script::new("a")).await;
    let config = json!({
        "mcpServers": {"a": upstream.config()},
        "allowedHosts": ["gateway"],
        "allowedOrigins": ["https://app.example"],
    });
    let gateway = Gateway::with(config).await;
    for (header, status) in [
        (("host", "gateway"), 200),
        (("host", "gateway:8080"), 200),
        (("host", "gateway.evil.example"), 403),
        (("origin", "https://app.example"), 200),
        (("origin", "https://app.example.evil"), 403),
    ] {
        assert_eq!(post(&gateway.url(), &[LIST[0], LIST[1], header], list()).await.status, status, "{header:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn other_methods_are_405_and_the_allowed_ones_are_named() {
    let (gateway, _upstream) = gateway().await;
    for verb in [Method::PUT, Method::PATCH, Method::OPTIONS, Method::HEAD, Method::TRACE] {
        let told = send(&gateway.url(), verb.clone(), &[], "").await;
        assert_eq!((told.status.as_u16(), told.header("allow")), (405, "POST, GET, DELETE"), "{verb}: {told:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn content_and_accept_are_checked_leniently() {
    let (gateway, _upstream) = gateway().await;
    for (header, status) in [
        (("content-type", "text/plain"), 415),
        (("content-type", "application/x-www-form-urlencoded"), 415),
        (("content-type", "application/json; charset=latin1"), 415),
        (("content-type", "application/json; charset=utf-8"), 200),
        (("accept", "text/html"), 406),
        (("accept", "*/*"), 200),
        (("accept", "application/json"), 200),
        (("accept", "text/event-stream"), 200),
        (("content-encoding", "gzip"), 415),
    ] {
        let told = post(&gateway.url(), &[LIST[0], LIST[1], header], list()).await;
        assert_eq!(told.status.as_u16(), status, "{header:?}: {told:?}");
        if status == 200 {
            let form = if header.1 == "text/event-stream" { header.1 } else { "application/json" };
            assert_eq!(told.header("content-type"), form, "{header:?}");
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn too_much_is_refused_with_the_limit() {
    let upstream = Upstream::http(Script::new("a").tool("echo", [])).await;
    let config = json!({"mcpServers": {"a": upstream.config()}, "limits": {"body": "10KiB", "headers": "2KiB"}});
    let gateway = Gateway::with(config).await;
    let long = "x".repeat(3 << 10);
    let told = post(&gateway.url(), &[LIST[0], LIST[1], ("x-long", &long)], list()).await;
    assert_eq!((told.status.as_u16(), told.code(), told.body.get("id")), (431, -32600, None));
    let big = modern(json!(1), "tools/call", json!({"name": "echo", "arguments": {"x": "x".repeat(11 << 10)}}));
    let told = post(&gateway.url(), &LIST, big).await;
    assert_eq!((told.status.as_u16(), told.code(), told.body.get("id")), (413, -32600, None));
    assert!(told.message().contains("10240"), "{}", told.message());
    // Without a length, too.
    let address = gateway.url();
    let authority = address.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let mut stream = tokio::net::TcpStream::connect(&authority).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("2c00\r\n{}\r\n", " ".repeat(0x2c00));
    stream.write_all(chunk.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut start)).await.expect("an answer in time").unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
    assert_eq!(upstream.count("tools/call"), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn unknown_names_are_named_in_a_json_rpc_error_with_200() {
    let upstream = Upstream::http(Script::new("a").tool("echo", []).prompt("greet").resource("file:///a")).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    let modern = Client::modern(&gateway.url());
    let legacy = Client::legacy(&gateway.url(), "2025-06-18", json!({})).await;
    for (client, not_found) in [(&modern, -32602), (&legacy, -32002)] {
        for (method, params, name, code) in [
            ("tools/call", json!({"name": "a__nope"}), "a__nope", -32602),
            ("prompts/get", json!({"name": "a__nope"}), "a__nope", -32602),
            ("resources/read", json!({"uri": "nope://x"}), "nope://x", not_found),
        ] {
            let reply = client.open(method, params).await;
            assert_eq!(reply.status, 200, "{method}");
            let error = reply.last().await["error"].clone();
            assert_eq!(error["code"], code, "{method}: {error}");
            let said = format!("{} {}", error["message"], error["data"]);
            assert!(said.contains(name), "{method}: {error}");
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn paths_without_a_server_are_404() {
    let (gateway, _upstream) = gateway().await;
    for url in [gateway.url_of("nobody"), gateway.url().replace("/mcp", "/other"), gateway.url().replace("/mcp", "/")] {
        let told = post(&url, &LIST, list()).await;
        assert_eq!(told.status, 404, "{url}");
        assert!(told.message().contains("/mcp"), "{url}: {told:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn arrays_are_for_sessions_of_2025_03_26_only() {
    let (gateway, _upstream) = gateway().await;
    let batch = format!(
        "[{},{},{}]",
        request(json!(1), "ping", json!({})),
        request(json!("1"), "tools/list", json!({})),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#
    );
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let client = Client::legacy(&gateway.url(), revision, json!({})).await;
        let told = post(&gateway.url(), &[("mcp-session-id", client.session())], batch.clone()).await;
        assert_eq!(told.brief(), (400, -32600, Value::Null), "{revision}");
    }
    let client = Client::legacy(&gateway.url(), "2025-03-26", json!({})).await;
    let session = [("mcp-session-id", client.session())];
    let told = post(&gateway.url(), &session, batch).await;
    assert_eq!(told.status, 200);
    let answers = told.body.as_array().unwrap();
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().any(|a| a["id"] == 1 && a["result"] == json!({})));
    assert!(answers.iter().any(|a| a["id"] == "1" && a["result"]["tools"][0]["name"] == "a__echo"));
    let quiet = r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#;
    assert_eq!(post(&gateway.url(), &session, quiet).await.status, 202);
    assert_eq!(post(&gateway.url(), &session, "[]").await.brief(), (400, -32600, Value::Null));
    let many = format!("[{}]", vec![request(json!(1), "ping", json!({})); 51].join(","));
    assert_eq!(post(&gateway.url(), &session, many).await.brief(), (400, -32600, Value::Null));
    let inside = post(&gateway.url(), &session, format!("[{}]", initialize("2025-03-26"))).await;
    assert_eq!(inside.body[0]["error"]["code"], -32600, "{inside:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn what_two_readers_could_read_differently_is_not_read() {
    let (gateway, upstream) = gateway().await;
    let client = Client::legacy(&gateway.url(), "2025-06-18", json!({})).await;
    let session = [("mcp-session-id", client.session())];
    let mut wrong = Vec::new();
    let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__echo","name":"a__other"}}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a__echo","arguments":{deep}}}}}"#),
    ] {
        let told = post(&gateway.url(), &session, body.clone()).await;
        if told.status != 400 || told.code() != -32700 {
            wrong.push(format!("{}: {told:?}", &body[..body.len().min(100)]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(upstream.count("tools/call"), 0);
    gateway.stop().await;
}
