//! The official SDK on both sides of the gateway: its server upstream, over HTTP and stdio, at either era; its client
//! downstream, in either era. What these two say to each other without us they must be able to say through us.

mod peer;
mod server;

use rmcp::model::{GetPromptRequestParams, ReadResourceRequestParams, ServerResult};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::app::{Gateway, PATIENCE};
use peer::{Era, Peer};

/// A gateway over the SDK's server, for each transport and each era in which it can be spoken to.
async fn each(scenario: impl AsyncFn(&str, Era)) {
    for upstream in Era::BOTH {
        let http = server::over_http().await;
        for entry in [json!({"url": http.url}), server::over_stdio()] {
            let gateway = over(entry, upstream).await;
            scenario(&gateway.url(), upstream).await;
            gateway.stop().await;
        }
    }
}

async fn over(mut entry: Value, era: Era) -> Gateway {
    entry["protocol"] = json!(era.pin());
    let gateway = Gateway::with(json!({"mcpServers": {"sdk": entry}})).await;
    gateway.wait_state("sdk", "ready").await;
    gateway
}

#[tokio::test]
async fn everything_that_it_offers_can_be_used() {
    each(async |url, upstream| {
        for downstream in Era::BOTH {
            let at = format!("{downstream:?} over {upstream:?}");
            let peer = Peer::connect(url, downstream).await;
            let listed = ["echo", "hold", "release", "cancelled", "ask", "grow"].map(|tool| format!("sdk__{tool}"));
            assert_eq!(peer.tools().await, listed, "{at}");
            assert_eq!(peer.call("sdk__echo", json!({"a": [1, null, "ü"]})).await, r#"{"a":[1,null,"ü"]}"#, "{at}");

            let resources = peer.running.list_all_resources().await.unwrap();
            assert_eq!(resources[0].uri, "sdk+sdk://a", "{at}");
            let templates = peer.running.list_all_resource_templates().await.unwrap();
            assert_eq!(templates[0].uri_template, "sdk+sdk://{x}", "{at}");
            for uri in ["sdk+sdk://a", "sdk+sdk://of-the-template"] {
                let read = peer.running.read_resource(ReadResourceRequestParams::new(uri)).await.unwrap();
                assert_eq!(json!(read.contents[0])["uri"], uri, "{at}");
                assert_eq!(json!(read.contents[0])["text"], "content", "{at}");
            }

            assert_eq!(peer.running.list_all_prompts().await.unwrap()[0].name, "sdk__greet", "{at}");
            let arguments = rmcp::object!({"who": "Ada"});
            let prompt = GetPromptRequestParams::new("sdk__greet").with_arguments(arguments);
            let got = peer.running.get_prompt(prompt).await.unwrap();
            assert_eq!(json!(got.messages[0])["content"]["text"], "Greet Ada", "{at}");
            let completed = peer.running.complete_prompt_simple("sdk__greet", "who", "G").await.unwrap();
            assert_eq!(completed, ["Grace"], "{at}");

            let unknown = peer.running.call_tool(rmcp::model::CallToolRequestParams::new("sdk__nothing")).await;
            assert!(unknown.unwrap_err().to_string().contains("unknown tool"), "{at}");
            peer.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn progress_comes_before_the_result() {
    each(async |url, upstream| {
        for downstream in Era::BOTH {
            let at = format!("{downstream:?} over {upstream:?}");
            let peer = Peer::connect(url, downstream).await;
            let held = peer.begin("sdk__hold").await;
            assert_eq!(peer.call("sdk__release", json!({})).await, "done", "{at}");
            let response = timeout(PATIENCE, held.await_response()).await.expect("a result in time").unwrap();
            let ServerResult::CallToolResult(result) = response else { panic!("{at}: {response:?}") };
            assert_eq!(result.content[0].as_text().unwrap().text, "released", "{at}");
            assert_eq!(peer.progress(), 1, "{at}");
            peer.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_its_server() {
    each(async |url, upstream| {
        let mut cancelled = 0;
        for downstream in Era::BOTH {
            let peer = Peer::connect(url, downstream).await;
            let before: usize = peer.call("sdk__cancelled", json!({})).await.parse().unwrap();
            let held = peer.begin("sdk__hold").await;
            held.cancel(Some("changed my mind".into())).await.unwrap();
            let counted = async {
                while peer.call("sdk__cancelled", json!({})).await != (before + 1).to_string() {
                    tokio::task::yield_now().await;
                }
            };
            let waited = timeout(PATIENCE, counted).await;
            assert!(waited.is_ok(), "{downstream:?} over {upstream:?}: the server did not hear of it");
            peer.close().await;
            cancelled += 1;
        }
        assert_eq!(cancelled, 2);
    })
    .await;
}

#[tokio::test]
async fn a_question_is_answered_by_the_client_whose_call_it_is() {
    each(async |url, era| {
        let peer = Peer::connect(url, era).await;
        assert_eq!(peer.call("sdk__ask", json!({})).await, "The answer is 42", "{era:?}");
        peer.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_new_tool_reaches_clients_of_both_eras() {
    for upstream in Era::BOTH {
        let http = server::over_http().await;
        for entry in [json!({"url": http.url}), server::over_stdio()] {
            let gateway = over(entry, upstream).await;
            let mut peers = Vec::new();
            for era in Era::BOTH {
                peers.push((era, Peer::connect(&gateway.url(), era).await));
            }
            assert_eq!(peers[0].1.call("sdk__grow", json!({})).await, "done");
            for (era, mut peer) in peers {
                let at = format!("{era:?} over {upstream:?}");
                peer.told_of_tools().await;
                assert_eq!(peer.tools().await.last().map(String::as_str), Some("sdk__extra"), "{at}");
                assert_eq!(peer.call("sdk__extra", json!({})).await, "I am extra", "{at}");
                peer.close().await;
            }
            gateway.stop().await;
        }
    }
}
