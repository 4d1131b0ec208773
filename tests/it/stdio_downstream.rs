//! `manifold stdio`: the real program, spoken to by its host over pipes, both eras on one process (protocol.md §1.4, §3.12).

use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::support::app::PATIENCE;
use crate::support::client::{MODERN, text_of};
use crate::support::exact::{initialize, modern, request};
use crate::support::upstream::{Script, Step, Upstream};

/// The program over its pipes.
struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    _folder: TempDir,
}

impl Host {
    fn over(upstream: &Upstream) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("manifold.json");
        std::fs::write(&file, json!({"mcpServers": {"s": upstream.config()}}).to_string()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_manifold"))
            .arg("stdio")
            .arg("--config")
            .arg(&file)
            .env("MANIFOLD_STATE_DIR", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take(), stdout, child, _folder: folder }
    }

    async fn say(&mut self, line: &str) {
        self.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let line = timeout(PATIENCE, self.stdout.next_line()).await.expect("a line in time").unwrap();
        let line = line.expect("it still talks");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"))
    }

    /// The next message that is not about changed lists: those come when they come.
    async fn answer(&mut self) -> Value {
        loop {
            let message = self.hear().await;
            if !message["method"].as_str().is_some_and(|method| method.ends_with("list_changed")) {
                return message;
            }
        }
    }

    async fn ask(&mut self, line: &str) -> Value {
        self.say(line).await;
        self.answer().await
    }

    /// Closes its input and waits for its end: nothing more than this on stdout, and success.
    async fn end(mut self, rest: &[Value]) {
        self.stdin = None;
        let mut said = Vec::new();
        while let Some(line) = timeout(PATIENCE, self.stdout.next_line()).await.expect("an end in time").unwrap() {
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"));
            if message.get("id").is_some() {
                said.push(message);
            }
        }
        assert_eq!(said, rest);
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        assert!(status.success(), "{status}\n{log}");
        assert!(!log.is_empty(), "its log is on stderr");
    }
}

fn call(id: u64, tool: &str) -> String {
    request(json!(id), "tools/call", json!({"name": format!("s__{tool}")}))
}

fn cancel(id: u64) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).to_string()
}

fn script() -> Script {
    Script::new("s")
        .tool("echo", [])
        .tool("slow", [Step::Hold, Step::Echo])
        .tool("talk", [Step::Progress(2), Step::Echo])
        .tool("ask", [Step::elicit("who?"), Step::Answers])
}

fn error(message: &Value) -> (Value, Value) {
    (message["error"]["code"].clone(), message["id"].clone())
}

