//! What `/metrics` shows after real traffic: each series under its labels, each gauge back at zero, no label from a caller.

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, Reply};
use crate::support::scrape::{Scrape, wait_for};
use crate::support::upstream::{Paging, Script, Step, Upstream};

fn script() -> Script {
    Script::new("files")
        .tool("good", [Step::Name])
        .tool("fails", [Step::Result(json!({"content": [], "isError": true, "resultType": "complete"}).to_string())])
        .tool("error", [Step::Error(json!({"code": -32000, "message": "no"}).to_string())])
        .tool("never", [Step::Never])
        .tool("hold", [Step::Progress(1), Step::Hold, Step::Name])
        .resource("file:///a")
        .prompt("p")
}

async fn call(client: &Client, tool: &str) -> Value {
    client.request("tools/call", json!({"name": format!("files__{tool}")})).await
}

/// The client gives up while its call is held.
async fn give_up(client: &Client, upstream: &Upstream, nth: usize) {
    let params = json!({"name": "files__hold", "_meta": {"progressToken": nth}});
    let mut reply = client.open("tools/call", params).await;
    reply.find(|message| message["method"] == "notifications/progress").await;
    assert_eq!(upstream.count("tools/call"), nth);
    drop(reply);
}

#[tokio::test]
async fn a_call_counts_once_under_how_it_ended() {
    let upstream = Upstream::http(script()).await;
    let mut entry = upstream.config();
    entry["timeouts"] = json!({"call": "200ms"});
    let down = json!({"command": "/nonexistent/program"});
    let gateway = Gateway::with(json!({"mcpServers": {"files": entry, "down": down}})).await;
    gateway.wait_state("files", "ready").await;
    let modern = Client::modern(&gateway.url());
    let legacy = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    give_up(&modern, &upstream, 1).await;
    for client in [&modern, &legacy] {
        for tool in ["good", "good", "fails", "error", "never"] {
            call(client, tool).await;
        }
        client.result("resources/read", json!({"uri": "files+file:///a"})).await;
        client.result("prompts/get", json!({"name": "files__p"})).await;
        client.result("tools/list", json!({})).await;
    }
    let down = Client::modern(&gateway.url_of("down"));
    let failed = down.request("tools/call", json!({"name": "anything"})).await;
    assert_eq!(failed["result"]["isError"], true, "{failed}");

    let settled = |s: &Scrape| s.calls("files", "tools/call", "modern", "cancelled") == 1.0;
    let scrape = wait_for(&gateway, "the call that was given up is counted", settled).await;
    for era in ["modern", "legacy"] {
        for (outcome, count) in [("ok", 2.0), ("tool_error", 1.0), ("rpc_error", 1.0), ("timeout", 1.0)] {
            assert_eq!(scrape.calls("files", "tools/call", era, outcome), count, "{era} {outcome}\n{}", scrape.page);
        }
        assert_eq!(scrape.calls("files", "resources/read", era, "ok"), 1.0);
        assert_eq!(scrape.calls("files", "prompts/get", era, "ok"), 1.0);
        assert_eq!(scrape.calls("", "tools/list", era, "ok"), 1.0);
    }
    assert_eq!(scrape.calls("files", "tools/call", "legacy", "cancelled"), 0.0);
    assert_eq!(scrape.calls("down", "tools/call", "modern", "unavailable"), 1.0);
    let count = scrape.value(r#"manifold_call_duration_seconds_count{method="tools/call",server="files"}"#);
    assert_eq!(count, 11.0, "every call that was sent, and only those");
    let within = |le: &str| {
        scrape
            .value(&format!(r#"manifold_call_duration_seconds_bucket{{method="tools/call",server="files",le="{le}"}}"#))
    };
    assert!(within("0.1") <= 9.0, "two calls ran into the deadline of 200 ms");
    assert_eq!(within("+Inf"), 11.0);
    assert_eq!(scrape.value(r#"manifold_calls_in_flight{server="files"}"#), 0.0);
    gateway.stop().await;
}

#[tokio::test]
async fn gauges_of_what_is_open_rise_and_come_back_to_zero() {
    let upstream = Upstream::http(script()).await;
    let gateway = Gateway::over(&[("files", &upstream)]).await;
    gateway.wait_state("files", "ready").await;
    let modern = Client::modern(&gateway.url());
    let legacy = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let other = Client::legacy(&gateway.url(), "2025-06-18", json!({})).await;

    let session = legacy.stream().await;
    let mut listen = modern.open("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})).await;
    listen.next().await.expect("it is acknowledged");
    let params = json!({"name": "files__hold", "_meta": {"progressToken": 1}});
    let mut answer = modern.open("tools/call", params).await;
    answer.next().await.expect("progress");
    let open = [
        ("manifold_sessions", 2.0),
        (r#"manifold_streams{kind="session"}"#, 1.0),
        (r#"manifold_streams{kind="listen"}"#, 1.0),
        (r#"manifold_streams{kind="answer"}"#, 1.0),
        (r#"manifold_calls_in_flight{server="files"}"#, 1.0),
    ];
    let scrape = Scrape::of(&gateway).await;
    for (series, value) in open {
        assert_eq!(scrape.value(series), value, "{series}");
    }

    upstream.release("hold").await;
    assert_eq!(answer.last().await["result"]["content"][0]["text"], "files");
    drop((session, listen));
    for client in [&legacy, &other] {
        assert_eq!(client.delete().await, StatusCode::NO_CONTENT);
    }
    let closed = |s: &Scrape| open.iter().all(|(series, _)| s.value(series) == 0.0);
    wait_for(&gateway, "everything is closed", closed).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_session_that_ends_under_its_stream_leaves_no_gauge_behind() {
    let gateway = Gateway::with(json!({"mcpServers": {}})).await;
    let legacy = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let stream = legacy.stream().await;
    let open = |s: &Scrape| (s.value("manifold_sessions"), s.value(r#"manifold_streams{kind="session"}"#));
    assert_eq!(open(&Scrape::of(&gateway).await), (1.0, 1.0));
    legacy.delete().await;
    stream.all().await;
    wait_for(&gateway, "both are closed", |s| open(s) == (0.0, 0.0)).await;
    gateway.stop().await;
}

async fn send(gateway: &Gateway, verb: Method, headers: &[(&'static str, &str)], body: &str) -> Reply {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, HeaderValue::from_str(value).unwrap());
    }
    Client::modern(&gateway.url()).send(verb, map, body.to_owned()).await
}

#[tokio::test]
async fn a_refusal_counts_once_under_its_reason() {
    let gateway = Gateway::with(json!({"limits": {"body": 2048, "headers": 4096}, "mcpServers": {}})).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let long = "x".repeat(5000);
    let version = ("mcp-protocol-version", "2026-07-28");
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let modern = |method: &str, rest: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{meta}{rest}}}}}"#)
    };
    let (list, unknown, tool, cursor) = (
        modern("tools/list", ""),
        modern("no/such", ""),
        modern("tools/call", r#","name":"nope""#),
        modern("tools/list", r#","cursor":"nope""#),
    );
    let future = list.replace("2026-07-28", "2099-01-01");
    type Refused<'a> = (&'a str, Method, &'a [(&'static str, &'a str)], &'a str);
    let table: &[Refused<'_>] = &[
        ("host", Method::POST, &[("host", "evil.example.com")], ping),
        ("origin", Method::POST, &[("origin", "https://evil.example.com")], ping),
        ("media_type", Method::POST, &[("content-type", "text/plain")], ping),
        ("media_type", Method::POST, &[("accept", "text/html")], ping),
        ("body_size", Method::POST, &[], &long),
        ("header_size", Method::POST, &[("x-long", &long)], ping),
        ("malformed", Method::POST, &[], "{"),
        ("malformed", Method::POST, &[], "{}"),
        ("session", Method::POST, &[("mcp-session-id", "nobody")], ping),
        ("session", Method::GET, &[], ""),
        ("method", Method::PUT, &[], ""),
        ("method", Method::POST, &[version, ("mcp-method", "no/such")], &unknown),
        ("version", Method::POST, &[], ping),
        ("version", Method::POST, &[("mcp-protocol-version", "2099-01-01"), ("mcp-method", "tools/list")], &future),
        ("header_mismatch", Method::POST, &[version, ("mcp-method", "tools/call")], &list),
        ("unknown", Method::POST, &[version, ("mcp-method", "tools/call"), ("mcp-name", "nope")], &tool),
        ("invalid", Method::POST, &[version, ("mcp-method", "tools/list")], &cursor),
    ];
    let mut before = Scrape::of(&gateway).await;
    for (reason, verb, headers, body) in table {
        let reply = send(&gateway, verb.clone(), headers, body).await;
        let (status, said) = (reply.status, reply.text().await);
        let after = Scrape::of(&gateway).await;
        let all = |s: &Scrape| -> f64 {
            let lines = s.page.lines().filter(|l| l.starts_with("manifold_refusals_total"));
            lines.map(|l| l.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
        };
        assert_eq!(after.refusals(reason) - before.refusals(reason), 1.0, "{reason}: {status} {said}");
        assert_eq!(all(&after) - all(&before), 1.0, "{reason} only: {status} {said}\n{}", after.page);
        before = after;
    }
    let nowhere = gateway.url().replace("/mcp", "/elsewhere");
    assert_eq!(Client::modern(&nowhere).send(Method::POST, HeaderMap::new(), ping).await.status, 404);
    assert_eq!(Scrape::of(&gateway).await.refusals("unknown"), 2.0);
    gateway.stop().await;
}

/// Bug B067: tool and client names from requests became labels, and the number of series grew with the callers.
#[tokio::test]
async fn nothing_that_a_caller_writes_becomes_a_label() {
    let upstream = Upstream::http(script()).await;
    let gateway = Gateway::over(&[("files", &upstream)]).await;
    gateway.wait_state("files", "ready").await;
    let modern = Client::modern(&gateway.url());
    let round = async |n: usize| {
        let text = format!("marker{n}");
        let legacy = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
        for client in [&modern, &legacy] {
            client.request("tools/call", json!({"name": text})).await;
            client.request("tools/call", json!({"name": "files__good", "arguments": {&text: &text}})).await;
            client.request("resources/read", json!({"uri": format!("files+{text}:///")})).await;
            client.request("prompts/get", json!({"name": text})).await;
            client.request("tools/list", json!({"cursor": text})).await;
            client.request(&format!("{text}/method"), json!({})).await;
            client.post("ping", &json!({"jsonrpc": "2.0", "id": text, "method": "ping"})).await.all().await;
        }
        let single = gateway.url_of(&text);
        Client::modern(&single).request("tools/list", json!({})).await;
        Client::modern(&gateway.url_of("files")).request("tools/call", json!({"name": text})).await;
        legacy.delete().await;
    };
    round(0).await;
    let first = Scrape::of(&gateway).await;
    for n in 1..5 {
        round(n).await;
    }
    let last = Scrape::of(&gateway).await;
    assert_eq!(last.len(), first.len(), "no series was added");
    assert!(!last.page.contains("marker"), "{}", last.page);
    gateway.stop().await;
}

#[tokio::test]
async fn servers_and_the_catalog_are_shown_as_they_are() {
    let noisy = Script::new("noisy").tool("same", []).with(|s| s.stdio.banner = vec!["hello".into(), "there".into()]);
    let noisy = Upstream::stdio(noisy).await;
    let endless = Script::new("endless").tool("same", []).with(|s| s.paging = Paging::Repeating);
    let endless = Upstream::http(endless).await;
    let files = Upstream::http(script()).await;
    let (mut a, mut b) = (noisy.config(), endless.config());
    (a["prefix"], b["prefix"]) = (json!(""), json!(""));
    let off = json!({"command": "x", "disabled": true});
    let servers = json!({"noisy": a, "endless": b, "files": files.config(), "off": off});
    let gateway = Gateway::with(json!({"mcpServers": servers})).await;
    for name in ["noisy", "endless", "files"] {
        gateway.wait_state(name, "ready").await;
    }
    let scrape = Scrape::of(&gateway).await;
    for (series, value) in [
        (r#"manifold_upstream_state{server="files",state="ready"}"#, 1.0),
        (r#"manifold_upstream_state{server="files",state="starting"}"#, 0.0),
        (r#"manifold_upstream_state{server="off",state="disabled"}"#, 1.0),
        (r#"manifold_upstream_restarts_total{reason="closed",server="noisy"}"#, 0.0),
        (r#"manifold_upstream_lines_dropped_total{server="noisy",source="noise"}"#, 2.0),
        (r#"manifold_catalog_entries{kind="tools",server="files"}"#, 5.0),
        (r#"manifold_catalog_entries{kind="resources",server="files"}"#, 1.0),
        (r#"manifold_catalog_entries{kind="templates",server="files"}"#, 0.0),
        (r#"manifold_catalog_entries{kind="prompts",server="files"}"#, 1.0),
        (r#"manifold_truncations_total{kind="tools",server="endless"}"#, 1.0),
        (r#"manifold_truncations_total{kind="tools",server="files"}"#, 0.0),
        ("manifold_catalog_conflicts", 1.0),
        ("manifold_suspended_calls", 0.0),
        (concat!("manifold_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1.0),
    ] {
        assert_eq!(scrape.value(series), value, "{series}\n{}", scrape.page);
    }
    let snapshot = scrape.value("manifold_catalog_snapshot");

    noisy.kill().await;
    let restarted = |s: &Scrape| {
        s.value(r#"manifold_upstream_restarts_total{reason="closed",server="noisy"}"#) == 1.0
            && s.value(r#"manifold_upstream_state{server="noisy",state="ready"}"#) == 1.0
            && s.value("manifold_catalog_snapshot") > snapshot
    };
    wait_for(&gateway, "the child is back", restarted).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_question_counts_by_what_became_of_it() {
    let asking = Script::new("asking").legacy_only().tool("ask", [Step::elicit("6 x 7?"), Step::Answers]);
    let upstream = Upstream::http(asking).await;
    let gateway = Gateway::over(&[("asking", &upstream)]).await;
    gateway.wait_state("asking", "ready").await;
    let able = Client::legacy(&gateway.url(), "2025-11-25", json!({"elicitation": {}})).await;
    let unable = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let mut reply = able.open("tools/call", json!({"name": "asking__ask"})).await;
    let question = reply.find(|message| message["method"] == "elicitation/create").await;
    able.answer(&question, json!({"action": "decline"})).await;
    reply.last().await;
    unable.request("tools/call", json!({"name": "asking__ask"})).await;
    let count = |s: &Scrape, outcome: &str| s.value(&format!(r#"manifold_questions_total{{outcome="{outcome}"}}"#));
    let counted = |s: &Scrape| (count(s, "answered"), count(s, "unsupported")) == (1.0, 1.0);
    wait_for(&gateway, "both questions are counted", counted).await;
    gateway.stop().await;
}

#[tokio::test]
async fn every_family_of_the_design_is_there() {
    let upstream = Upstream::http(script()).await;
    let gateway = Gateway::over(&[("files", &upstream)]).await;
    gateway.wait_state("files", "ready").await;
    call(&Client::modern(&gateway.url()), "good").await;
    let scrape = Scrape::of(&gateway).await;
    let families = scrape.families();
    for family in [
        "manifold_calls_total",
        "manifold_call_duration_seconds",
        "manifold_calls_in_flight",
        "manifold_upstream_state",
        "manifold_upstream_restarts_total",
        "manifold_upstream_lines_dropped_total",
        "manifold_catalog_entries",
        "manifold_catalog_snapshot",
        "manifold_catalog_conflicts",
        "manifold_truncations_total",
        "manifold_sessions",
        "manifold_streams",
        "manifold_slow_streams_total",
        "manifold_suspended_calls",
        "manifold_questions_total",
        "manifold_refusals_total",
        "manifold_build_info",
    ] {
        assert!(families.contains(&family), "{family} is not in {families:?}");
    }
    gateway.stop().await;
}
