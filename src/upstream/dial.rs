//! Opens a connection to an upstream and learns what it speaks: the async half of `protocol::opening`.
//!
//! The actor calls `dial` and owns what comes out: the connection, the tasks that feed it, the child process.
//! A slow start must not brand a server legacy: the probe's clock starts when the process shows life, `initialize` goes
//! out beside the probe and not instead of it, and a verdict that came from silence says so (protocol.md §1.5).
//! Pipes are here; `over_http` has both HTTP transports.

mod over_http;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::connection::Connection;
use super::error::{CallError, DialError};
use super::leg::{Leg, Limits, Outgoing};
use super::notices::Notices;
use super::transport::client::{HttpClient, Target};
use super::transport::http::{self};
use super::transport::process::{self, Child, Program};
use super::transport::{Link, stdio};
use super::wire::{Unobserved, Wire, WireLimits};
use crate::config::{ProtocolPin, ServerConfig, TransportConfig};
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::jsonrpc::{self, Message, Outcome, Reading, RpcError};
use crate::protocol::method::{Method, notification};
use crate::protocol::object::Object;
use crate::protocol::opening::{self, Discovered, Hello, Initialized};
use crate::protocol::revision::Revision;
use crate::telemetry::metrics::server::ServerMetrics;

/// Probe time-outs that a process which shows no life at all is given before `initialize` is tried as well.
const LIFELESS_PROBES: u32 = 3;
/// What a dial needs beside the configuration.
#[derive(Clone, Debug)]
pub struct Dialler {
    /// The upstream's configuration.
    pub config: Arc<ServerConfig>,
    /// What we say of ourselves: JSON text.
    pub client_info: Arc<str>,
    /// Where notices of the connection go.
    pub notices: Arc<Notices>,
    /// Its counters.
    pub metrics: Arc<ServerMetrics>,
    /// HTTP connections of earlier dials.
    pub client: Option<HttpClient>,
}

/// An open connection with everything that keeps it going.
#[derive(Debug)]
pub struct Live {
    /// What callers use.
    pub connection: Arc<Connection>,
    /// Readers and writers; they end when the wire closes.
    pub drivers: JoinSet<()>,
    /// The process, for stdio.
    pub child: Option<Child>,
}

/// A connection before the opening.
struct Opened {
    wire: Arc<Wire>,
    drivers: JoinSet<()>,
    child: Option<Child>,
    life: CancellationToken,
}

/// What the opening found.
struct Verdict {
    hello: Hello,
    /// It is legacy only by its silence.
    provisional: bool,
}

impl Dialler {
    /// Opens a connection; `known` is the era found earlier, which saves a probe where it is certain.
    pub async fn dial(&mut self, known_legacy: bool) -> Result<Live, DialError> {
        match &self.config.clone().transport {
            TransportConfig::Stdio { .. } => self.dial_stdio(known_legacy).await,
            TransportConfig::Http { url, headers, ca_file } => {
                let client = self.http_client(url.expose(), ca_file.as_ref())?;
                let target = Target::new(url.expose(), headers)?;
                self.dial_http(client, target, known_legacy).await
            }
            TransportConfig::Sse { url, headers, ca_file } => {
                let client = self.http_client(url.expose(), ca_file.as_ref())?;
                let target = Target::new(url.expose(), headers)?;
                self.dial_sse(client, target).await
            }
        }
    }

    /// Dials over a pair of pipes that somebody else opened; tests do.
    pub async fn dial_pipes(
        &self,
        input: impl AsyncRead + Unpin + Send + 'static,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Live, DialError> {
        let life = CancellationToken::new();
        let opened = self.pipe(input, output, life, None);
        self.open_pipe(opened, false).await
    }

