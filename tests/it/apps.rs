//! MCP Apps through the gateway: views, links to them, tools for views only, and who is told of the extension
//! (protocol.md §7.6).

use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::pairs::{self, KINDS, Pairs};
use crate::support::upstream::{Script, Step, Upstream};

const VIEW: &str = "ui://clock/view.html";
const EXTENSION: &str = "io.modelcontextprotocol/ui";

/// What a host with views declares.
fn views() -> Value {
    json!({"extensions": {EXTENSION: {"mimeTypes": ["text/html;profile=mcp-app"], "x": 1}}})
}

/// A tool with a view, one for views only, one without a view, and the view: not in the list of resources.
fn script() -> Script {
    let ui = json!({"resourceUri": VIEW, "csp": {"connectDomains": ["https://a.example"]}, "new": 1});
    let contents = json!({"uri": VIEW, "mimeType": "text/html;profile=mcp-app", "text": "<b>ui://clock/view.html</b>",
        "_meta": {"ui": {"csp": {"frameDomains": []}, "prefersBorder": true, "domain": "d"}}});
    let read = json!({"contents": [contents], "ttlMs": 9, "cacheScope": "public"}).to_string();
    let shown = json!({"content": [], "_meta": {"ui": {"resourceUri": VIEW}}}).to_string();
    Script::new("s")
        .raw_tool(
            json!({"name": "show", "inputSchema": {"type": "object"}, "_meta": {"ui": ui, "ui/resourceUri": VIEW}}),
        )
        .raw_tool(json!({"name": "tick", "inputSchema": {"type": "object"},
            "_meta": {"ui": {"resourceUri": VIEW, "visibility": ["app"]}}}))
        .tool("plain", [])
        .resource("mem://x")
        .on("show", [Step::Result(shown)])
        .on("tick", [Step::Name])
        .on(VIEW, [Step::Result(read)])
}

