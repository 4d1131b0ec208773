//! What goes in comes out, for every pair of eras and transports: numbers, order, nulls, unknown members, errors, ids.

use serde_json::{Value, json};

use crate::support::client::text_of;
use crate::support::pairs::{KINDS, Pairs};
use crate::support::upstream::{Script, Step};

const ARGUMENTS: &str = r#"{"z":1,"id":9007199254740993,"x":1.10,"y":1e400,"neg":-0,"big":12345678901234567890123,"null":null,"a":[{},[],"\u00e9\ud83d\ude00 日本"],"dup":{"b":1,"a":2}, "spaced" : 1.0}"#;

const BLOCKS: [&str; 5] = [
    r#"{"type":"text","text":"日本 \u00e9","_meta":{"n":1.10}}"#,
    r#"{"type":"image","data":"AA==","mimeType":"image/png","x":{"y":null}}"#,
    r#"{"type":"audio","data":"AA==","mimeType":"audio/wav"}"#,
    r#"{"type":"hologram","n":9007199254740993,"order":{"z":1,"a":2}}"#,
    r#"{"type":"resource","resource":{"uri":"file:///a","mimeType":"x/y","blob":"AA=="}}"#,
];

const STRUCTURED: &str = r#""structuredContent":{"b":1.10,"a":[1e400,-0,null,12345678901234567890123]}"#;

/// The blocks as a client of this revision gets them: the first one has no audio.
fn shown(revision: &str) -> [&'static str; 5] {
    let mut blocks = BLOCKS;
    if revision == "2024-11-05" {
        blocks[2] = r#"{"type":"text","text":"[audio, audio/wav: not shown, because protocol revision 2024-11-05 has no audio]"}"#;
    }
    blocks
}

