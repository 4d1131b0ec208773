//! What is secret stays secret: no page, figure or report of ours shows a text from where secrets are.

use mcp_manifold::config;
use serde_json::json;

use crate::support::app::Gateway;
use crate::support::client::get;
use crate::support::planted::{MARK, Planted};
use crate::support::program::run_in;

#[tokio::test]
async fn pages_and_metrics_show_no_secret() {
    let planted = Planted::start().await;
    let gateway = Gateway::with(planted.config("Bearer PLANTED-token")).await;
    for (server, state) in [("files", "ready"), ("old", "ready"), ("down", "backing_off"), ("away", "backing_off")] {
        gateway.wait_state(server, state).await;
    }
    planted.traffic(&gateway.url()).await;
    for path in ["/", "/healthz", "/readyz", "/metrics", "/api/servers", "/api/catalog", "/PLANTED"] {
        let (_, page) = get(&gateway.admin(path)).await;
        let told: Vec<&str> = page.lines().filter(|line| line.contains(MARK)).collect();
        assert!(told.is_empty(), "{path}: {told:#?}");
    }
    // They did arrive where they belong, so this looked for something that was there.
    let got = planted.files.wait_for(|got| got.method() == "tools/call").await;
    assert_eq!(got.headers.get("authorization").map(String::as_str), Some("Bearer PLANTED-token"));
    assert_eq!(got.headers.get("x-key").map(String::as_str), Some("PLANTED-header"));
    gateway.stop().await;
}

#[tokio::test]
async fn a_loaded_configuration_prints_without_its_secrets() {
    let planted = Planted::start().await;
    let text = planted.config("Bearer ${PLANTED_VARIABLE:-PLANTED-token}").to_string();
    let loaded =
        config::parse(std::path::Path::new("a.json"), text.as_bytes(), std::iter::empty(), &config::System).unwrap();
    for shown in [format!("{loaded:?}"), format!("{:?}", loaded.config), format!("{:#?}", loaded.config.servers)] {
        let told: Vec<&str> = shown.lines().filter(|line| line.contains(MARK)).collect();
        assert!(told.is_empty(), "{told:#?}");
    }
}

#[tokio::test]
async fn check_reports_problems_without_the_secrets_beside_them() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("secret"), "PLANTED-file\nwith a second line").unwrap();
    let secret = directory.path().join("secret");
    let secret = format!("${{file:{}}}", secret.display());
    let config = json!({
        "listen": secret,
        "timeouts": {"call": secret},
        "mcpServers": {
            "a": {"comand": "x", "args": ["PLANTED-argument"], "env": {"TOKEN": "PLANTED-variable", "A": "${NOT_SET_ANYWHERE}"}},
            "b": {"url": "ftp://user:PLANTED-password@example.com/?key=PLANTED-query"},
            "c": {"url": secret},
            "d": {"url": "https://example.com/", "headers": {"X-Key": secret, "bad name": "PLANTED-header"}},
            "e": {"command": "x", "url": "https://user:PLANTED-password@example.com/"},
            "f": {"url": "https://user:PLANTED-password@example.com:99999/"},
            "g": {"command": "x", "env": {"TOKEN": ["PLANTED-variable"]}, "args": {"PLANTED-argument": 1}},
            "h": {"url": "https://example.com/", "headers": {"Authorization": {"PLANTED-header": 1}}},
            "i": {"url": ["https://example.com/?PLANTED-query"]},
            "j": {"command": "x", "env": "PLANTED-variable"},
            "k": {"url": "https://example.com/", "headers": "PLANTED-header"},
            "l": "PLANTED-nothing",
        },
    });
    for (name, text) in [
        ("bad.json", config.to_string()),
        ("bad.yaml", serde_json::to_string_pretty(&config).unwrap()),
        ("broken.json", r#"{"mcpServers": {"a": {"env": {"TOKEN": "PLANTED-variable" "B": 1}}}}"#.to_owned()),
        ("broken.yaml", "mcpServers:\n  a:\n    env: { TOKEN: \"PLANTED-variable\n    \"B\": [\n".to_owned()),
        ("broken.toml", "[mcpServers.a.env]\nTOKEN = \"PLANTED-variable\n".to_owned()),
    ] {
        std::fs::write(directory.path().join(name), text).unwrap();
        let ended = run_in(directory.path(), &["check", name], "").await;
        assert_eq!(ended.code, 1, "{name}: {}", ended.stderr);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        let told: Vec<&str> = said.lines().filter(|line| line.contains(MARK)).collect();
        assert!(told.is_empty(), "{name}: {told:#?}");
    }
}
