//! Which era a message of a downstream belongs to, and whether it may be served at all.
//!
//! The downstream edge hands over what arrived, one HTTP message with its headers or one line of stdio, and gets back
//! who has to serve it or a [`Refusal`] to send. The first rule that matches wins, so the order of the code is the order
//! of the tables in protocol.md §1.2 (era over HTTP), §1.3 (modern pipeline) and §1.4 (stdio).
//! `Mcp-Param-*` headers need the catalog and are checked behind this.

use std::borrow::Cow;

use http::{HeaderMap, StatusCode};

use super::capability::ClientCapabilities;
use super::code;
use super::header::{self, HeaderError, MCP_NAME, MCP_PROTOCOL_VERSION, MCP_SESSION_ID};
use super::jsonrpc::{self, EnvelopeError, Id, Message, Request};
use super::level::Level;
use super::meta::{self, RequestMeta};
use super::method::{self, Method};
use super::object::{ObjectWriter, write_string};
use super::revision::{Era, Revision};

/// A modern request that may be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModernCall {
    /// What it asks for; exists in the modern era.
    pub method: Method,
    /// What the client can be asked during this request.
    pub capabilities: ClientCapabilities,
    /// Log messages wanted for this request; `None` means none.
    pub log_level: Option<Level>,
}

/// What a message posted over HTTP is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted<'h> {
    /// A stateless request.
    Modern(ModernCall),
    /// A notification that nothing can come of: answered with 202.
    Ignored,
    /// A legacy `initialize`, with the session that its sender claims to have already.
    Handshake {
        /// The value of `Mcp-Session-Id`.
        session: Option<&'h str>,
    },
    /// Any message inside a legacy session, known or not.
    InSession(&'h str),
}

/// What a line of stdio is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A stateless request.
    Modern(ModernCall),
    /// A legacy `initialize`.
    Handshake,
    /// A `ping` before any handshake, which is answered.
    EarlyPing,
    /// Any message of a process that has shaken hands.
    Legacy,
    /// `notifications/cancelled`, which means the same in both eras.
    Cancel,
    /// A message that nothing can come of, with the reason for the log.
    Ignored(&'static str),
}

/// A message that is not served. Texts are for the peer and never repeat what it sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status over HTTP.
    pub status: StatusCode,
    /// The JSON-RPC code.
    pub code: i64,
    /// One of a closed set of words: metric label and log field.
    pub reason: &'static str,
    /// What is wrong and what to do.
    pub message: Cow<'static, str>,
    /// JSON text of the error's `data`.
    pub data: Option<String>,
}

impl Refusal {
    /// A refusal without `data`.
    pub fn new(status: StatusCode, code: i64, reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, reason, message: message.into(), data: None }
    }

    /// Not a request that may be sent here: -32600 with 400.
    pub fn invalid(reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, reason, message)
    }

    /// The error response. `id` is the request's; without one the member is left out, never `null`.
    pub fn body(&self, id: Option<&str>) -> Vec<u8> {
        jsonrpc::error(id, self.code, &self.message, self.data.as_deref())
    }
}

impl From<&EnvelopeError> for Refusal {
    fn from(error: &EnvelopeError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.code, "envelope", error.reason)
    }
}

impl From<HeaderError> for Refusal {
    fn from(error: HeaderError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::HEADER_MISMATCH, "header_mismatch", error.to_string())
    }
}

/// The id that a refusal of `message` names: a response's id is not the peer's to be told about.
pub fn request_id<'a>(message: &Message<'a>) -> Option<Id<'a>> {
    match message {
        Message::Request(request) => Some(request.id),
        Message::Notification(_) | Message::Response(_) => None,
    }
}

/// Classifies a single message of a POST (protocol.md §1.2 rules 2 to 8).
///
/// # Errors
/// The refusal to answer with; name [`request_id`] in it.
pub fn classify_http<'h>(headers: &'h HeaderMap, message: &Message<'_>) -> Result<Posted<'h>, Refusal> {
    let said = Said::by(message);
    let version = Version::of(headers);
    if said.meta.is_modern {
        return posted_modern(headers, message, &said.meta);
    }
    if let Message::Request(request) = message
        && request.method == Method::Initialize.as_str()
    {
        return Ok(Posted::Handshake { session: session(headers) });
    }
    if version == Version::NotLegacy {
        return posted_modern(headers, message, &said.meta);
    }
    if let Some(session) = session(headers) {
        return Ok(Posted::InSession(session));
    }
    if method::is_modern_only(said.method) {
        return posted_modern(headers, message, &said.meta);
    }
    Err(match version {
        Version::Legacy(revision) if revision != Revision::V2024_11_05 => session_required(),
        _ => unclassifiable(),
    })
}

