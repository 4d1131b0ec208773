//! The routes, asked without a socket.

use axum::body::Body;
use axum::http::HeaderMap;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::facts::{ConflictFacts, EntryCounts, EntryFacts, ServerInfo, Transport, UpstreamState};
use super::*;

struct Fake {
    readiness: Readiness,
}

impl Facts for Fake {
    fn servers(&self) -> Vec<ServerFacts> {
        vec![
            ServerFacts {
                name: "My <Files>".to_owned(),
                prefix: "my-files".to_owned(),
                endpoint: "/mcp/my-files".to_owned(),
                state: UpstreamState::Ready,
                since_seconds: 90,
                era: Some("legacy"),
                revision: Some("2025-11-25"),
                transport: Transport::Stdio,
                pid: Some(4711),
                required: true,
                entries: EntryCounts { tools: 3, resources: 2, templates: 1, prompts: 0 },
                restarts: 1,
                failed_attempts: 0,
                last_error: None,
                retry_in_ms: None,
                server_info: Some(ServerInfo { name: "files".to_owned(), version: "1.2".to_owned() }),
                capabilities: vec!["tools".to_owned()],
                complaints: vec![],
                conflicts: vec![],
            },
            ServerFacts {
                name: "slow".to_owned(),
                prefix: "slow".to_owned(),
                endpoint: "/mcp/slow".to_owned(),
                state: UpstreamState::BackingOff,
                since_seconds: 1,
                era: None,
                revision: None,
                transport: Transport::Http,
                pid: None,
                required: false,
                entries: EntryCounts::default(),
                restarts: 0,
                failed_attempts: 4,
                last_error: Some("connection refused <script>alert(1)</script>".to_owned()),
                retry_in_ms: Some(2500),
                server_info: None,
                capabilities: vec![],
                complaints: vec!["answered twice".to_owned()],
                conflicts: vec!["slow__a".to_owned()],
            },
        ]
    }

    fn catalog(&self) -> CatalogFacts {
        CatalogFacts {
            snapshot: 7,
            tools: vec![EntryFacts {
                exposed: "my-files__read".to_owned(),
                original: "read".to_owned(),
                server: "My <Files>".to_owned(),
            }],
            conflicts: vec![ConflictFacts { exposed: "slow__a".to_owned(), claims: vec!["slow: a".to_owned()] }],
            ..CatalogFacts::default()
        }
    }

    fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    fn metrics(&self) -> String {
        "manifold_sessions 1\n".to_owned()
    }
}

const READY: Readiness = Readiness { ready: true, draining: false, waiting_for: Vec::new() };

async fn get_as(readiness: Readiness, host: &str, path: &str) -> (StatusCode, HeaderMap, String) {
    let router = router(Arc::new(Fake { readiness }), &["gate.example.com".to_owned()]);
    let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    (head.status, head.headers, text)
}

async fn get_json(path: &str) -> serde_json::Value {
    let (status, headers, text) = get_as(READY, "127.0.0.1:9090", path).await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (StatusCode::OK, JSON));
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn alive_does_not_depend_on_readiness() {
    let (status, _, text) = get_as(Readiness::default(), "localhost", "/healthz").await;
    assert_eq!((status, text.as_str()), (StatusCode::OK, "ok\n"));
}

#[tokio::test]
async fn readiness_is_a_status_with_its_reason() {
    let waiting = Readiness { ready: false, draining: false, waiting_for: vec!["slow".to_owned()] };
    for (readiness, want, detail) in [
        (READY, 200, r#"{"ready":true,"draining":false,"waitingFor":[]}"#),
        (waiting, 503, r#"{"ready":false,"draining":false,"waitingFor":["slow"]}"#),
    ] {
        let (status, _, text) = get_as(readiness, "10.0.0.9:9090", "/readyz").await;
        assert_eq!((status.as_u16(), text.as_str()), (want, detail));
    }
}

#[tokio::test]
async fn metrics_have_the_content_type_that_scrapers_ask_for() {
    let (status, headers, text) = get_as(READY, "localhost:9090", "/metrics").await;
    assert_eq!((status, text.as_str()), (StatusCode::OK, "manifold_sessions 1\n"));
    assert_eq!(headers["content-type"], EXPOSITION);
}

#[tokio::test]
async fn servers_are_listed_in_order_with_documented_fields() {
    let page = get_json("/api/servers").await;
    let first = &page["servers"][0];
    assert_eq!(first["name"], "My <Files>");
    assert_eq!((&first["state"], &first["transport"]), (&"ready".into(), &"stdio".into()));
    assert_eq!((&first["sinceSeconds"], &first["entries"]["tools"]), (&90.into(), &3.into()));
    assert_eq!(first["serverInfo"]["version"], "1.2");
    let second = &page["servers"][1];
    assert_eq!((&first["restarts"], &first["failedAttempts"]), (&1.into(), &0.into()));
    assert_eq!((&second["restarts"], &second["failedAttempts"]), (&0.into(), &4.into()));
    assert_eq!((&second["state"], &second["retryInMs"]), (&"backing_off".into(), &2500.into()));
    assert!(second["era"].is_null() && second["pid"].is_null());
}

#[tokio::test]
async fn the_catalog_shows_both_names_and_the_conflicts() {
    let page = get_json("/api/catalog").await;
    assert_eq!(page["snapshot"], 7);
    assert_eq!(page["tools"][0]["exposed"], "my-files__read");
    assert_eq!(page["tools"][0]["original"], "read");
    assert_eq!(page["conflicts"][0]["claims"][0], "slow: a");
}

#[tokio::test]
async fn the_page_escapes_what_servers_say_and_allows_no_script() {
    let (status, headers, text) = get_as(READY, "localhost", "/").await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (StatusCode::OK, HTML));
    assert!(text.contains("My &lt;Files&gt;") && text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{text}");
    assert!(!text.contains("<script"));
    assert!(
        text.contains("failed attempts: 4<br>next attempt in 2.5 s")
            && text.contains("backing off")
            && text.contains("1m 30s")
    );
    assert!(headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["x-content-type-options"], "nosniff");
}

#[tokio::test]
async fn a_foreign_host_learns_nothing() {
    for path in ["/", "/healthz", "/api/servers", "/nowhere"] {
        let (status, _, text) = get_as(READY, "evil.example.com", path).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
        assert!(text.contains("allowedHosts"), "{text}");
    }
    assert_eq!(get_as(READY, "gate.example.com:80", "/api/servers").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_wrong_path_is_told_the_right_ones_and_nothing_can_be_posted() {
    let (status, _, text) = get_as(READY, "localhost", "/status").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(text.contains("/readyz"));
    let router = router(Arc::new(Fake { readiness: READY }), &[]);
    let request = Request::post("/api/servers").header("host", "localhost").body(Body::empty()).unwrap();
    assert_eq!(router.oneshot(request).await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
}
