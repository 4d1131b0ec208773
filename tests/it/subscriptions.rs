//! Subscriptions: listen streams of modern clients, `resources/subscribe` of legacy ones, over one subscription upstream.

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, Reply};
use crate::support::upstream::{Script, Step, Upstream};

const DOC: &str = "file:///doc";
const UPDATED: &str = "notifications/resources/updated";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn script() -> Script {
    Script::new("s").tool("t", []).resource(DOC).prompt("p")
}

async fn one_of_each() -> Vec<(&'static str, Upstream)> {
    vec![
        ("stdio, legacy", Upstream::stdio(script().legacy_only()).await),
        ("stdio, modern", Upstream::stdio(script().modern_only()).await),
        ("http, legacy", Upstream::http(script().legacy_only()).await),
        ("http, modern", Upstream::http(script().modern_only()).await),
        ("sse", Upstream::sse(script()).await),
    ]
}

async fn listen(client: &Client, id: Value, notifications: Value) -> (Reply, Value) {
    let params = json!({"notifications": notifications});
    let mut stream = client.open_as(id, "subscriptions/listen", params).await;
    let first = stream.next().await.expect("an acknowledgement");
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    (stream, first["params"].clone())
}

/// A gateway that tells the upstream at once when nobody watches any more.
async fn quick(upstream: &Upstream) -> Gateway {
    let servers = json!({"s": upstream.config()});
    Gateway::with(json!({"mcpServers": servers, "timeouts": {"unsubscribe": "0s"}})).await
}

fn uris_listened(record: &crate::support::upstream::Record) -> Vec<String> {
    let uris = record.json()["params"]["notifications"]["resourceSubscriptions"].clone();
    serde_json::from_value(uris).unwrap_or_default()
}

/// Until the upstream knows that this resource is watched, or (`false`) no longer is; `from` is where its log is read from.
async fn wait_watched(upstream: &Upstream, watched: bool, from: usize) {
    let wanted = if watched { "resources/subscribe" } else { "resources/unsubscribe" };
    let skip = upstream.received().iter().take(from).filter(|r| fits(r, wanted, watched)).count();
    upstream.wait_for_nth(skip + 1, |got| fits(got, wanted, watched)).await;
}

fn fits(got: &crate::support::upstream::Record, wanted: &str, watched: bool) -> bool {
    let listens = got.method() == "subscriptions/listen" && uris_listened(got).is_empty() != watched;
    listens || got.method() == wanted && got.json()["params"]["uri"] == DOC
}

