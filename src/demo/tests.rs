//! Both eras over an in-memory pipe, with a paused clock: a countdown of minutes takes no time.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinSet;

use super::serve;

struct Peer {
    input: WriteHalf<DuplexStream>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    server: JoinSet<std::io::Result<()>>,
}

impl Peer {
    fn new() -> Self {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (far_read, far_write) = tokio::io::split(far);
        let (near_read, input) = tokio::io::split(near);
        let mut server = JoinSet::new();
        server.spawn(serve("demo".into(), far_read, far_write, noon));
        Self { input, output: BufReader::new(near_read).lines(), server }
    }

    async fn legacy(version: &str, capabilities: Value) -> Self {
        let mut peer = Self::new();
        let params = json!({"protocolVersion": version, "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "0"}});
        let answer = peer.ask("initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], version);
        peer.tell("notifications/initialized", json!({})).await;
        peer
    }

    async fn send(&mut self, message: Value) {
        self.send_raw(&format!("{message}\n")).await;
    }

    async fn send_raw(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).await.unwrap();
    }

    async fn tell(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id: Value = id.into();
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    async fn next(&mut self) -> Value {
        let line = self.output.next_line().await.unwrap().expect("the server is still talking");
        serde_json::from_str(&line).unwrap()
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.request("q", method, params).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], "q", "{answer}");
        answer
    }

    /// Asks in the modern era, with elicitation declared.
    async fn ask_modern(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, modern(params)).await
    }

    /// Ends the input; returns what the server still had to say.
    async fn end(mut self) -> Vec<Value> {
        self.input.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(line) = self.output.next_line().await.unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        self.server.join_next().await.unwrap().unwrap().unwrap();
        rest
    }
}

fn noon() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_040_000)
}

fn modern(mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    params
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({"name": tool, "arguments": arguments})
}

fn said(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

#[tokio::test]
async fn every_legacy_revision_is_negotiated_and_an_unknown_one_gets_the_newest() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        Peer::legacy(version, json!({})).await.end().await;
    }
    let mut peer = Peer::new();
    let answer = peer.ask("initialize", json!({"protocolVersion": "2026-07-28"})).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(answer["result"]["serverInfo"]["name"], "demo");
    let again = peer.ask("initialize", json!({"protocolVersion": "2025-11-25"})).await;
    assert_eq!(again["error"]["code"], -32600);
}

#[tokio::test]
async fn discover_tells_a_modern_peer_all_it_needs() {
    let answer = Peer::new().ask_modern("server/discover", json!({})).await;
    let result = &answer["result"];
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["cacheScope"], "public");
    assert!(result["ttlMs"].is_u64());
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "demo");
    assert!(result["capabilities"].get("logging").is_none());
}

