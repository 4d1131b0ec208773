//! Which era an upstream speaks is found out whatever it answers, or does not answer (protocol.md §1.5, §1.6), and a pin
//! in the configuration spares the question.

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::upstream::{Discover, Script, Step, Upstream};
use crate::support::watch::{call_text, wait_server, with};

fn echo() -> Script {
    Script::new("a").tool("echo", [Step::Echo])
}

fn probed(discover: Discover) -> Script {
    echo().with(|s| s.discover = discover)
}

fn error(code: i64) -> [Step; 1] {
    [Step::Error(json!({"code": code, "message": "refused by script"}).to_string())]
}

/// Short probes, everything else as configured.
const QUICK: &str = r#"{"timeouts": {"probe": "150ms"}}"#;

/// Starts a gateway over `upstream`, waits until it is ready, and calls it. Gives the row of the server.
async fn ready(what: &str, upstream: &Upstream, more: &str) -> Value {
    let config = with(upstream, serde_json::from_str(more).unwrap());
    let gateway = Gateway::with(json!({"mcpServers": {"a": config}})).await;
    let row = wait_server(&gateway, "a", |row| row["state"] == "ready").await;
    assert_eq!(call_text(&Client::modern(&gateway.url()), "a__echo").await, r#"{"n":1}"#, "{what}");
    gateway.stop().await;
    row
}

/// Rows that mean the same over a pipe and over HTTP.
fn rows() -> Vec<(&'static str, Script, &'static str)> {
    let versions = |list: &str| [Step::Result(format!(r#"{{"supportedVersions":{list},"capabilities":{{}}}}"#))];
    let refusal = r#"{"code":-32022,"message":"no","data":{"supported":["2025-06-18"]}}"#;
    vec![
        ("both eras", echo(), "modern"),
        ("modern alone", echo().modern_only(), "modern"),
        ("-32022, then an answer to the version it names", probed(Discover::VersionFirst), "modern"),
        ("method not found", echo().legacy_only(), "legacy"),
        ("2024-11-05", echo().only_revision("2024-11-05"), "legacy"),
        ("an empty result", probed(Discover::EmptyResult).legacy_only(), "legacy"),
        ("any other code", probed(Discover::Error(-32099)).legacy_only(), "legacy"),
        ("a code of a draft without versions", probed(Discover::Error(-32004)).legacy_only(), "legacy"),
        ("invalid params", probed(Discover::Error(-32602)).legacy_only(), "legacy"),
        ("code 0", probed(Discover::Error(0)).legacy_only(), "legacy"),
        ("only legacy versions", echo().legacy_only().on("server/discover", versions(r#"["2025-06-18"]"#)), "legacy"),
        (
            "versions that are no list",
            echo().legacy_only().on("server/discover", versions(r#""2026-07-28""#)),
            "legacy",
        ),
        (
            "-32022 that names legacy versions",
            echo().legacy_only().on("server/discover", [Step::Error(refusal.into())]),
            "legacy",
        ),
        ("silence", probed(Discover::Silent).legacy_only(), "legacy"),
        ("a late answer, and no initialize", probed(Discover::After(400)).modern_only(), "modern"),
        (
            "an era that latches at the first message",
            probed(Discover::After(400)).on("initialize", error(-32022)),
            "modern",
        ),
    ]
}

#[tokio::test]
async fn every_answer_to_the_probe_is_understood_over_stdio() {
    for (what, script, era) in rows() {
        let upstream = Upstream::stdio(script).await;
        let row = ready(what, &upstream, QUICK).await;
        assert_eq!(row["era"], era, "{what}: {row}");
        assert_eq!(row["restarts"], 0, "{what}: {row}");
        let starts = upstream.received().iter().filter(|got| got.verb == "START").count();
        assert_eq!(starts, 1, "{what}: the same process is kept");
    }
}

#[tokio::test]
async fn every_answer_to_the_probe_is_understood_over_http() {
    let status = |code, body: &str| echo().legacy_only().on("server/discover", [Step::Status(code, body.into())]);
    let more = vec![
        ("400 without a body", status(400, ""), "legacy"),
        ("404 without a body", status(404, ""), "legacy"),
        ("405", status(405, "no"), "legacy"),
        ("406", status(406, "{}"), "legacy"),
        ("415", status(415, "<html>"), "legacy"),
        ("busy for ever", status(503, ""), "legacy"),
        ("no sessions", echo().legacy_only().with(|s| s.http.sessions = false), "legacy"),
        ("no stream", echo().legacy_only().with(|s| s.http.get_stream = false), "legacy"),
    ];
    for (what, script, era) in rows().into_iter().chain(more) {
        let upstream = Upstream::http(script).await;
        let row = ready(what, &upstream, QUICK).await;
        assert_eq!(row["era"], era, "{what}: {row}");
        assert_eq!(row["restarts"], 0, "{what}: {row}");
    }
}

#[tokio::test]
async fn a_url_that_knows_no_post_is_tried_as_a_server_of_2024() {
    let upstream = Upstream::sse(echo()).await;
    let row = ready("405 to every POST", &upstream, r#"{"type": "http"}"#).await;
    assert_eq!(row["era"], "legacy", "{row}");
}

/// The probe waits in the pipe until the process reads; it is answered before `initialize`, which went out beside it.
#[tokio::test]
async fn a_server_that_starts_slowly_is_not_taken_for_an_old_one() {
    for script in [echo(), echo().modern_only(), echo().on("initialize", error(-32022))] {
        let upstream = Upstream::stdio(script.with(|s| s.stdio.start_delay_ms = 1500)).await;
        let row = ready("slow start", &upstream, QUICK).await;
        assert_eq!((&row["era"], &row["restarts"]), (&json!("modern"), &json!(0)), "{row}");
    }
}

#[tokio::test]
async fn a_server_that_dies_at_the_probe_is_started_once_more_and_only_shakes_hands() {
    let upstream = Upstream::stdio(probed(Discover::Die).legacy_only()).await;
    let row = ready("dies at the probe", &upstream, "{}").await;
    assert_eq!((&row["era"], &row["restarts"]), (&json!("legacy"), &json!(0)), "{row}");
    assert_eq!(upstream.received().iter().filter(|got| got.verb == "START").count(), 2);
    assert_eq!((upstream.count("server/discover"), upstream.count("initialize")), (1, 1));
}

#[tokio::test]
async fn a_pin_spares_the_question_and_is_kept() {
    let pin = |era: &str| format!(r#"{{"protocol": "{era}"}}"#);
    for upstream in [Upstream::stdio(echo()).await, Upstream::http(echo()).await] {
        assert_eq!(ready("legacy", &upstream, &pin("legacy")).await["revision"], "2025-11-25");
        assert_eq!(upstream.count("server/discover"), 0);
        assert_eq!(ready("modern", &upstream, &pin("modern")).await["revision"], "2026-07-28");
        assert_eq!(upstream.count("initialize"), 1, "from the first of the two");
    }
    for (script, era) in [(echo().legacy_only(), "modern"), (echo().modern_only(), "legacy")] {
        for upstream in [Upstream::stdio(script.clone()).await, Upstream::http(script.clone()).await] {
            let config = with(&upstream, serde_json::from_str(&pin(era)).unwrap());
            let gateway = Gateway::with(json!({"mcpServers": {"a": config}})).await;
            let row = wait_server(&gateway, "a", |row| row["state"] == "backing_off").await;
            let error = row["lastError"].as_str().unwrap();
            assert!(error.contains(&format!("`protocol: {era}`")), "{error}");
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn a_server_that_answers_with_no_version_we_know_is_left_alone() {
    let old = r#"{"protocolVersion":"2023-01-01","capabilities":{}}"#;
    let upstream = Upstream::http(echo().legacy_only().on("initialize", [Step::Result(old.into())])).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    let row = wait_server(&gateway, "a", |row| row["state"] == "backing_off").await;
    assert!(row["lastError"].as_str().unwrap().contains("protocol version"), "{row}");
    assert_eq!(upstream.count("notifications/initialized"), 0);
    gateway.stop().await;
}
