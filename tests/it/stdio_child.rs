//! Children that chatter, stutter, flood and overflow on their pipes: what is a message gets through, the rest is bounded.

use serde_json::json;

use crate::support::app::Gateway;
use crate::support::client::{Client, text_of};
use crate::support::upstream::{Script, Step, Upstream};
use crate::support::watch::{call, call_failure, call_text, server, wait_server, with};

const MIB: usize = 1 << 20;

fn scripts(change: impl Fn(Script) -> Script) -> [Script; 2] {
    let script = || Script::new("a").tool("echo", [Step::Echo]);
    [change(script()), change(script().legacy_only())]
}

#[tokio::test]
async fn stdout_noise_is_skipped() {
    let noise = [Step::Noise("Server running on stdio".into()), Step::Noise(r#"{"level":"info"}"#.into()), Step::Echo];
    for script in scripts(|s| {
        s.tool("noisy", noise.clone()).with(|s| s.stdio.banner = vec!["Welcome!".into(), String::new(), "[1,".into()])
    }) {
        let upstream = Upstream::stdio(script).await;
        let gateway = Gateway::over(&[("a", &upstream)]).await;
        gateway.wait_state("a", "ready").await;
        let client = Client::modern(&gateway.url());
        for _ in 0..60 {
            assert_eq!(call_text(&client, "a__noisy").await, r#"{"n":1}"#);
        }
        assert_eq!(server(&gateway, "a").await["restarts"], 0);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn nothing_but_noise_is_a_broken_server() {
    let rant = vec![Step::Noise("bla".into()); 101];
    let upstream = Upstream::stdio(Script::new("a").tool("echo", [Step::Echo]).tool("rant", rant)).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    gateway.wait_state("a", "ready").await;
    let client = Client::modern(&gateway.url());
    call_failure(&client, "a__rant").await;
    wait_server(&gateway, "a", |row| row["state"] == "ready" && row["restarts"] == 1).await;
    assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#);
    gateway.stop().await;
}

#[tokio::test]
async fn a_flood_of_stderr_blocks_nothing() {
    let upstream = Upstream::stdio(Script::new("a").tool("log", [Step::Stderr(MIB), Step::Echo])).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    gateway.wait_state("a", "ready").await;
    let client = Client::modern(&gateway.url());
    for _ in 0..3 {
        assert_eq!(call_text(&client, "a__log").await, r#"{"n":1}"#);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn text_that_comes_byte_by_byte_is_whole() {
    for script in scripts(|s| s.with(|s| s.stdio.byte_by_byte = true)) {
        let upstream = Upstream::stdio(script).await;
        let gateway = Gateway::over(&[("a", &upstream)]).await;
        gateway.wait_state("a", "ready").await;
        let text = "日本 — 😀";
        let client = Client::modern(&gateway.url());
        let result = client.result("tools/call", json!({"name": "a__echo", "arguments": {"t": text}})).await;
        assert_eq!(text_of(&result), json!({"t": text}).to_string());
        gateway.stop().await;
    }
}

#[tokio::test]
async fn large_results_and_requests_pass() {
    let sizes = [100 << 10, MIB, 8 * MIB];
    let script = sizes.iter().fold(Script::new("a").tool("echo", [Step::Echo]), |script, size| {
        script.tool(&format!("huge{size}"), [Step::Huge(*size)])
    });
    for upstream in [Upstream::stdio(script.clone()).await, Upstream::http(script).await] {
        let gateway = Gateway::over(&[("a", &upstream)]).await;
        gateway.wait_state("a", "ready").await;
        let client = Client::modern(&gateway.url());
        for size in sizes {
            assert_eq!(call_text(&client, &format!("a__huge{size}")).await.len(), size);
        }
        let text = "y".repeat(2 * MIB);
        let result = client.result("tools/call", json!({"name": "a__echo", "arguments": {"t": text}})).await;
        assert_eq!(text_of(&result).len(), text.len() + r#"{"t":""}"#.len());
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_result_over_the_limit_fails_that_call_alone() {
    let script = Script::new("a").tool("echo", [Step::Echo]).tool("huge", [Step::Huge(2 * MIB)]);
    let sse = script.clone().with(|s| s.http.answer = crate::support::upstream::Answer::Sse);
    for upstream in [Upstream::stdio(script.clone()).await, Upstream::http(script).await, Upstream::http(sse).await] {
        let config = with(&upstream, json!({"limits": {"message": "1MiB"}}));
        let gateway = Gateway::with(json!({"mcpServers": {"a": config}})).await;
        gateway.wait_state("a", "ready").await;
        let client = Client::modern(&gateway.url());
        for _ in 0..3 {
            let failure = call_failure(&client, "a__huge").await;
            assert!(failure.contains("larger than 1048576 bytes"), "{failure}");
            assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#);
        }
        assert_eq!(server(&gateway, "a").await["restarts"], 0);
        gateway.stop().await;
    }
}

/// Whether the line goes on for long or just stops, the stream after it cannot be trusted.
#[tokio::test]
async fn a_line_without_end_restarts_its_server_and_nobody_else() {
    for size in [MIB + 70_000, 64 * MIB] {
        let upstream =
            Upstream::stdio(Script::new("a").tool("echo", [Step::Echo]).tool("endless", [Step::Endless(size)])).await;
        let other = Upstream::stdio(Script::new("b").tool("echo", [Step::Echo])).await;
        let config =
            with(&upstream, json!({"limits": {"message": "1MiB"}, "timeouts": {"call": "2s", "callMax": "3s"}}));
        let gateway = Gateway::with(json!({"mcpServers": {"a": config, "b": other.config()}})).await;
        gateway.wait_state("a", "ready").await;
        gateway.wait_state("b", "ready").await;
        let client = Client::modern(&gateway.url());
        let others = async {
            for _ in 0..50 {
                assert_eq!(call_text(&client, "b__echo").await, r#"{"n":1}"#);
            }
        };
        let (result, ()) = tokio::join!(call(&client, "a__endless"), others);
        assert_eq!(result["isError"], true, "{result}");
        wait_server(&gateway, "a", |row| row["state"] == "ready" && row["restarts"].as_u64() > Some(0)).await;
        assert_eq!(call_text(&client, "a__echo").await, r#"{"n":1}"#);
        assert_eq!(server(&gateway, "b").await["restarts"], 0);
        gateway.stop().await;
    }
}
