//! One downstream request and what happens for it before its end: progress, log messages, questions.
//!
//! The service makes one per routed request and gives it to each leg as its observer; readers of the upstream call it,
//! so nothing here waits. What a downstream did not ask for, it does not get (protocol.md §2.4, §5f). A legacy client is
//! asked through its session; what a modern one is to be asked waits in [`Asks`] until the call is suspended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::asks::Asks;
use super::outlet::Outlet;
use super::{Caller, Peer};
use crate::catalog::Endpoint;
use crate::name::ServerName;
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::code;
use crate::protocol::jsonrpc::{self, OwnedId};
use crate::protocol::ledger::Asker;
use crate::protocol::level::Level;
use crate::protocol::meta::PROGRESS_TOKEN;
use crate::protocol::method::{notification, question};
use crate::protocol::object::{Object, ObjectWriter};
use crate::telemetry::metrics::label::QuestionOutcome;
use crate::upstream::question::Question;
use crate::upstream::wire::Observer;

/// One exchange; see the module.
#[derive(Debug)]
pub struct Exchange {
    server: ServerName,
    peer: Peer,
    prefixed: bool,
    voice: Mutex<Voice>,
    /// Questions put to a legacy client: the upstream's id and the session's number.
    questions: Mutex<Vec<(OwnedId, u64)>>,
    /// Questions for a modern client.
    pub asks: Asks,
}

/// How the downstream is reached now: a call that was suspended has another stream in each round.
#[derive(Clone, Debug)]
pub struct Voice {
    outlet: Outlet,
    progress_token: Option<Box<str>>,
    log_level: Option<Level>,
    /// The last progress value: values must increase, over all rounds (protocol.md §2.8).
    progress: Option<f64>,
}

impl Voice {
    /// The stream of this request of `caller`; `progress_token` is the caller's, as JSON text.
    pub fn new(caller: &Caller, outlet: &Outlet, progress_token: Option<&str>) -> Self {
        let log_level = match &caller.peer {
            Peer::Legacy(session) => session.log_level(),
            Peer::Modern(peer) => peer.log_level,
        };
        Self { outlet: outlet.clone(), progress_token: progress_token.map(Box::from), log_level, progress: None }
    }

    /// Values must increase; whatever does not is dropped, and so is a message without a value.
    fn advances(&mut self, params: &Object<'_>) -> bool {
        let value = params.get("progress").and_then(|p| p.parse::<f64>().ok()).filter(|v| v.is_finite());
        let more = value.is_some_and(|value| self.progress.is_none_or(|last| value > last));
        if more {
            self.progress = value;
        }
        more
    }

    fn notify(&self, method: &str, params: &[u8]) {
        let params = String::from_utf8_lossy(params);
        // A full queue loses progress and logs before anything else.
        self.outlet.offer(jsonrpc::notification(method, &params).into());
    }
}

impl Exchange {
    /// For a request of `caller` that goes to `server`.
    pub fn new(server: ServerName, caller: &Caller, voice: Voice) -> Arc<Self> {
        Arc::new(Self {
            server,
            peer: caller.peer.clone(),
            prefixed: caller.endpoint == Endpoint::Merged,
            voice: Mutex::new(voice),
            questions: Mutex::default(),
            asks: Asks::default(),
        })
    }

    /// The client came back with the request of `round`: from now on it is reached there. Progress goes on where it was.
    pub fn continue_on(&self, round: &Self) {
        let voice = round.voice().clone();
        let mut current = self.voice();
        *current = Voice { progress: current.progress, ..voice };
    }

    /// Whether the upstream should report progress.
    pub fn wants_progress(&self) -> bool {
        self.voice().progress_token.is_some()
    }

    /// From which level on the caller wants log messages.
    pub fn log_level(&self) -> Option<Level> {
        self.voice().log_level
    }

    /// The stream of the current round.
    pub fn outlet(&self) -> Outlet {
        self.voice().outlet.clone()
    }

    /// Why the client cannot be asked this; `None` if it can.
    fn refusal(&self, asked: &Question) -> Option<(i64, &'static str)> {
        refusal(self.peer.capabilities(), &asked.method, &asked.params)
    }

