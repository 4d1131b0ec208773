//! Headers that repeat the body (protocol.md §3.4, §3.5, §4.4): checked where a modern client sends them, and computed anew
//! for each modern upstream, which knows its tools by other names.

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, MODERN};
use crate::support::exact::{modern, post};
use crate::support::pairs::Pairs;
use crate::support::upstream::{Record, Script, Upstream};

fn annotated() -> Value {
    json!({"name": "put", "inputSchema": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "n": {"type": "integer", "x-mcp-header": "Count"},
        "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}},
        "free": {"type": "string"},
    }}})
}

async fn gateway() -> (Gateway, Upstream) {
    let script =
        Script::new("s").modern_only().raw_tool(annotated()).tool("plain", []).prompt("日本").resource("file:///é x");
    let upstream = Upstream::http(script).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    gateway.wait_state("s", "ready").await;
    (gateway, upstream)
}

#[tokio::test]
async fn mirrored_arguments_are_checked_against_the_body() {
    let (gateway, upstream) = gateway().await;
    let both = json!({"region": "eu", "n": 42});
    let mut wrong = Vec::new();
    for (what, arguments, headers, good) in [
        ("all there", both.clone(), vec![("mcp-param-region", "eu"), ("mcp-param-count", "42")], true),
        ("any case of the name", both.clone(), vec![("MCP-PARAM-REGION", "eu"), ("Mcp-Param-Count", "42")], true),
        ("one is missing", both.clone(), vec![("mcp-param-region", "eu")], false),
        ("one differs", both.clone(), vec![("mcp-param-region", "us"), ("mcp-param-count", "42")], false),
        ("another case of the value", both.clone(), vec![("mcp-param-region", "EU"), ("mcp-param-count", "42")], false),
        ("the same number", both.clone(), vec![("mcp-param-region", "eu"), ("mcp-param-count", "42.0")], true),
        ("another number", both.clone(), vec![("mcp-param-region", "eu"), ("mcp-param-count", "43")], false),
        ("no number", both.clone(), vec![("mcp-param-region", "eu"), ("mcp-param-count", "x")], false),
        ("twice", both, vec![("mcp-param-region", "eu"), ("mcp-param-region", "eu"), ("mcp-param-count", "42")], false),
        ("nothing in the body", json!({"free": "x"}), vec![], true),
        ("null in the body", json!({"region": null}), vec![], true),
        ("only in the header", json!({}), vec![("mcp-param-region", "eu")], false),
        ("null in the body, not in the header", json!({"region": null}), vec![("mcp-param-region", "eu")], false),
        ("nested", json!({"deep": {"flag": true}}), vec![("mcp-param-flag", "true")], true),
        ("nested and wrong", json!({"deep": {"flag": true}}), vec![("mcp-param-flag", "false")], false),
        ("empty", json!({"region": ""}), vec![("mcp-param-region", "")], true),
        ("encoded", json!({"region": "日本"}), vec![("mcp-param-region", "=?base64?5pel5pys?=")], true),
        ("encoded badly", json!({"region": "日本"}), vec![("mcp-param-region", "=?base64?5pel5py?=")], false),
        ("one that nobody asked for", json!({}), vec![("mcp-param-other", "x")], true),
    ] {
        for (url, name) in [(gateway.url(), "s__put"), (gateway.url_of("s"), "put")] {
            let calls = upstream.count("tools/call");
            let mut all = vec![("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", name)];
            all.extend(headers.iter().copied());
            let body = modern(json!(1), "tools/call", json!({"name": name, "arguments": arguments}));
            let told = post(&url, &all, body).await;
            let want = if good { (200, 0, json!(1)) } else { (400, -32020, json!(1)) };
            if told.brief() != want || (upstream.count("tools/call") > calls) != good {
                wrong.push(format!("{what}: {told:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    gateway.stop().await;
}

fn header<'r>(got: &'r Record, name: &str) -> &'r str {
    got.header(name).unwrap_or_default()
}

#[tokio::test]
async fn an_upstream_gets_headers_that_fit_its_own_names_and_arguments() {
    let (gateway, upstream) = gateway().await;
    // A legacy client sends none of them; the upstream needs them all the same.
    let client = Client::legacy(&gateway.url(), "2025-06-18", json!({})).await;
    let arguments = json!({"region": "日本", "n": 7, "deep": {"flag": false}, "free": "x"});
    client.result("tools/call", json!({"name": "s__put", "arguments": arguments})).await;
    let call = upstream.wait_for(|got| got.method() == "tools/call").await;
    for (name, value) in [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "put"),
        ("mcp-param-region", "=?base64?5pel5pys?="),
        ("mcp-param-count", "7"),
        ("mcp-param-flag", "false"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(header(&call, name), value, "{name}");
    }
    assert!(
        header(&call, "accept").contains("application/json") && header(&call, "accept").contains("text/event-stream")
    );
    assert_eq!(header(&call, "mcp-session-id"), "");
    client.result("tools/call", json!({"name": "s__put", "arguments": {"region": null}})).await;
    let call = upstream.wait_for_nth(2, |got| got.method() == "tools/call").await;
    assert!(call.headers.keys().all(|name| !name.starts_with("mcp-param-")), "{:?}", call.headers);
    gateway.stop().await;
}

#[tokio::test]
async fn names_that_a_header_cannot_hold_are_encoded_for_the_upstream() {
    let (gateway, upstream) = gateway().await;
    let list = Client::modern(&gateway.url());
    let prompt = list.result("prompts/list", json!({})).await["prompts"][0]["name"].as_str().unwrap().to_owned();
    let uri = list.result("resources/list", json!({})).await["resources"][0]["uri"].as_str().unwrap().to_owned();
    list.result("prompts/get", json!({"name": prompt})).await;
    list.result("resources/read", json!({"uri": uri})).await;
    let got = upstream.wait_for(|got| got.method() == "prompts/get").await;
    assert_eq!((header(&got, "mcp-name"), &got.json()["params"]["name"]), ("=?base64?5pel5pys?=", &json!("日本")));
    let got = upstream.wait_for(|got| got.method() == "resources/read").await;
    assert_eq!(header(&got, "mcp-name"), "=?base64?ZmlsZTovLy/DqSB4?=");
    assert_eq!(got.json()["params"]["uri"], "file:///é x");
    gateway.stop().await;
}

#[tokio::test]
async fn only_upstreams_that_can_check_a_mirrored_argument_show_it_to_modern_clients() {
    let pairs = Pairs::over(Script::new("s").raw_tool(annotated())).await;
    let list = Client::modern(&pairs.gateway.url()).result("tools/list", json!({})).await;
    for tool in list["tools"].as_array().unwrap() {
        let shown = tool.to_string().contains("x-mcp-header");
        assert_eq!(shown, tool["name"] == "modern-http__put", "{tool}");
    }
    pairs.gateway.stop().await;
}
