//! The admin listener, asked over a real socket: alive, ready, the facts as JSON, the page, and who may ask.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::app::{Gateway, PATIENCE};
use crate::support::client::{Client, get, get_json};
use crate::support::upstream::{Script, Step, Upstream, tool};

/// Waits until `/readyz` answers with this status, and gives its body.
async fn wait_ready(gateway: &Gateway, status: StatusCode) -> Value {
    let waiting = async {
        loop {
            let (now, body) = get(&gateway.admin("/readyz")).await;
            if now == status {
                return serde_json::from_str(&body).unwrap();
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("readiness changes in time")
}

async fn is_alive(gateway: &Gateway) {
    assert_eq!(get(&gateway.admin("/healthz")).await, (StatusCode::OK, "ok\n".to_owned()));
}

/// Bug B066: alive and ready are two questions.
#[tokio::test]
async fn readiness_follows_a_required_server_and_health_does_not() {
    let (needed, other) = (Upstream::http(Script::new("needed")).await, Upstream::http(Script::new("other")).await);
    needed.kill().await;
    let mut entry = needed.config();
    entry["required"] = json!(true);
    let servers = json!({"needed": entry, "other": other.config()});
    let gateway = Gateway::with(json!({"startupWait": "1s", "mcpServers": servers})).await;
    gateway.wait_state("other", "ready").await;
    let (status, body) = get(&gateway.admin("/readyz")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap(),
        json!({"ready": false, "draining": false, "waitingFor": ["needed"]})
    );
    is_alive(&gateway).await;
    let (_, page) = get(&gateway.admin("/")).await;
    assert!(page.contains("waiting for needed"), "{page}");

    needed.revive().await;
    assert_eq!(wait_ready(&gateway, StatusCode::OK).await, json!({"ready": true, "draining": false, "waitingFor": []}));

    other.kill().await;
    assert_eq!(get(&gateway.admin("/readyz")).await.0, StatusCode::OK, "it is not required");
    gateway.stop().await;
}

#[tokio::test]
async fn readiness_falls_when_a_required_server_dies() {
    let needed = Upstream::stdio(Script::new("needed")).await;
    let mut entry = needed.config();
    entry["required"] = json!(true);
    let restart = json!({"backoffMin": "1h", "backoffMax": "1h"});
    let gateway = Gateway::with(json!({"restart": restart, "mcpServers": {"needed": entry}})).await;
    wait_ready(&gateway, StatusCode::OK).await;
    needed.kill().await;
    assert_eq!(wait_ready(&gateway, StatusCode::SERVICE_UNAVAILABLE).await["waitingFor"], json!(["needed"]));
    is_alive(&gateway).await;
    gateway.stop().await;
}

#[tokio::test]
async fn readiness_falls_while_calls_in_flight_still_finish() {
    let slow = Upstream::http(Script::new("slow").tool("hold", [Step::Hold, Step::Name])).await;
    let gateway = Gateway::over(&[("slow", &slow)]).await;
    wait_ready(&gateway, StatusCode::OK).await;
    let client = Client::modern(&gateway.url());
    let (ready, page) = (gateway.admin("/readyz"), gateway.admin("/"));
    let call = client.result("tools/call", json!({"name": "slow__hold"}));
    let drain = async {
        slow.wait_for(|got| got.method() == "tools/call").await;
        let stopping = gateway.stop();
        let watching = async {
            let waiting = async {
                loop {
                    let (status, body) = get(&ready).await;
                    if status == StatusCode::SERVICE_UNAVAILABLE {
                        return serde_json::from_str::<Value>(&body).unwrap();
                    }
                    tokio::task::yield_now().await;
                }
            };
            let said = timeout(PATIENCE, waiting).await.expect("readiness falls");
            assert_eq!((&said["ready"], &said["draining"]), (&json!(false), &json!(true)));
            assert!(get(&page).await.1.contains("Shutting down."));
            slow.release("hold").await;
        };
        tokio::join!(stopping, watching);
    };
    let (result, ()) = tokio::join!(call, drain);
    assert_eq!(result["content"][0]["text"], "slow");
}

#[tokio::test]
async fn facts_name_servers_and_entries_as_they_are_now() {
    let files = Upstream::http(
        Script::new("files").tool("read", []).resource("file:///a").template("file:///{x}").prompt("summarise"),
    )
    .await;
    let old = Upstream::stdio(Script::new("old").legacy_only().tool("run", [])).await;
    let servers = json!({"My Files": files.config(), "old": old.config(),
        "off": {"command": "never-started", "disabled": true}});
    let gateway = Gateway::with(json!({"mcpServers": servers})).await;
    for name in ["My Files", "old"] {
        gateway.wait_state(name, "ready").await;
    }
    let listed = get_json(&gateway.admin("/api/servers")).await["servers"].clone();
    let named = |name: &str| listed.as_array().unwrap().iter().find(|s| s["name"] == name).unwrap().clone();
    let (mine, legacy, off) = (named("My Files"), named("old"), named("off"));
    assert_eq!((&mine["name"], &mine["prefix"]), (&json!("My Files"), &json!("my-files")));
    assert_eq!((&mine["endpoint"], &mine["transport"]), (&json!("/mcp/my-files"), &json!("http")));
    assert_eq!((&mine["era"], &mine["revision"]), (&json!("modern"), &json!("2026-07-28")));
    assert_eq!(mine["entries"], json!({"tools": 1, "resources": 1, "templates": 1, "prompts": 1}));
    assert_eq!(mine["serverInfo"]["name"], "files");
    assert_eq!((&legacy["era"], &legacy["transport"]), (&json!("legacy"), &json!("stdio")));
    assert_eq!(legacy["pid"], json!(old.pids()[0]));
    assert_eq!((&off["state"], &off["era"], &off["pid"]), (&json!("disabled"), &Value::Null, &Value::Null));

    let catalog = get_json(&gateway.admin("/api/catalog")).await;
    assert_eq!(
        catalog["tools"],
        json!([
            {"exposed": "my-files__read", "original": "read", "server": "My Files"},
            {"exposed": "old__run", "original": "run", "server": "old"},
        ])
    );
    assert_eq!(catalog["resources"][0]["exposed"], "my-files+file:///a");
    assert_eq!(catalog["prompts"][0]["exposed"], "my-files__summarise");
    let before = catalog["snapshot"].as_u64().unwrap();

    files.set_tools([tool("read"), tool("write")]).await;
    files.announce_tools().await;
    let changed = async {
        loop {
            let catalog = get_json(&gateway.admin("/api/catalog")).await;
            if catalog["tools"].as_array().unwrap().len() == 3 {
                return catalog["snapshot"].as_u64().unwrap();
            }
            tokio::task::yield_now().await;
        }
    };
    let after = timeout(PATIENCE, changed).await.expect("the catalog follows");
    assert!(after > before);
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_that_is_down_says_why_and_when_it_is_tried_again() {
    let gateway = Gateway::with(json!({
        "restart": {"backoffMin": "1h", "backoffMax": "1h"},
        "mcpServers": {"gone": {"command": "/nonexistent/program"}},
    }))
    .await;
    gateway.wait_state("gone", "backing_off").await;
    let gone = get_json(&gateway.admin("/api/servers")).await["servers"][0].clone();
    let error = gone["lastError"].as_str().unwrap();
    assert!(error.contains("No such file"), "{error}");
    let retry = Duration::from_millis(gone["retryInMs"].as_u64().unwrap());
    assert!(retry > Duration::from_secs(600) && retry <= Duration::from_secs(2 * 3600), "{retry:?}");
    let page = get(&gateway.admin("/")).await.1;
    assert!(page.contains("backing off") && page.contains("No such file"), "{page}");
    gateway.stop().await;
}

#[tokio::test]
async fn the_page_shows_servers_as_text_whatever_they_call_themselves() {
    let rude = Upstream::http(Script::new("<script>alert(1)</script>").tool("<b>", [])).await;
    let gateway = Gateway::over(&[("rude & \"bold\"", &rude)]).await;
    gateway.wait_state("rude & \"bold\"", "ready").await;
    let (status, page) = get(&gateway.admin("/")).await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("rude &amp; &quot;bold&quot;"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !page.contains("<script"), "{page}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_person_who_types_a_path_finds_the_pages_from_any_of_them() {
    let gateway = Gateway::with(json!({"mcpServers": {}})).await;
    let (status, page) = get(&gateway.admin("/")).await;
    assert_eq!(status, StatusCode::OK);
    let (missing, list) = get(&gateway.admin("/status")).await;
    assert_eq!((missing, list.lines().count()), (StatusCode::NOT_FOUND, 1), "{list}");
    for path in ["/healthz", "/readyz", "/metrics", "/api/servers", "/api/catalog"] {
        assert!(page.contains(&format!("href=\"{path}\"")) && list.contains(path), "{path}: {page} {list}");
        assert_eq!(get(&gateway.admin(path)).await.0, StatusCode::OK, "{path}");
    }
    for path in ["/", "/healthz", "/readyz", "/metrics", "/api/servers", "/api/catalog"] {
        let head = Client::modern(&gateway.admin(path)).send(Method::HEAD, HeaderMap::new(), String::new()).await;
        assert_eq!(head.status, StatusCode::OK, "{path}");
        assert!(head.headers.contains_key("content-type"), "{path}");
        assert_eq!(head.text().await, "", "{path}");
    }
    gateway.stop().await;
}

/// Pages of other origins reach us through a name of their own that resolves to loopback: the name gives them away.
#[tokio::test]
async fn a_foreign_host_learns_nothing() {
    let files = Upstream::http(Script::new("files")).await;
    let gateway = Gateway::over(&[("files", &files)]).await;
    for path in ["/", "/healthz", "/readyz", "/metrics", "/api/servers", "/api/catalog", "/nothing"] {
        let ask = async |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("host", host.parse().unwrap());
            Client::modern(&gateway.admin(path)).send(Method::GET, headers, String::new()).await
        };
        let refused = ask("evil.example.com").await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}");
        assert!(!refused.text().await.contains("files"), "{path}");
        for ours in ["localhost", "127.0.0.1:1"] {
            assert_ne!(ask(ours).await.status, StatusCode::FORBIDDEN, "{path}");
        }
    }
    let reply = Client::modern(&gateway.admin("/")).send(Method::GET, HeaderMap::new(), String::new()).await;
    assert!(reply.headers.get("access-control-allow-origin").is_none());
    assert_eq!(reply.headers["cache-control"], "no-store");
    let posted = Client::modern(&gateway.admin("/api/servers")).send(Method::POST, HeaderMap::new(), "{}").await;
    assert_eq!(posted.status, StatusCode::METHOD_NOT_ALLOWED);
    gateway.stop().await;
}
