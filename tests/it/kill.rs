//! `kill -9` of a stdio child in the middle of traffic: its calls end at once with a clear error, the others never
//! notice, it comes back, and nobody is told of a change where nothing changed.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, text_of};
use crate::support::upstream::{Script, Step, Upstream};

/// Calls in flight at the victim when it is killed.
const CALLS: usize = 8;
/// Calls that the bystander serves around it.
const BYSTANDER_CALLS: usize = 200;

fn kill_nine(upstream: &Upstream) {
    for pid in upstream.pids() {
        kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
    }
}

async fn call(client: &Client, name: &str) -> Value {
    client.result("tools/call", json!({"name": name, "arguments": {"n": 1}})).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_a_child_fails_its_calls_at_once_and_nobody_elses() {
    let victim = Upstream::stdio(Script::new("victim").tool("hold", [Step::Never]).tool("echo", [Step::Echo])).await;
    let bystander = Upstream::stdio(Script::new("bystander").tool("echo", [Step::Echo])).await;
    let gateway = Gateway::over(&[("victim", &victim), ("bystander", &bystander)]).await;
    gateway.wait_state("victim", "ready").await;
    gateway.wait_state("bystander", "ready").await;
    let legacy = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let mut told = legacy.stream().await;
    let client = Client::modern(&gateway.url());

    let held = futures_util::future::join_all((0..CALLS).map(|_| call(&client, "victim__hold")));
    let others = async {
        for _ in 0..BYSTANDER_CALLS {
            let result = call(&client, "bystander__echo").await;
            assert_ne!(result["isError"], true, "{result}");
        }
    };
    let killing = async {
        victim.wait_for_nth(CALLS, |got| got.method() == "tools/call").await;
        kill_nine(&victim);
    };
    let (failed, (), ()) = tokio::join!(held, others, killing);
    for result in failed {
        assert_eq!(result["isError"], true, "{result}");
        assert!(text_of(&result).contains("\"victim\""), "{result}");
    }
    gateway.wait_state("victim", "ready").await;
    let back = call(&client, "victim__echo").await;
    assert_eq!(text_of(&back), r#"{"n":1}"#);

    // What is told next is the change that we make now: the restart itself changed nothing.
    bystander.set_tools([crate::support::upstream::tool("new")]).await;
    bystander.announce_tools().await;
    let mut changes = 0;
    loop {
        told.find(|m| m["method"] == "notifications/tools/list_changed").await;
        changes += 1;
        let tools = legacy.result("tools/list", json!({})).await.to_string();
        if tools.contains("bystander__new") {
            break;
        }
    }
    assert_eq!(changes, 1, "a restart with the same offer is no change");
    gateway.stop().await;
}
