//! A gateway with a secret in every place where a configuration, a peer or a call can hold one.

use serde_json::{Value, json};

use super::client::{Client, text_of};
use super::upstream::{Script, Step, Upstream};

/// What every planted text begins with; it stands in no name, path or message of ours.
pub const MARK: &str = "PLANTED";

/// The upstreams of the scenario; hold them while it runs.
pub struct Planted {
    pub files: Upstream,
    pub old: Upstream,
}

fn script(name: &str) -> Script {
    let result = json!({"content": [{"type": "text", "text": "PLANTED-result"}], "resultType": "complete"});
    Script::new(name)
        .tool("echo", [Step::log("info", "PLANTED-log"), Step::Echo])
        .tool("result", [Step::Result(result.to_string())])
        .tool("error", [Step::Error(json!({"code": -32000, "message": "PLANTED-error"}).to_string())])
        .tool("ask", [Step::elicit("PLANTED-question"), Step::Answers])
        .resource("file:///a")
        .on("file:///a", [Step::Echo])
        .prompt("p")
}

impl Planted {
    pub async fn start() -> Self {
        let old = script("old").legacy_only().with(|s| s.stdio.banner = vec!["PLANTED-noise".into()]);
        Self { files: Upstream::http(script("files")).await, old: Upstream::stdio(old).await }
    }

    /// The configuration. `PLANTED_VARIABLE` has to be in the environment of the gateway, or be left out.
    pub fn config(&self, header: &str) -> Value {
        let mut files = self.files.config();
        files["url"] = json!(format!("{}?key=PLANTED-query", self.files.url()));
        files["headers"] = json!({"Authorization": header, "X-Key": "PLANTED-header"});
        let mut old = self.old.config();
        old["env"]["SECRET"] = json!("PLANTED-variable");
        let down = json!({"command": "/nonexistent/program", "args": ["--token", "PLANTED-argument"],
            "env": {"TOKEN": "PLANTED-variable"}});
        let away = json!({"url": "http://PLANTED-user:PLANTED-password@127.0.0.1:1/mcp?key=PLANTED-query",
            "headers": {"Authorization": "Bearer PLANTED-header"}});
        json!({"mcpServers": {"files": files, "old": old, "down": down, "away": away}})
    }

    /// Calls, reads, questions and mistakes of clients of both eras, with secrets wherever a peer can put one.
    pub async fn traffic(&self, url: &str) {
        let mut modern = Client::modern(url);
        modern.capabilities = json!({"elicitation": {}});
        let capabilities = json!({"elicitation": {}});
        let legacy = Client::legacy(url, "2025-11-25", capabilities).await;
        legacy.result("logging/setLevel", json!({"level": "debug"})).await;
        for client in [&modern, &legacy] {
            for server in ["files", "old"] {
                let arguments = json!({"PLANTED-key": "PLANTED-value"});
                let call = json!({"name": format!("{server}__echo"), "arguments": arguments});
                let echoed = client.result("tools/call", call).await;
                assert!(text_of(&echoed).contains("PLANTED-value"), "{echoed}");
                let result = client.result("tools/call", json!({"name": format!("{server}__result")})).await;
                assert_eq!(text_of(&result), "PLANTED-result");
                let error = client.request("tools/call", json!({"name": format!("{server}__error")})).await;
                assert_eq!(error["error"]["message"], "PLANTED-error");
                client.request("resources/read", json!({"uri": format!("{server}+file:///a")})).await;
                client
                    .request("prompts/get", json!({"name": format!("{server}__p"), "arguments": {"a": "PLANTED-a"}}))
                    .await;
            }
            for server in ["down", "away"] {
                client.request("tools/call", json!({"name": format!("{server}__PLANTED-tool")})).await;
            }
            client.request("tools/call", json!({"name": "PLANTED-tool"})).await;
            client.request("resources/read", json!({"uri": "PLANTED://uri"})).await;
            client.request("PLANTED/method", json!({"a": "PLANTED-parameter"})).await;
            client.request("tools/list", json!({"cursor": "PLANTED-cursor"})).await;
        }
        let mut asked = legacy.open("tools/call", json!({"name": "old__ask"})).await;
        let question = asked.find(|message| message["method"] == "elicitation/create").await;
        legacy.answer(&question, json!({"action": "accept", "content": {"answer": "PLANTED-answer"}})).await;
        assert!(text_of(&asked.last().await["result"]).contains("PLANTED-answer"));

        let mut headers = http::HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer PLANTED-token"),
            ("cookie", "PLANTED-cookie"),
            ("mcp-session-id", "PLANTED-session"),
            ("x-key", "PLANTED-header"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let body = r#"{"jsonrpc":"2.0","id":"PLANTED-id","method":"ping"}"#;
        modern.send(http::Method::POST, headers, body).await.all().await;
        for body in [r#"{"PLANTED": "not a message"}"#, "PLANTED", r#"[{"PLANTED": 1}]"#] {
            modern.send(http::Method::POST, http::HeaderMap::new(), body).await.all().await;
        }
        Client::modern(&format!("{url}/PLANTED-server")).request("tools/list", json!({})).await;
        legacy.delete().await;
    }
}