    fn http_client(&mut self, url: &url::Url, ca_file: Option<&crate::config::Text>) -> Result<HttpClient, DialError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let https = url.scheme() == "https";
        let client = HttpClient::new(https, ca_file.map(crate::config::Text::expose), self.config.timeouts.connect)?;
        Ok(self.client.insert(client).clone())
    }

    fn wire(&self, link: Link) -> (Arc<Wire>, mpsc::Receiver<Bytes>) {
        let limits = &self.config.limits;
        let limits = WireLimits { message: limits.message, concurrency: limits.concurrency, queue: limits.queue };
        Wire::new(
            self.config.name.clone(),
            limits,
            link,
            roots(&self.config),
            self.notices.clone(),
            self.metrics.clone(),
        )
    }

    async fn dial_stdio(&self, known_legacy: bool) -> Result<Live, DialError> {
        match self.open_pipe(self.spawn()?, known_legacy).await {
            // Some legacy servers leave at the first message that is not `initialize`: once more, straight to it.
            Err(DialError::Exited(how)) if !known_legacy && self.config.protocol == ProtocolPin::Auto => {
                debug!(server = %self.config.name, "the process ended during the probe{how}; starting it once more");
                self.open_pipe(self.spawn()?, true).await
            }
            other => other,
        }
    }

    fn spawn(&self) -> Result<Opened, DialError> {
        let TransportConfig::Stdio { command, args, env, cwd } = &self.config.transport else {
            return Err(DialError::Config("not a stdio server".into()));
        };
        let (child, pipes) = process::spawn(Program { command, args, env, cwd: cwd.as_ref() })?;
        let life = CancellationToken::new();
        let mut opened = self.pipe(pipes.stdout, pipes.stdin, life.clone(), Some(child));
        opened.drivers.spawn(process::drain_stderr(self.config.name.clone(), pipes.stderr, life));
        Ok(opened)
    }

    fn pipe(
        &self,
        input: impl AsyncRead + Unpin + Send + 'static,
        output: impl AsyncWrite + Unpin + Send + 'static,
        life: CancellationToken,
        child: Option<Child>,
    ) -> Opened {
        let (wire, outbox) = self.wire(Link::Pipe);
        let mut drivers = JoinSet::new();
        drivers.spawn(stdio::read(wire.clone(), input, life.clone()));
        drivers.spawn(stdio::write(wire.clone(), output, outbox));
        Opened { wire, drivers, child, life }
    }

    async fn open_pipe(&self, mut opened: Opened, known_legacy: bool) -> Result<Live, DialError> {
        let verdict = match self.config.protocol {
            ProtocolPin::Legacy => self.initialize(&opened.wire).await,
            ProtocolPin::Modern => self.discover_only(&opened.wire).await,
            ProtocolPin::Auto if known_legacy => self.initialize(&opened.wire).await,
            ProtocolPin::Auto => self.probe_pipe(&opened).await,
        };
        match verdict {
            Ok(verdict) => self.finish(opened, verdict),
            Err(error) => Err(self.abandon(&mut opened, error).await),
        }
    }

    /// The wire closed because the process ended: say how, which is what the operator needs.
    async fn abandon(&self, opened: &mut Opened, error: DialError) -> DialError {
        let ended = opened.wire.closed().is_cancelled();
        opened.wire.close();
        let Some(mut child) = opened.child.take() else { return error };
        if ended && let Ok(how) = tokio::time::timeout(self.config.timeouts.shutdown, child.wait()).await {
            return DialError::Exited(how);
        }
        child.end(&self.config.name, self.config.timeouts.shutdown).await;
        error
    }

    /// Probe first; after silence `initialize` as well, and whichever answers decides.
    async fn probe_pipe(&self, opened: &Opened) -> Result<Verdict, DialError> {
        let probe = self.discover(&opened.wire, Revision::NEWEST_MODERN, self.config.timeouts.initialize);
        tokio::pin!(probe);
        let silence = self.silence(&opened.life);
        tokio::select! {
            biased;
            answer = &mut probe => return self.judge(&opened.wire, answer?).await,
            () = silence => debug!(server = %self.config.name, "no answer to the probe yet; trying initialize beside it"),
        }
        let handshake = self.initialize(&opened.wire);
        tokio::pin!(handshake);
        tokio::select! {
            biased;
            answer = &mut probe => match answer? {
                Discovered::Legacy => handshake.await,
                found => self.judge(&opened.wire, found).await,
            },
            verdict = &mut handshake => verdict.map(|v| Verdict { provisional: true, ..v }),
        }
    }

    /// Ends one probe time-out after the process showed life, or after some more without any.
    async fn silence(&self, life: &CancellationToken) {
        let probe = self.config.timeouts.probe;
        let lifeless = Instant::now() + probe * LIFELESS_PROBES;
        tokio::select! {
            () = life.cancelled() => {}
            () = sleep_until(lifeless) => return,
        }
        tokio::select! {
            () = sleep(probe) => {}
            () = sleep_until(lifeless) => {}
        }
    }

    async fn judge(&self, wire: &Arc<Wire>, found: Discovered) -> Result<Verdict, DialError> {
        match found {
            Discovered::Modern(hello) => Ok(Verdict { hello: *hello, provisional: false }),
            Discovered::Legacy => self.initialize(wire).await,
            Discovered::Refused(why) => Err(DialError::Handshake(why)),
            Discovered::Retry(revision) => match self.discover(wire, revision, self.config.timeouts.probe).await? {
                Discovered::Modern(hello) => Ok(Verdict { hello: *hello, provisional: false }),
                Discovered::Refused(why) => Err(DialError::Handshake(why)),
                _ => Err(DialError::Handshake("it refuses every protocol version that it says it serves".into())),
            },
        }
    }

    async fn discover_only(&self, wire: &Arc<Wire>) -> Result<Verdict, DialError> {
        match self.discover(wire, Revision::NEWEST_MODERN, self.config.timeouts.initialize).await? {
            Discovered::Legacy => Err(DialError::Handshake(
                "it is pinned to `protocol: modern` but does not answer server/discover".into(),
            )),
            found => self.judge(wire, found).await,
        }
    }

    async fn discover(&self, wire: &Arc<Wire>, revision: Revision, limit: Duration) -> Result<Discovered, DialError> {
        let params = opening::discover_params(&self.client_info, &ClientCapabilities::bridged(), revision);
        let text = ask(wire, Method::Discover, &params, limit).await.map_err(|e| dial_error(e, limit))?;
        read_outcome(&text, |outcome| opening::discovered(outcome, revision))
    }

    /// The legacy handshake up to `notifications/initialized`. A server that does not know it is probed once more.
    async fn initialize(&self, wire: &Arc<Wire>) -> Result<Verdict, DialError> {
        match self.say_initialize(wire).await? {
            Initialized::Legacy(hello) => {
                wire.settle(hello.revision);
                let done = jsonrpc::notification(notification::INITIALIZED, "{}");
                wire.send(done.into()).map_err(|e| dial_error(e, self.config.timeouts.initialize))?;
                Ok(Verdict { hello: *hello, provisional: false })
            }
            Initialized::Refused(why) => Err(DialError::Handshake(why)),
            Initialized::Modern if self.config.protocol == ProtocolPin::Legacy => {
                Err(DialError::Handshake("it is pinned to `protocol: legacy` but does not know initialize".into()))
            }
            Initialized::Modern => {
                let limit = self.config.timeouts.initialize;
                match self.discover(wire, Revision::NEWEST_MODERN, limit).await? {
                    Discovered::Modern(hello) => Ok(Verdict { hello: *hello, provisional: false }),
                    _ => Err(DialError::Handshake("it answers neither server/discover nor initialize".into())),
                }
            }
        }
    }

    async fn say_initialize(&self, wire: &Arc<Wire>) -> Result<Initialized, DialError> {
        let params = opening::initialize_params(&self.client_info, &ClientCapabilities::bridged());
        let limit = self.config.timeouts.initialize;
        let text = ask(wire, Method::Initialize, &params, limit).await.map_err(|e| dial_error(e, limit))?;
        read_outcome(&text, opening::initialized)
    }

    fn finish(&self, opened: Opened, verdict: Verdict) -> Result<Live, DialError> {
        let Opened { wire, mut drivers, child, .. } = opened;
        if wire.closed().is_cancelled() {
            return Err(DialError::Exited(" the first request after the handshake".into()));
        }
        wire.settle(verdict.hello.revision);
        let is_legacy_http = matches!(wire.link, Link::Http(_)) && !verdict.hello.is_modern();
        if is_legacy_http {
            drivers.spawn(until_closed(wire.clone(), http::drive_stream(wire.clone())));
        }
        let connection = Connection::new(wire, verdict.hello, verdict.provisional, self.client_info.clone());
        Ok(Live { connection: Arc::new(connection), drivers, child })
    }
}

