//! Answers messages, whatever transport brought them. Transports hand it raw text and a [`Leg`] to speak on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::message::{Frame, Incoming, Leg, Params};
use super::record::{Log, Record};
use super::script::{Discover, Script};
use super::{Order, offer, steps};

pub const MODERN: &str = "2026-07-28";
pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

pub struct Engine {
    state: Mutex<State>,
    log: Log,
    tasks: Mutex<JoinSet<()>>,
}

pub struct State {
    pub script: Script,
    /// Live legacy HTTP sessions: the negotiated revision and the requests served.
    pub sessions: HashMap<String, (String, usize)>,
    pub initialized: usize,
    probed: usize,
    streams: Vec<Leg>,
    listens: Vec<(String, Value, Leg)>,
    questions: HashMap<String, oneshot::Sender<String>>,
    running: HashMap<String, CancellationToken>,
    holds: HashMap<String, Arc<Semaphore>>,
    /// What is left of streams that were closed early, by the event id to resume them with.
    parked: HashMap<String, mpsc::Receiver<Frame>>,
    serial: u64,
}

impl Engine {
    pub fn new(script: Script, log: Log) -> Arc<Self> {
        let state = State {
            script,
            sessions: HashMap::new(),
            initialized: 0,
            probed: 0,
            streams: Vec::new(),
            listens: Vec::new(),
            questions: HashMap::new(),
            running: HashMap::new(),
            holds: HashMap::new(),
            parked: HashMap::new(),
            serial: 0,
        };
        Arc::new(Self { state: Mutex::new(state), log, tasks: Mutex::default() })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn script(&self) -> Script {
        self.state().script.clone()
    }

    pub fn record(&self, record: Record) {
        self.log.add(record);
    }

    /// A number that was not used before.
    pub fn serial(&self) -> u64 {
        let mut state = self.state();
        state.serial += 1;
        state.serial
    }

    /// Serves one message as a task of its own.
    pub fn spawn(self: &Arc<Self>, text: String, leg: Leg) {
        let engine = self.clone();
        let mut tasks = self.tasks.lock().unwrap();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move { engine.message(&text, leg).await });
    }

