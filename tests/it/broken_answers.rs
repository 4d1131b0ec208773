//! Answers that are no messages, nested without measure or listed wrongly: they cost their own call or item, at once,
//! and nobody else anything.

use futures_util::future::join_all;
use serde_json::json;

use crate::support::app::Gateway;
use crate::support::client::Client;
use crate::support::upstream::{Script, Step, Upstream};
use crate::support::watch::{call_failure, call_text, server, tool_names, wait_server};

const BROKEN: [(&str, &str); 6] = [
    ("no_object", r#"{"jsonrpc":"2.0","id":$ID,"result":[1,2]}"#),
    ("null", r#"{"jsonrpc":"2.0","id":$ID,"result":null}"#),
    ("text", r#"{"jsonrpc":"2.0","id":$ID,"result":"text"}"#),
    ("both", r#"{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1,"message":""}}"#),
    ("neither", r#"{"jsonrpc":"2.0","id":$ID}"#),
    ("cut", r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[}"#),
];

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

fn script() -> Script {
    let script = Script::new("a").tool("echo", [Step::Echo]).tool("held", [Step::Hold, Step::Echo]);
    BROKEN.iter().fold(script, |script, (name, text)| script.tool(name, [Step::Garbage((*text).into())]))
}

#[tokio::test]
async fn a_broken_answer_fails_its_call_at_once_and_no_other_ever() {
    for script in [script(), script().legacy_only()] {
        for upstream in [Upstream::stdio(script.clone()).await, Upstream::http(script.clone()).await] {
            let gateway = Gateway::over(&[("a", &upstream)]).await;
            gateway.wait_state("a", "ready").await;
            let client = Client::modern(&gateway.url());
            let breaking = async {
                upstream.wait_for(|got| got.method() == "tools/call").await;
                // More of them in a row than lines of noise are forgiven.
                for (name, _) in BROKEN.iter().cycle().take(120) {
                    let failure = call_failure(&client, &format!("a__{name}")).await;
                    assert!(!failure.contains("did not answer"), "{name}: {failure}");
                }
                upstream.release("held").await;
            };
            let (held, ()) = tokio::join!(call_text(&client, "a__held"), breaking);
            assert_eq!(held, r#"{"n":1}"#);
            assert_eq!(server(&gateway, "a").await["restarts"], 0);
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn nesting_without_measure_hurts_nobody() {
    let deep = || [Step::Garbage(nested(100_000)), Step::Echo];
    let noisy = || [Step::Noise(nested(100_000)), Step::Echo];
    let script = |base: Script| base.tool("echo", [Step::Echo]).tool("deep", deep()).tool("noisy", noisy());
    let bystander = Upstream::stdio(Script::new("b").tool("echo", [Step::Echo])).await;
    for base in [Script::new("a"), Script::new("a").legacy_only()] {
        let base = script(base);
        for (upstream, tool) in [
            (Upstream::stdio(base.clone()).await, "noisy"),
            (Upstream::http(base.clone()).await, "deep"),
            (Upstream::http(base.with(|s| s.http.answer = crate::support::upstream::Answer::Sse)).await, "deep"),
        ] {
            let gateway = Gateway::over(&[("a", &upstream), ("b", &bystander)]).await;
            gateway.wait_state("a", "ready").await;
            gateway.wait_state("b", "ready").await;
            let client = Client::modern(&gateway.url());
            let params = json!({"name": format!("a__{tool}"), "arguments": {"n": 1}});
            client.result("tools/call", params).await;
            for text in join_all((0..4).map(|_| call_text(&client, "b__echo"))).await {
                assert_eq!(text, r#"{"n":1}"#);
            }
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn a_tool_too_deep_to_be_read_is_left_out_alone() {
    let schema = |levels: usize| {
        let inner = r#"{"properties":{"a":"#.repeat(levels) + "{}" + &"}}".repeat(levels);
        format!(r#"{{"name":"deep{levels}","inputSchema":{{"type":"object","properties":{{"a":{inner}}}}}}}"#)
    };
    let items = [r#"{"name":"echo","inputSchema":{"type":"object"}}"#.to_owned(), schema(30), schema(50_000)];
    let list = format!(r#"{{"tools":[{}],"resultType":"complete"}}"#, items.join(","));
    let script = Script::new("a").tool("echo", [Step::Echo]).on("tools/list", [Step::Result(list)]);
    let upstream = Upstream::http(script).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    let row = wait_server(&gateway, "a", |row| row["state"] == "ready").await;
    assert_eq!(tool_names(&Client::modern(&gateway.url())).await, ["a__echo", "a__deep30"]);
    assert!(row["complaints"].to_string().contains("nested deeper than 128 levels"), "{row}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_list_that_cannot_be_read_shows_in_the_state_of_its_server() {
    let script = Script::new("a").tool("echo", [Step::Echo]).on("tools/list", [Step::Result(r#"{"tools":{}}"#.into())]);
    let upstream = Upstream::http(script.legacy_only()).await;
    let gateway = Gateway::over(&[("a", &upstream)]).await;
    let row = wait_server(&gateway, "a", |row| row["state"] == "ready").await;
    assert!(row["complaints"][0].as_str().is_some_and(|c| c.starts_with("tools/list could not be read")), "{row}");
    gateway.stop().await;
}
