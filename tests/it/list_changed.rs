//! Change notices: what changes in a running upstream reaches everybody who listens, once, and the next list has it.

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::support::app::{Gateway, PATIENCE};
use crate::support::client::{Client, Reply};
use crate::support::upstream::{Script, Step, Upstream, tool};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";

/// An upstream on each transport, in each era that it can have.
async fn one_of_each(script: Script) -> Vec<(&'static str, Upstream)> {
    vec![
        ("stdio, legacy", Upstream::stdio(script.clone().legacy_only()).await),
        ("stdio, modern", Upstream::stdio(script.clone().modern_only()).await),
        ("http, legacy", Upstream::http(script.clone().legacy_only()).await),
        ("http, modern", Upstream::http(script.clone().modern_only()).await),
        ("sse", Upstream::sse(script).await),
    ]
}

/// Until the gateway listens to it: legacy streams are open, a modern listen was served before the call that follows it.
async fn hears(gateway: &Gateway, name: &str, upstream: &Upstream) {
    gateway.wait_state(name, "ready").await;
    let listening = async {
        while upstream.open_streams() == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, listening).await.expect("a stream to the upstream");
    if gateway.server(name).await["era"] == "modern" {
        upstream.wait_for(|got| got.method() == "subscriptions/listen").await;
    }
    let params = json!({"name": "t", "arguments": {}});
    Client::modern(&gateway.url_of(name)).result("tools/call", params).await;
}

async fn listen(client: &Client, notifications: Value) -> Reply {
    let mut stream = client.open("subscriptions/listen", json!({"notifications": notifications})).await;
    let first = stream.next().await.expect("an acknowledgement");
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    stream
}

async fn find(stream: &mut Reply, method: &str) {
    stream.find(|m| m["method"] == method).await;
}

