//! The tools: their definitions, and the work each does once its arguments are read.
//!
//! Arguments that do not fit are the model's mistake, not the protocol's, so they come back as a tool result with
//! `isError` that the model can read and do better ([`Refusal`]).

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use super::caller::Caller;
use super::wire::{Fault, notification};

/// Tools that `add_tool` may add; keeps a list one page long.
const ADDED_LIMIT: usize = 100;
/// Longest countdown, in seconds: an hour is slow enough for any trial.
const COUNTDOWN_LIMIT: f64 = 3600.0;
/// Most steps of a countdown, which is the number of progress notifications it sends.
const STEPS_LIMIT: u64 = 1000;
/// The key of the one question that `ask` puts to a modern peer.
const ANSWER_KEY: &str = "answer";

/// What the model did wrong, in words for the model.
pub(super) type Refusal = String;
pub(super) type Arguments = Map<String, Value>;

/// The names of tools added at run time, in the order they came.
#[derive(Default)]
pub(super) struct Added(Vec<String>);

impl Added {
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|own| own == name)
    }

    pub(super) fn add(&mut self, name: &str) -> Result<Value, Refusal> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > 64 || !name.chars().all(legal) {
            return Err("name must be 1 to 64 of the characters A-Z a-z 0-9 _ - .".into());
        }
        if self.contains(name) || built_in().iter().any(|tool| tool["name"] == name) {
            return Err(format!("there is a tool {name} already"));
        }
        if self.0.len() == ADDED_LIMIT {
            return Err(format!("{ADDED_LIMIT} tools were added already; remove one first"));
        }
        self.0.push(name.to_owned());
        Ok(said(format!("Added {name}.")))
    }

    pub(super) fn remove(&mut self, name: &str) -> Result<Value, Refusal> {
        if !self.contains(name) {
            return Err(format!("{name} is not a tool that was added"));
        }
        self.0.retain(|own| own != name);
        Ok(said(format!("Removed {name}.")))
    }

    /// All tools, as `caller` may see them.
    pub(super) fn list(&self, caller: &Caller) -> Vec<Value> {
        let mut tools = built_in();
        if !caller.knows_structured_content() {
            for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
                tool.remove("outputSchema");
            }
        }
        let added = |name| {
            json!({"name": name, "description": "Added at run time; says its own name.",
            "inputSchema": object(json!({}), &[])})
        };
        tools.extend(self.0.iter().map(added));
        tools
    }

    pub(super) fn count(&self) -> usize {
        built_in().len() + self.0.len()
    }
}

fn built_in() -> Vec<Value> {
    let text = json!({"type": "string"});
    let number = json!({"type": "number"});
    let message = object(json!({"message": text}), &["message"]);
    let pair = object(json!({"a": number, "b": number}), &["a", "b"]);
    let sum = object(json!({"sum": number}), &["sum"]);
    let pace = object(
        json!({
            "seconds": {"type": "number", "minimum": 0, "maximum": COUNTDOWN_LIMIT, "default": 3},
            "steps": {"type": "integer", "minimum": 1, "maximum": STEPS_LIMIT, "default": 3},
        }),
        &[],
    );
    let question = object(json!({"question": text}), &[]);
    let name = object(json!({"name": text}), &["name"]);
    vec![
        json!({"name": "echo", "description": "Says what it is told.",
            "inputSchema": message, "outputSchema": message, "annotations": {"readOnlyHint": true}}),
        json!({"name": "add", "description": "Adds two numbers.",
            "inputSchema": pair, "outputSchema": sum, "annotations": {"readOnlyHint": true}}),
        json!({"name": "time", "description": "Tells the time, in UTC.",
            "inputSchema": object(json!({}), &[]), "annotations": {"readOnlyHint": true}}),
        json!({"name": "countdown", "description": "Takes its time, and reports progress.",
            "inputSchema": pace, "annotations": {"readOnlyHint": true}}),
        json!({"name": "ask", "description": "Asks the user a question and says the answer.",
            "inputSchema": question}),
        json!({"name": "add_tool", "description": "Adds a tool to this list.", "inputSchema": name}),
        json!({"name": "remove_tool", "description": "Removes a tool that add_tool added.",
            "inputSchema": name}),
    ]
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

/// A result that is a text.
pub(super) fn said(text: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}]})
}

pub(super) fn refused(why: &Refusal) -> Value {
    json!({"content": [{"type": "text", "text": why}], "isError": true})
}

/// A result that is data, with the same as text for those who know only that.
fn structured(caller: &Caller, text: String, data: Value) -> Value {
    let mut result = said(text);
    if caller.knows_structured_content() {
        result["structuredContent"] = data;
    }
    result
}

pub(super) fn echo(caller: &Caller, arguments: &Arguments) -> Result<Value, Refusal> {
    let message = text(arguments, "message")?;
    Ok(structured(caller, message.to_owned(), json!({"message": message})))
}

