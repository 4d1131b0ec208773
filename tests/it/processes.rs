//! What a child gets from us when it starts, how many there are, and that none is left.

use std::collections::HashMap;
use std::fs::read_to_string;

use futures_util::future::join_all;
use serde_json::json;

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::upstream::{Script, Step, Upstream};
use crate::support::watch::{call_text, exists, server, tool_names, with};

fn echo() -> Script {
    Script::new("a").tool("echo", [Step::Echo])
}

#[tokio::test]
async fn a_child_gets_path_home_and_locale_its_own_variables_arguments_and_folder() {
    let upstream = Upstream::stdio(echo()).await;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().canonicalize().unwrap();
    // Writes down what it was given, then becomes the scripted upstream, whose command line is in its arguments.
    let line = r#"env > env; pwd -P > cwd; printf '%s\n' "$1" "$2" > args; shift 2; exec "$@""#;
    let mut args = vec!["-c".to_owned(), line.into(), "sh".into(), "two words".into(), r#"$${x} * "q""#.into()];
    args.push(upstream.command());
    args.extend(upstream.args());
    let config = with(
        &upstream,
        json!({"args": args, "cwd": out, "env": {
            upstream.env()[0].0.clone(): upstream.env()[0].1.clone(),
            "GIVEN": "by the configuration",
            "LANG": "C.UTF-8",
        }}),
    );
    let gateway = Gateway::with(json!({"mcpServers": {"a": config}})).await;
    gateway.wait_state("a", "ready").await;
    let text = read_to_string(out.join("env")).unwrap();
    let env: HashMap<_, _> = text.lines().filter_map(|line| line.split_once('=')).collect();
    for ours in ["PATH", "HOME"] {
        assert_eq!(env.get(ours).map(|v| (*v).to_owned()), std::env::var(ours).ok(), "{ours}");
    }
    assert_eq!((env["GIVEN"], env["LANG"]), ("by the configuration", "C.UTF-8"));
    // The test runner sets this for us, as an operator's shell sets secrets.
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
    assert!(!env.contains_key("CARGO_MANIFEST_DIR"), "{text}");
    assert_eq!(read_to_string(out.join("cwd")).unwrap().trim_end(), out.to_str().unwrap());
    assert_eq!(read_to_string(out.join("args")).unwrap(), "two words\n${x} * \"q\"\n");
    gateway.stop().await;
}

#[tokio::test]
async fn many_clients_share_one_child_and_one_handshake() {
    let upstream = Upstream::stdio(echo().legacy_only().with(|s| s.stdio.dies_at_second_initialize = true)).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    gateway.wait_state("a", "ready").await;
    let url = gateway.url();
    // None says goodbye.
    join_all((0..50).map(|_| async {
        let client = Client::legacy(&url, "2025-11-25", json!({})).await;
        assert_eq!(tool_names(&client).await, ["a__echo"]);
    }))
    .await;
    let (first, second) =
        tokio::join!(Client::legacy(&url, "2024-11-05", json!({})), Client::legacy(&url, "2025-11-25", json!({})));
    drop(first);
    let again = Client::legacy(&url, "2025-11-25", json!({})).await;
    for client in [&second, &again, &Client::modern(&url)] {
        assert_eq!(call_text(client, "a__echo").await, r#"{"n":1}"#);
    }
    assert_eq!(upstream.received().iter().filter(|r| r.verb == "START").count(), 1);
    assert_eq!(upstream.count("initialize"), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_stubborn_child_is_killed_with_everything_behind_its_wrapper() {
    for (wrapped, ignores_eof, ignores_sigterm) in
        [(false, false, false), (true, false, false), (true, true, false), (false, true, true), (true, true, true)]
    {
        let upstream = Upstream::stdio(echo().with(|s| {
            (s.stdio.wrapped, s.stdio.ignores_eof, s.stdio.ignores_sigterm) = (wrapped, ignores_eof, ignores_sigterm);
        }))
        .await;
        let config = with(&upstream, json!({"timeouts": {"shutdown": "200ms"}}));
        let gateway = Gateway::with(json!({"mcpServers": {"a": config}})).await;
        gateway.wait_state("a", "ready").await;
        let leader = server(&gateway, "a").await["pid"].as_u64().unwrap();
        assert_eq!(u64::from(upstream.pids()[0]) != leader, wrapped);
        assert!(exists(leader));
        gateway.stop().await;
        assert!(!exists(leader), "wrapped {wrapped}, ignores EOF {ignores_eof}, SIGTERM {ignores_sigterm}");
        // Its control connection breaks with it.
        upstream.wait_for(|got| got.verb == "END").await;
    }
}

#[tokio::test]
async fn a_wrapper_that_dies_takes_what_is_behind_it_along() {
    let upstream = Upstream::stdio(echo().with(|s| {
        (s.stdio.wrapped, s.stdio.ignores_eof, s.stdio.ignores_sigterm) = (true, true, true);
    }))
    .await;
    let config = with(&upstream, json!({"timeouts": {"shutdown": "200ms"}}));
    let gateway = Gateway::with(json!({"mcpServers": {"a": config}})).await;
    gateway.wait_state("a", "ready").await;
    let leader = server(&gateway, "a").await["pid"].as_i64().unwrap();
    let leader = nix::unistd::Pid::from_raw(i32::try_from(leader).unwrap());
    nix::sys::signal::kill(leader, nix::sys::signal::Signal::SIGKILL).unwrap();
    // Of a server whose wrapper is gone only the pipes are left; when the gateway goes, it must not stay.
    gateway.stop().await;
    upstream.wait_for(|got| got.verb == "END").await;
}
