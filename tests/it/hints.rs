//! Caching hints: what a client is told about how long it may keep a list or a resource, and that it stays true.

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::app::{Gateway, PATIENCE};
use crate::support::client::Client;
use crate::support::upstream::{Script, Step, Upstream, tool};

/// A modern server that never says that its tools changed.
fn silent(ttl_ms: u64) -> Script {
    Script::new("s").modern_only().tool("old", []).with(|s| {
        s.capabilities = Some(json!({"tools": {}}).to_string());
        s.ttl_ms = ttl_ms;
    })
}

/// Lists until `fits` says yes, and gives that result.
async fn listed(client: &Client, fits: impl Fn(&Value) -> bool) -> Value {
    let listing = async {
        loop {
            let result = client.result("tools/list", json!({})).await;
            if fits(&result) {
                return result;
            }
        }
    };
    timeout(PATIENCE, listing).await.expect("such a list in time")
}

fn has(result: &Value, name: &str) -> bool {
    result["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == name)
}

#[tokio::test]
async fn a_list_without_notices_is_read_again_by_itself() {
    let upstream = Upstream::http(silent(100)).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    gateway.wait_state("s", "ready").await;
    upstream.set_tools([tool("new")]).await;
    upstream.wait_for_nth(2, |got| got.method() == "tools/list").await;
    // Nobody has asked for a list yet; whoever does now may come before the answer was taken in.
    let client = Client::modern(&gateway.url());
    listed(&client, |result| has(result, "s__new")).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_list_that_ran_out_is_read_again_for_who_asks() {
    for script in [silent(0), Script::new("s").modern_only().tool("old", []).with(|s| s.ttl_ms = 50)] {
        let upstream = Upstream::http(script).await;
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        gateway.wait_state("s", "ready").await;
        let client = Client::modern(&gateway.url());
        assert!(has(&client.result("tools/list", json!({})).await, "s__old"));
        // Without a word about it.
        upstream.set_tools([tool("new")]).await;
        listed(&client, |result| result["ttlMs"] == 0).await;
        listed(&client, |result| has(result, "s__new") && !has(result, "s__old")).await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_merged_list_is_as_fresh_and_as_private_as_its_parts() {
    let modern = Upstream::http(silent(40_000)).await;
    let legacy = Upstream::http(Script::new("l").tool("t", []).legacy_only()).await;
    let gateway = Gateway::over(&[("m", &modern), ("l", &legacy)]).await;
    gateway.wait_state("m", "ready").await;
    gateway.wait_state("l", "ready").await;
    for (url, most, scope) in [
        (gateway.url_of("m"), 40_000, "public"),
        (gateway.url_of("l"), 60_000, "private"),
        (gateway.url(), 40_000, "private"),
    ] {
        let result = Client::modern(&url).result("tools/list", json!({})).await;
        let ttl = result["ttlMs"].as_u64().unwrap();
        assert!(ttl > most / 2 && ttl <= most, "{url}: {result}");
        assert_eq!((&result["cacheScope"], &result["resultType"]), (&json!(scope), &json!("complete")), "{url}");
        let old = Client::legacy(&url, "2025-06-18", json!({})).await.result("tools/list", json!({})).await;
        assert_eq!(old.as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"], "{url}");
    }
    assert_eq!(modern.count("tools/list"), 1, "it is fresh");
    legacy.kill().await;
    let gone = listed(&Client::modern(&gateway.url()), |result| result["ttlMs"] == 0).await;
    assert!(has(&gone, "m__old"), "what is stale is not to be kept");
    gateway.stop().await;
}

#[tokio::test]
async fn a_read_resource_has_the_hints_of_its_server() {
    let read = |hints: &str| [Step::Result(format!(r#"{{"contents":[{{"uri":"mem://a","text":""}}]{hints}}}"#))];
    let modern = Script::new("m")
        .modern_only()
        .resource("mem://a")
        .resource("mem://b")
        .on("mem://a", read(r#","resultType":"complete","ttlMs":7000,"cacheScope":"public""#))
        .on("mem://b", read(r#","resultType":"complete","ttlMs":-5,"cacheScope":"all""#));
    let modern = Upstream::http(modern).await;
    let legacy = Script::new("l").legacy_only().resource("mem://a").on("mem://a", read(""));
    let legacy = Upstream::stdio(legacy).await;
    let gateway = Gateway::over(&[("m", &modern), ("l", &legacy)]).await;
    gateway.wait_state("m", "ready").await;
    gateway.wait_state("l", "ready").await;
    let (new, old) = (Client::modern(&gateway.url()), Client::legacy(&gateway.url(), "2025-11-25", json!({})).await);
    for (uri, ttl, scope) in [("m+mem://a", 7000, "public"), ("m+mem://b", 0, "private"), ("l+mem://a", 0, "private")] {
        let result = new.result("resources/read", json!({"uri": uri})).await;
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(ttl), &json!(scope)), "{uri}");
        let result = old.result("resources/read", json!({"uri": uri})).await;
        assert_eq!(result.as_object().unwrap().keys().collect::<Vec<_>>(), ["contents"], "{uri}");
    }
    gateway.stop().await;
}
