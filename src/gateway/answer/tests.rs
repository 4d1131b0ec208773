//! Results and errors for every pair of revisions: what an upstream of one says, as a downstream of another reads it.

use super::*;
use crate::protocol::jsonrpc::{Message, Reading};

const INFO: &str = r#"{"name":"gate"}"#;

/// The reply to `method` called with `asked`, from `body` (`"result":…` or `"error":…`).
fn replied(method: Method, asked: &str, from: Revision, to: Revision, body: &str) -> Reply {
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,{body}}}"#);
    let Ok(Message::Response(response)) = jsonrpc::parse(&text, Reading::Lenient) else { panic!("{text}") };
    let asked = Object::parse(asked).unwrap();
    let wanted = Wanted {
        id: "\"a\"",
        method,
        revision: to,
        from: from.era(),
        uri: asked.get("uri"),
        is_retry: asked.has("requestState") || asked.has("inputResponses"),
        server_info: INFO,
        server: "s",
        uris: None,
    };
    write(&response.outcome, wanted)
}

fn text(method: Method, from: Revision, to: Revision, body: &str) -> String {
    let reply = replied(method, r#"{"uri":"file:///a"}"#, from, to, body);
    let text = String::from_utf8(reply.text.to_vec()).unwrap();
    text.strip_prefix(r#"{"jsonrpc":"2.0","id":"a","#).unwrap_or_else(|| panic!("{text}")).into()
}

fn pairs() -> impl Iterator<Item = (Revision, Revision)> {
    Revision::ALL.into_iter().flat_map(|from| Revision::ALL.into_iter().map(move |to| (from, to)))
}

fn is_modern(revision: Revision) -> bool {
    revision.era() == Era::Modern
}

#[test]
fn a_result_crosses_every_pair_with_its_order_and_digits() {
    let members = r#""z":1.10,"content":[{"type":"text","text":"\u65e5"}],"structuredContent":{"n":9007199254740993},"isError":false,"a":{ "k":null }"#;
    for (from, to) in pairs() {
        let body = match is_modern(from) {
            true => format!(
                r#""result":{{"resultType":"complete",{members},"_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"theirs"}},"v/x":1e400}},"later":-0}}"#
            ),
            false => format!(
                r#""result":{{{members},"_meta":{{"io.modelcontextprotocol/related-task":{{}},"v/x":1e400}},"later":-0}}"#
            ),
        };
        let got = text(Method::ToolsCall, from, to, &body);
        let want = match (is_modern(from), is_modern(to)) {
            (_, false) => format!(r#""result":{{{members},"_meta":{{"v/x":1e400}},"later":-0}}}}"#),
            (true, true) => format!(
                r#""result":{{"resultType":"complete",{members},"_meta":{{"v/x":1e400,"io.modelcontextprotocol/serverInfo":{INFO}}},"later":-0}}}}"#
            ),
            (false, true) => format!(
                r#""result":{{{members},"_meta":{{"v/x":1e400,"io.modelcontextprotocol/serverInfo":{INFO}}},"later":-0,"resultType":"complete"}}}}"#
            ),
        };
        assert_eq!(got, want, "{from} to {to}");
    }
}

#[test]
fn new_content_reaches_each_revision_in_a_form_that_it_knows() {
    let link = r#"{"type":"resource_link","uri":"a:b","name":"n"}"#;
    let audio = r#"{"type":"audio","data":"AA==","mimeType":"audio/wav"}"#;
    for (from, to) in pairs() {
        for (method, body) in [
            (Method::ToolsCall, format!(r#""result":{{"content":[{link},{audio}]}}"#)),
            (
                Method::PromptsGet,
                format!(
                    r#""result":{{"messages":[{{"role":"user","content":{link}}},{{"role":"user","content":{audio}}}]}}"#
                ),
            ),
        ] {
            let got = text(method, from, to, &body);
            assert_eq!(got.contains(link), to >= Revision::V2025_06_18, "{from} to {to}: {got}");
            assert_eq!(got.contains(audio), to >= Revision::V2025_03_26, "{from} to {to}: {got}");
            assert_eq!(got.contains(r#""text":"n: a:b""#), to < Revision::V2025_06_18, "{from} to {to}: {got}");
        }
    }
}

#[test]
fn structured_content_of_any_type_is_for_modern_peers_and_text_for_others() {
    for (from, to) in pairs() {
        for (result, legacy) in [
            (r#"{"structuredContent":[1.10]}"#, r#"{"content":[{"type":"text","text":"[1.10]"}]"#),
            (r#"{"content":[],"structuredContent":"x"}"#, r#"{"content":[{"type":"text","text":"\"x\""}]"#),
            (
                r#"{"structuredContent":{"a":1},"content":[]}"#,
                r#"{"structuredContent":{"a":1},"content":[{"type":"text","text":"{\"a\":1}"}]"#,
            ),
            (
                r#"{"content":[{"type":"text","text":"t"}],"structuredContent":null}"#,
                r#"{"content":[{"type":"text","text":"t"}]"#,
            ),
            (r#"{"isError":true}"#, r#"{"isError":true,"content":[]"#),
        ] {
            let got = text(Method::ToolsCall, from, to, &format!("\"result\":{result}"));
            let want = if is_modern(to) { result.strip_suffix('}').unwrap() } else { legacy };
            assert!(got.strip_prefix("\"result\":").unwrap().starts_with(want), "{from} to {to}: {got} for {want}");
        }
    }
}

#[test]
fn hints_of_a_read_are_the_upstreams_own_or_none() {
    let read = |asked: &str, from, to, members: &str| {
        let body = format!(r#""result":{{"contents":[]{members}}}"#);
        let reply = replied(Method::ResourcesRead, asked, from, to, &body);
        let text = String::from_utf8(reply.text.to_vec()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let result = value["result"].clone();
        (result.get("ttlMs").cloned(), result.get("cacheScope").cloned(), result.get("resultType").cloned())
    };
    let hints = r#","resultType":"complete","ttlMs":5000,"cacheScope":"public""#;
    let told = |ttl: u64, scope: &str| (Some(ttl.into()), Some(scope.into()), Some("complete".into()));
    for (from, to) in pairs() {
        let plain = if is_modern(from) { hints } else { "" };
        let got = read(r#"{"uri":"a:b"}"#, from, to, plain);
        let want = match (is_modern(from), is_modern(to)) {
            (_, false) => (None, None, None),
            (true, true) => told(5000, "public"),
            (false, true) => told(0, "private"),
        };
        assert_eq!(got, want, "{from} to {to}");
    }
    let new = Revision::NEWEST_MODERN;
    for (members, ttl, scope) in [
        ("", 0, "private"),
        (r#","ttlMs":-1,"cacheScope":"shared""#, 0, "private"),
        (r#","ttlMs":"5","cacheScope":null"#, 0, "private"),
        (r#","ttlMs":1.5,"cacheScope":"private""#, 0, "private"),
        (r#","cacheScope":"public""#, 0, "public"),
    ] {
        assert_eq!(read("{}", new, new, members), told(ttl, scope), "{members}");
    }
    for asked in [r#"{"requestState":"s"}"#, r#"{"inputResponses":{}}"#] {
        assert_eq!(read(asked, new, new, hints), told(0, "public"), "what answers went into is kept by nobody");
    }
}

#[test]
fn members_that_only_look_modern_decide_nothing() {
    let old = Revision::V2025_06_18;
    let body = r#""result":{"content":[],"resultType":"odd","ttlMs":7}"#;
    assert_eq!(text(Method::ToolsCall, old, old, body), r#""result":{"content":[]}}"#);
    let got = text(Method::ToolsCall, old, Revision::NEWEST_MODERN, body);
    assert!(got.contains(r#""ttlMs":7,"resultType":"complete""#), "{got}");
}

#[test]
fn codes_mean_the_same_to_every_downstream() {
    for (from, to) in pairs() {
        let (new, newer) = (is_modern(from), is_modern(to));
        let not_found = if newer { -32602 } else { -32002 };
        let same = |code: i64| Some(code);
        for (method, code, message, want) in [
            (Method::ResourcesRead, -32002, "x", same(not_found)),
            (Method::ResourcesRead, -32602, "Resource not found: a", same(if new { not_found } else { -32602 })),
            (Method::ResourcesRead, -32602, "bad cursor", same(-32602)),
            (Method::ToolsCall, -32602, "tool not found", same(-32602)),
            (Method::ToolsCall, -32601, "x", same(if newer { -32602 } else { -32601 })),
            (Method::PromptsGet, -32601, "x", same(if newer { -32602 } else { -32601 })),
            (Method::Complete, -32601, "x", None),
            (Method::ToolsCall, -32603, "x", same(-32603)),
            (Method::ToolsCall, -32000, "x", same(-32000)),
            (Method::ToolsCall, -32019, "x", same(-32019)),
            (Method::ToolsCall, 7, "x", same(7)),
            (Method::ToolsCall, -32020, "x", None),
            (Method::PromptsGet, -32020, "x", same(-32603)),
            (Method::ToolsCall, -32022, "x", None),
            (Method::ResourcesRead, -32022, "x", same(-32603)),
            (Method::ToolsCall, -32021, "x", newer.then_some(-32021)),
            (Method::ResourcesRead, -32021, "x", same(if newer { -32021 } else { -32603 })),
        ] {
            let body = format!(r#""error":{{"code":{code},"message":"{message}"}}"#);
            let reply = replied(method, r#"{"uri":"a:b"}"#, from, to, &body);
            assert_eq!(reply.error, want, "{method:?} {code} {message}, {from} to {to}");
            let value: serde_json::Value = serde_json::from_slice(&reply.text).unwrap();
            assert_eq!(value["error"]["code"].as_i64(), want, "{value}");
        }
    }
}

#[test]
fn a_missing_resource_is_named_as_the_downstream_names_it() {
    let (old, new) = (Revision::V2024_11_05, Revision::NEWEST_MODERN);
    for (from, to, error, want) in [
        (old, new, r#"{"code":-32002,"message":"m"}"#, r#"{"code":-32602,"message":"m","data":{"uri":"file:///a"}}"#),
        (
            old,
            old,
            r#"{"code":-32002,"data":{"x":1.10,"uri":"a"},"message":"m"}"#,
            r#"{"code":-32002,"data":{"x":1.10,"uri":"file:///a"},"message":"m"}"#,
        ),
        (
            new,
            old,
            r#"{"code":-32602,"message":"Not found","data":{"x":1}}"#,
            r#"{"code":-32002,"message":"Not found","data":{"x":1,"uri":"file:///a"}}"#,
        ),
        (
            new,
            old,
            r#"{"code":-32602,"message":"not found","data":null}"#,
            r#"{"code":-32002,"message":"not found","data":{"uri":"file:///a"}}"#,
        ),
        (new, new, r#"{"code":-32602,"message":"bad"}"#, r#"{"code":-32602,"message":"bad"}"#),
        (old, new, r#"{"code":-32002,"message":"m","data":"d"}"#, r#"{"code":-32602,"message":"m","data":"d"}"#),
    ] {
        let got = text(Method::ResourcesRead, from, to, &format!("\"error\":{error}"));
        assert_eq!(got, format!("\"error\":{want}}}"), "{from} to {to}");
    }
}