/// Classifies an array: the session that it claims to belong to (rule 1). Whether that session's revision has batches
/// is for its keeper to say, with [`no_batches`].
///
/// # Errors
/// The refusal to answer with.
pub fn classify_batch(headers: &HeaderMap) -> Result<&str, Refusal> {
    session(headers).ok_or_else(no_batches)
}

/// Classifies a line; `shaken` says whether the process did a legacy handshake (protocol.md §1.4).
///
/// # Errors
/// The refusal to answer with; name [`request_id`] in it. Only requests are refused.
pub fn classify_line(message: &Message<'_>, shaken: bool) -> Result<Line, Refusal> {
    let request = match message {
        Message::Request(request) => request,
        Message::Notification(n) if n.method == method::notification::CANCELLED => return Ok(Line::Cancel),
        Message::Notification(_) | Message::Response(_) if shaken => return Ok(Line::Legacy),
        Message::Notification(_) => return Ok(Line::Ignored("a notification before any handshake")),
        Message::Response(_) => return Ok(Line::Ignored("a response to nothing that was asked")),
    };
    let meta = RequestMeta::read(request.params.object());
    if meta.is_modern {
        let version = stated(&meta)?;
        served(version)?;
        return Ok(Line::Modern(modern_call(known(&request.method)?, &meta)?));
    }
    if request.method == Method::Initialize.as_str() {
        return Ok(Line::Handshake);
    }
    if shaken {
        return Ok(Line::Legacy);
    }
    if request.method == Method::Ping.as_str() {
        return Ok(Line::EarlyPing);
    }
    Err(if method::is_modern_only(&request.method) { meta_missing() } else { unclassifiable() })
}

/// An array where no session of 2025-03-26 is.
pub fn no_batches() -> Refusal {
    Refusal::invalid("batch", "batches exist in sessions at 2025-03-26 only; send one message at a time")
}

/// A session that is unknown, over, or somebody else's. The client then starts again with `initialize`.
pub fn session_unknown() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        code::INVALID_REQUEST,
        "session_unknown",
        "this session does not exist or is over; send initialize without Mcp-Session-Id to start a new one",
    )
}

/// A request that belongs to a session and names none.
pub fn session_required() -> Refusal {
    Refusal::invalid("session_required", "this request needs a session; send initialize first, then Mcp-Session-Id")
}

/// A method that does not exist for its sender. Legacy clients get it with 200 (protocol.md §11): in their era a 404
/// means that the session is gone.
pub fn method_unknown(era: Era) -> Refusal {
    let status = if era == Era::Modern { StatusCode::NOT_FOUND } else { StatusCode::OK };
    Refusal::new(status, code::METHOD_NOT_FOUND, "method_unknown", "this method does not exist here")
}

fn unclassifiable() -> Refusal {
    let versions: Vec<_> = Revision::ALL.iter().map(|r| r.as_str()).collect();
    let message = format!(
        "cannot tell which protocol this is: start a session with initialize, or send {} in _meta; served versions: {}",
        meta::PROTOCOL_VERSION,
        versions.join(", ")
    );
    Refusal::invalid("unclassifiable", message)
}

fn meta_missing() -> Refusal {
    let message =
        format!("_meta needs {} (a string) and {} (an object)", meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES);
    Refusal::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, "meta_missing", message)
}

/// The parts of any message that decide its era.
struct Said<'m, 'a> {
    method: &'m str,
    meta: RequestMeta<'a>,
}

impl<'m, 'a> Said<'m, 'a> {
    fn by(message: &'m Message<'a>) -> Self {
        match message {
            Message::Request(r) => Self { method: &r.method, meta: RequestMeta::read(r.params.object()) },
            Message::Notification(n) => Self { method: &n.method, meta: RequestMeta::read(n.params.object()) },
            Message::Response(_) => Self { method: "", meta: RequestMeta::default() },
        }
    }
}

/// What `MCP-Protocol-Version` says about the era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Absent,
    Legacy(Revision),
    /// Modern, unknown, repeated or unreadable.
    NotLegacy,
}

impl Version {
    fn of(headers: &HeaderMap) -> Self {
        match header::plain(headers, &MCP_PROTOCOL_VERSION) {
            Ok(None) => Self::Absent,
            Ok(Some(text)) => match Revision::parse(text).filter(|r| r.era() == Era::Legacy) {
                Some(revision) => Self::Legacy(revision),
                None => Self::NotLegacy,
            },
            Err(_) => Self::NotLegacy,
        }
    }
}

/// Whether a GET or DELETE, which have no body, comes from a modern client: such methods do not exist for it.
pub fn is_modern_by_header(headers: &HeaderMap) -> bool {
    Version::of(headers) == Version::NotLegacy
}

