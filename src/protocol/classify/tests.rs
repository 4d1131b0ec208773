//! Each row of the tables in protocol.md §1.2, §1.3 and §1.4 is a row here.

use http::{HeaderName, HeaderValue};

use super::*;
use crate::protocol::jsonrpc::Reading;

const MODERN: &str = "2026-07-28";

/// Header names and values.
type Pairs<'a> = &'a [(&'a str, &'a str)];

fn headers(pairs: Pairs<'_>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    map
}

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

fn with_meta(version: &str, rest: &str) -> String {
    format!(
        r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientCapabilities":{{}}}}{rest}}}"#
    )
}

/// The outcome in short: what it is, or status and code.
fn posted(text: &str, pairs: Pairs<'_>) -> String {
    let headers = headers(pairs);
    let message = jsonrpc::parse(text, Reading::Strict).unwrap();
    match classify_http(&headers, &message) {
        Ok(Posted::Modern(call)) => format!("modern {}", call.method.as_str()),
        Ok(Posted::Ignored) => "ignored".into(),
        Ok(Posted::Handshake { session }) => format!("handshake {session:?}"),
        Ok(Posted::InSession(session)) => format!("session {session}"),
        Err(refusal) => format!("{} {}", refusal.status.as_u16(), refusal.code),
    }
}

#[test]
fn an_array_needs_a_session() {
    assert_eq!(classify_batch(&headers(&[("mcp-session-id", "s")])).unwrap(), "s");
    let refusal = classify_batch(&headers(&[])).unwrap_err();
    assert_eq!((refusal.status.as_u16(), refusal.code), (400, -32600));
}