#[tokio::test]
async fn the_acknowledgement_comes_first_and_the_subscription_id_keeps_its_type() {
    let upstream = Upstream::http(script()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let client = Client::modern(&gateway.url());
    for id in [json!("listen-1"), json!(7), json!("7")] {
        let wish = json!({"toolsListChanged": true, "resourceSubscriptions": ["s+file:///doc", "no://where"]});
        let (mut stream, said) = listen(&client, id.clone(), wish).await;
        let honoured = json!({"toolsListChanged": true, "resourceSubscriptions": ["s+file:///doc"]});
        assert_eq!(said, json!({"notifications": honoured, "_meta": {SUBSCRIPTION: id}}));
        upstream.announce_tools().await;
        let told = stream.next().await.expect("a notice");
        assert_eq!(told["params"]["_meta"][SUBSCRIPTION], id, "{told}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_listen_stream_hears_only_what_it_asked_for() {
    let upstream = Upstream::stdio(script().legacy_only()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    gateway.wait_state("s", "ready").await;
    let client = Client::modern(&gateway.url());
    let (mut prompts, _) = listen(&client, json!(1), json!({"promptsListChanged": true})).await;
    let (mut nothing, said) = listen(&client, json!(2), json!({})).await;
    assert_eq!(said["notifications"], json!({}));
    upstream.announce_tools().await;
    upstream.announce("notifications/resources/list_changed", json!({})).await;
    upstream.announce("notifications/prompts/list_changed", json!({})).await;
    let first = prompts.next().await.expect("a notice");
    assert_eq!(first["method"], "notifications/prompts/list_changed", "{first}");
    gateway.stop().await;
    let last = nothing.next().await.expect("the result");
    assert_eq!(last["id"], 2, "{last}");
}

#[tokio::test]
async fn a_shutdown_ends_a_listen_stream_with_its_result() {
    let upstream = Upstream::http(script()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    let client = Client::modern(&gateway.url());
    let (stream, _) = listen(&client, json!("last"), json!({"toolsListChanged": true})).await;
    let (rest, ()) = tokio::join!(stream.all(), gateway.stop());
    let last = rest.last().expect("a result");
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!("last"), &json!("complete")), "{last}");
    assert_eq!(last["result"]["_meta"][SUBSCRIPTION], "last", "{last}");
}

#[tokio::test]
async fn listeners_share_one_upstream_subscription_and_leave_none_behind() {
    for (kind, upstream) in one_of_each().await {
        let gateway = quick(&upstream).await;
        let legacy = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
        let own = Client::legacy(&gateway.url_of("s"), "2025-06-18", json!({})).await;
        let (mut old, mut alone) = (legacy.stream().await, own.stream().await);
        let exposed = format!("s+{DOC}");
        assert_eq!(legacy.result("resources/subscribe", json!({"uri": exposed})).await, json!({}), "{kind}");
        wait_watched(&upstream, true, 0).await;
        let before = upstream.received().len();
        assert_eq!(own.result("resources/subscribe", json!({"uri": DOC})).await, json!({}), "{kind}");
        assert_eq!(legacy.result("resources/subscribe", json!({"uri": exposed})).await, json!({}), "twice is once");
        let wish = json!({"resourceSubscriptions": [exposed]});
        let (mut new, said) = listen(&Client::modern(&gateway.url()), json!(5), wish.clone()).await;
        assert_eq!(said["notifications"], wish, "{kind}");
        let more = upstream.received()[before..].iter().filter(|r| fits(r, "resources/subscribe", true)).count();
        assert_eq!(more, 0, "{kind}: the later ones join the first");

        upstream.announce_resource(DOC).await;
        for (stream, uri) in [(&mut old, exposed.as_str()), (&mut alone, DOC), (&mut new, &exposed)] {
            let told = stream.find(|m| m["method"] == UPDATED).await;
            assert_eq!(told["params"]["uri"], uri, "{kind}: each in its own form");
        }

        let before = upstream.received().len();
        drop(new);
        own.delete().await;
        assert_eq!(legacy.result("resources/unsubscribe", json!({"uri": exposed})).await, json!({}), "{kind}");
        wait_watched(&upstream, false, before).await;
        assert_eq!(legacy.result("resources/unsubscribe", json!({"uri": exposed})).await, json!({}), "{kind}: again");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn the_end_of_a_stream_or_session_ends_its_subscriptions() {
    for upstream in [Upstream::http(script().legacy_only()).await, Upstream::stdio(script().modern_only()).await] {
        let gateway = quick(&upstream).await;
        let wish = json!({"resourceSubscriptions": [format!("s+{DOC}")]});
        let (stream, _) = listen(&Client::modern(&gateway.url()), json!(5), wish).await;
        wait_watched(&upstream, true, 0).await;
        let before = upstream.received().len();
        drop(stream);
        wait_watched(&upstream, false, before).await;

        let before = upstream.received().len();
        let session = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
        session.result("resources/subscribe", json!({"uri": format!("s+{DOC}")})).await;
        wait_watched(&upstream, true, before).await;
        let before = upstream.received().len();
        session.delete().await;
        wait_watched(&upstream, false, before).await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn who_watches_a_resource_still_does_after_a_restart_of_its_server() {
    for (kind, upstream) in one_of_each().await {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
        let mut stream = client.stream().await;
        client.result("resources/subscribe", json!({"uri": format!("s+{DOC}")})).await;
        wait_watched(&upstream, true, 0).await;
        let before = upstream.received().len();
        upstream.kill().await;
        upstream.revive().await;
        wait_watched(&upstream, true, before).await;
        // What happened meanwhile nobody knows, so it counts as changed.
        let told = stream.find(|m| m["method"] == UPDATED).await;
        assert_eq!(told["params"]["uri"], format!("s+{DOC}"), "{kind}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn an_update_inside_a_watched_resource_reaches_who_watches_it() {
    let upstream = Upstream::stdio(script().legacy_only()).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    gateway.wait_state("s", "ready").await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let mut stream = client.stream().await;
    client.result("resources/subscribe", json!({"uri": format!("s+{DOC}")})).await;
    upstream.announce_resource("file:///document").await;
    upstream.announce_resource("file:///doc/part").await;
    let told = stream.next().await.expect("a notice");
    assert_eq!((&told["method"], &told["params"]["uri"]), (&json!(UPDATED), &json!(format!("s+{DOC}"))), "{told}");
    gateway.stop().await;
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused_or_left_out() {
    let plain = script().with(|s| s.capabilities = Some(r#"{"tools":{},"resources":{}}"#.into()));
    let refuse = r#"{"code":-32602,"message":"no"}"#;
    let refusing = script().on("resources/subscribe", [Step::Error(refuse.into())]).legacy_only();
    let (plain, refusing) = (Upstream::http(plain).await, Upstream::http(refusing).await);
    let gateway = Gateway::over(&[("plain", &plain), ("refusing", &refusing)]).await;
    let legacy = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let uris = ["plain+file:///doc", "refusing+file:///doc", "no://where"];
    for (uri, code) in uris.iter().zip([-32602, -32602, -32002]) {
        let answer = legacy.request("resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    let wish = json!({"resourceSubscriptions": uris});
    let (_stream, said) = listen(&Client::modern(&gateway.url()), json!(1), wish).await;
    assert_eq!(said["notifications"].get("resourceSubscriptions"), None, "{said}");
    gateway.stop().await;
}

#[tokio::test]
async fn one_who_leaves_while_the_subscription_is_being_made_takes_nobody_with_him() {
    let slow = script().on("resources/subscribe", [Step::Hold]).legacy_only();
    let upstream = Upstream::http(slow).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    gateway.wait_state("s", "ready").await;
    let (uri, modern) = (format!("s+{DOC}"), Client::modern(&gateway.url()));
    let leaving = modern.open("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [uri]}}));
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let mut stream = client.stream().await;
    {
        // Asks, and goes before there is an answer.
        let mut leaving = Box::pin(leaving);
        tokio::select! {
            _ = &mut leaving => panic!("answered before the upstream did"),
            _ = upstream.wait_for(|got| got.method() == "resources/subscribe") => {}
        }
    }
    let joined = async {
        let params = json!({"uri": uri});
        let (answer, ()) = tokio::join!(client.result("resources/subscribe", params), async {
            upstream.release("resources/subscribe").await;
            upstream.release("resources/subscribe").await;
        });
        answer
    };
    assert_eq!(joined.await, json!({}));
    upstream.announce_resource(DOC).await;
    stream.find(|m| m["method"] == UPDATED).await;
    gateway.stop().await;
}

#[tokio::test]
async fn many_resources_of_one_listen_are_all_watched_in_few_upstream_requests() {
    let uris: Vec<String> = (0..400).map(|n| format!("mem://{n}")).collect();
    let script = uris.iter().fold(Script::new("s"), |script, uri| script.resource(uri));
    let upstream = Upstream::stdio(script.modern_only()).await;
    let gateway = quick(&upstream).await;
    let exposed: Vec<String> = uris.iter().map(|uri| format!("s+{uri}")).collect();
    let wish = json!({"resourceSubscriptions": exposed});
    let (stream, said) = listen(&Client::modern(&gateway.url()), json!(1), wish.clone()).await;
    assert_eq!(said["notifications"], wish);
    drop(stream);
    upstream.wait_for(|got| got.method() == "subscriptions/listen" && uris_listened(got).len() == 400).await;
    let from = upstream.received().iter().position(|got| uris_listened(got).len() == 400);
    let later = |got: &crate::support::upstream::Record| {
        got.method() == "subscriptions/listen" && uris_listened(got).is_empty()
    };
    let before = upstream.received()[..from.unwrap()].iter().filter(|got| later(got)).count();
    upstream.wait_for_nth(before + 1, later).await;
    assert!(upstream.count("subscriptions/listen") <= 6, "{} listens", upstream.count("subscriptions/listen"));
    gateway.stop().await;
}

#[tokio::test]
async fn who_leaves_and_comes_back_soon_costs_the_upstream_nothing() {
    for (kind, upstream) in one_of_each().await {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
        let mut stream = client.stream().await;
        let uri = json!({"uri": format!("s+{DOC}")});
        client.result("resources/subscribe", uri.clone()).await;
        wait_watched(&upstream, true, 0).await;
        let before = upstream.received().len();
        for _ in 0..3 {
            client.result("resources/unsubscribe", uri.clone()).await;
            client.result("resources/subscribe", uri.clone()).await;
        }
        upstream.announce_resource(DOC).await;
        stream.find(|m| m["method"] == UPDATED).await;
        let told = upstream.received()[before..].iter().filter(|got| fits(got, "resources/unsubscribe", false)).count();
        assert_eq!(told, 0, "{kind}");
        gateway.stop().await;
    }
}
