//! What scenarios ask of a running gateway again and again: one server's row of the admin page, one call, one process.

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::app::{Gateway, PATIENCE};
use super::client::{Client, get_json};
use super::upstream::Upstream;

/// The configuration of `upstream` with these keys besides.
pub fn with(upstream: &Upstream, more: Value) -> Value {
    let mut config = upstream.config();
    for (key, value) in more.as_object().expect("keys") {
        config[key] = value.clone();
    }
    config
}

/// The row of `server` in `/api/servers`.
pub async fn server(gateway: &Gateway, server: &str) -> Value {
    let page = get_json(&gateway.admin("/api/servers")).await;
    let rows = page["servers"].as_array().expect("rows");
    rows.iter().find(|row| row["name"] == server).expect("a row of that name").clone()
}

/// Waits, bounded, until the row of `name` fits.
pub async fn wait_server(gateway: &Gateway, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let waiting = async {
        loop {
            last = server(gateway, name).await;
            if fits(&last) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(ended.is_ok(), "waited in vain; the last row was {last}");
    last
}

/// The result of calling `tool` with `{"n":1}`.
pub async fn call(client: &Client, tool: &str) -> Value {
    client.result("tools/call", json!({"name": tool, "arguments": {"n": 1}})).await
}

/// Calls `tool`, which must succeed, and gives the text of its result.
pub async fn call_text(client: &Client, tool: &str) -> String {
    let result = call(client, tool).await;
    assert_ne!(result["isError"], true, "{result}");
    super::client::text_of(&result).to_owned()
}

/// Calls `tool`, which must fail as a tool does, and gives what the model reads.
pub async fn call_failure(client: &Client, tool: &str) -> String {
    let result = call(client, tool).await;
    assert_eq!(result["isError"], true, "{result}");
    super::client::text_of(&result).to_owned()
}

/// Names of the tools that are listed.
pub async fn tool_names(client: &Client) -> Vec<String> {
    let list = client.result("tools/list", json!({})).await;
    let tools = list["tools"].as_array().expect("tools");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

/// Whether there is a process of this id, be it only one that nobody has reaped.
pub fn exists(pid: u64) -> bool {
    kill(Pid::from_raw(i32::try_from(pid).expect("a process id")), None) != Err(Errno::ESRCH)
}