    fn voice(&self) -> MutexGuard<'_, Voice> {
        self.voice.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Exchange {
    fn asker(&self) -> Asker {
        match &self.peer {
            Peer::Legacy(session) => Asker::Session(session.key),
            Peer::Modern(_) => Asker::Modern,
        }
    }

    fn progress(&self, params: &Object<'_>) {
        let mut voice = self.voice();
        let Some(token) = voice.progress_token.clone().filter(|_| voice.advances(params)) else { return };
        let mut out = Vec::new();
        let mut w = ObjectWriter::begin(&mut out);
        for (key, value) in params.iter() {
            w.raw(key, if key == PROGRESS_TOKEN { &token } else { value });
        }
        w.end();
        voice.notify(notification::PROGRESS, &out);
    }

    fn log(&self, params: &Object<'_>) {
        let voice = self.voice();
        let level = params.string("level").and_then(|l| Level::parse(&l));
        if voice.log_level.is_none_or(|wanted| level.is_none_or(|level| level < wanted)) {
            return;
        }
        let mut out = Vec::new();
        let mut w = ObjectWriter::begin(&mut out);
        if self.prefixed {
            let logger = params.string("logger");
            let name = logger.map_or_else(|| self.server.to_string(), |l| format!("{}/{l}", self.server));
            w.string("logger", &name);
        }
        for (key, value) in params.iter().filter(|(k, _)| !self.prefixed || *k != "logger") {
            w.raw(key, value);
        }
        w.end();
        voice.notify(notification::MESSAGE, &out);
    }

    fn ask(&self, question: Question) {
        if let Some((code, why)) = self.refusal(&question) {
            return match question.fallback {
                Some(answer) => question.replier.result(&answer),
                None => question.replier.error(QuestionOutcome::Unsupported, code, why),
            };
        }
        let Peer::Legacy(session) = &self.peer else { return self.asks.add(question) };
        let id = question.replier.id().clone();
        if let Some(number) = session.ask(question, &self.outlet()) {
            self.questions.lock().unwrap_or_else(PoisonError::into_inner).push((id, number));
        }
    }

    fn withdraw(&self, id: &OwnedId, reason: Option<&str>) {
        let Peer::Legacy(session) = &self.peer else { return self.asks.withdraw(id, reason) };
        let number = {
            let mut open = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
            let at = open.iter().position(|(i, _)| i == id);
            at.map(|at| open.swap_remove(at).1)
        };
        if let Some(number) = number {
            session.withdraw(number, reason);
        }
    }
}

impl Drop for Exchange {
    /// The request is over, so nobody waits for its questions any more.
    fn drop(&mut self) {
        let open = std::mem::take(self.questions.get_mut().unwrap_or_else(PoisonError::into_inner));
        if let Peer::Legacy(session) = &self.peer {
            for (_, number) in open {
                session.withdraw(number, Some("the request it belongs to has ended"));
            }
        }
    }
}

/// Why a client of these capabilities cannot be asked this: it did not say that it can (protocol.md §5a rule 2).
pub fn refusal(capabilities: &ClientCapabilities, method: &str, params: &str) -> Option<(i64, &'static str)> {
    let params = Object::parse(params).unwrap_or_default();
    match method {
        question::ROOTS if !capabilities.roots => Some((code::METHOD_NOT_FOUND, "the client has no roots")),
        question::SAMPLING if !capabilities.sampling => {
            Some((code::METHOD_NOT_FOUND, "the client does not support sampling"))
        }
        question::SAMPLING if !capabilities.sampling_tools && (params.has("tools") || params.has("toolChoice")) => {
            Some((code::INVALID_PARAMS, "the client does not support sampling with tools"))
        }
        question::ELICITATION if !capabilities.form && !capabilities.url => {
            Some((code::METHOD_NOT_FOUND, "the client does not support elicitation"))
        }
        question::ELICITATION => {
            let by_url = params.string("mode").as_deref() == Some("url");
            let can = if by_url { capabilities.url } else { capabilities.form };
            (!can).then_some((code::INVALID_PARAMS, "the client does not support this mode of elicitation"))
        }
        question::ROOTS | question::SAMPLING => None,
        _ => Some((code::METHOD_NOT_FOUND, "the client cannot be asked this")),
    }
}