#[tokio::test]
async fn both_eras_are_spoken_on_one_process() {
    let upstream = Upstream::http(script()).await;
    let mut host = Host::over(&upstream);
    let discovered = host.ask(&modern(json!(1), "server/discover", json!({}))).await;
    assert_eq!(discovered["result"]["supportedVersions"][0], MODERN);
    let list = host.ask(&modern(json!("1"), "tools/list", json!({}))).await;
    assert_eq!((&list["id"], &list["result"]["tools"][0]["name"]), (&json!("1"), &json!("s__echo")));
    let hello = host.ask(&initialize("2025-06-18")).await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
    host.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    assert_eq!(text_of(&host.ask(&call(2, "echo")).await["result"]), "absent");
    let again = host.ask(&modern(json!(3), "tools/call", json!({"name": "s__echo", "arguments": {"n": 1}}))).await;
    assert_eq!((text_of(&again["result"]), &again["result"]["resultType"]), (r#"{"n":1}"#, &json!("complete")));
    assert_eq!(error(&host.ask(&modern(json!(4), "ping", json!({}))).await), (json!(-32601), json!(4)));
    assert_eq!(host.ask(&request(json!(5), "ping", json!({}))).await["result"], json!({}));
    assert_eq!(error(&host.ask(&initialize("2025-06-18")).await), (json!(-32600), json!(0)));
    host.end(&[]).await;
}

#[tokio::test]
async fn before_a_handshake_a_ping_is_answered_and_the_rest_is_told_both_ways_in() {
    let upstream = Upstream::http(script()).await;
    let mut host = Host::over(&upstream);
    assert_eq!(host.ask(&request(json!("p"), "ping", json!({}))).await["result"], json!({}));
    let refused = host.ask(&request(json!(1), "tools/list", json!({}))).await;
    assert_eq!(error(&refused), (json!(-32600), json!(1)));
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("initialize") && why.contains("_meta"), "{why}");
    assert_eq!(error(&host.ask(&request(json!(2), "server/discover", json!({}))).await), (json!(-32602), json!(2)));
    host.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    host.say(r#"{"jsonrpc":"2.0","id":"gw-1","result":{}}"#).await;
    assert_eq!(host.ask(&request(json!(3), "ping", json!({}))).await["id"], 3);
    let mut odd = modern(json!(4), "tools/list", json!({}));
    odd = odd.replace(MODERN, "v999.0.0");
    let refused = host.ask(&odd).await;
    assert_eq!(
        (error(&refused), &refused["error"]["data"]["requested"]),
        ((json!(-32022), json!(4)), &json!("v999.0.0"))
    );
    host.end(&[]).await;
}

#[tokio::test]
async fn lines_that_are_no_messages_are_answered_and_the_next_line_is_read() {
    let upstream = Upstream::http(script()).await;
    let mut host = Host::over(&upstream);
    host.ask(&initialize("2025-11-25")).await;
    for (line, code) in [
        ("nonsense", -32700),
        ("{", -32700),
        ("5", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
    ] {
        let told = host.ask(line).await;
        assert_eq!(error(&told), (json!(code), Value::Null), "{line}: {told}");
        assert!(told.get("id").is_none(), "{line}: {told}");
    }
    host.say("").await;
    host.say("  \r").await;
    let long = request(json!(1), "ping", json!({"x": "x".repeat(5 << 20)}));
    assert_eq!(host.ask(&long).await["error"]["code"], -32600);
    assert_eq!(host.ask(&request(json!(2), "ping", json!({}))).await["id"], 2);
    host.end(&[]).await;
}

#[tokio::test]
async fn a_slow_call_blocks_neither_others_nor_its_own_cancel() {
    for upstream in [Upstream::stdio(script().legacy_only()).await, Upstream::http(script().modern_only()).await] {
        let mut host = Host::over(&upstream);
        host.ask(&initialize("2025-11-25")).await;
        host.say(&call(1, "slow")).await;
        upstream.wait_for(|got| got.method() == "tools/call").await;
        assert_eq!(host.ask(&call(2, "echo")).await["id"], 2);
        assert_eq!(error(&host.ask(&call(1, "echo")).await), (json!(-32600), json!(1)), "1 is in use");
        host.say(&cancel(1)).await;
        upstream.wait_for(|got| got.is_gone() || got.method() == "notifications/cancelled").await;
        assert_eq!(host.ask(&call(3, "echo")).await["id"], 3, "nothing is answered to 1");
        let slow = modern(json!(4), "tools/call", json!({"name": "s__slow"}));
        host.say(&slow).await;
        upstream.wait_for_nth(4, |got| got.method() == "tools/call").await;
        host.say(&cancel(4)).await;
        upstream.wait_for_nth(2, |got| got.is_gone() || got.method() == "notifications/cancelled").await;
        assert_eq!(host.ask(&call(4, "echo")).await["id"], 4, "an id is free again after its cancel");
        host.end(&[]).await;
    }
}

#[tokio::test]
async fn progress_and_questions_come_before_the_answer_they_belong_to() {
    let upstream = Upstream::stdio(script().legacy_only()).await;
    let mut host = Host::over(&upstream);
    let capable = initialize("2025-11-25").replace(r#""capabilities":{}"#, r#""capabilities":{"elicitation":{}}"#);
    host.ask(&capable).await;
    host.say(&request(json!(1), "tools/call", json!({"name": "s__talk", "_meta": {"progressToken": "t"}}))).await;
    for n in [1, 2] {
        assert_eq!(host.answer().await["params"], json!({"progressToken": "t", "progress": n}));
    }
    assert_eq!(host.answer().await["id"], 1);
    let question = host.ask(&call(2, "ask")).await;
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"action": "accept", "content": {"answer": "me"}});
    let result = host.ask(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}).to_string()).await;
    assert_eq!(text_of(&result["result"]), json!([answer]).to_string());
    host.end(&[]).await;
}

#[tokio::test]
async fn an_array_is_answered_with_one_array_at_2025_03_26() {
    let upstream = Upstream::http(script()).await;
    let mut host = Host::over(&upstream);
    host.ask(&initialize("2025-03-26")).await;
    let ping = request(json!("p"), "ping", json!({}));
    let answers = host.ask(&format!("[{ping},{}]", call(1, "echo"))).await;
    let ids: Vec<_> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert!(ids.len() == 2 && ids.contains(&&json!("p")) && ids.contains(&&json!(1)), "{answers}");
    host.end(&[]).await;
}

#[tokio::test]
async fn what_is_in_flight_when_the_input_ends_is_still_answered() {
    let upstream = Upstream::http(script()).await;
    let mut host = Host::over(&upstream);
    host.ask(&initialize("2025-11-25")).await;
    host.say(&call(7, "slow")).await;
    upstream.wait_for(|got| got.method() == "tools/call").await;
    host.stdin = None;
    upstream.release("slow").await;
    let result = json!({"content": [{"type": "text", "text": "absent"}]});
    host.end(&[json!({"jsonrpc": "2.0", "id": 7, "result": result})]).await;
}

#[tokio::test]
async fn what_came_in_a_batch_has_its_id_and_can_be_withdrawn() {
    let upstream = Upstream::stdio(Script::new("s").tool("held", [Step::Hold, Step::Echo]).legacy_only()).await;
    let mut host = Host::over(&upstream);
    host.say(&initialize("2025-03-26")).await;
    host.answer().await;
    host.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    let held = request(json!(5), "tools/call", json!({"name": "s__held", "arguments": {}}));
    host.say(&format!("[{held},{}]", request(json!(6), "ping", json!({})))).await;
    upstream.wait_for(|got| got.method() == "tools/call").await;
    host.say(&request(json!(5), "ping", json!({}))).await;
    let again = host.answer().await;
    assert_eq!((&again["id"], &again["error"]["code"]), (&json!(5), &json!(-32600)), "{again}");
    host.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#).await;
    let answers = host.answer().await;
    let ids: Vec<&Value> = answers.as_array().expect("a batch").iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(6)], "the one that was withdrawn is not answered");
    upstream.wait_for(|got| got.method() == "notifications/cancelled").await;
}