#[tokio::test]
async fn a_new_tool_reaches_both_eras_from_every_kind_of_upstream() {
    for (kind, upstream) in one_of_each(Script::new("s").tool("t", [])).await {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        hears(&gateway, "s", &upstream).await;
        let legacy = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
        let mut old = legacy.stream().await;
        let modern = Client::modern(&gateway.url());
        let mut new = listen(&modern, json!({"toolsListChanged": true})).await;

        upstream.set_tools([tool("t"), tool("added")]).await;
        let began = Instant::now();
        upstream.announce_tools().await;
        tokio::join!(find(&mut old, TOOLS_CHANGED), find(&mut new, TOOLS_CHANGED));
        let told = began.elapsed();
        for client in [&legacy, &modern] {
            assert_eq!(client.names("tools/list").await, ["s__t", "s__added"], "{kind}");
        }
        // The requirement is 500 ms; a loaded machine proves nothing, so the number is only shown.
        println!("{kind}: told after {told:?}, listed after {:?}", began.elapsed());
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_list_asked_for_after_the_notice_waits_for_the_refresh() {
    let upstream = Upstream::stdio(Script::new("s").tool("t", []).legacy_only()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    hears(&gateway, "s", &upstream).await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let mut stream = client.stream().await;
    upstream.change(|s| s.tools.push(tool("added").to_string())).await;
    upstream.change(|s| drop(s.behaviours.insert("tools/list".into(), vec![Step::Hold]))).await;
    upstream.announce_tools().await;
    // The notice does not wait for the refresh; the list does.
    find(&mut stream, TOOLS_CHANGED).await;
    let refreshed = async {
        upstream.wait_for_nth(2, |got| got.method() == "tools/list").await;
        upstream.release("tools/list").await;
    };
    let (names, ()) = tokio::join!(client.names("tools/list"), refreshed);
    assert_eq!(names, ["s__t", "s__added"]);
    gateway.stop().await;
}

#[tokio::test]
async fn a_storm_of_notices_causes_one_listing_that_runs_and_one_that_follows() {
    let upstream = Upstream::stdio(Script::new("s").tool("t", []).legacy_only()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    hears(&gateway, "s", &upstream).await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let mut stream = client.stream().await;
    let before = upstream.count("tools/list");
    upstream.change(|s| drop(s.behaviours.insert("tools/list".into(), vec![Step::Hold]))).await;
    for n in 0..200 {
        upstream.set_tools([tool("t"), tool(&format!("t{n}"))]).await;
        upstream.announce_tools().await;
    }
    // It comes after the notices on the same pipe: when it is answered, the gateway has read all of them.
    client.result("tools/call", json!({"name": "s__t"})).await;
    upstream.release("tools/list").await;
    upstream.release("tools/list").await;
    find(&mut stream, TOOLS_CHANGED).await;
    assert_eq!(client.names("tools/list").await, ["s__t", "s__t199"]);
    assert_eq!(upstream.count("tools/list") - before, 2);
    // Downstream the storm is a few notices, however many came.
    upstream.announce(PROMPTS_CHANGED, json!({})).await;
    let mut told = 1;
    while stream.next().await.expect("an open stream")["method"] == TOOLS_CHANGED {
        told += 1;
    }
    assert!(told <= 40, "{told} notices");
    gateway.stop().await;
}

#[tokio::test]
async fn a_notice_is_passed_on_even_if_the_list_is_the_same() {
    let upstream = Upstream::http(Script::new("s").tool("t", [])).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    hears(&gateway, "s", &upstream).await;
    let mut stream = listen(&Client::modern(&gateway.url()), json!({"toolsListChanged": true})).await;
    upstream.announce_tools().await;
    find(&mut stream, TOOLS_CHANGED).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_restart_with_the_same_offer_is_no_change() {
    let upstream = Upstream::stdio(Script::new("s").tool("t", []).prompt("p")).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    hears(&gateway, "s", &upstream).await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let mut stream = client.stream().await;
    for restart in 1..=3 {
        let served = gateway.server("s").await["restarts"].as_u64().unwrap();
        upstream.kill().await;
        let back = |s: &Value| s["state"] == "ready" && s["restarts"].as_u64() > Some(served);
        gateway.wait_server("s", "ready again", back).await;
        assert_eq!(client.names("tools/list").await, ["s__t"], "restart {restart}");
    }
    // Whatever the restarts caused is on the stream before this.
    upstream.announce(PROMPTS_CHANGED, json!({})).await;
    let first = stream.next().await.expect("an open stream");
    assert_eq!(first["method"], PROMPTS_CHANGED, "{first}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_restart_with_another_offer_is_a_change() {
    for (kind, upstream) in one_of_each(Script::new("s").tool("t", [])).await {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        hears(&gateway, "s", &upstream).await;
        let mut stream = listen(&Client::modern(&gateway.url()), json!({"toolsListChanged": true})).await;
        upstream.set_tools([tool("t"), tool("added")]).await;
        upstream.kill().await;
        upstream.revive().await;
        find(&mut stream, TOOLS_CHANGED).await;
        let names = Client::modern(&gateway.url()).names("tools/list").await;
        assert_eq!(names, ["s__t", "s__added"], "{kind}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_notice_reaches_only_the_endpoints_that_show_the_server() {
    let a = Upstream::http(Script::new("a").tool("t", [])).await;
    let b = Upstream::http(Script::new("b").tool("t", [])).await;
    let gateway = Gateway::over(&[("a", &a), ("b", &b)]).await;
    hears(&gateway, "a", &a).await;
    hears(&gateway, "b", &b).await;
    let all = json!({"toolsListChanged": true, "promptsListChanged": true});
    let mut of_a = listen(&Client::modern(&gateway.url_of("a")), all.clone()).await;
    let mut of_b = listen(&Client::modern(&gateway.url_of("b")), all).await;
    a.announce_tools().await;
    find(&mut of_a, TOOLS_CHANGED).await;
    b.announce_tools().await;
    find(&mut of_b, TOOLS_CHANGED).await;
    b.set_tools([]).await;
    a.kill().await;
    gateway.stop().await;
    let rest: Vec<Value> = of_b.all().await;
    assert_eq!(rest.iter().filter(|m| m["method"] == TOOLS_CHANGED).count(), 0, "{rest:?}");
}
