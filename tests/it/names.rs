//! Names: every tool has one stable name that leads to its owner, whoever else is there.

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{self, Client, text_of};
use crate::support::upstream::{Script, Step, Upstream};

async fn named(name: &str, tools: &[&str]) -> Upstream {
    let script = tools.iter().fold(Script::new(name), |script, tool| script.tool(tool, [Step::Name]));
    Upstream::http(script).await
}

async fn call(client: &Client, tool: &str) -> Value {
    client.request("tools/call", json!({"name": tool, "arguments": {}})).await
}

async fn answerer(client: &Client, tool: &str) -> String {
    let answer = call(client, tool).await;
    assert!(answer.get("error").is_none(), "{tool}: {answer}");
    text_of(&answer["result"]).to_owned()
}

#[tokio::test]
async fn a_name_at_two_servers_reaches_each_owner_whatever_the_order() {
    let (a, b) = (named("a", &["search"]).await, named("b", &["search"]).await);
    for order in [[("a", &a), ("b", &b)], [("b", &b), ("a", &a)]] {
        let gateway = Gateway::over(&order).await;
        for client in [Client::modern(&gateway.url()), Client::legacy(&gateway.url(), "2025-06-18", json!({})).await] {
            let names = client.names("tools/list").await;
            assert_eq!(names, order.map(|(server, _)| format!("{server}__search")), "in the order of the config");
            for server in ["a", "b"] {
                assert_eq!(answerer(&client, &format!("{server}__search")).await, server);
            }
            let refused = call(&client, "search").await;
            assert_eq!(refused["error"]["code"], -32602, "two own that name: {refused}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn another_server_renames_nothing() {
    let (a, b) = (named("a", &["search"]).await, named("b", &["search", "other"]).await);
    let alone = Gateway::over(&[("a", &a)]).await;
    let before = Client::modern(&alone.url()).names("tools/list").await;
    alone.stop().await;
    let both = Gateway::over(&[("b", &b), ("a", &a)]).await;
    let after = Client::modern(&both.url()).names("tools/list").await;
    assert_eq!(before, ["a__search"]);
    assert_eq!(after, ["b__search", "b__other", "a__search"]);
    both.stop().await;
}

#[tokio::test]
async fn an_original_name_that_one_server_owns_is_an_alias_that_is_not_listed() {
    let (a, b) = (named("a", &["search", "only-a"]).await, named("b", &["search"]).await);
    let gateway = Gateway::over(&[("a", &a), ("b", &b)]).await;
    for client in [Client::modern(&gateway.url()), Client::legacy(&gateway.url(), "2025-11-25", json!({})).await] {
        assert_eq!(answerer(&client, "only-a").await, "a");
        assert!(!client.names("tools/list").await.contains(&"only-a".to_owned()));
    }
    gateway.stop().await;
}

#[tokio::test]
async fn names_that_would_be_one_are_hidden_and_shown_to_the_operator() {
    let (a, b) = (named("a", &["search", "x"]).await, named("b", &["search", "y"]).await);
    let mut config = json!({"mcpServers": {"a": a.config(), "b": b.config()}});
    for server in ["a", "b"] {
        config["mcpServers"][server]["prefix"] = "".into();
    }
    let gateway = Gateway::with(config).await;
    let client = Client::modern(&gateway.url());
    assert_eq!(client.names("tools/list").await, ["x", "y"], "an empty prefix leaves names as they are");
    assert_eq!(answerer(&client, "y").await, "b");
    assert_eq!(call(&client, "search").await["error"]["code"], -32602, "never guessed");
    for server in ["a", "b"] {
        assert_eq!(gateway.server(server).await["conflicts"], json!(["search"]), "{server}");
    }
    let catalog = client::get_json(&gateway.admin("/api/catalog")).await;
    assert_eq!(catalog["conflicts"][0]["exposed"], "search", "{catalog}");
    // Each alone still serves it.
    for server in ["a", "b"] {
        assert_eq!(answerer(&Client::modern(&gateway.url_of(server)), "search").await, server);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_alone_has_its_own_names_and_gets_unlisted_ones() {
    let unlisted = r#"{"content":[{"type":"text","text":"hidden"}]}"#;
    // Answers every call, also of what it does not list.
    let script = Script::new("a").tool("listed", []).on("tools/call", [Step::Result(unlisted.into())]);
    let upstream = Upstream::http(script.legacy_only()).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    let alone = Client::modern(&gateway.url_of("a"));
    assert_eq!(alone.names("tools/list").await, ["listed"]);
    assert_eq!(answerer(&alone, "hidden-one").await, "hidden");
    let sent = upstream.wait_for(|got| got.method() == "tools/call").await;
    assert_eq!(sent.json()["params"]["name"], "hidden-one");

    let merged = Client::modern(&gateway.url());
    for name in ["hidden-one", "a__hidden-one"] {
        assert_eq!(call(&merged, name).await["error"]["code"], -32602, "{name}");
    }
    assert_eq!(upstream.count("tools/call"), 1, "nothing unknown was sent from the merged endpoint");
    gateway.stop().await;
}

#[tokio::test]
async fn unknown_names_are_invalid_params_in_both_eras() {
    let script = Script::new("a").tool("t", []).prompt("p");
    let upstream = Upstream::http(script).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    for client in [Client::modern(&gateway.url()), Client::legacy(&gateway.url(), "2025-03-26", json!({})).await] {
        for method in ["tools/call", "prompts/get"] {
            let answer = client.request(method, json!({"name": "a__none"})).await;
            assert_eq!(answer["error"]["code"], -32602, "{method}");
            assert!(answer["error"]["message"].as_str().unwrap().contains("a__none"), "{answer}");
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn keys_in_other_scripts_and_with_accents_stay_distinct() {
    let keys = ["数据库", "café", "cafè", "My Server"];
    let mut upstreams = Vec::new();
    for key in keys {
        upstreams.push((key, named(key, &["q"]).await));
    }
    let servers: Vec<_> = upstreams.iter().map(|(key, upstream)| (*key, upstream)).collect();
    let gateway = Gateway::over(&servers).await;
    let client = Client::modern(&gateway.url());
    let names = client.names("tools/list").await;
    assert_eq!(names.len(), keys.len());
    for (name, key) in names.iter().zip(keys) {
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)), "{name}");
        assert!(name.ends_with("__q") && name.len() > 3, "{name}");
        assert_eq!(answerer(&client, name).await, key);
        // Every prefix is also a path.
        let prefix = name.strip_suffix("__q").unwrap();
        assert_eq!(answerer(&Client::modern(&gateway.url_of(prefix)), "q").await, key);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn long_and_odd_names_are_shortened_for_hosts_and_lead_back() {
    let key = "k".repeat(40);
    let long = ["t".repeat(60), format!("{}x", "t".repeat(60)), "with.dot".into(), "日本 語".into(), "with_dot".into()];
    let upstream = named("long", &long.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let gateway = Gateway::over(&[(key.as_str(), &upstream)]).await;
    let client = Client::modern(&gateway.url());
    let names = client.names("tools/list").await;
    assert_eq!(names.len(), long.len(), "none hides another: {names:?}");
    for (name, original) in names.iter().zip(&long) {
        assert!(name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)), "{name}");
        answerer(&client, name).await;
        upstream.wait_for(|got| got.json()["params"]["name"] == **original).await;
    }
    gateway.stop().await;

    let again = Gateway::over(&[(key.as_str(), &upstream)]).await;
    assert_eq!(Client::modern(&again.url()).names("tools/list").await, names, "a pure function of the config");
    again.stop().await;
}

#[tokio::test]
async fn prompts_and_completions_are_routed_like_tools() {
    let (a, b) =
        (Script::new("a").prompt("p").on("p", [Step::Name]), Script::new("b").prompt("p").on("p", [Step::Name]));
    let (a, b) = (Upstream::http(a.modern_only()).await, Upstream::stdio(b.legacy_only()).await);
    let gateway = Gateway::over(&[("a", &a), ("b", &b)]).await;
    for server in ["a", "b"] {
        gateway.wait_state(server, "ready").await;
    }
    for client in [Client::modern(&gateway.url()), Client::legacy(&gateway.url(), "2025-06-18", json!({})).await] {
        for (server, upstream) in [("a", &a), ("b", &b)] {
            let name = format!("{server}__p");
            let got = client.result("prompts/get", json!({"name": name})).await;
            assert_eq!(got["messages"][0]["content"]["text"], server);
            let before = upstream.count("completion/complete");
            let params = json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "x", "value": "o"}});
            let completed = client.result("completion/complete", params).await;
            assert_eq!(completed["completion"]["values"], json!(["one", "two"]));
            let sent = upstream.wait_for_nth(before + 1, |got| got.method() == "completion/complete").await;
            assert_eq!(sent.json()["params"]["ref"], json!({"type": "ref/prompt", "name": "p"}));
        }
    }
    gateway.stop().await;
}
