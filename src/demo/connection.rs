//! One peer on one pair of streams: sorts each line, answers at once what it can, and owns the calls that take time.
//!
//! Everything here belongs to the one reading task, so nothing is locked. A call that waits is a task in the [`JoinSet`];
//! its id is kept so that a cancel finds it, and dropping the set ends them all.

use std::collections::HashMap;
use std::time::SystemTime;

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use super::caller::{self, Caller};
use super::subscriptions::{Change, Subscriptions};
use super::texts;
use super::tools::{self, Added, Arguments, Countdown, Question, Refusal};
use super::wire::{self, Fault, Message, failure};
use crate::protocol::meta::SUBSCRIPTION_ID;

/// Calls waiting at once, in calls. Each costs a task of a few hundred bytes; no host starts that many by hand.
const CALLS_LIMIT: usize = 100;

pub(super) struct Connection {
    identity: Value,
    name: String,
    clock: fn() -> SystemTime,
    outbox: mpsc::Sender<Value>,
    /// The legacy peer, once it has sent `initialize`.
    handshake: Option<Caller>,
    added: Added,
    subscriptions: Subscriptions,
    tasks: JoinSet<()>,
    /// Calls in flight by the text of their id (`1` and `"1"` differ).
    calls: HashMap<String, Call>,
    /// Our own requests that the peer has not answered yet, by our id.
    questions: HashMap<String, oneshot::Sender<Result<Value, Value>>>,
    asked: u64,
}

/// A call that runs as a task, and our question to the peer that it waits for, if any.
struct Call {
    task: AbortHandle,
    question: Option<String>,
}

/// What becomes of a request that is not refused.
enum Outcome {
    Result(Value),
    /// A task answers, or (for a listen) its end does.
    Later,
}

impl Connection {
    pub(super) fn new(name: String, clock: fn() -> SystemTime, outbox: mpsc::Sender<Value>) -> Self {
        Self {
            identity: json!({"name": name, "version": env!("CARGO_PKG_VERSION")}),
            name,
            clock,
            outbox,
            handshake: None,
            added: Added::default(),
            subscriptions: Subscriptions::default(),
            tasks: JoinSet::new(),
            calls: HashMap::new(),
            questions: HashMap::new(),
            asked: 0,
        }
    }