pub(super) fn add(caller: &Caller, arguments: &Arguments) -> Result<Value, Refusal> {
    let (Some(a), Some(b)) = (arguments.get("a"), arguments.get("b")) else {
        return Err("a and b are needed".into());
    };
    let integers = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b));
    // Whole numbers stay whole: 2 + 2 is 4, not 4.0.
    let sum = match (integers, a.as_f64().zip(b.as_f64())) {
        (Some(sum), _) => json!(sum),
        (None, Some((a, b))) if (a + b).is_finite() => json!(a + b),
        _ => return Err("a and b must be numbers with a finite sum".into()),
    };
    Ok(structured(caller, sum.to_string(), json!({"sum": sum})))
}

pub(super) fn time(now: SystemTime) -> Value {
    said(humantime::format_rfc3339_seconds(now).to_string())
}

pub(super) fn text<'a>(arguments: &'a Arguments, key: &str) -> Result<&'a str, Refusal> {
    arguments.get(key).and_then(Value::as_str).ok_or_else(|| format!("{key} must be a string"))
}

/// A countdown whose arguments were read.
pub(super) struct Countdown {
    step: Duration,
    steps: u64,
}

impl Countdown {
    pub(super) fn read(arguments: &Arguments) -> Result<Self, Refusal> {
        let seconds = arguments.get("seconds").map_or(Some(3.0), Value::as_f64);
        let seconds = seconds.filter(|seconds| (0.0..=COUNTDOWN_LIMIT).contains(seconds));
        let steps = arguments.get("steps").map_or(Some(3), Value::as_u64);
        let steps = steps.filter(|steps| (1..=STEPS_LIMIT).contains(steps));
        let (Some(seconds), Some(steps)) = (seconds, steps) else {
            return Err(format!("seconds is 0 to {COUNTDOWN_LIMIT}, steps 1 to {STEPS_LIMIT}"));
        };
        Ok(Self { step: Duration::from_secs_f64(seconds / steps as f64), steps })
    }

    /// Waits step by step. Dropping the future is how it is cancelled.
    pub(super) async fn run(self, progress_token: Option<Value>, outbox: mpsc::Sender<Value>) -> Value {
        for step in 1..=self.steps {
            tokio::time::sleep(self.step).await;
            let Some(token) = &progress_token else { continue };
            let params = json!({"progressToken": token, "progress": step, "total": self.steps,
                "message": format!("{} to go", self.steps - step)});
            // A closed outbox means that nobody reads any more; the read side notices and ends this call.
            let _ = outbox.send(notification("notifications/progress", params)).await;
        }
        said("Lift-off!")
    }
}

/// The question of `ask`, as elicitation wants it in both eras.
pub(super) struct Question(String);

impl Question {
    pub(super) fn read(arguments: &Arguments) -> Result<Self, Refusal> {
        match arguments.get("question") {
            None => Ok(Self("What is your name?".into())),
            Some(_) => Ok(Self(text(arguments, "question")?.to_owned())),
        }
    }

    /// The params of `elicitation/create`.
    pub(super) fn params(&self) -> Value {
        let answer = object(json!({"answer": {"type": "string", "title": "Answer"}}), &["answer"]);
        json!({"message": self.0, "requestedSchema": answer})
    }

    /// The modern form: the question is the result, and the peer calls again with the answer and our state. All that has
    /// to be remembered is in the arguments, which come again too, so the state only proves that a first round was had.
    pub(super) fn round(&self, params: &Map<String, Value>) -> Result<Value, Fault> {
        let state = format!("asked: {}", self.0);
        if params.get("requestState").is_some_and(|own| *own != state) {
            return Err(Fault::params("requestState is not the one given for this question"));
        }
        let answers = match params.get("inputResponses") {
            None => None,
            Some(Value::Object(answers)) => answers.get(ANSWER_KEY),
            Some(_) => return Err(Fault::params("inputResponses must be an object")),
        };
        match answers {
            Some(answer) => answered(answer),
            None => Ok(json!({
                "resultType": "input_required",
                "inputRequests": {ANSWER_KEY: {"method": "elicitation/create", "params": self.params()}},
                "requestState": state,
            })),
        }
    }

    /// The legacy form: the question went out as a request, and this is its response.
    pub(super) async fn wait(response: oneshot::Receiver<Result<Value, Value>>) -> Value {
        match response.await {
            Ok(Ok(answer)) => answered(&answer).unwrap_or_else(|_| refused(&"the answer had no valid action".into())),
            _ => refused(&"the question could not be put to the user".into()),
        }
    }
}

fn answered(answer: &Value) -> Result<Value, Fault> {
    let given = answer["content"]["answer"].as_str();
    match (answer["action"].as_str(), given) {
        (Some("accept"), Some(given)) => Ok(said(format!("The answer is: {given}"))),
        (Some("accept"), None) => Ok(said("The user accepted, without an answer.")),
        (Some("decline"), _) => Ok(said("The user would rather not say.")),
        (Some("cancel"), _) => Ok(said("The user dismissed the question.")),
        _ => Err(Fault::params("an answer has the action accept, decline or cancel")),
    }
}
