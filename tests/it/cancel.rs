//! A cancel reaches the upstream that works on the call, at once, under the id that it knows, and nobody else; nothing slow
//! stands in the way of anything (protocol.md §2.3, §3.10).

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, get, text_of};
use crate::support::pairs::{KINDS, Pairs, REVISIONS, call, client, is_modern};
use crate::support::upstream::{Record, Script, Step, Upstream};

fn slow() -> Script {
    Script::new("s").tool("slow", [Step::Hold, Step::Echo]).tool("fast", [])
}

/// What tells a kind of upstream that this call is not wanted any more.
fn is_cancel_of(kind: &str, call: &Record, got: &Record) -> bool {
    if kind == "modern-http" {
        return got.is_gone() && got.id() == call.id();
    }
    let id = got.json()["params"]["requestId"].to_string();
    got.method() == "notifications/cancelled" && Some(id) == call.id()
}

fn cancels(upstream: &Upstream) -> usize {
    upstream.received().iter().filter(|got| got.is_gone() || got.method() == "notifications/cancelled").count()
}

#[tokio::test]
async fn a_cancel_goes_to_the_owner_only_and_nothing_is_answered() {
    let pairs = Pairs::over(slow()).await;
    for revision in &REVISIONS[..4] {
        let client = client(&pairs.gateway.url(), revision, &json!({})).await;
        for (kind, upstream) in &pairs.upstreams {
            let calls = upstream.count("tools/call");
            let before: Vec<_> = pairs.upstreams.iter().map(|(_, upstream)| cancels(upstream)).collect();
            let answered = async { client.open_as(json!(101), "tools/call", call(kind, "slow")).await.all().await };
            let cancelled = async {
                let call = upstream.wait_for_nth(calls + 1, |got| got.method() == "tools/call").await;
                let nobody = json!({"requestId": 99, "reason": "not in flight"});
                client.notify("notifications/cancelled", nobody).await;
                client.notify("notifications/cancelled", json!({"requestId": "101"})).await;
                assert_eq!(text_of(&client.result("tools/call", self::call(kind, "fast")).await), "{}");
                client.notify("notifications/cancelled", json!({"requestId": 101})).await;
                upstream.wait_for(|got| is_cancel_of(kind, &call, got)).await;
            };
            let (answers, ()) = tokio::join!(answered, cancelled);
            assert_eq!(answers, Vec::<Value>::new(), "{revision} {kind}");
            for ((other, upstream), before) in pairs.upstreams.iter().zip(before) {
                if other != kind {
                    assert_eq!(cancels(upstream), before, "{revision}: {other} hears of a cancel for {kind}");
                }
            }
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn a_modern_client_cancels_by_hanging_up_and_by_nothing_else() {
    let pairs = Pairs::over(slow()).await;
    let client = Client::modern(&pairs.gateway.url());
    for (kind, upstream) in &pairs.upstreams {
        let call = tokio::select! {
            _ = client.open("tools/call", call(kind, "slow")) => panic!("answered"),
            call = async {
                let call = upstream.wait_for(|got| got.method() == "tools/call").await;
                client.notify("notifications/cancelled", json!({"requestId": 1})).await;
                client.result("tools/call", self::call(kind, "fast")).await;
                assert_eq!(cancels(upstream), 0, "{kind}");
                call
            } => call,
        };
        upstream.wait_for(|got| is_cancel_of(kind, &call, got)).await;
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn a_legacy_client_that_hangs_up_does_not_cancel() {
    let pairs = Pairs::over(slow()).await;
    let client = client(&pairs.gateway.url(), "2025-06-18", &json!({})).await;
    for (kind, upstream) in &pairs.upstreams {
        tokio::select! {
            _ = client.open("tools/call", call(kind, "slow")) => panic!("answered"),
            _ = upstream.wait_for(|got| got.method() == "tools/call") => {}
        }
        for _ in 0..20 {
            client.result("ping", json!({})).await;
        }
        upstream.release("slow").await;
        let line =
            format!("manifold_calls_total{{era=\"legacy\",method=\"tools/call\",outcome=\"ok\",server=\"{kind}\"}} 1");
        wait_for_metric(&pairs.gateway, &line).await;
        assert_eq!(cancels(upstream), 0, "{kind}");
    }
    pairs.gateway.stop().await;
}

async fn wait_for_metric(gateway: &Gateway, line: &str) {
    let waiting = async {
        loop {
            let page = get(&gateway.admin("/metrics")).await.1;
            if page.lines().any(|l| l == line) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(crate::support::app::PATIENCE, waiting).await;
    assert!(ended.is_ok(), "{line} did not come; {}", get(&gateway.admin("/metrics")).await.1);
}

#[tokio::test]
async fn a_slow_call_blocks_nothing_on_its_session_or_connection() {
    let pairs = Pairs::over(slow()).await;
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for (kind, upstream) in &pairs.upstreams {
            let before = upstream.count("tools/call");
            let slow: Vec<_> = (0..8).map(|_| client.result("tools/call", call(kind, "slow"))).collect();
            let fast = async {
                upstream.wait_for_nth(before + 8, |got| got.method() == "tools/call").await;
                assert_eq!(text_of(&client.result("tools/call", call(kind, "fast")).await), "{}");
                for other in KINDS {
                    client.result("tools/call", call(other, "fast")).await;
                }
                for _ in 0..8 {
                    upstream.release("slow").await;
                }
            };
            let (slow, ()) = tokio::join!(futures_util::future::join_all(slow), fast);
            assert_eq!(slow.len(), 8, "{revision} {kind}");
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn an_answered_call_is_not_cancelled_afterwards() {
    let pairs = Pairs::over(slow()).await;
    for (_, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for kind in KINDS {
            client.result("tools/call", call(kind, "fast")).await;
        }
    }
    pairs.gateway.stop().await;
    for (kind, upstream) in &pairs.upstreams {
        let told: Vec<_> =
            upstream.received().into_iter().filter(|got| got.method() == "notifications/cancelled").collect();
        let calls: Vec<_> =
            upstream.received().iter().filter(|got| got.method() == "tools/call").filter_map(Record::id).collect();
        assert!(
            told.iter().all(|got| !calls.contains(&got.json()["params"]["requestId"].to_string())),
            "{kind}: {told:?}"
        );
        assert!(!is_modern(kind) || told.len() <= 1, "{kind}: at most the listen ends: {told:?}");
    }
}
