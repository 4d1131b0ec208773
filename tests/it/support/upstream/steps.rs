//! Carries out the steps of one call, in either era.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::engine::Engine;
use super::message::{Frame, Leg, Params};
use super::script::Step;

/// What a modern `requestState` looks like: characters that an escape-and-parse round trip may spoil, then where the call
/// stands. A peer that does not return it byte for byte is refused.
const STATE_HEAD: &str = "\u{27e6}\u{e9}/\"\\\u{1F600}\u{27e7}";

struct Call<'a> {
    engine: &'a Engine,
    method: &'a str,
    id: &'a str,
    name: String,
    params: &'a Params<'a>,
    modern: bool,
    leg: &'a Leg,
    /// Raw answers to the asks so far.
    answers: Vec<String>,
}

pub async fn run(engine: &Engine, method: &str, id: &str, params: &Params<'_>, modern: bool, leg: &Leg) {
    let name = params.name.clone().or_else(|| params.uri.clone()).unwrap_or_default();
    let script = engine.script();
    if method == "tools/call" && !script.tools.iter().any(|tool| item_name(tool) == Some(name.clone())) {
        return leg.error(200, id, json!({"code": -32602, "message": format!("unknown tool {name}")})).await;
    }
    let steps = script.behaviours.get(&name).cloned().unwrap_or_default();
    let mut call = Call { engine, method, id, name, params, modern, leg, answers: Vec::new() };
    let Some(mut at) = call.resume() else {
        return leg.error(200, id, json!({"code": -32602, "message": "requestState was tampered with"})).await;
    };
    let mut responses = params.input_responses.as_ref();
    while let Some(step) = steps.get(at) {
        if let Step::Ask(..) = step
            && modern
        {
            let asks = steps[at..].iter().take_while(|step| matches!(step, Step::Ask(..))).count();
            if !call.take_answers(at, asks, responses.take()) {
                return call.ask_back(at, &steps[at..at + asks]).await;
            }
            at += asks;
            continue;
        }
        if call.step(step, progress_before(&steps, at), &script.name).await {
            return;
        }
        at += 1;
    }
    call.step(&Step::Echo, 0, &script.name).await;
}

/// Does what the script wants done before `method` is answered as usual; true if that was an answer. A call is no method
/// here: its steps are those of its tool, prompt or resource.
pub async fn before(engine: &Engine, method: &str, id: &str, params: &Params<'_>, modern: bool, leg: &Leg) -> bool {
    let script = engine.script();
    let name = method.to_owned();
    let mut call = Call { engine, method, id, name, params, modern, leg, answers: Vec::new() };
    for step in script.behaviours.get(method).into_iter().flatten() {
        if call.step(step, 0, &script.name).await {
            return true;
        }
    }
    false
}

fn item_name(raw: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        name: String,
    }
    serde_json::from_str::<Named>(raw).ok().map(|named| named.name)
}

fn progress_before(steps: &[Step], at: usize) -> u32 {
    steps[..at].iter().map(|step| if let Step::Progress(n) = step { *n } else { 0 }).sum()
}

