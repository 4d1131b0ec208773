//! Which era a POST belongs to (protocol.md §1.2), and the checks of a modern one (§1.3), row by row over a real socket.

use http::Method;
use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, MODERN};
use crate::support::exact::{initialize, meta, modern, post, request, send};
use crate::support::upstream::{Script, Upstream};

type Headers<'a> = &'a [(&'a str, &'a str)];

const VERSION: (&str, &str) = ("mcp-protocol-version", MODERN);
const LEGACY: (&str, &str) = ("mcp-protocol-version", "2025-11-25");
const CALL: (&str, &str) = ("mcp-method", "tools/call");
const LIST: (&str, &str) = ("mcp-method", "tools/list");
const NAME: (&str, &str) = ("mcp-name", "echo");

async fn gateway() -> (Gateway, Upstream) {
    let upstream = Upstream::http(Script::new("a").tool("echo", [])).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    gateway.wait_state("a", "ready").await;
    (gateway, upstream)
}

/// Every row: what it shows, headers, body, and the status, code (0: no error) and id (null: none) that it gets.
async fn check(gateway: &Gateway, rows: &[(&str, Headers<'_>, String, (u16, i64, Value))]) {
    let mut wrong = Vec::new();
    for url in [gateway.url(), gateway.url_of("a")] {
        for (what, headers, body, want) in rows {
            let told = post(&url, headers, body.clone()).await;
            if told.brief() != *want {
                wrong.push(format!("{what} at {url}: wanted {want:?}, got {told:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn bare(id: u64, method: &str) -> String {
    request(json!(id), method, json!({}))
}

fn with_meta(id: u64, method: &str, meta: Value) -> String {
    request(json!(id), method, json!({"_meta": meta}))
}

#[tokio::test]
async fn each_way_in_is_told_apart() {
    let (gateway, _upstream) = gateway().await;
    let none = Value::Null;
    let response = r#"{"jsonrpc":"2.0","id":4,"result":{}}"#.to_owned();
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#.to_owned();
    let only = |key: &str| {
        meta()
            .as_object()
            .unwrap()
            .iter()
            .filter(|(k, _)| k.ends_with(key))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect::<serde_json::Map<_, _>>()
    };
    let stale = ("mcp-session-id", "gone");
    check(
        &gateway,
        &[
            ("1 an array without a session", &[], format!("[{}]", bare(1, "ping")), (400, -32600, none.clone())),
            (
                "1 an array with an unknown session",
                &[stale],
                format!("[{}]", bare(1, "ping")),
                (404, -32600, none.clone()),
            ),
            (
                "2 version alone is modern",
                &[VERSION, LIST],
                with_meta(2, "tools/list", only("protocolVersion").into()),
                (400, -32602, json!(2)),
            ),
            (
                "2 capabilities alone are modern",
                &[VERSION, LIST],
                with_meta(2, "tools/list", only("clientCapabilities").into()),
                (400, -32602, json!(2)),
            ),
            (
                "2 a stale session does not matter",
                &[VERSION, LIST, stale],
                modern(json!(2), "tools/list", json!({})),
                (200, 0, json!(2)),
            ),
            ("3 a handshake", &[], initialize("2025-11-25"), (200, 0, json!(0))),
            ("3 whatever version the header says", &[VERSION], initialize("2025-11-25"), (200, 0, json!(0))),
            ("3 whatever session the header says", &[LEGACY, stale], initialize("2025-11-25"), (200, 0, json!(0))),
            ("4 a modern header without metadata", &[VERSION, LIST], bare(4, "tools/list"), (400, -32602, json!(4))),
            (
                "4 an unknown version without metadata",
                &[("mcp-protocol-version", "1900-01-01"), LIST],
                bare(4, "tools/list"),
                (400, -32602, json!(4)),
            ),
            ("4 before the session", &[VERSION, LIST, stale], bare(4, "tools/list"), (400, -32602, json!(4))),
            ("5 an unknown session", &[stale, LEGACY], bare(5, "tools/list"), (404, -32600, json!(5))),
            ("5 also for a modern method", &[stale, LEGACY], bare(5, "server/discover"), (404, -32600, json!(5))),
            ("6 a modern method without a version", &[], bare(6, "server/discover"), (400, -32020, json!(6))),
            ("6 the other one", &[], bare(6, "subscriptions/listen"), (400, -32020, json!(6))),
            ("6 a modern method at a legacy version", &[LEGACY], bare(6, "server/discover"), (400, -32602, json!(6))),
            ("7 a legacy version without a session", &[LEGACY], bare(7, "tools/list"), (400, -32600, json!(7))),
            ("8 nothing to go by", &[], bare(8, "tools/list"), (400, -32600, json!(8))),
            (
                "8 the first revision has no header",
                &[("mcp-protocol-version", "2024-11-05")],
                bare(8, "tools/list"),
                (400, -32600, json!(8)),
            ),
            ("a response in the modern era", &[VERSION], response, (400, -32600, none.clone())),
            ("a notification in the modern era", &[VERSION], notification, (202, 0, none.clone())),
        ],
    )
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_modern_request_is_checked_step_by_step() {
    let (gateway, upstream) = gateway().await;
    let list = || modern(json!("x"), "tools/list", json!({}));
    let changed = |key: &str, value: Value| {
        let mut meta = meta();
        meta[format!("io.modelcontextprotocol/{key}")] = value;
        with_meta(1, "tools/list", meta)
    };
    let odd = |version: &str| changed("protocolVersion", json!(version));
    let call = |name: &str| modern(json!(1), "tools/call", json!({"name": name}));
    let x = || json!("x");
    check(
        &gateway,
        &[
            ("1 no version header", &[LIST], list(), (400, -32020, x())),
            ("1 the version header twice", &[VERSION, VERSION, LIST], list(), (400, -32020, x())),
            (
                "2 metadata is no object",
                &[VERSION, LIST],
                request(json!(1), "tools/list", json!({"_meta": 5})),
                (400, -32602, json!(1)),
            ),
            (
                "2 the version is no string",
                &[VERSION, LIST],
                changed("protocolVersion", json!(20260728)),
                (400, -32602, json!(1)),
            ),
            (
                "2 capabilities are no object",
                &[VERSION, LIST],
                changed("clientCapabilities", json!([])),
                (400, -32602, json!(1)),
            ),
            (
                "2 a malformed clientInfo is ignored",
                &[VERSION, LIST],
                changed("clientInfo", json!(7)),
                (200, 0, json!(1)),
            ),
            ("3 header and metadata differ", &[VERSION, LIST], odd("v999.0.0"), (400, -32020, json!(1))),
            (
                "4 a version that is not served",
                &[("mcp-protocol-version", "v999.0.0"), LIST],
                odd("v999.0.0"),
                (400, -32022, json!(1)),
            ),
            ("4 a legacy one is not served this way", &[LEGACY, LIST], odd("2025-11-25"), (400, -32022, json!(1))),
            ("5 no Mcp-Method", &[VERSION], list(), (400, -32020, x())),
            ("5 another method", &[VERSION, CALL], list(), (400, -32020, x())),
            ("5 another case", &[VERSION, ("mcp-method", "Tools/List")], list(), (400, -32020, x())),
            ("5 blanks around it do not count", &[VERSION, ("mcp-method", " tools/list\t")], list(), (200, 0, x())),
            ("5 Mcp-Method twice", &[VERSION, LIST, LIST], list(), (400, -32020, x())),
            ("7 no Mcp-Name", &[VERSION, CALL], call("echo"), (400, -32020, json!(1))),
            ("7 another name", &[VERSION, CALL, ("mcp-name", "other")], call("echo"), (400, -32020, json!(1))),
            ("7 another case", &[VERSION, CALL, ("mcp-name", "Echo")], call("echo"), (400, -32020, json!(1))),
            ("7 Mcp-Name twice", &[VERSION, CALL, NAME, NAME], call("echo"), (400, -32020, json!(1))),
            (
                "7 encoded, as it may be",
                &[VERSION, CALL, ("mcp-name", "=?base64?ZWNobw==?=")],
                call("echo"),
                (200, 0, json!(1)),
            ),
            (
                "7 encoded without its padding",
                &[VERSION, CALL, ("mcp-name", "=?base64?ZWNobw?=")],
                call("echo"),
                (400, -32020, json!(1)),
            ),
            (
                "7 encoded, not UTF-8",
                &[VERSION, CALL, ("mcp-name", "=?base64?//8=?=")],
                call("echo"),
                (400, -32020, json!(1)),
            ),
            (
                "7 the sentinel in another case is text",
                &[VERSION, CALL, ("mcp-name", "=?BASE64?ZWNobw==?=")],
                call("echo"),
                (400, -32020, json!(1)),
            ),
            ("7 too much is no harm", &[VERSION, LIST, NAME], list(), (200, 0, x())),
            (
                "9 a level that does not exist",
                &[VERSION, LIST],
                changed("logLevel", json!("loud")),
                (200, -32602, json!(1)),
            ),
            (
                "10 params of the wrong shape",
                &[VERSION, LIST],
                modern(json!(1), "tools/list", json!({"cursor": 7})),
                (200, -32602, json!(1)),
            ),
            (
                "10 a cursor that is not ours",
                &[VERSION, LIST],
                modern(json!(1), "tools/list", json!({"cursor": "x"})),
                (200, -32602, json!(1)),
            ),
        ],
    )
    .await;
    let headers = [VERSION, CALL, ("mcp-name", "=?BASE64?x?=")];
    let told = post(&gateway.url(), &headers, call("=?BASE64?x?=")).await;
    assert_eq!(told.brief(), (200, -32602, json!(1)), "a name like the sentinel is a name: {told:?}");
    // Twice per endpoint the table lets a call through, to one endpoint under a name that is not its own.
    assert!(upstream.count("tools/call") >= 1);
    gateway.stop().await;
}

#[tokio::test]
async fn methods_that_are_gone_or_unknown_are_404_in_the_modern_era() {
    let (gateway, _upstream) = gateway().await;
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "tasks/result",
        "tasks/list",
        "no/such",
        "",
    ] {
        let headers = [VERSION, ("mcp-method", method)];
        let told = post(&gateway.url(), &headers, modern(json!("id"), method, json!({}))).await;
        assert_eq!(told.brief(), (404, -32601, json!("id")), "{method}: {told:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_unserved_version_is_told_what_is_served() {
    let (gateway, _upstream) = gateway().await;
    let mut odd = meta();
    odd["io.modelcontextprotocol/protocolVersion"] = json!("v999.0.0");
    let headers = [("mcp-protocol-version", "v999.0.0"), LIST];
    let told = post(&gateway.url(), &headers, with_meta(1, "tools/list", odd)).await;
    let data = &told.body["error"]["data"];
    assert_eq!(data["requested"], "v999.0.0");
    assert_eq!(data["supported"][0], MODERN);
    let discovered = Client::modern(&gateway.url()).result("server/discover", json!({})).await;
    let listed = discovered["supportedVersions"].as_array().unwrap();
    assert!(data["supported"].as_array().unwrap().iter().all(|version| listed.contains(version)));
    gateway.stop().await;
}

#[tokio::test]
async fn who_cannot_be_placed_is_told_both_ways_in() {
    let (gateway, _upstream) = gateway().await;
    let told = post(&gateway.url(), &[], bare(1, "tools/list")).await;
    for word in ["initialize", "_meta", MODERN, "2024-11-05"] {
        assert!(told.message().contains(word), "{word} is missing: {}", told.message());
    }
    gateway.stop().await;
}

#[tokio::test]
async fn modern_answers_name_no_session() {
    let (gateway, _upstream) = gateway().await;
    let headers = [VERSION, LIST, ("mcp-session-id", "stale")];
    let told = post(&gateway.url(), &headers, modern(json!(1), "tools/list", json!({}))).await;
    assert_eq!((told.status.as_u16(), told.headers.contains_key("mcp-session-id")), (200, false));
    for verb in [Method::GET, Method::DELETE] {
        let told = send(&gateway.url(), verb, &[VERSION], "").await;
        assert_eq!(told.status, 405, "{told:?}");
    }
    gateway.stop().await;
}