    /// Serves one line. Returns when it is answered or its task runs.
    pub(super) async fn line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match serde_json::from_slice(line) {
            Err(error) => {
                let fault = Fault::new(wire::PARSE_ERROR, format!("not JSON: {error}"));
                self.send(failure(None, fault)).await;
            }
            Ok(Value::Array(batch)) if self.may_batch() && !batch.is_empty() => {
                for message in batch {
                    self.message(message).await;
                }
            }
            Ok(message) => self.message(message).await,
        }
    }

    /// Ends the calls in flight, so that nothing is left running, and the listens, which get their last word.
    pub(super) async fn close(mut self) {
        self.tasks.shutdown().await;
        for id in self.subscriptions.end_all_listens() {
            let params = json!({"requestId": id, "reason": "end of input"});
            self.send(wire::notification("notifications/cancelled", params)).await;
            // The specification asks for the notification on one page and for the result on another; both are read well.
            let last = json!({"resultType": "complete", "_meta": {SUBSCRIPTION_ID: id}});
            self.send(wire::success(&id, last)).await;
        }
    }

    fn may_batch(&self) -> bool {
        self.handshake.as_ref().is_some_and(Caller::may_batch)
    }

    async fn message(&mut self, message: Value) {
        match wire::sort(message) {
            Err(refusal) => self.send(refusal).await,
            Ok(Message::Request { id, method, params }) => self.request(id, &method, &params).await,
            Ok(Message::Notification { method, params }) => self.notified(&method, &params).await,
            Ok(Message::Response { id, answer }) => {
                let waiting = id.as_str().and_then(|id| self.questions.remove(id));
                // Nobody waiting is fine: the call may have been cancelled in between.
                let _ = waiting.map(|waiting| waiting.send(answer));
            }
        }
    }

    async fn request(&mut self, id: Value, method: &str, params: &Map<String, Value>) {
        let answer = match self.answer(&id, method, params).await {
            Ok(Outcome::Later) => return,
            Ok(Outcome::Result(result)) => wire::success(&id, result),
            Err(fault) => failure(Some(&id), fault),
        };
        self.send(answer).await;
    }

    async fn answer(&mut self, id: &Value, method: &str, params: &Map<String, Value>) -> Result<Outcome, Fault> {
        self.reap();
        if self.calls.contains_key(&id.to_string()) || self.subscriptions.is_listening(id) {
            return Err(Fault::new(wire::INVALID_REQUEST, format!("id {id} is in use")));
        }
        if method == "initialize" && caller::modern_meta(params).is_none() {
            return self.initialize(params).map(Outcome::Result);
        }
        let caller = Caller::of(method, params, self.handshake.as_ref())?;
        let outcome = match (method, caller.modern) {
            ("tools/call", _) => self.call(id, &caller, params).await?,
            ("subscriptions/listen", true) => {
                let acknowledgement = self.subscriptions.listen(id, params)?;
                self.send(acknowledgement).await;
                Outcome::Later
            }
            (_, true) => Outcome::Result(self.modern_result(&caller, method, params)?),
            (_, false) => Outcome::Result(self.legacy_result(&caller, method, params)?),
        };
        Ok(match outcome {
            Outcome::Result(result) => Outcome::Result(caller.dress(method, &self.identity, result)),
            Outcome::Later => Outcome::Later,
        })
    }

    /// The handshake that opens a legacy conversation.
    fn initialize(&mut self, params: &Map<String, Value>) -> Result<Value, Fault> {
        if self.handshake.is_some() {
            return Err(Fault::new(wire::INVALID_REQUEST, "this process is initialized already"));
        }
        let version = texts::text(params, "protocolVersion")?;
        let capabilities = params.get("capabilities").unwrap_or(&Value::Null);
        let caller = Caller::legacy(Some(version), capabilities);
        let mut offer = capabilities_offered();
        offer["logging"] = json!({});
        let result = json!({"protocolVersion": caller.revision(), "capabilities": offer,
            "serverInfo": self.identity});
        self.handshake = Some(caller);
        Ok(result)
    }

    fn modern_result(&self, caller: &Caller, method: &str, params: &Map<String, Value>) -> Result<Value, Fault> {
        match method {
            "server/discover" => Ok(json!({
                "supportedVersions": caller::supported_versions(),
                "capabilities": capabilities_offered(),
            })),
            _ => self.shared_result(caller, method, params),
        }
    }

    fn legacy_result(&mut self, caller: &Caller, method: &str, params: &Map<String, Value>) -> Result<Value, Fault> {
        match method {
            "ping" => {}
            "logging/setLevel" => {
                let level = params.get("level").unwrap_or(&Value::Null);
                self.handshake.as_mut().map_or(Ok(()), |peer| peer.set_log_level(level))?;
            }
            "resources/subscribe" => self.subscriptions.subscribe(texts::uri(caller, params)?)?,
            "resources/unsubscribe" => self.subscriptions.unsubscribe(texts::uri(caller, params)?),
            _ => return self.shared_result(caller, method, params),
        }
        Ok(json!({}))
    }

    /// The methods that are the same in both eras.
    fn shared_result(&self, caller: &Caller, method: &str, params: &Map<String, Value>) -> Result<Value, Fault> {
        if method.ends_with("/list") && params.get("cursor").is_some() {
            return Err(Fault::params("no such cursor: every list here is one page"));
        }
        match method {
            "tools/list" => Ok(json!({"tools": self.added.list(caller)})),
            "resources/list" => Ok(texts::resources()),
            "resources/templates/list" => Ok(texts::templates()),
            "resources/read" => texts::read(caller, params, &self.name, self.added.count()),
            "prompts/list" => Ok(texts::prompts()),
            "prompts/get" => texts::prompt(params),
            "completion/complete" => texts::complete(params),
            _ => Err(Fault::method(method)),
        }
    }

    /// `tools/call`.
    async fn call(&mut self, id: &Value, caller: &Caller, params: &Map<String, Value>) -> Result<Outcome, Fault> {
        let tool = texts::text(params, "name")?;
        let none = Arguments::new();
        let arguments = match params.get("arguments") {
            None | Some(Value::Null) => &none,
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(Fault::params("arguments must be an object")),
        };
        if caller.wants_log("info") {
            let entry = json!({"level": "info", "logger": self.name, "data": format!("{tool} is called")});
            self.send(wire::notification("notifications/message", entry)).await;
        }
        let result = match tool {
            "echo" => tools::echo(caller, arguments),
            "add" => tools::add(caller, arguments),
            "time" => Ok(tools::time((self.clock)())),
            "countdown" => match Countdown::read(arguments) {
                Ok(countdown) => return self.count_down(id, caller, params, countdown),
                Err(refusal) => Err(refusal),
            },
            "ask" => match Question::read(arguments) {
                Ok(question) => return self.ask(id, caller, params, &question).await,
                Err(refusal) => Err(refusal),
            },
            "add_tool" | "remove_tool" => self.change_tools(tool, arguments).await,
            _ if self.added.contains(tool) => Ok(tools::said(format!("I am {tool}."))),
            _ => return Err(Fault::params(format!("no tool {tool}"))),
        };
        Ok(Outcome::Result(result.unwrap_or_else(|refusal| tools::refused(&refusal))))
    }

    async fn change_tools(&mut self, tool: &str, arguments: &Arguments) -> Result<Value, Refusal> {
        let name = tools::text(arguments, "name")?;
        let result = match tool {
            "add_tool" => self.added.add(name),
            _ => self.added.remove(name),
        }?;
        for change in [Change::Tools, Change::Resource(texts::GREETING)] {
            for notice in self.subscriptions.announce(change) {
                self.send(notice).await;
            }
        }
        Ok(result)
    }

    fn count_down(
        &mut self,
        id: &Value,
        caller: &Caller,
        params: &Map<String, Value>,
        countdown: Countdown,
    ) -> Result<Outcome, Fault> {
        let token = params.get("_meta").and_then(|meta| meta.get("progressToken")).cloned();
        let work = countdown.run(token, self.outbox.clone());
        self.answer_later(id, caller, None, work)
    }

    /// Asks the user: a modern peer by the result itself, a legacy peer by a request of ours.
    async fn ask(
        &mut self,
        id: &Value,
        caller: &Caller,
        params: &Map<String, Value>,
        question: &Question,
    ) -> Result<Outcome, Fault> {
        match (caller.modern, caller.answers_questions) {
            (true, true) => question.round(params).map(Outcome::Result),
            (true, false) => {
                let needed = json!({"requiredCapabilities": {"elicitation": {"form": {}}}});
                Err(Fault::new(wire::MISSING_CAPABILITY, "ask needs elicitation").with_data(needed))
            }
            (false, false) => {
                let refusal = "there is no way to ask the user: elicitation was not declared".into();
                Ok(Outcome::Result(tools::refused(&refusal)))
            }
            (false, true) => {
                self.asked += 1;
                let own_id = format!("ask-{}", self.asked);
                let (sender, response) = oneshot::channel();
                let work = Question::wait(response);
                let outcome = self.answer_later(id, caller, Some(own_id.clone()), work)?;
                self.send(wire::request(&own_id, "elicitation/create", question.params())).await;
                self.questions.insert(own_id, sender);
                Ok(outcome)
            }
        }
    }

    /// Runs `work` as a task that answers the request `id` when it is done.
    fn answer_later(
        &mut self,
        id: &Value,
        caller: &Caller,
        question: Option<String>,
        work: impl Future<Output = Value> + Send + 'static,
    ) -> Result<Outcome, Fault> {
        if self.calls.len() >= CALLS_LIMIT {
            let why = format!("{CALLS_LIMIT} calls are running already; try again when one is done");
            return Err(Fault::new(wire::INTERNAL_ERROR, why));
        }
        let (outbox, caller, identity) = (self.outbox.clone(), caller.clone(), self.identity.clone());
        let key = id.to_string();
        let id = id.clone();
        let task = self.tasks.spawn(async move {
            let result = caller.dress("tools/call", &identity, work.await);
            // As in a countdown: when the outbox is closed there is nobody to tell.
            let _ = outbox.send(wire::success(&id, result)).await;
        });
        self.calls.insert(key, Call { task, question });
        Ok(Outcome::Later)
    }

    async fn notified(&mut self, method: &str, params: &Map<String, Value>) {
        match (method, params.get("requestId")) {
            ("notifications/initialized", _) => self.subscriptions.pushes = self.handshake.is_some(),
            ("notifications/cancelled", Some(id)) => self.cancel(id).await,
            _ => {}
        }
    }

    /// Stops what the request `id` started. It gets no answer; an id that is unknown was answered already.
    async fn cancel(&mut self, id: &Value) {
        self.subscriptions.end_listen(id);
        let Some(call) = self.calls.remove(&id.to_string()) else { return };
        call.task.abort();
        if let Some(question) = call.question.filter(|own| self.questions.remove(own).is_some()) {
            let params = json!({"requestId": question, "reason": "the call was cancelled"});
            self.send(wire::notification("notifications/cancelled", params)).await;
        }
    }

    /// Forgets calls that have been answered.
    fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.calls.retain(|_, call| !call.task.is_finished());
    }

    async fn send(&self, message: Value) {
        // Fails only when the writer has ended, and then the whole server is ending with its error.
        let _ = self.outbox.send(message).await;
    }
}

fn capabilities_offered() -> Value {
    json!({
        "tools": {"listChanged": true},
        "resources": {"subscribe": true},
        "prompts": {},
        "completions": {},
    })
}
