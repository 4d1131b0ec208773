//! The same gateway over stdin and stdout, for hosts that only launch commands (protocol.md §1.4, §3.12).
//!
//! `app` calls [`run`] with the process's own streams, tests with pipes. One reader decides line by line, requests run
//! beside each other in one set of tasks, and one writer owns the output. A legacy conversation is the whole process;
//! modern requests stand for themselves and may be mixed in.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::legacy::{Conversation, cancelled_id, refused};
use super::record::{Outcome, Standing, record};
use super::refusal;
use super::settings::StdioSettings;
use crate::catalog::Endpoint;
use crate::gateway::outlet::{About, Outlet};
use crate::gateway::session::Session;
use crate::gateway::{Caller, Gateway, ModernPeer, Peer, Reply};
use crate::policy::principal::Principal;
use crate::protocol::classify::{self, Line, ModernCall, Refusal, classify_line};
use crate::protocol::code;
use crate::protocol::framing::lines::{LineDecoder, LineError, encode_line};
use crate::protocol::jsonrpc::{self, Message, OwnedId, Reading, Request};
use crate::protocol::method::{Method, notification};
use crate::protocol::revision::Era;
use crate::telemetry::metrics::Held;

/// Lines that wait for the writer; whoever has more waits with them, so a host that stops reading stops its own calls.
const WAITING_LINES: usize = 64;

/// Bytes read at a time: a page for every pipe write of common hosts, without a large idle buffer.
const READ_BYTES: usize = 16 << 10;

/// Serves `endpoint` until the input ends or `cancel`; then calls in flight may finish for the grace time.
///
/// # Errors
/// When the input cannot be read or the output cannot be written or takes nothing for too long.
pub async fn run(
    gateway: Gateway,
    endpoint: Endpoint,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    settings: StdioSettings,
    cancel: CancellationToken,
) -> io::Result<()> {
    let (lines, waiting) = mpsc::channel(WAITING_LINES);
    let process = Process {
        gateway,
        endpoint,
        settings,
        lines,
        legacy: None,
        open: None,
        served: JoinSet::new(),
        outstanding: HashMap::new(),
        streams: JoinSet::new(),
    };
    let ((), ()) = tokio::try_join!(write(output, waiting, settings), process.read(input, cancel))?;
    Ok(())
}

/// The one writer. Lines that wait together go out together.
async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut waiting: mpsc::Receiver<Bytes>,
    settings: StdioSettings,
) -> io::Result<()> {
    let mut out = Vec::new();
    while let Some(line) = waiting.recv().await {
        encode_line(&mut out, &line);
        while let Ok(line) = waiting.try_recv() {
            encode_line(&mut out, &line);
        }
        let written = async {
            output.write_all(&out).await?;
            output.flush().await
        };
        match timeout(settings.write_stall, written).await {
            Ok(written) => written?,
            Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "the host does not read what we write")),
        }
        out.clear();
    }
    Ok(())
}

/// What the reader keeps.
struct Process {
    gateway: Gateway,
    endpoint: Endpoint,
    settings: StdioSettings,
    lines: mpsc::Sender<Bytes>,
    legacy: Option<Conversation>,
    /// Counts the conversation while it lasts.
    open: Option<Held>,
    /// Requests with their ids, and batches, which have none.
    served: JoinSet<Option<OwnedId>>,
    /// Both eras share the ids of one process.
    outstanding: HashMap<OwnedId, CancellationToken>,
    /// The stream of what belongs to no request.
    streams: JoinSet<()>,
}

