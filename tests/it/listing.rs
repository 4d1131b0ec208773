//! Lists: every entry of every page arrives, in both eras' form, and nothing of a definition is lost on the way.

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{self, Client};
use crate::support::upstream::{Paging, Script, Upstream};

const LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];

fn five_of_each(paging: Paging) -> Script {
    (0..5).fold(Script::new("many").with(|s| s.paging = paging), |script, n| {
        let tool = json!({"name": format!("t{n}"), "inputSchema": {"type": "object"}});
        script
            .raw_tool(tool)
            .prompt(&format!("p{n}"))
            .resource(&format!("mem://r{n}"))
            .template(&format!("mem://t{n}/{{x}}"))
    })
}

fn expected(method: &str) -> Vec<String> {
    let exposed = |n| match method {
        "tools/list" => format!("many__t{n}"),
        "prompts/list" => format!("many__p{n}"),
        "resources/list" => format!("many+mem://r{n}"),
        _ => format!("many+mem://t{n}/{{x}}"),
    };
    (0..5).map(exposed).collect()
}

async fn both_eras(url: &str) -> [Client; 2] {
    [Client::legacy(url, "2025-11-25", json!({})).await, Client::modern(url)]
}

/// Over each transport and in each era upstream, the merged lists hold all entries for each era downstream.
async fn assert_all_arrive(paging: Paging) {
    let upstreams = [
        Upstream::http(five_of_each(paging).legacy_only()).await,
        Upstream::http(five_of_each(paging).modern_only()).await,
        Upstream::sse(five_of_each(paging)).await,
        Upstream::stdio(five_of_each(paging).legacy_only()).await,
        Upstream::stdio(five_of_each(paging).modern_only()).await,
    ];
    for upstream in &upstreams {
        let gateway = Gateway::over(&[("many", upstream)]).await;
        for client in both_eras(&gateway.url()).await {
            for method in LISTS {
                assert_eq!(client.names(method).await, expected(method), "{method} of {}", upstream.config());
            }
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn every_page_of_every_list_is_followed() {
    assert_all_arrive(Paging::Of(2)).await;
}

#[tokio::test]
async fn a_null_cursor_ends_a_list() {
    assert_all_arrive(Paging::NullAtEnd(2)).await;
}

#[tokio::test]
async fn a_repeated_cursor_ends_a_list_that_shows_each_entry_once_and_is_counted_as_cut() {
    let many = Upstream::http(five_of_each(Paging::Repeating)).await;
    let gateway = Gateway::over(&[("many", &many)]).await;
    let client = Client::modern(&gateway.url());
    for method in LISTS {
        assert_eq!(client.names(method).await, expected(method), "{method}");
        assert!(many.count(method) <= 3, "{method} was asked {} times", many.count(method));
    }
    let (_, metrics) = client::get(&gateway.admin("/metrics")).await;
    let counted = r#"manifold_truncations_total{kind="tools",server="many"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
    gateway.stop().await;
}

#[tokio::test]
async fn long_lists_are_cut_into_pages_with_the_gateways_own_cursors() {
    let many = Upstream::http(five_of_each(Paging::Of(4))).await;
    let config = json!({"pageSize": 2, "mcpServers": {"many": many.config()}});
    let gateway = Gateway::with(config).await;
    for client in both_eras(&gateway.url()).await {
        for method in LISTS {
            let first = client.result(method, json!({})).await;
            assert_eq!(first[client::member_of(method)].as_array().unwrap().len(), 2, "{method}");
            assert!(first["nextCursor"].is_string(), "{method}");
            assert_eq!(client.names(method).await, expected(method), "{method}");
        }
        let null = client.result("tools/list", json!({"cursor": null})).await;
        assert_eq!(null["tools"][0]["name"], "many__t0", "a null cursor is an absent one");
        for (cursor, what) in [(json!("nonsense"), "an unknown cursor"), (json!(7), "a cursor that is no string")] {
            let refused = client.request("tools/list", json!({"cursor": cursor})).await;
            assert_eq!(refused["error"]["code"], -32602, "{what}");
        }
        let elsewhere = client.result("tools/list", json!({})).await["nextCursor"].clone();
        let refused = client.request("prompts/list", json!({"cursor": elsewhere})).await;
        assert_eq!(refused["error"]["code"], -32602, "a cursor of another list");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_cursor_never_continues_another_state_of_the_list() {
    let many = Upstream::http(five_of_each(Paging::Whole)).await;
    let gateway = Gateway::with(json!({"pageSize": 2, "mcpServers": {"many": many.config()}})).await;
    gateway.wait_state("many", "ready").await;
    let client = Client::legacy(&gateway.url(), "2025-11-25", json!({})).await;
    let mut stream = client.stream().await;
    let cursor = client.result("tools/list", json!({})).await["nextCursor"].clone();
    many.set_tools([json!({"name": "new", "inputSchema": {"type": "object"}})]).await;
    many.announce_tools().await;
    stream.find(|m| m["method"] == "notifications/tools/list_changed").await;
    let refused = client.request("tools/list", json!({"cursor": cursor})).await;
    assert_eq!(refused["error"]["code"], -32602);
    assert_eq!(client.names("tools/list").await, ["many__new"]);
    gateway.stop().await;
}

#[tokio::test]
async fn lists_have_the_shape_of_the_era_that_asks() {
    let script = Script::new("s")
        .raw_tool(json!({"name": "plain", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}}))
        .raw_tool(json!({"name": "array", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}}))
        .raw_tool(json!({"name": "object", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}));
    for upstream in [Upstream::http(script.clone().modern_only()).await, Upstream::http(script.legacy_only()).await] {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        let [legacy, modern] = both_eras(&gateway.url()).await;
        for method in LISTS {
            let (old, new) = (legacy.result(method, json!({})).await, modern.result(method, json!({})).await);
            let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(&old), [client::member_of(method)], "{method}: a legacy result has nothing else");
            assert_eq!(new["resultType"], "complete", "{method}");
            assert!(new["ttlMs"].is_u64(), "{method}: {new}");
            assert!(["public", "private"].contains(&new["cacheScope"].as_str().unwrap()), "{method}: {new}");
            assert!(new["_meta"]["io.modelcontextprotocol/serverInfo"]["name"].is_string(), "{method}: {new}");
        }
        let (old, new) = (legacy.list("tools/list").await, modern.list("tools/list").await);
        assert!(old.iter().chain(&new).all(|tool| tool.get("execution").is_none()));
        assert_eq!((old[1].get("outputSchema"), &new[1]["outputSchema"]), (None, &json!({"type": "array"})));
        assert_eq!(
            (&old[2]["outputSchema"], &new[2]["outputSchema"]),
            (&json!({"type": "object"}), &old[2]["outputSchema"])
        );
        gateway.stop().await;
    }
}

#[tokio::test]
async fn one_bad_tool_does_not_hide_the_others() {
    let script = Script::new("s")
        .raw_tool(json!({"name": "first", "inputSchema": {"type": "object"}}))
        .raw_tool(json!({"inputSchema": {"type": "object"}}))
        .raw_tool(json!({"name": 7, "inputSchema": {"type": "object"}}))
        .raw_tool(r#""text""#)
        .raw_tool("null")
        .raw_tool(json!({"name": "first", "inputSchema": {"type": "object"}, "description": "a second of the name"}))
        .raw_tool(json!({"name": "last", "inputSchema": {"type": "object"}}));
    let upstream = Upstream::http(script).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    for client in both_eras(&gateway.url()).await {
        let tools = client.list("tools/list").await;
        assert_eq!(tools.iter().map(|t| &t["name"]).collect::<Vec<_>>(), ["s__first", "s__last"]);
        assert_eq!(tools[0].get("description"), None, "the first of a name wins");
    }
    let complaints = gateway.server("s").await["complaints"].as_array().unwrap().len();
    assert_eq!(complaints, 5, "each is shown to the operator");
    gateway.stop().await;
}

#[tokio::test]
async fn a_null_in_place_of_an_optional_member_is_left_out() {
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "title": null, "description": null,
        "annotations": null, "outputSchema": null, "icons": null, "_meta": null, "x-own": null});
    let upstream = Upstream::http(Script::new("s").raw_tool(tool)).await;
    let gateway = Gateway::over(&[("s", &upstream)]).await;
    for client in both_eras(&gateway.url()).await {
        let tools = client.list("tools/list").await;
        assert_eq!(tools, [json!({"name": "s__t", "inputSchema": {"type": "object"}, "x-own": null})]);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn definitions_come_out_as_they_went_in() {
    let tools = [
        r##"{"name":"defs","inputSchema":{"type":"object","definitions":{"Q":{"type":"string"}},"properties":{"q":{"$ref":"#/definitions/Q"}}}}"##,
        r##"{"name":"nested","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["q"],"properties":{"q":{"$ref":"#/$defs/Q"}},"$defs":{"Q":{"$defs":{"R":{"enum":[1,null,1.0e2]}},"allOf":[{"$ref":"#/$defs/Q/$defs/R"}],"if":{"const":true},"then":false}},"x-n":9007199254740993}}"##,
        r#"{"name":"all","title":"T","description":"D\u00e9","icons":[{"src":"https://x/i.png","mimeType":"image/png","sizes":["48x48"]}],"annotations":{"title":"A","readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false,"x-hint":1},"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]},"_meta":{"example.com/a":{"b":[null]}},"x-vendor":{"k":[1,{"z":null,"a":1e400}]}}"#,
    ];
    let script = tools.iter().fold(Script::new("s"), |script, tool| script.raw_tool(tool));
    for upstream in [Upstream::stdio(script.clone().legacy_only()).await, Upstream::http(script.modern_only()).await] {
        let gateway = Gateway::over(&[("s", &upstream)]).await;
        for client in both_eras(&gateway.url()).await {
            let text = client.open("tools/list", json!({})).await.text().await;
            for tool in tools {
                // To the byte, but for the name.
                let exposed = tool.replacen(r#"{"name":""#, r#"{"name":"s__"#, 1);
                assert!(text.contains(&exposed), "{exposed}\nis not in\n{text}");
            }
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn only_declared_lists_are_asked_for_and_a_missing_method_is_an_empty_list() {
    // Declares prompts and resources, and knows no such method.
    let half = Script::new("half").tool("t", []).with(|s| {
        s.capabilities = Some(r#"{"tools":{},"prompts":{},"resources":{}}"#.into());
    });
    let unknown = r#"{"code":-32601,"message":"Method not found"}"#;
    let half = LISTS[1..]
        .iter()
        .fold(half, |script, method| script.on(method, [crate::support::upstream::Step::Error(unknown.into())]));
    let half = Upstream::http(half).await;
    let plain = Upstream::http(Script::new("plain").tool("t", [])).await;
    let other = Upstream::http(Script::new("other").prompt("p")).await;
    let gateway = Gateway::over(&[("half", &half), ("plain", &plain), ("other", &other)]).await;
    for client in both_eras(&gateway.url()).await {
        assert_eq!(client.names("tools/list").await, ["half__t", "plain__t"]);
        assert_eq!(client.names("prompts/list").await, ["other__p"]);
        assert_eq!(client.names("resources/list").await, Vec::<String>::new());
    }
    for method in &LISTS[1..] {
        assert_eq!(plain.count(method), 0, "{method} is not declared");
    }
    assert_eq!(gateway.server("half").await["state"], "ready");
    gateway.stop().await;
}

#[tokio::test]
async fn capabilities_are_a_fixed_superset_whatever_the_upstreams_have() {
    let upstreams = [Script::new("a").prompt("p"), Script::new("b").prompt("q"), Script::new("c").tool("t", [])];
    let mut seen = Vec::new();
    for count in [1, 3] {
        let mut running = Vec::new();
        for script in upstreams.iter().take(count) {
            running.push((script.name.clone(), Upstream::http(script.clone()).await));
        }
        let servers: Vec<_> = running.iter().map(|(name, upstream)| (name.as_str(), upstream)).collect();
        let gateway = Gateway::over(&servers).await;
        let found = Client::modern(&gateway.url()).result("server/discover", json!({})).await;
        for capability in ["tools", "prompts", "resources"] {
            assert_eq!(found["capabilities"][capability]["listChanged"], true, "{capability}");
        }
        seen.push(found["capabilities"].clone());
        for client in both_eras(&gateway.url()).await {
            for method in LISTS {
                client.list(method).await;
            }
        }
        gateway.stop().await;
    }
    assert_eq!(seen[0], seen[1]);
}