impl Call<'_> {
    /// Carries out one step; true if it ended the call.
    async fn step(&mut self, step: &Step, progress: u32, server: &str) -> bool {
        match step {
            Step::Hold => self.engine.hold(&self.name).await,
            Step::Pause(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
            Step::Progress(n) => self.progress((progress + 1..=progress + n).map(i64::from)).await,
            Step::ProgressAt(values) => self.progress(values.iter().copied()).await,
            Step::Notify(method, params) => self.leg.notify(method, params).await,
            Step::Ask(method, params) => {
                let quoted = Value::from(self.params.arguments.map_or("absent", RawValue::get)).to_string();
                let params = params.replace("$ARGUMENTS", quoted.trim_matches('"'));
                let answer = self.engine.ask(method, &params, self.leg).await;
                self.answers.push(answer.map_or("null".into(), |answer| content_of(&answer)));
            }
            Step::Noise(text) => self.leg.send(Frame::Noise(text.clone())).await,
            Step::Park => self.leg.send(Frame::Park(format!("park-{}", self.engine.serial()))).await,
            Step::Stderr(bytes) => self.leg.send(Frame::Stderr(*bytes)).await,
            _ => {
                self.end(step, server).await;
                return true;
            }
        }
        false
    }

    async fn end(&self, step: &Step, server: &str) {
        match step {
            Step::Answers => self.text(&format!("[{}]", self.answers.join(","))).await,
            Step::Name => self.text(server).await,
            Step::Result(raw) => self.leg.result(self.id, raw).await,
            Step::Error(raw) => {
                let (id, leg) = (self.id, self.leg);
                leg.send(Frame::Answer(200, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{raw}}}"#))).await;
            }
            Step::Huge(bytes) => self.text(&"x".repeat(*bytes)).await,
            Step::Garbage(text) => {
                let text = text.replace("$ID", self.id);
                self.leg.send(Frame::Answer(200, text)).await;
            }
            Step::Endless(bytes) => {
                self.leg.send(Frame::Endless(*bytes)).await;
                std::future::pending().await
            }
            Step::Status(status, body) => self.leg.send(Frame::Answer(*status, body.clone())).await,
            Step::Never => std::future::pending().await,
            Step::Die => self.leg.send(Frame::Die).await,
            _ => self.text(self.params.arguments.map_or("absent", RawValue::get)).await,
        }
    }

    async fn text(&self, text: &str) {
        let mut result = match self.method {
            "tools/call" => json!({"content": [{"type": "text", "text": text}]}),
            "prompts/get" => json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}),
            _ => json!({"contents": [{"uri": self.name, "text": text}]}),
        };
        if self.modern {
            result["resultType"] = "complete".into();
        }
        if self.modern && self.method == "resources/read" {
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "public".into();
        }
        self.leg.result(self.id, &result.to_string()).await;
    }

    async fn progress(&self, values: impl Iterator<Item = i64>) {
        let Some(token) = self.params.meta.get("progressToken") else { return };
        for n in values {
            let params = json!({"progressToken": token, "progress": n});
            self.leg.notify("notifications/progress", &params.to_string()).await;
        }
    }

    /// Where a modern retry goes on, or the start. `None` for a state that is not ours.
    fn resume(&mut self) -> Option<usize> {
        let Some(state) = &self.params.request_state else { return Some(0) };
        let (at, answers) = state.strip_prefix(STATE_HEAD)?.split_once(' ')?;
        let answers: Vec<Box<RawValue>> = serde_json::from_str(answers).ok()?;
        self.answers = answers.iter().map(|answer| answer.get().to_owned()).collect();
        at.parse().ok()
    }

    fn take_answers(&mut self, at: usize, asks: usize, responses: Option<&HashMap<String, Box<RawValue>>>) -> bool {
        let keys = (at..at + asks).map(|at| format!("q{at}"));
        let given: Option<Vec<_>> = keys.map(|key| Some(responses?.get(&key)?.get().to_owned())).collect();
        given.map(|given| self.answers.extend(given)).is_some()
    }

    async fn ask_back(&self, at: usize, asks: &[Step]) {
        let mut requests = serde_json::Map::new();
        for (n, ask) in asks.iter().enumerate() {
            let Step::Ask(method, params) = ask else { continue };
            let params: Value = serde_json::from_str(params).expect("the params of an ask are JSON");
            requests.insert(format!("q{}", at + n), json!({"method": method, "params": params}));
        }
        let state = format!("{STATE_HEAD}{at} [{}]", self.answers.join(","));
        let result = json!({"resultType": "input_required", "inputRequests": requests, "requestState": state});
        self.leg.result(self.id, &result.to_string()).await;
    }
}

/// The raw result of a response, or its error as an object of its own.
fn content_of(response: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        result: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    match serde_json::from_str::<Response<'_>>(response) {
        Ok(Response { result: Some(result), .. }) => result.get().to_owned(),
        Ok(Response { error: Some(error), .. }) => format!(r#"{{"error":{}}}"#, error.get()),
        _ => "null".into(),
    }
}
