//! Resources: URIs of several servers side by side, each read from its owner, and rewritten wherever a URI stands.

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::upstream::{Script, Step, Upstream};

const README: &str = "file:///README.md";

fn with_readme(name: &str) -> Script {
    Script::new(name).resource(README).template("file:///docs/{page}").on(README, [Step::Name])
}

/// A gateway whose servers have all started.
async fn ready(servers: &[(&str, &Upstream)]) -> Gateway {
    let gateway = Gateway::over(servers).await;
    for (server, _) in servers {
        gateway.wait_state(server, "ready").await;
    }
    gateway
}

async fn clients(url: &str) -> [Client; 2] {
    [Client::modern(url), Client::legacy(url, "2025-11-25", json!({})).await]
}

async fn read(client: &Client, uri: &str) -> Value {
    client.result("resources/read", json!({"uri": uri})).await["contents"][0].clone()
}

async fn code(client: &Client, uri: &str) -> Value {
    let answer = client.request("resources/read", json!({"uri": uri})).await;
    answer["error"].clone()
}

#[tokio::test]
async fn one_uri_at_two_servers_is_read_from_each_owner() {
    let a = Upstream::http(with_readme("a").modern_only()).await;
    let b = Upstream::stdio(with_readme("b").legacy_only()).await;
    let gateway = ready(&[("a", &a), ("b", &b)]).await;
    for client in clients(&gateway.url()).await {
        let uris = client.names("resources/list").await;
        assert_eq!(uris, ["a+file:///README.md", "b+file:///README.md"]);
        for (uri, owner) in uris.iter().zip(["a", "b"]) {
            assert_eq!(read(&client, uri).await, json!({"uri": uri, "text": owner}), "contents[].uri is mapped too");
        }
        let templates = client.names("resources/templates/list").await;
        assert_eq!(templates, ["a+file:///docs/{page}", "b+file:///docs/{page}"]);
        for owner in ["a", "b"] {
            let uri = format!("{owner}+file:///docs/one");
            assert_eq!(read(&client, &uri).await["uri"], uri);
        }
    }
    for upstream in [&a, &b] {
        for uri in [README, "file:///docs/one"] {
            upstream.wait_for(|got| got.method() == "resources/read" && got.json()["params"]["uri"] == uri).await;
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_alone_has_its_own_uris() {
    let a = Upstream::http(with_readme("a")).await;
    let gateway = ready(&[("a", &a)]).await;
    for client in clients(&gateway.url_of("a")).await {
        assert_eq!(client.names("resources/list").await, [README]);
        assert_eq!(client.names("resources/templates/list").await, ["file:///docs/{page}"]);
        assert_eq!(read(&client, README).await, json!({"uri": README, "text": "a"}));
        assert_eq!(read(&client, "other://unlisted").await["uri"], "other://unlisted", "it may know it all the same");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_original_uri_is_accepted_only_if_one_server_can_be_meant() {
    let a = Upstream::http(with_readme("a").resource("mem://only-a").template("a://{x}")).await;
    let b = Upstream::http(with_readme("b")).await;
    let gateway = ready(&[("a", &a), ("b", &b)]).await;
    for client in clients(&gateway.url()).await {
        for uri in ["mem://only-a", "a://anything"] {
            assert_eq!(read(&client, uri).await["uri"], format!("a+{uri}"));
        }
        for uri in [README, "file:///docs/one"] {
            assert!(code(&client, uri).await.is_object(), "{uri} could be of two");
        }
    }
    assert_eq!(b.count("resources/read"), 0, "nobody was asked on suspicion");
    gateway.stop().await;
}

#[tokio::test]
async fn an_unknown_uri_is_an_error_in_the_words_of_each_era() {
    let a = Upstream::http(with_readme("a")).await;
    let gateway = ready(&[("a", &a)]).await;
    let [modern, legacy] = clients(&gateway.url()).await;
    for uri in ["none+file:///x", "nowhere://x"] {
        let new = code(&modern, uri).await;
        assert_eq!((&new["code"], &new["data"]["uri"]), (&json!(-32602), &json!(uri)), "{new}");
        let old = code(&legacy, uri).await;
        assert_eq!((&old["code"], &old["data"]["uri"]), (&json!(-32002), &json!(uri)), "{old}");
    }
    assert_eq!(a.count("resources/read"), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn an_upstreams_not_found_is_told_in_the_words_of_each_era_with_our_uri() {
    let old = r#"{"code":-32002,"message":"Resource not found","data":{"uri":"file:///README.md"}}"#;
    let new = r#"{"code":-32602,"message":"Resource not found","data":{"uri":"file:///README.md"}}"#;
    let a = Upstream::http(Script::new("a").resource(README).on(README, [Step::Error(old.into())]).legacy_only()).await;
    let b = Upstream::http(Script::new("b").resource(README).on(README, [Step::Error(new.into())]).modern_only()).await;
    let gateway = ready(&[("a", &a), ("b", &b)]).await;
    let [modern, legacy] = clients(&gateway.url()).await;
    for server in ["a", "b"] {
        let uri = format!("{server}+{README}");
        for (client, want) in [(&modern, -32602), (&legacy, -32002)] {
            let error = code(client, &uri).await;
            assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(want), &json!(uri)), "{error}");
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn uris_in_tool_results_lead_back_to_their_server() {
    let result = json!({"content": [
        {"type": "text", "text": "file:///README.md stays in a text"},
        {"type": "resource_link", "uri": README, "name": "link"},
        {"type": "resource", "resource": {"uri": README, "text": "embedded", "mimeType": "text/plain"}},
    ]});
    let script = |name| with_readme(name).tool("links", [Step::Result(result.to_string())]).legacy_only();
    let (a, b) = (Upstream::stdio(script("a")).await, Upstream::http(script("b")).await);
    let gateway = ready(&[("a", &a), ("b", &b)]).await;
    for client in clients(&gateway.url()).await {
        for server in ["a", "b"] {
            let got = client.result("tools/call", json!({"name": format!("{server}__links")})).await;
            let (content, exposed) = (&got["content"], format!("{server}+{README}"));
            assert_eq!(content[0], result["content"][0]);
            assert_eq!(content[1], json!({"type": "resource_link", "uri": exposed, "name": "link"}));
            let embedded = json!({"uri": exposed, "text": "embedded", "mimeType": "text/plain"});
            assert_eq!(content[2], json!({"type": "resource", "resource": embedded}));
            assert_eq!(read(&client, content[1]["uri"].as_str().unwrap()).await["text"], server);
        }
    }
    let own = Client::modern(&gateway.url_of("a")).result("tools/call", json!({"name": "links"})).await;
    assert_eq!(own["content"], result["content"]);
    gateway.stop().await;
}

#[tokio::test]
async fn views_keep_their_scheme_and_their_links() {
    let view = "ui://weather/view.html";
    let link = json!({"ui": {"resourceUri": view}, "ui/resourceUri": view});
    let tool = json!({"name": "show", "inputSchema": {"type": "object"}, "_meta": link});
    let a = Upstream::http(Script::new("a").raw_tool(tool).resource(view).on(view, [Step::Name])).await;
    let gateway = ready(&[("a", &a)]).await;
    for client in clients(&gateway.url()).await {
        let exposed = "ui://a/weather/view.html";
        assert_eq!(client.names("resources/list").await, [exposed]);
        let meta = client.list("tools/list").await[0]["_meta"].clone();
        assert_eq!(meta, json!({"ui": {"resourceUri": exposed}, "ui/resourceUri": exposed}));
        assert_eq!(read(&client, exposed).await, json!({"uri": exposed, "text": "a"}));
    }
    gateway.stop().await;
}

#[tokio::test]
async fn verbatim_uris_stay_as_they_are_and_one_of_two_servers_is_never_guessed() {
    let a = Upstream::http(with_readme("a").resource("mem://a").on("mem://a", [Step::Name])).await;
    let b = Upstream::http(with_readme("b")).await;
    let mut config = json!({"mcpServers": {"a": a.config(), "b": b.config()}});
    config["mcpServers"]["a"]["uris"] = "verbatim".into();
    config["mcpServers"]["b"]["uris"] = "verbatim".into();
    let gateway = Gateway::with(config).await;
    for client in clients(&gateway.url()).await {
        assert_eq!(client.names("resources/list").await, ["mem://a"], "what both claim is hidden");
        assert_eq!(read(&client, "mem://a").await, json!({"uri": "mem://a", "text": "a"}));
        assert!(code(&client, README).await.is_object());
    }
    assert_eq!(gateway.server("b").await["conflicts"][0], README);
    gateway.stop().await;
}

#[tokio::test]
async fn a_completion_for_a_template_reaches_its_owner() {
    let (a, b) = (Upstream::http(with_readme("a")).await, Upstream::http(with_readme("b")).await);
    let gateway = ready(&[("a", &a), ("b", &b)]).await;
    for (server, upstream) in [("a", &a), ("b", &b)] {
        let reference = json!({"type": "ref/resource", "uri": format!("{server}+file:///docs/{{page}}")});
        let params = json!({"ref": reference, "argument": {"name": "page", "value": "o"}});
        Client::modern(&gateway.url()).result("completion/complete", params).await;
        let sent = upstream.wait_for(|got| got.method() == "completion/complete").await;
        assert_eq!(sent.json()["params"]["ref"], json!({"type": "ref/resource", "uri": "file:///docs/{page}"}));
    }
    gateway.stop().await;
}
