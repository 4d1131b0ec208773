//! The log of the real program: one JSON object a line, one line a request, and nothing that a peer or a configuration
//! would not want to see there, at the most talkative level.

use serde_json::{Value, json};

use crate::support::client::{Client, get_json};
use crate::support::planted::{MARK, Planted};
use crate::support::program::Serving;
use crate::support::upstream::{Script, Step, Upstream};

const TRACE: [&str; 4] = ["--log-format", "json", "--log-level", "mcp_manifold=trace,manifold=trace"];

/// The lines of a log, each of which must be an object.
fn lines(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect()
}

/// The request lines of this method.
fn requests<'l>(lines: &'l [Value], method: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["target"] == "manifold::request" && line["method"] == method).collect()
}

async fn wait_ready(serving: &Serving, server: &str) {
    let url = serving.admin("/api/servers");
    let waiting = async {
        loop {
            let servers = get_json(&url).await["servers"].clone();
            if servers.as_array().unwrap().iter().any(|s| s["name"] == server && s["state"] == "ready") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::support::app::PATIENCE, waiting).await.expect("the server is ready in time");
}

#[tokio::test]
async fn a_request_is_one_line_that_says_how_it_went() {
    let error = Step::Error(json!({"code": -32000, "message": "no"}).to_string());
    let failed = Step::Result(json!({"content": [], "isError": true, "resultType": "complete"}).to_string());
    let script = Script::new("files").tool("good", [Step::Name]).tool("error", [error]).tool("fails", [failed]);
    let upstream = Upstream::http(script.tool("never", [Step::Never])).await;
    let mut entry = upstream.config();
    entry["timeouts"] = json!({"call": "200ms"});
    let config = json!({"mcpServers": {"My Files": entry}}).to_string();
    let serving = Serving::start(Some(&config), &TRACE[..2], &[]).await;
    wait_ready(&serving, "My Files").await;
    let client = Client::modern(&serving.url());
    for tool in ["good", "error", "fails", "never"] {
        client.request("tools/call", json!({"name": format!("my-files__{tool}")})).await;
    }
    client.request("tools/list", json!({})).await;
    client.request("tools/call", json!({"name": "nothing"})).await;
    let legacy = Client::legacy(&serving.url(), "2025-11-25", json!({})).await;
    legacy.request("tools/call", json!({"name": "my-files__good"})).await;
    let ended = serving.terminate().await;

    let lines = lines(&ended.stderr);
    let calls = requests(&lines, "tools/call");
    let briefs: Vec<(&Value, &Value, &Value)> =
        calls.iter().map(|call| (&call["server"], &call["era"], &call["outcome"])).collect();
    let (mine, modern, era) = (json!("My Files"), json!("modern"), json!("legacy"));
    let outcomes = ["ok", "rpc_error", "tool_error", "timeout"].map(|outcome| json!(outcome));
    let mut want: Vec<(&Value, &Value, &Value)> = outcomes.iter().map(|outcome| (&mine, &modern, outcome)).collect();
    let refused = json!("error");
    want.extend([(&Value::Null, &modern, &refused), (&mine, &era, &outcomes[0])]);
    assert_eq!(briefs, want, "{}", ended.stderr);
    let took = |call: &Value| call["duration_ms"].as_u64().expect("whole milliseconds");
    assert!(took(calls[3]) >= 200 && calls.iter().all(|call| took(call) < 20_000), "{calls:?}");
    assert!(calls.iter().all(|call| call["status"] == 200 && call["level"] == "INFO"), "{calls:?}");
    let own = requests(&lines, "tools/list");
    assert_eq!((own.len(), &own[0]["server"], &own[0]["outcome"]), (1, &Value::Null, &json!("ok")));

    let start = lines.iter().find(|line| line["message"] == "serving").unwrap();
    assert_eq!(start["servers"], "My Files");
    assert!(start["endpoint"].as_str().unwrap().ends_with("/mcp"), "{start}");
}

#[tokio::test]
async fn nothing_planted_is_logged_at_any_level() {
    let planted = Planted::start().await;
    let config = planted.config("Bearer ${PLANTED_VARIABLE}").to_string();
    let variables = [("PLANTED_VARIABLE", "PLANTED-token")];
    let serving = Serving::start(Some(&config), &TRACE, &variables).await;
    for server in ["files", "old"] {
        wait_ready(&serving, server).await;
    }
    planted.traffic(&serving.url()).await;
    let ended = serving.terminate().await;
    assert!(lines(&ended.stderr).len() > 20, "it was talkative enough to mean something:\n{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    let told: Vec<&str> = ended.stderr.lines().filter(|line| line.contains(MARK)).collect();
    assert!(told.is_empty(), "{told:#?}");
}
