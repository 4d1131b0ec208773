//! Opening a connection over HTTP: the probe by status and body, the handshake, and the way down to HTTP+SSE.
//!
//! Part of [`Dialler`]; rules: protocol.md §1.6, §4.5, §4.7.

use std::sync::Arc;
use std::time::Duration;

use ::http::StatusCode;
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Dialler, Live, Opened, Verdict, ask, dial_error, message, read_outcome, until_closed};
use crate::config::ProtocolPin;
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::jsonrpc;
use crate::protocol::method::{Method, notification};
use crate::protocol::opening::{self, ByStatus, Discovered, Initialized};
use crate::protocol::revision::Revision;
use crate::upstream::error::{CallError, DialError};
use crate::upstream::leg::{Leg, Limits};
use crate::upstream::transport::Link;
use crate::upstream::transport::client::{HttpClient, Target};
use crate::upstream::transport::http::{self, HttpLink};
use crate::upstream::transport::http_sse::{self, SseLink};
use crate::upstream::wire::{Unobserved, Wire};

/// Answers of 429 or 5xx to a probe before `initialize` is tried once (protocol.md §1.6).
const BUSY_PROBES: u32 = 3;
/// Wait between those.
const BUSY_WAIT: Duration = Duration::from_millis(500);

/// What a probe found.
enum Found {
    /// It is modern.
    Modern(Verdict),
    /// It does not know the question.
    Legacy,
    /// It did not answer, or is too busy to: if it then takes a handshake, that says little.
    Silent,
}

impl Dialler {
    pub(super) async fn dial_http(
        &self,
        client: HttpClient,
        target: Target,
        known_legacy: bool,
    ) -> Result<Live, DialError> {
        let link = HttpLink::new(client.clone(), target.clone());
        let (wire, outbox) = self.wire(Link::Http(link));
        let mut drivers = JoinSet::new();
        drivers.spawn(until_closed(wire.clone(), http::drive_outbox(wire.clone(), outbox)));
        let opened = Opened { wire: wire.clone(), drivers, child: None, life: CancellationToken::new() };
        let probe = self.config.timeouts.probe;
        let verdict = match self.config.protocol {
            ProtocolPin::Legacy => self.initialize_http(&wire).await,
            ProtocolPin::Modern => self.probe_http(&wire, probe).await.and_then(|found| match found {
                Found::Modern(verdict) => Ok(Ok(verdict)),
                Found::Legacy | Found::Silent => Err(DialError::Handshake(
                    "it is pinned to `protocol: modern` but does not answer server/discover".into(),
                )),
            }),
            ProtocolPin::Auto if known_legacy => self.initialize_http(&wire).await,
            ProtocolPin::Auto => match self.probe_http(&wire, probe).await {
                Ok(Found::Modern(verdict)) => Ok(Ok(verdict)),
                Ok(Found::Legacy) => self.initialize_http(&wire).await,
                Ok(Found::Silent) => {
                    self.initialize_http(&wire).await.map(|v| v.map(|v| Verdict { provisional: true, ..v }))
                }
                Err(error) => Err(error),
            },
        };
        match verdict {
            Ok(Ok(verdict)) => self.finish(opened, verdict),
            // The URL knows no POST: it may be a server of 2024 (protocol.md §1.6).
            Ok(Err(status)) => {
                wire.close();
                self.dial_sse(client, target)
                    .await
                    .map_err(|sse| DialError::Handshake(format!("POST gives status {status}, and as HTTP+SSE: {sse}")))
            }
            Err(error) => {
                wire.close();
                Err(error)
            }
        }
    }