impl Process {
    async fn read(mut self, mut input: impl AsyncRead + Unpin, cancel: CancellationToken) -> io::Result<()> {
        let mut decoder = LineDecoder::new(self.settings.line_limit);
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(READ_BYTES);
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                Some(ended) = self.served.join_next(), if !self.served.is_empty() => self.forget(ended),
                read = input.read_buf(&mut buffer) => {
                    let ended = read? == 0;
                    let mut chunk = buffer.split().freeze();
                    while let Some(line) = decoder.decode(&mut chunk) {
                        self.line(line).await;
                    }
                    if ended {
                        if let Some(line) = decoder.finish() {
                            self.line(line).await;
                        }
                        break;
                    }
                }
            }
        }
        self.drain().await;
        Ok(())
    }

    /// Lets calls finish for the grace time. Whoever launched us wants no new ones.
    async fn drain(mut self) {
        let deadline = Instant::now() + self.settings.grace;
        while let Ok(Some(ended)) = tokio::time::timeout_at(deadline, self.served.join_next()).await {
            self.forget(ended);
        }
        self.served.shutdown().await;
        if let Some(legacy) = &self.legacy {
            legacy.session().end();
        }
        while self.streams.join_next().await.is_some() {}
    }

    fn forget(&mut self, ended: Result<Option<OwnedId>, JoinError>) {
        match ended {
            Ok(Some(id)) => drop(self.outstanding.remove(&id)),
            Ok(None) => {}
            // Its id is unknown and stays refused; everything else goes on.
            Err(_) => tracing::error!("a request ended by a panic; others are not affected"),
        }
    }

    async fn line(&mut self, line: Result<Bytes, LineError>) {
        let line = match line {
            Ok(line) => line,
            Err(error) => return self.refuse(&Refusal::invalid("line_size", error.to_string()), None).await,
        };
        let Ok(text) = std::str::from_utf8(&line) else {
            let error = jsonrpc::EnvelopeError { code: code::PARSE_ERROR, reason: "the line is not UTF-8", id: None };
            return self.refuse(&Refusal::from(&error), None).await;
        };
        if jsonrpc::first_byte(text.as_bytes()) == Some(b'[') {
            return self.batch(line.clone()).await;
        }
        match jsonrpc::parse(text, Reading::Strict) {
            Ok(message) => self.message(&line, &message).await,
            Err(error) => self.refuse(&Refusal::from(&error), error.id.as_deref()).await,
        }
    }

    async fn message(&mut self, line: &Bytes, message: &Message<'_>) {
        match (classify_line(message, self.legacy.is_some()), message) {
            (Err(refusal), Message::Request(request)) => self.refuse(&refusal, Some(request.id.as_raw())).await,
            (Ok(Line::Modern(call)), Message::Request(request)) => self.modern(call, line, request).await,
            (Ok(Line::Handshake), Message::Request(request)) => self.handshake(request).await,
            (Ok(Line::EarlyPing), Message::Request(request)) => self.send(pong(request)).await,
            (Ok(Line::Legacy), _) => self.legacy(line, message).await,
            (Ok(Line::Cancel), Message::Notification(notification)) => {
                let id = cancelled_id(notification).map(OwnedId::from);
                match (id.and_then(|id| self.outstanding.get(&id)), &self.legacy) {
                    (Some(token), _) => token.cancel(),
                    // What came in a batch is known to the conversation alone.
                    (None, Some(conversation)) => conversation.notified(notification),
                    (None, None) => {}
                }
            }
            (Ok(Line::Ignored(why)), _) => tracing::debug!(why, "a line was ignored"),
            _ => {}
        }
    }

    async fn handshake(&mut self, request: &Request<'_>) {
        if self.legacy.is_some() {
            let refusal = Refusal::invalid("initialized", "this process is initialized already");
            return self.refuse(&refusal, Some(request.id.as_raw())).await;
        }
        let made = self.gateway.initialize(request, self.endpoint.clone(), Principal::local(), Box::default());
        match made {
            Ok((session, reply)) => {
                self.send(reply.text).await;
                self.streams.spawn(standalone(Arc::clone(&session), self.lines.clone()));
                self.open = Some(self.gateway.metrics().session());
                self.legacy = Some(Conversation::new(self.gateway.clone(), session));
            }
            Err(reply) => self.send(reply.text).await,
        }
    }

    async fn legacy(&mut self, line: &Bytes, message: &Message<'_>) {
        let Some(conversation) = self.legacy.clone() else { return };
        match message {
            Message::Request(request) => {
                let line = line.clone();
                let work = async move |outlet: Outlet| {
                    let request = request_in(&line)?;
                    conversation.request(&request, &outlet).await
                };
                self.serve(Era::Legacy, request, work).await;
            }
            Message::Notification(notification) => conversation.notified(notification),
            Message::Response(response) => conversation.session().answer(response),
        }
    }

    async fn modern(&mut self, call: ModernCall, line: &Bytes, request: &Request<'_>) {
        let ModernCall { method, capabilities, log_level } = call;
        let caller = Caller {
            endpoint: self.endpoint.clone(),
            principal: Principal::local(),
            peer: Peer::Modern(ModernPeer { capabilities, log_level }),
        };
        let (gateway, line, lines) = (self.gateway.clone(), line.clone(), self.lines.clone());
        let work = async move |outlet: Outlet| {
            let request = request_in(&line)?;
            let reply = gateway.handle(method, &request, &caller, None, &outlet).await;
            if method == Method::Listen && reply.error.is_none() {
                // Two pages of the specification disagree about how a subscription ends here; both ways are sent.
                end_of_subscription(&lines, request.id.as_raw()).await;
            }
            Some(reply)
        };
        self.serve(Era::Modern, request, work).await;
    }

    /// Runs one request beside the others, under its id.
    async fn serve<W>(&mut self, era: Era, request: &Request<'_>, work: impl FnOnce(Outlet) -> W)
    where
        W: Future<Output = Option<Reply>> + Send + 'static,
    {
        let id = OwnedId::from(request.id);
        let in_a_batch = self.legacy.as_ref().is_some_and(|legacy| legacy.session().is_serving(&id));
        if in_a_batch || self.outstanding.contains_key(&id) {
            let refusal = Refusal::invalid("duplicate_id", "another request with this id is still being served");
            return self.refuse(&refusal, Some(request.id.as_raw())).await;
        }
        if self.served.len() >= self.settings.concurrent {
            return self.refuse(&too_many(), Some(request.id.as_raw())).await;
        }
        let withdrawn = CancellationToken::new();
        self.outstanding.insert(id.clone(), withdrawn.clone());
        self.spawn(Some(id), Standing::of(era, &request.method), withdrawn, work);
    }

    async fn batch(&mut self, line: Bytes) {
        let Some(conversation) = self.legacy.clone() else { return self.refuse(&classify::no_batches(), None).await };
        if self.served.len() >= self.settings.concurrent {
            return self.refuse(&too_many(), None).await;
        }
        let limit = self.settings.batch_limit;
        let work = async move |outlet: Outlet| {
            let answers = conversation.batch(std::str::from_utf8(&line).ok()?, limit, &outlet).await;
            match answers {
                Ok(text) => text.map(Reply::result),
                Err(refusal) => Some(refused(&refusal, None)),
            }
        };
        let standing = Standing { era: Era::Legacy, method: "batch", may_stream: true };
        self.spawn(None, standing, CancellationToken::new(), work);
    }

    fn spawn<W>(
        &mut self,
        id: Option<OwnedId>,
        standing: Standing,
        withdrawn: CancellationToken,
        work: impl FnOnce(Outlet) -> W,
    ) where
        W: Future<Output = Option<Reply>> + Send + 'static,
    {
        let outlet = Outlet::new();
        let answered = exchange(work(outlet.clone()), outlet.clone(), withdrawn, self.lines.clone());
        self.served.spawn(async move {
            let began = Instant::now();
            let outcome = answered.await;
            record(Some(standing), began, None, outcome, outlet.about());
            id
        });
    }

    async fn refuse(&self, refusal: &Refusal, id: Option<&str>) {
        record(None, Instant::now(), None, Outcome::refused(refusal), About::default());
        self.gateway.metrics().refusal(refusal::label(refusal));
        self.send(refused(refusal, id).text).await;
    }

    async fn send(&self, line: Bytes) {
        send(&self.lines, line).await;
    }
}

