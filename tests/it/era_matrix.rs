//! Every revision of a downstream with every kind of upstream, everything that they do with each other: one table.

use serde_json::json;

use crate::support::client::Client;
use crate::support::pairs::{Pairs, call};
use crate::support::upstream::{Script, Step, Upstream};

const COLUMNS: [&str; 7] = ["list", "call", "read", "get", "complete", "progress", "cancel"];

type Cell = Result<(), String>;

fn expect(is: bool, what: impl Fn() -> String) -> Cell {
    if is { Ok(()) } else { Err(what()) }
}

async fn lists(client: &Client, kind: &str) -> Cell {
    for (method, key, member, name) in [
        ("tools/list", "tools", "name", format!("{kind}__echo")),
        ("prompts/list", "prompts", "name", format!("{kind}__p")),
        ("resources/list", "resources", "uri", format!("{kind}+file:///r")),
        ("resources/templates/list", "resourceTemplates", "uriTemplate", format!("{kind}+file:///{{x}}")),
    ] {
        let list = client.request(method, json!({})).await["result"].clone();
        let found = list[key].as_array().is_some_and(|items| items.iter().any(|item| item[member] == name));
        expect(found, || format!("{name} is not in {list}"))?;
    }
    Ok(())
}

async fn does(client: &Client, kind: &str, method: &str, params: serde_json::Value, part: &str) -> Cell {
    let answer = client.request(method, params).await;
    expect(answer.get("result").is_some() && answer.to_string().contains(part), || format!("{kind}: {answer}"))
}

async fn progress(client: &Client, kind: &str) -> Cell {
    let mut params = call(kind, "steps");
    params["_meta"] = json!({"progressToken": "t"});
    let all = client.open("tools/call", params).await.all().await;
    let told: Vec<_> =
        all.iter().filter(|m| m["params"]["progressToken"] == "t").map(|m| &m["params"]["progress"]).collect();
    expect(told == [&json!(1), &json!(2)] && all.len() == 3, || format!("{all:?}"))
}

async fn cancel(client: &Client, kind: &str, upstream: &Upstream, modern: bool) -> Cell {
    let before = upstream.count("tools/call");
    let arrived = async {
        let got = upstream.wait_for_nth(before + 1, |got| got.method() == "tools/call").await;
        if !modern {
            client.notify("notifications/cancelled", json!({"requestId": "c"})).await;
        }
        got
    };
    let open = client.open_as(json!("c"), "tools/call", call(kind, "slow"));
    let got = if modern {
        tokio::select! {
            _ = open => return Err("it was answered".into()),
            got = arrived => got,
        }
    } else {
        let (reply, got) = tokio::join!(open, arrived);
        let rest = reply.all().await;
        expect(rest.is_empty(), || format!("it was answered: {rest:?}"))?;
        got
    };
    let by_leaving = kind == "modern-http";
    upstream
        .wait_for(|record| match by_leaving {
            true => record.is_gone() && record.id() == got.id(),
            false => {
                record.method() == "notifications/cancelled"
                    && Some(record.json()["params"]["requestId"].to_string()) == got.id()
            }
        })
        .await;
    Ok(())
}

async fn cell(column: &str, client: &Client, kind: &str, upstream: &Upstream, modern: bool) -> Cell {
    match column {
        "list" => lists(client, kind).await,
        "call" => does(client, kind, "tools/call", call(kind, "echo"), "\"{}\"").await,
        "read" => {
            let uri = format!("{kind}+file:///r");
            does(client, kind, "resources/read", json!({"uri": uri}), &format!("\"uri\":\"{uri}\"")).await
        }
        "get" => does(client, kind, "prompts/get", json!({"name": format!("{kind}__p")}), "absent").await,
        "complete" => {
            let params = json!({"ref": {"type": "ref/prompt", "name": format!("{kind}__p")}, "argument": {"name": "a", "value": ""}});
            does(client, kind, "completion/complete", params, "two").await
        }
        "progress" => progress(client, kind).await,
        _ => cancel(client, kind, upstream, modern).await,
    }
}

#[tokio::test]
async fn every_pair_does_everything() {
    let script = Script::new("s")
        .tool("echo", [])
        .tool("steps", [Step::Progress(2), Step::Echo])
        .tool("slow", [Step::Hold, Step::Echo])
        .prompt("p")
        .resource("file:///r")
        .template("file:///{x}");
    let pairs = Pairs::over(script).await;
    let (mut table, mut wrong) = (format!("{:12}{:15}{}\n", "downstream", "upstream", COLUMNS.join(" ")), Vec::new());
    for (revision, client) in pairs.clients(&pairs.gateway.url(), json!({})).await {
        for (kind, upstream) in &pairs.upstreams {
            table += &format!("{revision:12}{kind:15}");
            for column in COLUMNS {
                let outcome = cell(column, &client, kind, upstream, revision == "2026-07-28").await;
                table += &format!("{:1$}", if outcome.is_ok() { "ok" } else { "NO" }, column.len() + 1);
                wrong.extend(outcome.err().map(|why| format!("{revision} {kind} {column}: {why}")));
            }
            table.push('\n');
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{table}\n{}", wrong.join("\n"));
    pairs.gateway.stop().await;
}