/// The session that a request names. An unreadable value is a session that nobody has.
pub fn session(headers: &HeaderMap) -> Option<&str> {
    headers.get(MCP_SESSION_ID).map(|value| value.to_str().unwrap_or_default())
}

fn posted_modern<'h>(
    headers: &HeaderMap,
    message: &Message<'_>,
    meta: &RequestMeta<'_>,
) -> Result<Posted<'h>, Refusal> {
    match message {
        Message::Request(request) => modern_pipeline(headers, request, meta).map(Posted::Modern),
        Message::Notification(_) => {
            if let Some(version) = header::plain(headers, &MCP_PROTOCOL_VERSION)? {
                served(version)?;
            }
            Ok(Posted::Ignored)
        }
        Message::Response(_) => {
            Err(Refusal::invalid("modern_response", "clients of this protocol version answer in the retried request"))
        }
    }
}

/// protocol.md §1.3, steps 1 to 7 and 9.
fn modern_pipeline(headers: &HeaderMap, request: &Request<'_>, meta: &RequestMeta<'_>) -> Result<ModernCall, Refusal> {
    let announced = header::plain(headers, &MCP_PROTOCOL_VERSION)?.ok_or(HeaderError::Missing(MCP_PROTOCOL_VERSION))?;
    let version = stated(meta)?;
    if announced != version {
        return Err(HeaderError::Mismatch(MCP_PROTOCOL_VERSION).into());
    }
    served(version)?;
    header::check_method(headers, &request.method)?;
    let method = known(&request.method)?;
    check_name(headers, method, request)?;
    modern_call(method, meta)
}

/// The version in `_meta`, where all that `_meta` must have is there.
fn stated<'m>(meta: &'m RequestMeta<'_>) -> Result<&'m str, Refusal> {
    match (&meta.version, meta.capabilities) {
        (Some(version), Some(_)) => Ok(version),
        _ => Err(meta_missing()),
    }
}

fn served(version: &str) -> Result<(), Refusal> {
    if Revision::parse(version).is_some_and(|r| r.era() == Era::Modern) {
        return Ok(());
    }
    let message = "this protocol version is not served in this way; data.supported lists those that are";
    let refusal = Refusal::new(StatusCode::BAD_REQUEST, code::UNSUPPORTED_VERSION, "version_unsupported", message);
    Err(Refusal { data: Some(supported_instead_of(version)), ..refusal })
}

/// A client picks from the list and tries again, so one that tried a legacy revision in this way, in which none is
/// spoken, is not led to another one (protocol.md §1.8).
fn supported_instead_of(requested: &str) -> String {
    let is_legacy = Revision::parse(requested).is_some();
    let offered = Revision::ALL.iter().filter(|r| !is_legacy || r.era() == Era::Modern);
    let supported: Vec<_> = offered.map(|r| r.as_str()).collect();
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    w.raw("supported", &format!("[\"{}\"]", supported.join("\",\"")));
    write_string(w.key("requested"), requested);
    w.end();
    String::from_utf8_lossy(&out).into_owned()
}

fn known(method: &str) -> Result<Method, Refusal> {
    Method::parse(method).filter(|m| m.exists_in(Era::Modern)).ok_or_else(|| method_unknown(Era::Modern))
}

fn check_name(headers: &HeaderMap, method: Method, request: &Request<'_>) -> Result<(), HeaderError> {
    let Some(by) = method.named_by() else { return Ok(()) };
    match request.params.object().and_then(|p| p.string(by.key())) {
        Some(name) => header::check_name(headers, &name),
        // What the body does not name, no header can match.
        None if headers.contains_key(MCP_NAME) => Err(HeaderError::Mismatch(MCP_NAME)),
        None => Err(HeaderError::Missing(MCP_NAME)),
    }
}

fn modern_call(method: Method, meta: &RequestMeta<'_>) -> Result<ModernCall, Refusal> {
    let log_level = meta.log_level.map(|raw| level(raw).ok_or_else(bad_level)).transpose()?;
    let capabilities = ClientCapabilities::parse(meta.capabilities.unwrap_or("{}"));
    Ok(ModernCall { method, capabilities, log_level })
}

fn level(raw: &str) -> Option<Level> {
    Level::parse(&super::object::string(raw)?)
}

/// With 200: a client of both eras that sees an unfamiliar 400 falls back to `initialize` (protocol.md §3.6).
fn bad_level() -> Refusal {
    Refusal::new(StatusCode::OK, code::INVALID_PARAMS, "log_level", "the log level in _meta is not one of the eight")
}

#[cfg(test)]
mod tests;