    pub async fn message(&self, text: &str, leg: Leg) {
        let Ok(message) = serde_json::from_str::<Incoming<'_>>(text) else {
            return leg.error(400, "null", json!({"code": -32700, "message": "not a message"})).await;
        };
        match (&message.method, message.id) {
            (Some(method), Some(id)) => self.request(method, id.get(), &message.params, &leg, text).await,
            (Some(method), None) => self.notified(method, &message.params, &leg),
            (None, id) => {
                let asked = id.and_then(|id| self.state().questions.remove(id.get().trim_matches('"')));
                let _ = asked.map(|asked| asked.send(text.to_owned()));
            }
        }
    }

    async fn request(&self, method: &str, id: &str, params: &Params<'_>, leg: &Leg, text: &str) {
        let (key, cancel) = (format!("{}/{id}", leg.from), CancellationToken::new());
        self.state().running.insert(key.clone(), cancel.clone());
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.answer(method, id, params, leg) => {}
            () = leg.out.closed() => {
                self.record(Record { from: leg.from.clone(), verb: "GONE".into(), headers: Default::default(), body: text.into() });
            }
        }
        self.state().running.remove(&key);
    }

    fn notified(&self, method: &str, params: &Params<'_>, leg: &Leg) {
        if let ("notifications/cancelled", Some(id)) = (method, &params.request_id) {
            let mut state = self.state();
            if let Some(running) = state.running.get(&format!("{}/{id}", leg.from)) {
                running.cancel();
            }
            let id = id.to_string();
            state.listens.retain(|(own, _, of)| *own != id || of.from != leg.from);
        }
    }

    /// Whether a request is a modern one for this script.
    pub fn is_modern(&self, params: &Params<'_>) -> bool {
        let script = &self.state().script;
        script.modern
            && (params.meta["io.modelcontextprotocol/protocolVersion"].is_string() || script.legacy.is_empty())
    }

    async fn answer(&self, method: &str, id: &str, params: &Params<'_>, leg: &Leg) {
        let (script, modern) = (self.script(), self.is_modern(params));
        let version = params.meta["io.modelcontextprotocol/protocolVersion"].as_str();
        let refuse = |status, code: i64| leg.error(status, id, json!({"code": code, "message": "refused by script"}));
        if method == "server/discover" {
            match script.discover {
                Discover::Normal => {}
                Discover::After(ms) => tokio::time::sleep(std::time::Duration::from_millis(ms)).await,
                Discover::Silent => std::future::pending().await,
                Discover::EmptyResult => return leg.result(id, "{}").await,
                Discover::Error(code) => return refuse(200, code).await,
                Discover::VersionFirst => {
                    let first = {
                        let mut state = self.state();
                        state.probed += 1;
                        state.probed == 1
                    };
                    if first {
                        let data = json!({"supported": [MODERN], "requested": version});
                        let error = json!({"code": -32022, "message": "version", "data": data});
                        return leg.error(400, id, error).await;
                    }
                }
                Discover::Die => return leg.send(Frame::Die).await,
            }
        }
        if steps::before(self, method, id, params, modern, leg).await {
            return;
        }
        match (modern, method) {
            (true, "initialize" | "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe") => {
                refuse(404, -32601).await;
            }
            (true, _) if version.is_none() => refuse(400, -32602).await,
            (true, _) if version != Some(MODERN) => {
                let data = json!({"supported": [MODERN], "requested": version});
                leg.error(400, id, json!({"code": -32022, "message": "version", "data": data})).await;
            }
            (true, "server/discover") => leg.result(id, &offer::discover(&script)).await,
            (true, "subscriptions/listen") => self.listen(id, params, leg).await,
            (false, "initialize") => {
                let again = {
                    let mut state = self.state();
                    state.initialized += 1;
                    state.initialized > 1
                };
                if again && script.stdio.dies_at_second_initialize {
                    return leg.send(Frame::Die).await;
                }
                leg.result(id, &offer::initialize(&script, params.protocol_version.as_deref())).await;
            }
            (false, "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe") => {
                leg.result(id, "{}").await;
            }
            (_, "tools/call" | "prompts/get" | "resources/read") => {
                steps::run(self, method, id, params, modern, leg).await
            }
            (_, "completion/complete") => {
                leg.result(id, r#"{"completion":{"values":["one","two"]},"resultType":"complete"}"#).await;
            }
            _ => match offer::list(&script, method, params.cursor.as_ref(), modern) {
                Some(Ok(result)) => leg.result(id, &result).await,
                Some(Err(code)) => refuse(200, code).await,
                None => refuse(if modern { 404 } else { 200 }, -32601).await,
            },
        }
    }

    async fn listen(&self, id: &str, params: &Params<'_>, leg: &Leg) {
        let raw_id: Value = serde_json::from_str(id).unwrap_or_default();
        let granted = json!({"notifications": params.notifications, "_meta": {SUBSCRIPTION: raw_id}});
        leg.notify("notifications/subscriptions/acknowledged", &granted.to_string()).await;
        self.state().listens.push((id.to_owned(), params.notifications.clone(), leg.clone()));
        // The clone of the leg must not keep the stream of a peer that left: `request` watches for that.
        std::future::pending::<()>().await;
    }

    /// Registers a stream on which a legacy peer hears what belongs to no call.
    pub fn open_stream(&self, leg: Leg) {
        self.state().streams.push(leg);
    }

    /// The stream of this HTTP+SSE session.
    pub fn stream_of(&self, session: &str) -> Option<Leg> {
        self.state().streams.iter().find(|leg| leg.from == session).cloned()
    }

    pub fn open_streams(&self) -> usize {
        let mut state = self.state();
        state.streams.retain(|leg| !leg.out.is_closed());
        state.listens.retain(|(_, _, leg)| !leg.out.is_closed());
        state.streams.len() + state.listens.len()
    }

    /// Keeps the rest of a stream that ends now, for whoever comes back with `event`.
    pub fn park(&self, event: String, rest: mpsc::Receiver<Frame>) {
        self.state().parked.insert(event, rest);
    }

    pub fn resume(&self, event: &str) -> Option<mpsc::Receiver<Frame>> {
        self.state().parked.remove(event)
    }

    /// Sends a request of ours and waits for the whole response to it.
    pub async fn ask(&self, method: &str, params: &str, leg: &Leg) -> Option<String> {
        let id = format!("u-{}", self.serial());
        let (sender, answer) = oneshot::channel();
        self.state().questions.insert(id.clone(), sender);
        let request = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#);
        leg.send(Frame::Message(request)).await;
        answer.await.ok()
    }

    /// Waits for a release of `what`.
    pub async fn hold(&self, what: &str) {
        let permit = self.gate(what).acquire_owned().await;
        permit.expect("gates are never closed").forget();
    }

    fn gate(&self, what: &str) -> Arc<Semaphore> {
        self.state().holds.entry(what.into()).or_insert_with(|| Arc::new(Semaphore::new(0))).clone()
    }

    pub async fn obey(&self, order: Order) {
        match order {
            Order::SetTools(tools) => self.state().script.tools = tools,
            Order::SetScript(script) => self.state().script = *script,
            Order::Release(what) => self.gate(&what).add_permits(1),
            Order::Announce(method, params) => self.announce(&method, &params).await,
            Order::ForgetSessions => self.state().sessions.clear(),
        }
    }

    async fn announce(&self, method: &str, params: &str) {
        self.open_streams();
        let (streams, listens) = {
            let state = self.state();
            (state.streams.clone(), state.listens.clone())
        };
        for leg in streams {
            leg.notify(method, params).await;
        }
        for (id, wish, leg) in listens {
            let mut params: Value = serde_json::from_str(params).unwrap_or_default();
            if offer::wants(&wish, method, &params) {
                params["_meta"] = json!({SUBSCRIPTION: serde_json::from_str::<Value>(&id).unwrap_or_default()});
                leg.notify(method, &params.to_string()).await;
            }
        }
    }

    /// What a restart loses: sessions, streams, calls.
    pub fn forget_everything(&self) {
        self.tasks.lock().unwrap().abort_all();
        let mut state = self.state();
        state.sessions.clear();
        state.streams.clear();
        state.listens.clear();
        state.questions.clear();
        state.running.clear();
        state.holds.clear();
        state.parked.clear();
    }
}