fn too_many() -> Refusal {
    let message = "too many requests are being served; wait for some to end";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, code::INTERNAL_ERROR, "limit", message)
}

/// The request in a line that was classified as one. Parsed anew because the task outlives the reader's borrow.
fn request_in(line: &Bytes) -> Option<Request<'_>> {
    match jsonrpc::parse(std::str::from_utf8(line).ok()?, Reading::Strict) {
        Ok(Message::Request(request)) => Some(request),
        _ => None,
    }
}

fn pong(request: &Request<'_>) -> Bytes {
    let mut out = Vec::new();
    jsonrpc::begin_result(&mut out, request.id.as_raw());
    out.extend_from_slice(b"{}}");
    out.into()
}

async fn send(lines: &mpsc::Sender<Bytes>, line: Bytes) {
    if lines.send(line).await.is_err() {
        // The writer has failed, and its error ends the run.
        tracing::debug!("a line was dropped: the output is gone");
    }
}

/// One exchange: what comes before its end, its end, and nothing once it is withdrawn.
async fn exchange(
    work: impl Future<Output = Option<Reply>>,
    outlet: Outlet,
    withdrawn: CancellationToken,
    lines: mpsc::Sender<Bytes>,
) -> Outcome {
    let mut work = std::pin::pin!(work);
    let mut open = true;
    let reply = loop {
        tokio::select! {
            biased;
            () = withdrawn.cancelled() => return Outcome::replied(None),
            next = outlet.next(), if open => match next {
                Some(message) => send(&lines, message).await,
                None => open = false,
            },
            reply = work.as_mut() => break reply,
        }
    };
    while let Some(message) = outlet.try_next() {
        send(&lines, message).await;
    }
    let outcome = Outcome::replied(reply.as_ref());
    if let Some(reply) = reply {
        send(&lines, reply.text).await;
    }
    outcome
}

/// What belongs to no request, for as long as the session lives. An overflow loses the messages that waited, not the stream.
async fn standalone(session: Arc<Session>, lines: mpsc::Sender<Bytes>) {
    while !session.ended.is_cancelled() {
        let outlet = Outlet::new();
        session.open_standalone(outlet.clone());
        while let Some(message) = outlet.next().await {
            send(&lines, message).await;
        }
    }
}

async fn end_of_subscription(lines: &mpsc::Sender<Bytes>, id: &str) {
    let params = format!("{{\"requestId\":{id}}}");
    send(lines, jsonrpc::notification(notification::CANCELLED, &params).into()).await;
}

#[cfg(test)]
mod tests;
