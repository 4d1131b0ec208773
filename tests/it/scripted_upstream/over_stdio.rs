//! A child process, started the way a gateway starts one.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::wire::{Process, initialize, modern, request, text};
use crate::support::upstream::{Discover, Script, Step, Upstream, tool};

fn call(id: u64, tool: &str) -> String {
    request(id, "tools/call", json!({"name": tool, "_meta": {"progressToken": id}}))
}

#[tokio::test]
async fn both_eras_are_spoken_on_one_process() {
    let upstream = Upstream::stdio(Script::new("a").tool("t", [Step::Name])).await;
    let mut process = Process::start(&upstream);
    let discover = process.ask(&modern(1, "server/discover", json!({}))).await;
    assert_eq!(discover["result"]["supportedVersions"][0], "2026-07-28");
    let hello = process.ask(&initialize("2025-06-18")).await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(text(&process.ask(&call(2, "t")).await), "a");
    let answer = process.ask(&modern(3, "tools/call", json!({"name": "t"}))).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(upstream.count("tools/call"), 2);
    process.stdin = None;
    assert!(process.child.wait().await.unwrap().success());
    upstream.wait_for(|got| got.verb == "END").await;
    assert!(upstream.pids().is_empty());
}

#[tokio::test]
async fn a_test_holds_releases_changes_and_kills_a_child() {
    let steps = [Step::Progress(1), Step::Hold, Step::Echo];
    let upstream = Upstream::stdio(Script::new("a").tool("t", steps)).await;
    let mut process = Process::start(&upstream);
    process.ask(&initialize("2025-11-25")).await;
    assert_eq!(process.ask(&call(2, "t")).await["params"]["progress"], 1);
    assert_eq!(process.ask(&request(3, "ping", json!({}))).await["id"], 3);
    upstream.release("t").await;
    assert_eq!(process.message().await["id"], 2);
    process.ask(&call(4, "t")).await;
    process.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}"#).await;
    upstream.wait_for(|got| got.method() == "notifications/cancelled").await;
    upstream.set_tools([tool("new")]).await;
    upstream.announce_tools().await;
    assert_eq!(process.message().await["method"], "notifications/tools/list_changed");
    upstream.kill().await;
    assert_eq!(process.line().await, None);
    let mut process = Process::start(&upstream);
    process.ask(&initialize("2025-11-25")).await;
    let list = process.ask(&request(2, "tools/list", json!({}))).await;
    assert_eq!(list["result"]["tools"], json!([tool("new")]));
}

#[tokio::test]
async fn a_legacy_peer_is_asked_by_request() {
    let upstream = Upstream::stdio(Script::new("a").tool("t", [Step::sample("hi"), Step::Answers])).await;
    let mut process = Process::start(&upstream);
    process.ask(&initialize("2025-11-25")).await;
    let question = process.ask(&call(2, "t")).await;
    assert_eq!(question["method"], "sampling/createMessage");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"model": "m"}});
    assert_eq!(text(&process.ask(&answer.to_string()).await), r#"[{"model":"m"}]"#);
}

#[tokio::test]
async fn stdout_and_stderr_misbehave_as_scripted() {
    let script = Script::new("a")
        .tool("noise", [Step::Noise("so to speak".into()), Step::Stderr(1 << 20), Step::Name])
        .tool("garbage", [Step::Garbage("{not json".into())])
        .tool("huge", [Step::Huge(1 << 20)])
        .tool("endless", [Step::Endless(1 << 20)])
        .with(|script| script.stdio.banner = vec!["Server running on stdio".into()]);
    let upstream = Upstream::stdio(script).await;
    let mut process = Process::start(&upstream);
    assert_eq!(process.line().await.unwrap(), "Server running on stdio");
    process.send(&call(1, "noise")).await;
    assert_eq!(process.line().await.unwrap(), "so to speak");
    assert_eq!(text(&process.message().await), "a");
    process.send(&call(2, "garbage")).await;
    assert_eq!(process.line().await.unwrap(), "{not json");
    assert_eq!(text(&process.ask(&call(3, "huge")).await).len(), 1 << 20);
    process.send(&call(4, "endless")).await;
    assert_eq!(process.bytes(1 << 20).await, vec![b'x'; 1 << 20]);
}

#[tokio::test]
async fn bytes_may_come_one_by_one() {
    let script = Script::new("日本 — 😀").tool("t", [Step::Name]).with(|script| script.stdio.byte_by_byte = true);
    let upstream = Upstream::stdio(script).await;
    assert_eq!(text(&Process::start(&upstream).ask(&call(1, "t")).await), "日本 — 😀");
}

#[tokio::test]
async fn a_child_exits_when_its_script_says_so() {
    let die = Script::new("a").tool("boom", [Step::Die]);
    let twice = Script::new("a").with(|script| script.stdio.dies_at_second_initialize = true);
    let probed = Script::new("a").with(|script| script.discover = Discover::Die);
    let start = Script::new("a").with(|script| script.stdio.exit_at_start = true);
    let cases = [
        (die, None, Some(call(1, "boom"))),
        (twice, Some(initialize("2025-11-25")), Some(initialize("2025-11-25"))),
        (probed, None, Some(modern(1, "server/discover", json!({})))),
        (start, None, None),
    ];
    for (script, answered, deadly) in cases {
        let upstream = Upstream::stdio(script).await;
        let mut process = Process::start(&upstream);
        if let Some(message) = answered {
            process.ask(&message).await;
        }
        if let Some(message) = deadly {
            process.send(&message).await;
        }
        assert_eq!(process.line().await, None);
        assert_eq!(process.child.wait().await.unwrap().code(), Some(1));
    }
}

#[tokio::test]
async fn the_probe_is_met_as_scripted() {
    let probe = modern(1, "server/discover", json!({}));
    let with = |discover| Script::new("a").with(|script| script.discover = discover);
    let cases = [
        (Script::new("a").legacy_only(), json!(-32601)),
        (with(Discover::Error(-32099)), json!(-32099)),
        (with(Discover::EmptyResult), json!(null)),
        (with(Discover::After(1)), json!(null)),
    ];
    for (script, code) in cases {
        let upstream = Upstream::stdio(script).await;
        let answer = Process::start(&upstream).ask(&probe).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    let upstream = Upstream::stdio(with(Discover::Silent)).await;
    let mut process = Process::start(&upstream);
    process.send(&probe).await;
    assert_eq!(process.ask(&request(2, "initialize", json!({}))).await["id"], 2);
}

#[tokio::test]
async fn a_stubborn_child_outlives_eof_and_sigterm_but_not_its_test() {
    for wrapped in [false, true] {
        let script = Script::new("a").tool("t", [Step::Name]).with(|script| {
            (script.stdio.ignores_eof, script.stdio.ignores_sigterm, script.stdio.wrapped) = (true, true, wrapped);
        });
        let upstream = Upstream::stdio(script).await;
        let mut process = Process::start(&upstream);
        process.ask(&call(1, "t")).await;
        let pid = upstream.pids()[0];
        assert_eq!(process.child.id() == Some(pid), !wrapped);
        process.stdin = None;
        kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGTERM).unwrap();
        // It still carries out orders, and each is acknowledged, so this would wait for ever if it were gone.
        upstream.announce_tools().await;
        assert_eq!(process.message().await["method"], "notifications/tools/list_changed");
        drop(upstream);
        assert!(process.child.wait().await.unwrap().success());
    }
}