    async fn probe_http(&self, wire: &Arc<Wire>, limit: Duration) -> Result<Found, DialError> {
        let mut busy = 0;
        let mut revision = Revision::NEWEST_MODERN;
        let mut retried = false;
        loop {
            let params = opening::discover_params(&self.client_info, &ClientCapabilities::bridged(), revision);
            let by_status = match ask_modern(wire, &params, revision, limit).await {
                Ok(text) => match read_outcome(&text, |o| opening::discovered(o, revision))? {
                    Discovered::Modern(hello) => {
                        return Ok(Found::Modern(Verdict { hello: *hello, provisional: false }));
                    }
                    Discovered::Legacy => return Ok(Found::Legacy),
                    Discovered::Refused(why) => return Err(DialError::Handshake(why)),
                    Discovered::Retry(next) if !retried => {
                        (revision, retried) = (next, true);
                        continue;
                    }
                    Discovered::Retry(_) => {
                        return Err(DialError::Handshake(
                            "it refuses every protocol version that it says it serves".into(),
                        ));
                    }
                },
                Err(CallError::Unauthorized) => ByStatus::Unauthorized,
                Err(CallError::Status(status)) => opening::by_status(status),
                Err(CallError::Timeout { .. }) => return Ok(Found::Silent),
                Err(CallError::Violation(_)) => return Ok(Found::Legacy),
                Err(error) => return Err(dial_error(error, limit)),
            };
            match by_status {
                ByStatus::Legacy => return Ok(Found::Legacy),
                ByStatus::Unauthorized => return Err(DialError::Unauthorized(401)),
                ByStatus::Redirect => {
                    return Err(DialError::Config(
                        "it redirects to another origin: put that address into `url`".into(),
                    ));
                }
                ByStatus::Later if busy + 1 >= BUSY_PROBES => return Ok(Found::Silent),
                ByStatus::Later => {
                    busy += 1;
                    sleep(BUSY_WAIT * busy).await;
                }
            }
        }
    }

    /// `Err(status)` inside: the URL does not take the POST.
    async fn initialize_http(&self, wire: &Arc<Wire>) -> Result<Result<Verdict, u16>, DialError> {
        let params = opening::initialize_params(&self.client_info, &ClientCapabilities::bridged());
        let limit = self.config.timeouts.initialize;
        match ask(wire, Method::Initialize, &params, limit).await {
            Ok(text) => match read_outcome(&text, opening::initialized)? {
                Initialized::Legacy(hello) => {
                    wire.settle(hello.revision);
                    self.post_initialized(wire).await?;
                    Ok(Ok(Verdict { hello: *hello, provisional: false }))
                }
                Initialized::Modern if self.config.protocol == ProtocolPin::Auto => {
                    match self.probe_http(wire, limit).await? {
                        Found::Modern(verdict) => Ok(Ok(verdict)),
                        _ => Err(DialError::Handshake("it answers neither server/discover nor initialize".into())),
                    }
                }
                Initialized::Modern => {
                    Err(DialError::Handshake("it is pinned to `protocol: legacy` but does not know initialize".into()))
                }
                Initialized::Refused(why) => Err(DialError::Handshake(why)),
            },
            Err(CallError::Status(status @ (400 | 404 | 405 | 406 | 415))) => Ok(Err(status)),
            Err(error) => Err(dial_error(error, limit)),
        }
    }

    /// Awaited, because servers refuse requests that overtake it.
    async fn post_initialized(&self, wire: &Arc<Wire>) -> Result<(), DialError> {
        let Link::Http(link) = &wire.link else { return Ok(()) };
        let done = jsonrpc::notification(notification::INITIALIZED, "{}");
        let limit = self.config.timeouts.initialize;
        let posting = link.post(link.headers(wire.revision(), None), done.into());
        match tokio::time::timeout(limit, posting).await {
            Ok(Ok(http::Posted::Failed(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _))) => {
                Err(DialError::Unauthorized(401))
            }
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(dial_error(error, limit)),
            Err(_) => Err(DialError::Silent(limit)),
        }
    }

    pub(super) async fn dial_sse(&self, client: HttpClient, target: Target) -> Result<Live, DialError> {
        let link = SseLink::new(client, target);
        let stream = link.open(self.config.limits.message).await?;
        let (wire, outbox) = self.wire(Link::Sse(link));
        let mut drivers = JoinSet::new();
        drivers.spawn(until_closed(wire.clone(), http_sse::drive_stream(wire.clone(), stream)));
        drivers.spawn(until_closed(wire.clone(), http_sse::drive_outbox(wire.clone(), outbox)));
        let opened = Opened { wire, drivers, child: None, life: CancellationToken::new() };
        match self.initialize(&opened.wire).await {
            Ok(verdict) => self.finish(opened, verdict),
            Err(error) => {
                opened.wire.close();
                Err(error)
            }
        }
    }
}

/// The same over HTTP before the era is known: the headers have to say modern.
async fn ask_modern(wire: &Arc<Wire>, params: &[u8], revision: Revision, limit: Duration) -> Result<Bytes, CallError> {
    let leg = Leg::open(wire, Arc::new(Unobserved)).never_cancelled().speaking(revision);
    let out = message(leg.id(), Method::Discover, params);
    leg.run(out, Limits::of(limit)).await
}