#[test]
fn the_first_matching_rule_decides_the_era() {
    let v = "mcp-protocol-version";
    let s = "mcp-session-id";
    let full = [(v, MODERN), ("mcp-method", "tools/list")];
    let stale = [(v, MODERN), ("mcp-method", "tools/list"), (s, "old")];
    let list = request("tools/list", "{}");
    let modern = request("tools/list", &with_meta(MODERN, ""));
    let init = request("initialize", r#"{"protocolVersion":"2025-11-25"}"#);
    let only_capabilities =
        request("server/discover", r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}"#);
    let table: &[(&str, Pairs<'_>, &str)] = &[
        // 2: metadata makes it modern, whatever the headers say
        (&modern, &full, "modern tools/list"),
        (&modern, &stale, "modern tools/list"),
        (&only_capabilities, &[(v, MODERN), ("mcp-method", "server/discover")], "400 -32602"),
        (&request("initialize", &with_meta(MODERN, "")), &[(v, MODERN), ("mcp-method", "initialize")], "404 -32601"),
        (&request("ping", &with_meta(MODERN, "")), &[(v, MODERN), ("mcp-method", "ping"), (s, "x")], "404 -32601"),
        // 3: initialize is a handshake under any header
        (&init, &[], "handshake None"),
        (&init, &[(v, MODERN)], "handshake None"),
        (&init, &[(s, "x")], r#"handshake Some("x")"#),
        // 4: a version that is not legacy
        (&list, &[(v, MODERN)], "400 -32602"),
        (&list, &[(v, "v999.0.0")], "400 -32602"),
        (&list, &[(v, MODERN), (s, "x")], "400 -32602"),
        // 5: in a session
        (&list, &[(s, "x")], "session x"),
        (&list, &[(s, "x"), (v, "2025-06-18")], "session x"),
        (&request("server/discover", "{}"), &[(s, "x")], "session x"),
        // 6: modern methods without metadata
        (&request("server/discover", "{}"), &[], "400 -32020"),
        (&request("subscriptions/listen", "{}"), &[], "400 -32020"),
        (&request("tasks/update", "{}"), &[], "400 -32020"),
        (&request("server/discover", "{}"), &[(v, "2025-11-25")], "400 -32602"),
        // 7 and 8: no session, or no idea
        (&list, &[(v, "2025-03-26")], "400 -32600"),
        (&list, &[(v, "2025-11-25")], "400 -32600"),
        (&list, &[(v, "2024-11-05")], "400 -32600"),
        (&list, &[], "400 -32600"),
    ];
    for (text, pairs, want) in table {
        assert_eq!(posted(text, pairs), *want, "{text} {pairs:?}");
    }
}

#[test]
fn a_homeless_request_is_told_what_to_do() {
    for (pairs, reason) in [
        (&[("mcp-protocol-version", "2025-06-18")][..], "session_required"),
        (&[("mcp-protocol-version", "2024-11-05")][..], "unclassifiable"),
        (&[][..], "unclassifiable"),
    ] {
        let headers = headers(pairs);
        let text = request("tools/list", "{}");
        let refusal = classify_http(&headers, &jsonrpc::parse(&text, Reading::Strict).unwrap()).unwrap_err();
        assert_eq!(refusal.reason, reason);
        assert!(refusal.message.contains("initialize"));
    }
    assert!(Revision::ALL.iter().all(|r| unclassifiable().message.contains(r.as_str())));
}

#[test]
fn notifications_and_responses_of_each_era() {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let response = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let modern_note = format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{}}}"#, with_meta(MODERN, ""));
    let v = "mcp-protocol-version";
    for (text, pairs, want) in [
        (note, &[(v, MODERN)][..], "ignored"),
        (note, &[(v, "v999")], "400 -32022"),
        (&modern_note, &[], "ignored"),
        (&modern_note, &[("mcp-session-id", "x")], "ignored"),
        (note, &[("mcp-session-id", "x")], "session x"),
        (note, &[], "400 -32600"),
        (response, &[("mcp-session-id", "x")], "session x"),
        (response, &[(v, MODERN)], "400 -32600"),
        (response, &[(v, MODERN), ("mcp-session-id", "x")], "400 -32600"),
        (response, &[], "400 -32600"),
    ] {
        assert_eq!(posted(text, pairs), want, "{text} {pairs:?}");
    }
}

#[test]
fn the_modern_pipeline_checks_in_the_order_of_the_page() {
    let v = "mcp-protocol-version";
    let m = "mcp-method";
    let n = "mcp-name";
    let call = |rest: &str| request("tools/call", &with_meta(MODERN, rest));
    let named = call(r#","name":"a__b""#);
    let meta = |text: &str| request("tools/list", &format!(r#"{{"_meta":{text}}}"#));
    let table: &[(&str, Pairs<'_>, &str)] = &[
        // 1 before 2
        (&meta(r#"{"io.modelcontextprotocol/protocolVersion":7}"#), &[], "400 -32020"),
        (&named, &[(m, "tools/call"), (n, "a__b")], "400 -32020"),
        (&named, &[(v, MODERN), (v, MODERN), (m, "tools/call"), (n, "a__b")], "400 -32020"),
        // 2 before 3
        (&meta(r#"{"io.modelcontextprotocol/protocolVersion":7}"#), &[(v, "x")], "400 -32602"),
        (&meta(r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#), &[(v, MODERN)], "400 -32602"),
        (
            &meta(
                r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}"#,
            ),
            &[(v, MODERN)],
            "400 -32602",
        ),
        (&meta("[]"), &[(v, MODERN)], "400 -32602"),
        // 3 before 4
        (&request("tools/list", &with_meta("v999.0.0", "")), &[(v, MODERN)], "400 -32020"),
        // 4 before 5
        (&request("tools/list", &with_meta("v999.0.0", "")), &[(v, "v999.0.0")], "400 -32022"),
        (&request("tools/list", &with_meta("2025-11-25", "")), &[(v, "2025-11-25")], "400 -32022"),
        // 5 before 6
        (&request("no/such", &with_meta(MODERN, "")), &[(v, MODERN)], "400 -32020"),
        (&request("tools/list", &with_meta(MODERN, "")), &[(v, MODERN), (m, "Tools/list")], "400 -32020"),
        // 6
        (&request("no/such", &with_meta(MODERN, "")), &[(v, MODERN), (m, "no/such")], "404 -32601"),
        (&request("logging/setLevel", &with_meta(MODERN, "")), &[(v, MODERN), (m, "logging/setLevel")], "404 -32601"),
        // 7
        (&named, &[(v, MODERN), (m, "tools/call")], "400 -32020"),
        (&named, &[(v, MODERN), (m, "tools/call"), (n, "A__b")], "400 -32020"),
        (&named, &[(v, MODERN), (m, "tools/call"), (n, "=?base64?YV9fYg==?=")], "modern tools/call"),
        (&named, &[(v, MODERN), (m, "tools/call"), (n, "=?base64?YV9fYg=?=")], "400 -32020"),
        (&named, &[(v, MODERN), (m, "tools/call"), (n, "a__b")], "modern tools/call"),
        (&call(""), &[(v, MODERN), (m, "tools/call"), (n, "a__b")], "400 -32020"),
        (&call(""), &[(v, MODERN), (m, "tools/call")], "400 -32020"),
        (
            &request("resources/read", &with_meta(MODERN, r#","uri":"file:///a""#)),
            &[(v, MODERN), (m, "resources/read"), (n, "file:///a")],
            "modern resources/read",
        ),
        // an extra name is ignored
        (
            &request("tools/list", &with_meta(MODERN, "")),
            &[(v, MODERN), (m, "tools/list"), (n, "z")],
            "modern tools/list",
        ),
    ];
    for (text, pairs, want) in table {
        assert_eq!(posted(text, pairs), *want, "{text} {pairs:?}");
    }
}

#[test]
fn log_levels_are_read_and_bad_ones_refused_with_200() {
    for (level, want) in [("\"debug\"", "modern tools/list"), ("\"loud\"", "200 -32602"), ("7", "200 -32602")] {
        let text = request(
            "tools/list",
            &format!(
                r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/logLevel":{level}}}}}"#
            ),
        );
        let got = posted(&text, &[("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")]);
        assert_eq!(got, want, "{level}");
    }
}

#[test]
fn an_unserved_version_is_echoed_beside_those_to_try_instead() {
    let data = served("2025-11-25").unwrap_err().data.unwrap();
    assert_eq!(data, r#"{"supported":["2026-07-28"],"requested":"2025-11-25"}"#);
    assert!(served("v\"999").unwrap_err().data.unwrap().ends_with(r#""requested":"v\"999"}"#));
}

#[test]
fn lines_of_stdio() {
    let short = |text: &str, shaken| match classify_line(&jsonrpc::parse(text, Reading::Strict).unwrap(), shaken) {
        Ok(Line::Modern(call)) => format!("modern {}", call.method.as_str()),
        Ok(Line::Ignored(_)) => "ignored".into(),
        Ok(line) => format!("{line:?}"),
        Err(refusal) => refusal.code.to_string(),
    };
    let modern = request("tools/list", &with_meta(MODERN, ""));
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let response = r#"{"jsonrpc":"2.0","id":"gw-1","result":{}}"#;
    for (text, before, after) in [
        (modern.as_str(), "modern tools/list", "modern tools/list"),
        (&request("server/discover", &with_meta(MODERN, "")), "modern server/discover", "modern server/discover"),
        (&request("server/discover", "{}"), "-32602", "Legacy"),
        (&request("initialize", "{}"), "Handshake", "Handshake"),
        (&request("initialize", &with_meta(MODERN, "")), "-32601", "-32601"),
        (&request("tools/list", &with_meta("v999", "")), "-32022", "-32022"),
        (&request("tools/list", r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}"#), "-32602", "-32602"),
        (&request("ping", "{}"), "EarlyPing", "Legacy"),
        (&request("tools/list", "{}"), "-32600", "Legacy"),
        (cancelled, "Cancel", "Cancel"),
        (initialized, "ignored", "Legacy"),
        (response, "ignored", "Legacy"),
    ] {
        assert_eq!(short(text, false), before, "{text}");
        assert_eq!(short(text, true), after, "{text}");
    }
}

#[test]
fn a_refusal_names_the_id_only_where_there_is_one() {
    let refusal = session_required();
    assert!(refusal.body(Some("\"a\"")).starts_with(br#"{"jsonrpc":"2.0","id":"a","error":"#));
    assert!(refusal.body(None).starts_with(br#"{"jsonrpc":"2.0","error":"#));
}
