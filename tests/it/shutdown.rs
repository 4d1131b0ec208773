//! The real program, from its start to its end: what it says, whether it is alive and ready, and that a signal ends it and
//! everything it started in bounded time.

use std::process::Stdio;

use http::StatusCode;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

use crate::support::app::{Gateway, PATIENCE};
use crate::support::client::{Client, get, get_json};
use crate::support::upstream::{Script, Step, Upstream};
use crate::support::watch::{call_failure, exists, with};

/// `manifold serve` as a process of its own.
struct Program {
    child: Child,
    mcp: String,
    admin: String,
    _folder: tempfile::TempDir,
    _stderr: tokio::io::Lines<BufReader<ChildStderr>>,
}

impl Program {
    async fn serve(config: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("manifold.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_manifold"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "error"])
            .arg("--config")
            .arg(&file)
            .arg("--state-dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (mut mcp, mut admin) = (None, None);
        while mcp.is_none() || admin.is_none() {
            let line = timeout(PATIENCE, lines.next_line()).await.expect("start-up lines in time").unwrap();
            let line = line.expect("the program goes on");
            let said = |key: &str| line.trim().strip_prefix(key).map(|rest| rest.trim().to_owned());
            mcp = mcp.or(said("endpoint"));
            admin = admin.or(said("admin"));
        }
        let (mcp, admin) = (mcp.unwrap(), admin.unwrap().trim_end_matches('/').to_owned());
        Self { child, mcp, admin, _folder: folder, _stderr: lines }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()), signal).unwrap();
    }

    /// Its exit code, in bounded time.
    async fn end(mut self) -> Option<i32> {
        timeout(PATIENCE, self.child.wait()).await.expect("the program ends").unwrap().code()
    }

    async fn wait_ready(&self) {
        let ready = async { while get(&format!("{}/readyz", self.admin)).await.0 != StatusCode::OK {} };
        timeout(PATIENCE, ready).await.expect("ready in time");
    }
}

#[tokio::test]
async fn a_signal_ends_open_streams_children_and_the_program() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let plain = Upstream::stdio(Script::new("plain").tool("echo", [Step::Echo])).await;
        let stubborn = Upstream::stdio(Script::new("stubborn").tool("echo", [Step::Echo]).with(|s| {
            (s.stdio.wrapped, s.stdio.ignores_eof, s.stdio.ignores_sigterm) = (true, true, true);
        }))
        .await;
        let servers = json!({
            "plain": with(&plain, json!({"required": true})),
            "stubborn": with(&stubborn, json!({"required": true, "timeouts": {"shutdown": "200ms"}})),
        });
        let program = Program::serve(json!({ "mcpServers": servers })).await;
        program.wait_ready().await;
        let page = get_json(&format!("{}/api/servers", program.admin)).await;
        let pids: Vec<u64> =
            page["servers"].as_array().unwrap().iter().map(|row| row["pid"].as_u64().unwrap()).collect();
        assert!(pids.len() == 2 && pids.iter().all(|pid| exists(*pid)), "{page}");
        let legacy = Client::legacy(&program.mcp, "2025-11-25", json!({})).await;
        let standing = legacy.stream().await;
        let mut listening = Client::modern(&program.mcp)
            .open("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))
            .await;
        assert_eq!(listening.next().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
        program.signal(signal);
        assert_eq!(program.end().await, Some(0));
        standing.all().await;
        listening.all().await;
        assert!(!pids.iter().any(|pid| exists(*pid)), "{pids:?}");
        for upstream in [plain, stubborn] {
            upstream.wait_for(|got| got.verb == "END").await;
        }
    }
}

#[tokio::test]
async fn a_call_in_flight_is_finished_and_nothing_new_is_taken() {
    let upstream = Upstream::stdio(Script::new("a").tool("held", [Step::Hold, Step::Echo])).await;
    let program = Program::serve(json!({"mcpServers": {"a": with(&upstream, json!({"required": true}))}})).await;
    program.wait_ready().await;
    let client = Client::modern(&program.mcp);
    let ending = async {
        upstream.wait_for(|got| got.method() == "tools/call").await;
        program.signal(Signal::SIGTERM);
        let draining = async { while get_json(&format!("{}/readyz", program.admin)).await["draining"] != true {} };
        timeout(PATIENCE, draining).await.expect("draining in time");
        assert_eq!(get(&format!("{}/healthz", program.admin)).await.0, StatusCode::OK, "it is still alive");
        upstream.release("held").await;
    };
    let (result, ()) =
        tokio::join!(client.result("tools/call", json!({"name": "a__held", "arguments": {"n": 1}})), ending);
    assert_eq!(result["content"][0]["text"], r#"{"n":1}"#);
    assert_eq!(program.end().await, Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let upstream = Upstream::stdio(Script::new("a").tool("never", [Step::Never])).await;
    let config = json!({"shutdownGrace": "1h", "mcpServers": {"a": with(&upstream, json!({"required": true}))}});
    let program = Program::serve(config).await;
    program.wait_ready().await;
    let client = Client::modern(&program.mcp);
    let waiting = client.attempt("tools/call", json!({"name": "a__never"}));
    let ending = async {
        upstream.wait_for(|got| got.method() == "tools/call").await;
        program.signal(Signal::SIGTERM);
        let draining = async { while get_json(&format!("{}/readyz", program.admin)).await["draining"] != true {} };
        timeout(PATIENCE, draining).await.expect("draining in time");
        program.signal(Signal::SIGTERM);
        assert_eq!(program.end().await, Some(0));
    };
    let (answer, ()) = tokio::join!(waiting, ending);
    assert_eq!(answer, None, "nobody answers this call");
    upstream.wait_for(|got| got.verb == "END").await;
}

#[tokio::test]
async fn alive_is_not_ready() {
    let upstream = Upstream::http(Script::new("needed").tool("echo", [Step::Echo])).await;
    upstream.kill().await;
    let needed = with(&upstream, json!({"required": true}));
    let gateway = Gateway::with(json!({"mcpServers": {"needed": needed, "optional": {"command": "false"}}})).await;
    let page = |path: &str| {
        let url = gateway.admin(path);
        async move { get(&url).await }
    };
    let check = async |ready: bool| {
        let wanted = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let found = async { while page("/readyz").await.0 != wanted {} };
        timeout(PATIENCE, found).await.expect("the right status in time");
        let text: Value = serde_json::from_str(&page("/readyz").await.1).unwrap();
        assert_eq!(text["waitingFor"], if ready { json!([]) } else { json!(["needed"]) });
        assert_eq!(page("/healthz").await.0, StatusCode::OK);
    };
    check(false).await;
    upstream.revive().await;
    check(true).await;
    upstream.kill().await;
    call_failure(&Client::modern(&gateway.url()), "needed__echo").await;
    check(false).await;
    upstream.revive().await;
    check(true).await;
    gateway.stop().await;
}
