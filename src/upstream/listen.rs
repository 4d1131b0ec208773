//! `subscriptions/listen` towards a modern upstream: one stream that tells us what changed there.
//!
//! The actor starts one and replaces it when other resources are watched; what arrives goes into the connection's
//! notices like any other. A stream that ends is opened again as long as the connection stands (protocol.md §2.6, §5e);
//! whether the upstream is still there, and what it told nobody meanwhile, the actor finds out by reading the lists.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::connection::Connection;
use super::dial::message;
use super::error::CallError;
use super::leg::{Leg, Limits};
use super::notices::Notices;
use super::question::Question;
use super::wire::Observer;
use crate::protocol::capability::ServerCapabilities;
use crate::protocol::code;
use crate::protocol::jsonrpc::{self, Message, Outcome, OwnedId, Reading};
use crate::protocol::ledger::Asker;
use crate::protocol::meta;
use crate::protocol::method::Method;
use crate::protocol::object::{Object, ObjectWriter};

/// A listen stream has no limit of its own; the specification wants one for every request, so: a year.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// First and longest wait before an ended stream is opened again.
const REOPEN_MIN: Duration = Duration::from_secs(1);
const REOPEN_MAX: Duration = Duration::from_secs(60);

/// A running stream.
#[derive(Debug)]
pub(super) struct Listening {
    task: JoinSet<()>,
    acknowledged: CancellationToken,
}

impl Listening {
    /// Cancelled when the upstream said that it listens, or that it never will.
    pub(super) fn acknowledged(&self) -> CancellationToken {
        self.acknowledged.clone()
    }

    /// Closes the stream.
    pub(super) async fn end(mut self) {
        self.task.shutdown().await;
    }
}

/// Whether there is anything to listen for.
pub(super) fn is_wanted(capabilities: &ServerCapabilities, uris: &[Box<str>]) -> bool {
    let c = capabilities;
    c.tools_list_changed || c.prompts_list_changed || c.resources_list_changed || !uris.is_empty()
}

/// Listens for changes of lists, and of `uris`.
pub(super) fn start(connection: Arc<Connection>, uris: Vec<Box<str>>) -> Listening {
    let acknowledged = CancellationToken::new();
    let mut task = JoinSet::new();
    task.spawn(listen(connection, uris, acknowledged.clone()));
    Listening { task, acknowledged }
}

async fn listen(connection: Arc<Connection>, uris: Vec<Box<str>>, acknowledged: CancellationToken) {
    let params = params(&connection, &uris);
    let notices = &connection.wire.notices;
    let mut wait = REOPEN_MIN;
    loop {
        let heard = acknowledged.is_cancelled();
        let observer = Arc::new(Ear { acknowledged: acknowledged.clone(), resumes: heard.then(|| notices.clone()) });
        let leg = Leg::open(&connection.wire, observer);
        let out = message(leg.id(), Method::Listen, &params);
        let began = tokio::time::Instant::now();
        let ended = leg.run(out, Limits::of(FOREVER)).await;
        if connection.is_closed() {
            return;
        }
        if ended.as_ref().is_ok_and(is_unknown_method) || matches!(ended, Err(CallError::Status(404 | 405))) {
            debug!("the server does not listen; its lists are read again only when it reconnects");
            acknowledged.cancel();
            return;
        }
        if acknowledged.is_cancelled() || matches!(ended, Err(CallError::Lost { .. })) {
            notices.add(|p| p.broken = true);
        }
        if began.elapsed() > REOPEN_MAX {
            wait = REOPEN_MIN;
        }
        sleep(wait).await;
        wait = (wait * 2).min(REOPEN_MAX);
    }
}

fn params(connection: &Connection, uris: &[Box<str>]) -> Vec<u8> {
    let c = &connection.hello.capabilities;
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    let mut filter = ObjectWriter::begin(w.key("notifications"));
    for (on, key) in [
        (c.tools_list_changed, "toolsListChanged"),
        (c.prompts_list_changed, "promptsListChanged"),
        (c.resources_list_changed, "resourcesListChanged"),
    ] {
        if on {
            filter.raw(key, "true");
        }
    }
    if !uris.is_empty() {
        let list = serde_json::Value::from(uris.iter().map(AsRef::as_ref).collect::<Vec<&str>>());
        filter.raw("resourceSubscriptions", &list.to_string());
    }
    filter.end();
    meta::write_for_upstream(&mut w, None, connection.own_stamp(), None);
    w.end();
    out
}

fn is_unknown_method(text: &bytes::Bytes) -> bool {
    let Ok(utf8) = std::str::from_utf8(text) else { return false };
    match jsonrpc::parse(utf8, Reading::Lenient) {
        Ok(Message::Response(r)) => matches!(r.outcome, Outcome::Error(e) if e.code == code::METHOD_NOT_FOUND),
        _ => false,
    }
}

/// Hears the acknowledgement; the rest goes into the connection's notices.
#[derive(Debug)]
struct Ear {
    acknowledged: CancellationToken,
    /// Told when this stream follows one that was heard before.
    resumes: Option<Arc<Notices>>,
}

impl Observer for Ear {
    fn asker(&self) -> Asker {
        Asker::Gateway
    }
    fn progress(&self, _: &Object<'_>) {}
    fn log(&self, _: &Object<'_>) {}
    fn ask(&self, question: Question) {
        question.replier.forget();
    }
    fn withdraw(&self, _: &OwnedId, _: Option<&str>) {}
    fn acknowledged(&self) {
        self.acknowledged.cancel();
        if let Some(notices) = &self.resumes {
            notices.add(|p| p.resumed = true);
        }
    }
}
