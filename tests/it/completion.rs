//! Completion finds the owner of a prompt, a resource or a template, and is never an error only because a server has none;
//! and what the gateway says about itself.

use serde_json::json;

use crate::support::client::Client;
use crate::support::pairs::{KINDS, Pairs, REVISIONS};
use crate::support::upstream::{Script, Step};

#[tokio::test]
async fn prompts_resources_and_templates_are_completed_by_their_owner() {
    let script = Script::new("s").prompt("p").template("file:///{path}").resource("file:///a");
    let pairs = Pairs::over(script).await;
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for (kind, upstream) in &pairs.upstreams {
            for (reference, original) in [
                (json!({"type": "ref/prompt", "name": format!("{kind}__p"), "title": "x"}), ("name", "p")),
                (json!({"type": "ref/resource", "uri": format!("{kind}+file:///{{path}}")}), ("uri", "file:///{path}")),
            ] {
                let before = upstream.count("completion/complete");
                let context = json!({"arguments": {"other": "1.10"}});
                let params = json!({"ref": reference, "argument": {"name": "path", "value": "o"}, "context": context});
                let result = client.result("completion/complete", params).await;
                assert_eq!(result["completion"]["values"], json!(["one", "two"]), "{revision} {kind}");
                assert_eq!(result.get("resultType").is_some(), revision == "2026-07-28", "{revision} {kind}");
                let got = upstream.wait_for_nth(before + 1, |got| got.method() == "completion/complete").await;
                let params = got.json()["params"].clone();
                assert_eq!(params["ref"][original.0], original.1, "{revision} {kind}");
                assert_eq!(params["context"], context, "{revision} {kind}");
            }
            let unknown =
                json!({"ref": {"type": "ref/prompt", "name": "nope"}, "argument": {"name": "a", "value": ""}});
            let answer = client.request("completion/complete", unknown).await;
            assert_eq!(answer["error"]["code"], -32602, "{revision} {kind}");
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn a_server_without_completion_has_nothing_to_complete_with() {
    let none = r#"{"code":-32601,"message":"Method not found"}"#;
    let pairs = Pairs::over(Script::new("s").prompt("p").on("completion/complete", [Step::Error(none.into())])).await;
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for kind in KINDS {
            let reference = json!({"type": "ref/prompt", "name": format!("{kind}__p")});
            let params = json!({"ref": reference, "argument": {"name": "a", "value": ""}});
            let result = client.result("completion/complete", params).await;
            assert_eq!(result["completion"]["values"], json!([]), "{revision} {kind}");
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn discovery_says_what_is_served() {
    let pairs = Pairs::over(Script::new("s").with(|s| s.instructions = Some("Mind the gap.".into()))).await;
    for url in KINDS.map(|kind| pairs.gateway.url_of(kind)).into_iter().chain([pairs.gateway.url()]) {
        let result = Client::modern(&url).result("server/discover", json!({})).await;
        let mut newest_first = REVISIONS;
        newest_first.reverse();
        assert_eq!(result["supportedVersions"], json!(newest_first));
        assert_eq!(result["resultType"], "complete");
        assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string(), "{result}");
        assert!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"].is_string(), "{result}");
        assert!(result["instructions"].as_str().unwrap().contains("Mind the gap."), "{url}: {result}");
        for capability in ["tools", "prompts", "resources", "completions", "logging"] {
            assert!(result["capabilities"][capability].is_object(), "{capability}");
        }
        assert!(result["capabilities"].get("tasks").is_none());
    }
    pairs.gateway.stop().await;
}