/// Ends `work` with the connection.
async fn until_closed(wire: Arc<Wire>, work: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = wire.closed().cancelled() => {}
        () = work => {}
    }
}

/// One request of our own during the opening.
async fn ask(wire: &Arc<Wire>, method: Method, params: &[u8], limit: Duration) -> Result<Bytes, CallError> {
    let leg = Leg::open(wire, Arc::new(Unobserved)).never_cancelled();
    let out = message(leg.id(), method, params);
    leg.run(out, Limits::of(limit)).await
}

pub(super) fn message(id: u64, method: Method, params: &[u8]) -> Outgoing {
    let mut body = Vec::with_capacity(params.len() + 96);
    jsonrpc::begin_request(&mut body, &id.to_string(), method.as_str());
    body.extend_from_slice(params);
    body.push(b'}');
    Outgoing { method: method.as_str(), name: None, params: Vec::new(), body: body.into() }
}

fn read_outcome<R>(text: &Bytes, read: impl FnOnce(&Outcome<'_>) -> R) -> Result<R, DialError> {
    let utf8 = std::str::from_utf8(text).map_err(|_| DialError::Handshake("its answer is not UTF-8".into()))?;
    match jsonrpc::parse(utf8, Reading::Lenient) {
        Ok(Message::Response(response)) => Ok(read(&response.outcome)),
        // Anything that is no answer says no more than an unknown code does.
        _ => Ok(read(&Outcome::Error(RpcError { code: 0, message: "".into(), raw: Object::default() }))),
    }
}

fn dial_error(error: CallError, limit: Duration) -> DialError {
    match error {
        CallError::Timeout { .. } => DialError::Silent(limit),
        CallError::Unauthorized => DialError::Unauthorized(401),
        CallError::Lost { sent: false } => DialError::Connect("nothing answers at its address".into()),
        CallError::Lost { sent: true } => DialError::Connect("the connection broke during the handshake".into()),
        other => DialError::Handshake(other.to_string()),
    }
}

/// The JSON text of a `roots/list` result made of the configured roots.
fn roots(config: &ServerConfig) -> Option<Box<str>> {
    if config.roots.is_empty() {
        return None;
    }
    let roots: Vec<serde_json::Value> = config
        .roots
        .iter()
        .map(|root| match &root.name {
            Some(name) => serde_json::json!({ "uri": root.uri.expose(), "name": name.expose() }),
            None => serde_json::json!({ "uri": root.uri.expose() }),
        })
        .collect();
    Some(serde_json::json!({ "roots": roots }).to_string().into())
}