#[tokio::test]
async fn a_request_that_belongs_to_no_era_is_refused_with_the_right_code() {
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let cases = [
        ("tools/list", json!({}), -32600),
        ("server/discover", json!({}), -32602),
        ("server/discover", json!({"_meta": {version: "2026-07-28"}}), -32602),
        ("server/discover", json!({"_meta": {capabilities: {}}}), -32602),
        ("server/discover", json!({"_meta": {version: "v999", capabilities: {}}}), -32022),
        ("initialize", modern(json!({"protocolVersion": "2025-11-25"})), -32601),
        ("ping", modern(json!({})), -32601),
        ("resources/subscribe", modern(json!({"uri": "demo://greeting"})), -32601),
        ("resources/read", modern(json!({"uri": "demo://nothing"})), -32602),
        ("tools/call", modern(call("nothing", json!({}))), -32602),
        ("tools/list", modern(json!({"cursor": "x"})), -32602),
    ];
    let mut peer = Peer::new();
    for (method, params, code) in cases {
        let answer = peer.ask(method, params.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{method} {params}");
    }
    assert_eq!(peer.ask("ping", json!({})).await["result"], json!({}));
    let params = json!({"_meta": {version: "2025-06-18", capabilities: {}}});
    let answer = peer.ask("server/discover", params).await;
    assert_eq!(answer["error"]["data"], json!({"supported": ["2026-07-28"], "requested": "2025-06-18"}));
}

#[tokio::test]
async fn bad_lines_are_answered_and_survived() {
    let cases = [
        ("{nonsense", -32700),
        ("\u{1}", -32700),
        ("[]", -32600),
        ("7", -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32600),
    ];
    let mut peer = Peer::new();
    for (line, code) in cases {
        peer.send_raw(&format!("{line}\n\n")).await;
        let answer = peer.next().await;
        assert_eq!(answer["error"]["code"], code, "{line}");
        assert_ne!(answer.get("id"), Some(&Value::Null), "{line}");
    }
    assert_eq!(peer.ask("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn a_line_over_the_limit_is_refused_and_the_next_one_served() {
    let mut peer = Peer::new();
    let long = "x".repeat(super::LINE_LIMIT);
    peer.request(1, "ping", json!({"filler": long})).await;
    assert_eq!(peer.next().await["error"]["code"], -32700);
    assert_eq!(peer.ask("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn the_simple_tools_do_what_they_say() {
    let mut peer = Peer::legacy("2025-06-18", json!({})).await;
    let echo = peer.ask("tools/call", call("echo", json!({"message": "hi"}))).await;
    assert_eq!(said(&echo), "hi");
    assert_eq!(echo["result"]["structuredContent"], json!({"message": "hi"}));
    let sum = peer.ask("tools/call", call("add", json!({"a": 2, "b": 40}))).await;
    assert_eq!(sum["result"]["structuredContent"].to_string(), r#"{"sum":42}"#);
    let sum = peer.ask("tools/call", call("add", json!({"a": 0.5, "b": 1}))).await;
    assert_eq!(said(&sum), "1.5");
    let time = peer.ask("tools/call", call("time", json!({}))).await;
    assert_eq!(said(&time), "2026-11-30T12:00:00Z");
    for bad in [call("echo", json!({})), call("add", json!({"a": "1", "b": 2}))] {
        assert_eq!(peer.ask("tools/call", bad).await["result"]["isError"], true);
    }
}

#[tokio::test]
async fn an_old_revision_gets_no_structured_content() {
    let mut peer = Peer::legacy("2025-03-26", json!({})).await;
    let echo = peer.ask("tools/call", call("echo", json!({"message": "hi"}))).await;
    assert!(echo["result"].get("structuredContent").is_none());
    let list = peer.ask("tools/list", json!({})).await;
    assert!(list["result"]["tools"].as_array().unwrap().iter().all(|tool| tool.get("outputSchema").is_none()));
}

#[tokio::test]
async fn only_2025_03_26_may_batch() {
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"1","method":"ping"}]"#;
    let mut peer = Peer::legacy("2025-03-26", json!({})).await;
    peer.send_raw(&format!("{batch}\n")).await;
    assert_eq!((peer.next().await["id"].clone(), peer.next().await["id"].clone()), (json!(1), json!("1")));
    let mut peer = Peer::legacy("2025-06-18", json!({})).await;
    peer.send_raw(&format!("{batch}\n")).await;
    assert_eq!(peer.next().await["error"]["code"], -32600);
}

#[tokio::test(start_paused = true)]
async fn a_countdown_reports_progress_and_blocks_nobody() {
    let mut peer = Peer::legacy("2025-11-25", json!({})).await;
    let mut params = call("countdown", json!({"seconds": 90.0, "steps": 2}));
    params["_meta"] = json!({"progressToken": "t"});
    peer.request(1, "tools/call", params).await;
    assert_eq!(peer.ask("ping", json!({})).await["result"], json!({}));
    for step in 1..=2 {
        let params = peer.next().await["params"].clone();
        assert_eq!((&params["progressToken"], &params["progress"]), (&json!("t"), &json!(step)));
    }
    assert_eq!(said(&peer.next().await), "Lift-off!");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_countdown_is_never_answered_and_its_id_is_free() {
    let mut peer = Peer::new();
    peer.request(1, "tools/call", modern(call("countdown", json!({"seconds": 5})))).await;
    peer.request(1, "tools/call", modern(call("echo", json!({"message": "twice"})))).await;
    assert_eq!(peer.next().await["error"]["code"], -32600);
    peer.tell("notifications/cancelled", json!({"requestId": "1"})).await;
    peer.tell("notifications/cancelled", json!({"requestId": 1})).await;
    peer.request(1, "tools/call", modern(call("countdown", json!({"seconds": 60, "steps": 1})))).await;
    let begun = tokio::time::Instant::now();
    assert_eq!(said(&peer.next().await), "Lift-off!");
    assert_eq!(begun.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_input_stops_what_still_runs_and_keeps_what_was_answered() {
    let mut peer = Peer::legacy("2025-11-25", json!({})).await;
    peer.request(1, "tools/call", call("countdown", json!({"seconds": 3600}))).await;
    peer.request(2, "ping", json!({})).await;
    let begun = tokio::time::Instant::now();
    let rest = peer.end().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["id"], 2);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn ask_puts_its_question_to_a_legacy_peer_by_request() {
    let mut peer = Peer::legacy("2025-06-18", json!({"elicitation": {}})).await;
    for (answer, text) in [
        (json!({"action": "accept", "content": {"answer": "42"}}), "The answer is: 42"),
        (json!({"action": "decline"}), "The user would rather not say."),
    ] {
        peer.request(1, "tools/call", call("ask", json!({"question": "6 x 7?"}))).await;
        let question = peer.next().await;
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["message"], "6 x 7?");
        peer.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
        assert_eq!(said(&peer.next().await), text);
    }
    peer.request("c", "tools/call", call("ask", json!({}))).await;
    let question = peer.next().await;
    peer.tell("notifications/cancelled", json!({"requestId": "c"})).await;
    assert_eq!(peer.next().await["params"]["requestId"], question["id"]);
}

#[tokio::test]
async fn ask_fails_for_a_peer_that_cannot_be_asked() {
    let mut peer = Peer::legacy("2025-06-18", json!({})).await;
    assert_eq!(peer.ask("tools/call", call("ask", json!({}))).await["result"]["isError"], true);
    let mut params = modern(call("ask", json!({})));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let answer = peer.ask("tools/call", params).await;
    assert_eq!(answer["error"]["code"], -32021);
}

#[tokio::test]
async fn ask_returns_its_question_to_a_modern_peer_and_takes_the_retry() {
    let mut peer = Peer::new();
    let mut params = call("ask", json!({"question": "6 x 7?"}));
    let first = peer.ask_modern("tools/call", params.clone()).await["result"].clone();
    assert_eq!(first["resultType"], "input_required");
    assert!(first.get("ttlMs").is_none());
    let (key, question) = first["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    params["requestState"] = first["requestState"].clone();
    params["inputResponses"] = json!({key: {"action": "accept", "content": {"answer": "42"}}});
    let second = peer.ask_modern("tools/call", params.clone()).await;
    assert_eq!(said(&second), "The answer is: 42");
    assert_eq!(second["result"]["resultType"], "complete");

    params["inputResponses"] = json!({"other": {"action": "accept"}});
    let third = peer.ask_modern("tools/call", params.clone()).await;
    assert_eq!(third["result"]["resultType"], "input_required");
    params["inputResponses"] = json!({key: 7});
    assert_eq!(peer.ask_modern("tools/call", params.clone()).await["error"]["code"], -32602);
    params["requestState"] = "forged".into();
    assert_eq!(peer.ask_modern("tools/call", params).await["error"]["code"], -32602);
}

#[tokio::test]
async fn a_legacy_peer_hears_of_a_new_tool_and_of_its_resource() {
    let mut peer = Peer::legacy("2024-11-05", json!({})).await;
    let uri = json!({"uri": "demo://greeting"});
    assert_eq!(peer.ask("resources/subscribe", uri.clone()).await["result"], json!({}));
    peer.request(1, "tools/call", call("add_tool", json!({"name": "extra"}))).await;
    assert_eq!(peer.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(peer.next().await["params"], uri);
    assert_eq!(said(&peer.next().await), "Added extra.");
    assert_eq!(said(&peer.ask("tools/call", call("extra", json!({}))).await), "I am extra.");
    let twice = peer.ask("tools/call", call("add_tool", json!({"name": "extra"}))).await;
    assert_eq!(twice["result"]["isError"], true);
    peer.ask("resources/unsubscribe", uri).await;
    peer.request(2, "tools/call", call("remove_tool", json!({"name": "extra"}))).await;
    assert_eq!(peer.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(said(&peer.next().await), "Removed extra.");
}

#[tokio::test]
async fn a_listen_is_acknowledged_tagged_and_ended() {
    let mut peer = Peer::new();
    let tag = "io.modelcontextprotocol/subscriptionId";
    let wish = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    peer.request(7, "subscriptions/listen", modern(wish)).await;
    let acknowledgement = peer.next().await;
    assert_eq!(acknowledgement["method"], "notifications/subscriptions/acknowledged");
    let granted = json!({"notifications": {"toolsListChanged": true}, "_meta": {tag: 7}});
    assert_eq!(acknowledgement["params"], granted);
    let wish = json!({"notifications": {"resourceSubscriptions": ["demo://greeting"]}});
    peer.request("seven", "subscriptions/listen", modern(wish)).await;
    peer.next().await;

    peer.request(1, "tools/call", modern(call("add_tool", json!({"name": "extra"})))).await;
    let changed = peer.next().await;
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"][tag], 7);
    let updated = peer.next().await;
    assert_eq!(updated["params"], json!({"uri": "demo://greeting", "_meta": {tag: "seven"}}));
    assert_eq!(said(&peer.next().await), "Added extra.");

    peer.tell("notifications/cancelled", json!({"requestId": 7})).await;
    let removed = modern(call("remove_tool", json!({"name": "extra"})));
    peer.request(2, "tools/call", removed).await;
    assert_eq!(peer.next().await["method"], "notifications/resources/updated");
    assert_eq!(said(&peer.next().await), "Removed extra.");
    let rest = peer.end().await;
    assert_eq!(rest[0]["params"]["requestId"], "seven");
    assert_eq!(rest[1]["result"]["_meta"][tag], "seven");
}

#[tokio::test]
async fn logs_go_only_to_who_asked_for_them() {
    let mut peer = Peer::legacy("2025-11-25", json!({})).await;
    let echo = || call("echo", json!({"message": "hi"}));
    assert_eq!(said(&peer.ask("tools/call", echo()).await), "hi");
    assert_eq!(peer.ask("logging/setLevel", json!({"level": "info"})).await["result"], json!({}));
    assert_eq!(peer.ask("logging/setLevel", json!({"level": "loud"})).await["error"]["code"], -32602);
    peer.request(1, "tools/call", echo()).await;
    assert_eq!(peer.next().await["params"]["level"], "info");
    assert_eq!(said(&peer.next().await), "hi");
    let mut params = modern(echo());
    assert_eq!(said(&peer.ask("tools/call", params.clone()).await), "hi");
    params["_meta"]["io.modelcontextprotocol/logLevel"] = "debug".into();
    peer.request(2, "tools/call", params.clone()).await;
    assert_eq!(peer.next().await["method"], "notifications/message");
    assert_eq!(said(&peer.next().await), "hi");
    params["_meta"]["io.modelcontextprotocol/logLevel"] = "emergency".into();
    assert_eq!(said(&peer.ask("tools/call", params).await), "hi");
}

#[tokio::test]
async fn texts_are_read_prompted_and_completed_in_both_eras() {
    let mut peer = Peer::legacy("2025-06-18", json!({})).await;
    for dress in [|params| params, modern] {
        let read = peer.ask("resources/read", dress(json!({"uri": "demo://greeting/Ada"}))).await;
        assert_eq!(read["result"]["contents"][0]["text"], "Hello Ada, from demo.");
        let read = peer.ask("resources/read", dress(json!({"uri": "demo://greeting"}))).await;
        assert_eq!(read["result"]["contents"][0]["text"], "Hello from demo, which has 7 tools.");
        for list in ["resources", "prompts", "tools"] {
            let answer = peer.ask(&format!("{list}/list"), dress(json!({}))).await;
            assert!(!answer["result"][list].as_array().unwrap().is_empty());
        }
        let templates = peer.ask("resources/templates/list", dress(json!({}))).await;
        assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "demo://greeting/{who}");
        let prompt = json!({"name": "greet", "arguments": {"who": "Ada"}});
        let prompt = peer.ask("prompts/get", dress(prompt)).await;
        assert!(prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap().contains("Ada"));
        let typed = json!({"ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "who", "value": "a"}});
        let completed = peer.ask("completion/complete", dress(typed)).await;
        assert_eq!(completed["result"]["completion"]["values"], json!(["Ada", "Alan"]));
    }
    let missing = peer.ask("resources/read", json!({"uri": "demo://nothing"})).await;
    assert_eq!(missing["error"]["code"], -32002);
}
