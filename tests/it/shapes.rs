//! Every revision downstream over every revision upstream, at the real edge: content, lists, codes and statuses.

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::MODERN;
use crate::support::pairs::{self, REVISIONS};
use crate::support::upstream::{Script, Step, Upstream};

/// One server a revision, named `r0` to `r4`, oldest first, all with this script.
async fn over(script: Script) -> (Gateway, Vec<Upstream>) {
    let mut upstreams = Vec::new();
    for revision in REVISIONS {
        let script = script.clone();
        let only = if revision == MODERN { script.modern_only() } else { script.only_revision(revision) };
        upstreams.push(Upstream::http(only).await);
    }
    let names: Vec<_> = (0..REVISIONS.len()).map(|at| format!("r{at}")).collect();
    let servers: Vec<_> = names.iter().map(String::as_str).zip(&upstreams).collect();
    let gateway = Gateway::over(&servers).await;
    for name in &names {
        gateway.wait_state(name, "ready").await;
    }
    (gateway, upstreams)
}

#[tokio::test]
async fn each_revision_gets_content_that_it_knows() {
    let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a", "size": 3});
    let audio = json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"});
    let content = json!({"content": [link, audio], "structuredContent": [1]}).to_string();
    let messages = json!({"messages": [{"role": "user", "content": link}, {"role": "user", "content": audio}]});
    let script =
        Script::new("s").tool("t", [Step::Result(content)]).prompt("p").on("p", [Step::Result(messages.to_string())]);
    let (gateway, _upstreams) = over(script).await;
    for (down, revision) in REVISIONS.into_iter().enumerate() {
        let client = pairs::client(&gateway.url(), revision, &json!({})).await;
        for (up, from) in REVISIONS.into_iter().enumerate() {
            let called = client.result("tools/call", json!({"name": format!("r{up}__t")})).await;
            let got = client.result("prompts/get", json!({"name": format!("r{up}__p")})).await;
            let uri = format!("r{up}+file:///a");
            let both = [
                (&called["content"][0], &called["content"][1]),
                (&got["messages"][0]["content"], &got["messages"][1]["content"]),
            ];
            for (link, audio) in both {
                match down {
                    0 | 1 => assert_eq!(link["text"], format!("a: {uri}"), "{revision} from {from}"),
                    _ => assert_eq!((&link["uri"], &link["size"]), (&json!(uri), &json!(3)), "{revision} from {from}"),
                }
                assert_eq!(audio["type"], if down == 0 { "text" } else { "audio" }, "{revision} from {from}");
            }
            assert_eq!(called.get("structuredContent").is_some(), revision == MODERN, "{revision} from {from}");
            assert_eq!(called.get("resultType").is_some(), revision == MODERN, "{revision} from {from}");
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn one_tool_with_a_new_schema_does_not_spoil_an_old_clients_list() {
    let list = json!({"type": "array", "items": {}});
    let script = Script::new("s")
        .raw_tool(json!({"name": "in", "inputSchema": {"anyOf": [{}]}}))
        .raw_tool(json!({"name": "out", "inputSchema": {"type": "object", "properties": {"a": true, "b": false}},
            "outputSchema": list, "title": "T", "icons": [], "execution": {"taskSupport": "optional"}}));
    let (gateway, _upstreams) = over(script).await;
    for revision in REVISIONS {
        let client = pairs::client(&gateway.url(), revision, &json!({})).await;
        let tools = client.list("tools/list").await;
        for (up, from) in REVISIONS.into_iter().enumerate() {
            let named = |name: &str| tools.iter().find(|t| t["name"] == format!("r{up}__{name}"));
            assert_eq!(named("in").is_some(), revision == MODERN, "{revision} from {from}");
            let out = named("out").unwrap();
            let properties = &out["inputSchema"]["properties"];
            let (schema, want) = match revision == MODERN {
                true => (list.clone(), json!({"a": true, "b": false})),
                false => (Value::Null, json!({"a": {}, "b": {"not": {}}})),
            };
            assert_eq!((&out["outputSchema"], properties), (&schema, &want), "{revision} from {from}");
            assert_eq!((&out["title"], &out["icons"]), (&json!("T"), &json!([])), "{revision} from {from}");
            assert!(out.get("execution").is_none(), "{revision} from {from}");
        }
    }
    gateway.stop().await;
}

/// What an upstream's code becomes: for a modern client of a modern or a legacy server, then for a legacy client of
/// either. 0: a tool error.
type Row = (&'static str, i64, &'static str, [(u16, i64); 4]);

const ROWS: [Row; 11] = [
    ("resources/read", -32002, "x", [(200, -32602), (200, -32602), (200, -32002), (200, -32002)]),
    ("resources/read", -32602, "Resource not found", [(200, -32602), (200, -32602), (200, -32002), (200, -32602)]),
    ("resources/read", -32602, "bad", [(200, -32602); 4]),
    ("tools/call", -32602, "Unknown tool", [(200, -32602); 4]),
    ("tools/call", -32601, "x", [(200, -32602), (200, -32602), (200, -32601), (200, -32601)]),
    ("prompts/get", -32601, "x", [(200, -32602), (200, -32602), (200, -32601), (200, -32601)]),
    ("tools/call", -32000, "x", [(200, -32000); 4]),
    ("prompts/get", -32603, "x", [(200, -32603); 4]),
    ("tools/call", -32022, "x", [(200, 0); 4]),
    ("prompts/get", -32021, "x", [(400, -32021), (400, -32021), (200, -32603), (200, -32603)]),
    ("tools/call", -32021, "x", [(400, -32021), (400, -32021), (200, 0), (200, 0)]),
];

fn target(row: usize, method: &str) -> String {
    if method == "resources/read" { format!("mem://e{row}") } else { format!("e{row}") }
}

#[tokio::test]
async fn codes_and_statuses_are_those_of_the_clients_era() {
    let mut script = Script::new("s");
    for (at, (method, code, message, _)) in ROWS.iter().enumerate() {
        let name = target(at, method);
        let steps = [Step::Error(json!({"code": code, "message": message}).to_string())];
        script = match *method {
            "tools/call" => script.tool(&name, steps),
            "prompts/get" => script.prompt(&name).on(&name, steps),
            _ => script.resource(&name).on(&name, steps),
        };
    }
    let (gateway, _upstreams) = over(script).await;
    let mut wrong = Vec::new();
    for revision in REVISIONS {
        let client = pairs::client(&gateway.url(), revision, &json!({})).await;
        for (up, from) in REVISIONS.into_iter().enumerate() {
            for (at, (method, code, message, wants)) in ROWS.iter().enumerate() {
                let name = target(at, method);
                let params = match *method {
                    "resources/read" => json!({"uri": format!("r{up}+{name}")}),
                    _ => json!({"name": format!("r{up}__{name}")}),
                };
                let reply = client.open(method, params.clone()).await;
                let status = reply.status.as_u16();
                let answer = reply.last().await;
                let got = answer["error"]["code"].as_i64().unwrap_or(0);
                let want = wants[usize::from(revision != MODERN) * 2 + usize::from(from != MODERN)];
                let is_missing = *code == -32002 || got == -32002;
                if (status, got) != want
                    || (got == 0 && answer["result"]["isError"] != true)
                    || (is_missing && answer["error"]["data"]["uri"] != params["uri"])
                {
                    wrong.push(format!("{revision} from {from}: {method} {code} {message}: {status} {answer}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    gateway.stop().await;
}