#[tokio::test]
async fn links_lead_to_views_for_every_pair() {
    let pairs = Pairs::over(script()).await;
    for (revision, client) in pairs.clients(&pairs.gateway.url(), views()).await {
        let tools = client.list("tools/list").await;
        for kind in KINDS {
            let exposed = format!("ui://{kind}/clock/view.html");
            let tool = tools.iter().find(|t| t["name"] == format!("{kind}__show")).unwrap();
            let ui = json!({"resourceUri": exposed, "csp": {"connectDomains": ["https://a.example"]}, "new": 1});
            assert_eq!(tool["_meta"], json!({"ui": ui, "ui/resourceUri": exposed}), "{revision} {kind}");
            let shown = client.result("tools/call", pairs::call(kind, "show")).await;
            assert_eq!(shown["_meta"]["ui"]["resourceUri"], exposed, "{revision} {kind}");
            let view = client.result("resources/read", json!({"uri": exposed})).await["contents"][0].clone();
            assert_eq!(view["uri"], exposed, "{revision} {kind}");
            assert_eq!(view["text"], "<b>ui://clock/view.html</b>", "a text is not touched");
            let meta = json!({"ui": {"csp": {"frameDomains": []}, "prefersBorder": true, "domain": "d"}});
            assert_eq!(view["_meta"], meta, "{revision} {kind}");
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn one_servers_endpoint_has_its_own_links() {
    let pairs = Pairs::over(script()).await;
    for kind in KINDS {
        for (revision, client) in pairs.clients(&pairs.gateway.url_of(kind), views()).await {
            let tool = client.list("tools/list").await[0].clone();
            assert_eq!(
                (&tool["_meta"]["ui"]["resourceUri"], &tool["_meta"]["ui/resourceUri"]),
                (&json!(VIEW), &json!(VIEW))
            );
            let shown = client.result("tools/call", json!({"name": "show"})).await;
            assert_eq!(shown["_meta"]["ui"]["resourceUri"], VIEW, "{revision} {kind}");
            let view = client.result("resources/read", json!({"uri": VIEW})).await["contents"][0].clone();
            assert_eq!(view["uri"], VIEW, "{revision} {kind}");
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn tools_for_views_only_exist_for_hosts_with_views_only() {
    let pairs = Pairs::over(script()).await;
    for (capabilities, shown) in [(views(), true), (json!({}), false), (json!({"extensions": {EXTENSION: {}}}), false)]
    {
        for kind in KINDS {
            for (url, prefix) in
                [(pairs.gateway.url(), format!("{kind}__")), (pairs.gateway.url_of(kind), String::new())]
            {
                for (revision, client) in pairs.clients(&url, capabilities.clone()).await {
                    let tick = format!("{prefix}tick");
                    let names = client.names("tools/list").await;
                    assert_eq!(names.contains(&tick), shown, "{revision} {url}: {names:?}");
                    assert!(names.contains(&format!("{prefix}show")), "{revision} {url}: {names:?}");
                    let answer = client.request("tools/call", json!({"name": tick})).await;
                    if shown {
                        assert_eq!(answer["result"]["content"][0]["text"], "s", "{revision} {url}");
                    } else {
                        assert_eq!(answer["error"]["code"], -32602, "{revision} {url}: {answer}");
                        assert_eq!(
                            answer["error"]["message"],
                            format!("unknown tool: {tick}"),
                            "nothing is told of it"
                        );
                    }
                }
            }
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn a_view_calls_its_tools_by_the_names_in_its_page() {
    let (a, b) = (Upstream::http(script()).await, Upstream::http(Script::new("b").tool("plain", [])).await);
    let gateway = Gateway::over(&[("a", &a), ("b", &b)]).await;
    gateway.wait_state("a", "ready").await;
    gateway.wait_state("b", "ready").await;
    for revision in pairs::REVISIONS {
        let client = pairs::client(&gateway.url(), revision, &views()).await;
        let ticked = client.result("tools/call", json!({"name": "tick"})).await;
        assert_eq!(ticked["content"][0]["text"], "s", "{revision}");
        let plain = client.request("tools/call", json!({"name": "plain"})).await;
        assert_eq!(plain["error"]["code"], -32602, "{revision}: it could be of two");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn the_extension_is_told_both_ways() {
    let pairs = Pairs::over(script()).await;
    for (kind, upstream) in &pairs.upstreams {
        let opening = if pairs::is_modern(kind) { "tools/list" } else { "initialize" };
        let got = upstream.wait_for(|got| got.method() == opening).await.json()["params"].clone();
        let declared = match pairs::is_modern(kind) {
            true => got["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone(),
            false => got["capabilities"].clone(),
        };
        let want = json!({"mimeTypes": ["text/html;profile=mcp-app"]});
        assert_eq!(declared["extensions"][EXTENSION], want, "{kind}: {got}");
    }
    for (capabilities, want) in [(views(), views()["extensions"].clone()), (json!({}), Value::Null)] {
        for (revision, client) in pairs.clients(&pairs.gateway.url(), capabilities).await {
            for (kind, upstream) in pairs.upstreams.iter().filter(|(kind, _)| pairs::is_modern(kind)) {
                let before = upstream.count("tools/call");
                client.result("tools/call", pairs::call(kind, "plain")).await;
                let got = upstream.wait_for_nth(before + 1, |got| got.method() == "tools/call").await;
                let declared = got.json()["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone();
                assert_eq!(declared["extensions"], want, "{revision} to {kind}: what this client said");
            }
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn the_extension_is_offered_where_a_server_has_apps() {
    let (a, b) = (Upstream::http(script()).await, Upstream::http(Script::new("b").tool("plain", [])).await);
    let gateway = Gateway::over(&[("a", &a), ("b", &b)]).await;
    gateway.wait_state("a", "ready").await;
    gateway.wait_state("b", "ready").await;
    for (url, want) in [(gateway.url(), true), (gateway.url_of("a"), true), (gateway.url_of("b"), false)] {
        let discovered = Client::modern(&url).result("server/discover", json!({})).await;
        assert_eq!(discovered["capabilities"]["extensions"].get(EXTENSION).is_some(), want, "{url}");
        let told = crate::support::exact::post(&url, &[], crate::support::exact::initialize("2025-11-25")).await;
        assert_eq!(told.body["result"]["capabilities"]["extensions"].get(EXTENSION).is_some(), want, "{url}");
        assert!(told.body["result"]["capabilities"]["tools"].is_object());
    }
    gateway.stop().await;
}
