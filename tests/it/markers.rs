//! Nobody is ever asked what somebody else caused: each call carries a marker of its caller, the server's question repeats
//! it, and every client checks every question that it gets (design §5 "Whose question is it?").

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::app::Gateway;
use crate::support::client::{Client, get};
use crate::support::upstream::{Script, Step, Upstream};

/// Questions asked in all; callers at once differ from round to round, up to `CLIENTS` times `CALLS`.
const ROUNDS: usize = 1000;
const CLIENTS: usize = 4;
const CALLS: usize = 8;

/// Decides who takes part in each round.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Default)]
struct Count {
    asked: AtomicUsize,
    refused: AtomicUsize,
}

struct Caller {
    who: usize,
    is_modern: bool,
    client: Client,
}

impl Caller {
    async fn new(gateway: &Gateway, who: usize) -> Self {
        let is_modern = who % 2 == 1;
        let mut client = match is_modern {
            true => Client::modern(&gateway.url()),
            false => Client::legacy(&gateway.url(), "2025-11-25", json!({"elicitation": {}})).await,
        };
        client.capabilities = json!({"elicitation": {}});
        Self { who, is_modern, client }
    }

    fn params(&self, round: usize) -> Value {
        json!({"name": "s__ask", "arguments": {"who": self.who, "round": round}})
    }

    fn check(&self, question: &Value) {
        let message = question["message"].as_str().unwrap();
        let marker: Value = serde_json::from_str(message).unwrap();
        assert_eq!(marker["who"], self.who, "asked for somebody else (seed {SEED}): {message}");
    }

    /// One call to its end; how often it was asked on the way is counted.
    async fn call(&self, round: usize, count: &Count) {
        let last =
            if self.is_modern { self.in_rounds(round, count).await } else { self.on_a_stream(round, count).await };
        let text = last["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{last}"));
        if text.contains("-32603") {
            count.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn on_a_stream(&self, round: usize, count: &Count) -> Value {
        let mut reply = self.client.open("tools/call", self.params(round)).await;
        loop {
            let message = reply.next().await.expect("an answer");
            if message.get("method").is_none() {
                return message;
            }
            // What is only a notification takes a question back.
            if message.get("id").is_none() {
                continue;
            }
            self.check(&message["params"]);
            count.asked.fetch_add(1, Ordering::Relaxed);
            self.client.answer(&message, json!({"action": "accept", "content": {}})).await;
        }
    }

    async fn in_rounds(&self, round: usize, count: &Count) -> Value {
        let mut params = self.params(round);
        loop {
            let message = self.client.request("tools/call", params.clone()).await;
            let result = &message["result"];
            if result["resultType"] != "input_required" {
                return message;
            }
            let mut answers = json!({});
            for (key, asked) in result["inputRequests"].as_object().unwrap() {
                self.check(&asked["params"]);
                count.asked.fetch_add(1, Ordering::Relaxed);
                answers[key] = json!({"action": "accept", "content": {}});
            }
            params["requestState"] = result["requestState"].clone();
            params["inputResponses"] = answers;
        }
    }
}

/// A xorshift step: which callers take part in a round.
fn next(seed: &mut u64) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    usize::try_from(*seed % 1_000_003).unwrap()
}

async fn plant(upstream: &Upstream, rounds: usize) -> Count {
    let gateway = Gateway::over(&[("s", upstream)]).await;
    gateway.wait_state("s", "ready").await;
    let callers = join_all((0..CLIENTS).map(|who| Caller::new(&gateway, who))).await;
    let count = Count::default();
    let mut seed = SEED;
    let mut planted = 0;
    while planted < rounds {
        // Every third round has one caller with one call, so that a connection without streams can tell whose it is.
        let (some, calls) = if next(&mut seed).is_multiple_of(3) {
            (1, 1)
        } else {
            (1 + next(&mut seed) % CLIENTS, 1 + next(&mut seed) % CALLS)
        };
        let first = next(&mut seed);
        let taking_part = (0..some).map(|n| &callers[(first + n) % CLIENTS]);
        join_all(taking_part.flat_map(|c| (0..calls).map(|n| c.call(planted + n, &count)).collect::<Vec<_>>())).await;
        planted += some * calls;
    }
    let metrics = get(&gateway.admin("/metrics")).await.1;
    for line in metrics.lines().filter(|line| line.starts_with("manifold_suspended_calls")) {
        assert!(line.ends_with(" 0"), "nothing is left behind: {line}");
    }
    gateway.stop().await;
    count
}

fn script() -> Script {
    let form = json!({"message": "$ARGUMENTS", "requestedSchema": {"type": "object", "properties": {}}}).to_string();
    Script::new("s").tool("ask", [Step::Ask("elicitation/create".into(), form), Step::Answers]).legacy_only()
}

#[tokio::test]
async fn no_question_reaches_a_client_that_did_not_cause_it_over_one_pipe() {
    let upstream = Upstream::stdio(script()).await;
    let count = plant(&upstream, ROUNDS).await;
    let (asked, refused) = (count.asked.into_inner(), count.refused.into_inner());
    assert!(asked > ROUNDS / 20 && refused > ROUNDS / 20, "asked {asked}, refused {refused}: both ways were taken");
}

#[tokio::test]
async fn over_http_every_question_reaches_the_call_that_caused_it() {
    let upstream = Upstream::http(script()).await;
    let count = plant(&upstream, ROUNDS).await;
    assert_eq!(count.refused.into_inner(), 0);
    assert!(count.asked.into_inner() >= ROUNDS);
}