fn result(is_error: bool) -> String {
    let blocks = BLOCKS.join(",");
    let meta = r#""_meta":{"vendor/x":12345678901234567890123}"#;
    format!(r#"{{"zeta":1.0,"content":[{blocks}],{STRUCTURED},"isError":{is_error},"later":{{"k":[1.0]}},{meta}}}"#)
}

#[tokio::test]
async fn arguments_arrive_byte_for_byte() {
    let pairs = Pairs::over(Script::new("s").tool("echo", [])).await;
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for kind in KINDS {
            for (arguments, want) in [
                (format!(r#","arguments":{ARGUMENTS}"#), ARGUMENTS),
                (String::new(), "absent"),
                (r#","arguments":{}"#.to_owned(), "{}"),
            ] {
                let params = format!(r#"{{"name":"{kind}__echo"{arguments}}}"#);
                let answer = client.open_raw("tools/call", &params).await.last().await;
                assert_eq!(text_of(&answer["result"]), want, "{revision} to {kind}");
            }
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn unknown_members_of_a_request_arrive_and_reserved_ones_do_not() {
    let pairs = Pairs::over(Script::new("s").tool("echo", [])).await;
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for (kind, upstream) in &pairs.upstreams {
            let before = upstream.count("tools/call");
            let params = format!(r#"{{"name":"{kind}__echo","arguments":{{}},"future":{{"n":1.10}},"task":{{}}}}"#);
            client.open_raw("tools/call", &params).await.last().await;
            let call = upstream.wait_for_nth(before + 1, |got| got.method() == "tools/call").await;
            let params = call.raw_params().unwrap();
            assert!(params.contains(r#""future":{"n":1.10}"#), "{revision} to {kind}: {params}");
            assert!(params.contains(r#""name":"echo""#) && !params.contains("task"), "{revision} to {kind}: {params}");
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn results_come_back_as_they_are() {
    let script = Script::new("s").tool("good", [Step::Result(result(false))]).tool("bad", [Step::Result(result(true))]);
    let pairs = Pairs::over(script).await;
    let mut wrong = Vec::new();
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for kind in KINDS {
            for tool in ["good", "bad"] {
                let params = format!(r#"{{"name":"{kind}__{tool}"}}"#);
                let text = client.open_raw("tools/call", &params).await.text().await;
                let link = BLOCKS[4].replace("file:///a", &format!("{kind}+file:///a"));
                let is_error = format!(r#""isError":{}"#, tool == "bad");
                let members = [r#""zeta":1.0"#, "\"content\":[", STRUCTURED, &is_error, r#""later":{"k":[1.0]}"#];
                let known = shown(revision);
                let blocks = known[..4].iter().copied().chain([link.as_str()]);
                let mut at = 0;
                for part in [members[0], members[1]].into_iter().chain(blocks).chain(members[2..].iter().copied()) {
                    match text[at..].find(part) {
                        Some(found) => at += found + part.len(),
                        None => wrong.push(format!("{revision} from {kind}: {part} is not (there) in {text}")),
                    }
                }
                if !text.contains(r#""vendor/x":12345678901234567890123"#) {
                    wrong.push(format!("{revision} from {kind}: metadata is lost: {text}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn errors_keep_their_code_and_data_and_ride_on_200() {
    let errors = [
        r#"{"code":7,"message":"seven","data":{"n":9007199254740993,"x":1.10},"extra":null}"#,
        r#"{"code":-32000,"message":"server"}"#,
        r#"{"code":-32603,"message":"internal","data":null}"#,
        r#"{"code":12345678901234,"message":"long"}"#,
    ];
    let mut script = Script::new("s");
    for (at, error) in errors.iter().enumerate() {
        script = script.tool(&format!("e{at}"), [Step::Error((*error).into())]);
    }
    let pairs = Pairs::over(script).await;
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for kind in KINDS {
            for (at, error) in errors.iter().enumerate() {
                let reply = client.open_raw("tools/call", &format!(r#"{{"name":"{kind}__e{at}"}}"#)).await;
                assert_eq!(reply.status, 200, "{revision} from {kind}");
                let text = reply.text().await;
                assert!(text.contains(&format!("\"error\":{error}")), "{revision} from {kind}: {text}");
            }
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn an_id_comes_back_with_its_type_and_digits() {
    let pairs = Pairs::over(Script::new("s").tool("echo", [])).await;
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for id in [r#""1""#, "1", r#""a-b""#, "0", "-5", "9007199254740993", r#""""#, r#""\u00e9\"""#] {
            let text = client.open_raw_as(id, "tools/list", "{}").await.text().await;
            assert!(text.contains(&format!("\"id\":{id}")), "{revision} {id}: {text}");
            for kind in KINDS {
                let params = format!(r#"{{"name":"{kind}__echo"}}"#);
                let text = client.open_raw_as(id, "tools/call", &params).await.text().await;
                assert!(text.contains(&format!("\"id\":{id}")), "{revision} {id} from {kind}: {text}");
            }
        }
    }
    for (kind, upstream) in &pairs.upstreams {
        let mut ids: Vec<_> =
            upstream.received().iter().filter(|got| !got.method().is_empty()).filter_map(|got| got.id()).collect();
        let all = ids.len();
        assert!(ids.iter().all(|id| id.parse::<u64>().is_ok()), "{kind}: ids of our own: {ids:?}");
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all, "{kind}: an id was used twice");
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn items_of_lists_keep_what_the_gateway_does_not_know() {
    let tool = r#"{"name":"t","title":"T","inputSchema":{"type":"object","$defs":{"a":{"const":9007199254740993}},"x":1.10},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"new":null},"icons":[],"_meta":{"v/x":1.0},"future":[1e400]}"#;
    let pairs = Pairs::over(Script::new("s").raw_tool(tool)).await;
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        let text = client.open_raw("tools/list", "{}").await.text().await;
        for kind in KINDS {
            let want = tool.replace(r#""name":"t""#, &format!(r#""name":"{kind}__t""#));
            assert!(text.contains(&want), "{revision} from {kind}: {text}");
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn headers_of_a_client_stay_here() {
    let pairs = Pairs::over(Script::new("s").tool("echo", [])).await;
    let secrets =
        [("authorization", "Bearer s3cret"), ("cookie", "s=s3cret"), ("x-custom", "s3cret"), ("traceparent", "s3cret")];
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for kind in KINDS {
            let message =
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": format!("{kind}__echo")}});
            let mut headers = client.headers("tools/call", &message);
            for (name, value) in secrets {
                headers.insert(name, value.parse().unwrap());
            }
            let mut message = message;
            if revision == "2026-07-28" {
                message["params"]["_meta"] = crate::support::exact::meta();
            }
            let answer = client.send(http::Method::POST, headers, message.to_string()).await.last().await;
            assert_eq!(text_of(&answer["result"]), "absent");
        }
    }
    for (kind, upstream) in &pairs.upstreams {
        for got in upstream.received() {
            assert!(!format!("{:?}{}", got.headers, got.body).contains("s3cret"), "{kind}: {got:?}");
        }
    }
    pairs.gateway.stop().await;
}

#[tokio::test]
async fn one_server_alone_keeps_its_names_and_uris() {
    let script = Script::new("s").tool("t", [Step::Result(result(false))]).resource("file:///a").prompt("p");
    let pairs = Pairs::over(script).await;
    for kind in KINDS {
        for (revision, client) in pairs.clients(&pairs.gateway.url_of(kind), json!({})).await {
            let list = client.result("tools/list", json!({})).await;
            assert_eq!(list["tools"][0]["name"], "t", "{revision} {kind}");
            assert_eq!(client.result("resources/list", json!({})).await["resources"][0]["uri"], "file:///a");
            let text = client.open_raw("tools/call", r#"{"name":"t"}"#).await.text().await;
            assert!(text.contains(&shown(revision).join(",")), "{revision} {kind}: {text}");
            let read = client.result("resources/read", json!({"uri": "file:///a"})).await;
            assert_eq!(read["contents"][0]["uri"], "file:///a", "{revision} {kind}");
            let got = client.result("prompts/get", json!({"name": "p"})).await;
            assert!(matches!(got["messages"], Value::Array(_)), "{revision} {kind}");
        }
    }
    pairs.gateway.stop().await;
}
