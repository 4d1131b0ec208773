//! One downstream request and what happens for it before its end: progress, log messages, questions.
//!
//! The service makes one per routed request and gives it to each leg as its observer; readers of the upstream call it,
//! so nothing here waits. What a downstream did not ask for, it does not get (protocol.md §2.4, §5f).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    outlet: Outlet,
    prefixed: bool,
    progress_token: Option<Box<str>>,
    /// Bits of the last progress value: values must increase (protocol.md §2.8).
    progress: AtomicU64,
    progressed: AtomicBool,
    questions: Mutex<Vec<(OwnedId, u64)>>,
}

impl Exchange {
    /// For a request of `caller` that goes to `server`; `progress_token` is the caller's, as JSON text.
    pub fn new(server: ServerName, caller: &Caller, outlet: &Outlet, progress_token: Option<&str>) -> Arc<Self> {
        Arc::new(Self {
            server,
            peer: caller.peer.clone(),
            outlet: outlet.clone(),
            prefixed: caller.endpoint == Endpoint::Merged,
            progress_token: progress_token.map(Box::from),
            progress: AtomicU64::new(0),
            progressed: AtomicBool::new(false),
            questions: Mutex::default(),
        })
    }

    /// Whether the upstream should report progress.
    pub fn wants_progress(&self) -> bool {
        self.progress_token.is_some()
    }

    /// From which level on the caller wants log messages.
    pub fn log_level(&self) -> Option<Level> {
        match &self.peer {
            Peer::Legacy(session) => session.log_level(),
            Peer::Modern(peer) => peer.log_level,
        }
    }

    /// Values must increase; whatever does not is dropped, and so is a message without a value.
    fn advances(&self, params: &Object<'_>) -> bool {
        let Some(value) = params.get("progress").and_then(|p| p.parse::<f64>().ok()).filter(|v| v.is_finite()) else {
            return false;
        };
        if !self.progressed.swap(true, Ordering::Relaxed) {
            self.progress.store(value.to_bits(), Ordering::Relaxed);
            return true;
        }
        let last = f64::from_bits(self.progress.load(Ordering::Relaxed));
        let more = value > last;
        if more {
            self.progress.store(value.to_bits(), Ordering::Relaxed);
        }
        more
    }

    fn notify(&self, method: &str, params: &[u8]) {
        let params = String::from_utf8_lossy(params);
        // A full queue loses progress and logs before anything else; the outlet counts on it.
        self.outlet.offer(jsonrpc::notification(method, &params).into());
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
        let Some(token) = self.progress_token.as_deref() else { return };
        if !self.advances(params) {
            return;
        }
        let mut out = Vec::new();
        let mut w = ObjectWriter::begin(&mut out);
        for (key, value) in params.iter() {
            w.raw(key, if key == PROGRESS_TOKEN { token } else { value });
        }
        w.end();
        self.notify(notification::PROGRESS, &out);
    }

    fn log(&self, params: &Object<'_>) {
        let level = params.string("level").and_then(|l| Level::parse(&l));
        let (Some(wanted), Some(level)) = (self.log_level(), level) else { return };
        if level < wanted {
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
        self.notify(notification::MESSAGE, &out);
    }

    fn ask(&self, question: Question) {
        let refused = match &self.peer {
            Peer::Legacy(session) => refusal(&session.capabilities, &question),
            // A modern client is asked by suspending the call; that bridge has its place here.
            Peer::Modern(_) => Some((code::METHOD_NOT_FOUND, "the client cannot be asked in this way")),
        };
        if let Some((code, why)) = refused {
            return match question.fallback {
                Some(answer) => question.replier.result(&answer),
                None => question.replier.error(QuestionOutcome::Unsupported, code, why),
            };
        }
        let Peer::Legacy(session) = &self.peer else { return };
        let id = question.replier.id().clone();
        if let Some(number) = session.ask(question, &self.outlet) {
            self.questions.lock().unwrap_or_else(PoisonError::into_inner).push((id, number));
        }
    }

    fn withdraw(&self, id: &OwnedId, reason: Option<&str>) {
        let number = {
            let mut open = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
            let at = open.iter().position(|(i, _)| i == id);
            at.map(|at| open.swap_remove(at).1)
        };
        if let (Some(number), Peer::Legacy(session)) = (number, &self.peer) {
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

/// Why this client cannot be asked this: it did not say that it can (protocol.md §5a rule 2).
fn refusal(capabilities: &ClientCapabilities, asked: &Question) -> Option<(i64, &'static str)> {
    let params = Object::parse(&asked.params).unwrap_or_default();
    match asked.method.as_ref() {
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
        _ => None,
    }
}
