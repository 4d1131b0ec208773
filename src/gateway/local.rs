//! What the gateway answers by itself: handshake, discovery, lists, ping, log level (protocol.md §2.1 "LOCAL", §6).

use bytes::Bytes;
use tokio::time::Instant;

use super::error::GatewayError;
use super::{Caller, Gateway, Peer, Reply};
use crate::catalog::{self, Endpoint, Kind, Shape};
use crate::protocol::capability::UI_EXTENSION;
use crate::protocol::jsonrpc::{self, Id, Request};
use crate::protocol::level::Level;
use crate::protocol::meta;
use crate::protocol::method::Method;
use crate::protocol::object::{Object, ObjectWriter};
use crate::protocol::revision::{Era, Revision};

/// A fixed superset, so that a server which appears later is usable (protocol.md §6.1).
const CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}}"#;

/// How long clients may keep what `server/discover` said.
const DISCOVER_TTL_MS: u64 = 60_000;

/// The text of a response whose result is `{}` and nothing else: old libraries refuse extra keys here.
pub fn empty(id: Id<'_>) -> Reply {
    let mut out = Vec::with_capacity(48);
    jsonrpc::begin_result(&mut out, id.as_raw());
    out.extend_from_slice(b"{}}");
    Reply::result(out)
}

impl Gateway {
    pub(super) fn initialize_result(&self, id: Id<'_>, endpoint: &Endpoint, revision: Revision) -> Bytes {
        let mut out = Vec::with_capacity(512);
        jsonrpc::begin_result(&mut out, id.as_raw());
        let mut w = ObjectWriter::begin(&mut out);
        w.string("protocolVersion", revision.as_str());
        self.write_capabilities(&mut w, endpoint);
        w.raw("serverInfo", &self.0.server_info);
        self.write_instructions(&mut w, endpoint);
        w.end();
        out.push(b'}');
        out.into()
    }

    /// The superset, and MCP Apps where a server behind this endpoint has some (protocol.md §6.1).
    fn write_capabilities(&self, w: &mut ObjectWriter<'_>, endpoint: &Endpoint) {
        let snapshot = self.0.catalog.load();
        let has_apps = snapshot.view(endpoint).is_some_and(|view| view.parts().any(|p| p.contribution.has_apps()));
        let mut capabilities = ObjectWriter::begin(w.key("capabilities"));
        let superset = Object::parse(CAPABILITIES).unwrap_or_default();
        superset.iter().for_each(|(key, value)| capabilities.raw(key, value));
        if has_apps {
            let mut extensions = ObjectWriter::begin(capabilities.key("extensions"));
            extensions.raw(UI_EXTENSION, "{}");
            extensions.end();
        }
        capabilities.end();
    }

    fn write_instructions(&self, w: &mut ObjectWriter<'_>, endpoint: &Endpoint) {
        let snapshot = self.0.catalog.load();
        if let Some(text) = snapshot.view(endpoint).and_then(catalog::instructions) {
            w.string("instructions", &text);
        }
    }

    pub(super) fn discover(&self, id: Id<'_>, endpoint: &Endpoint) -> Reply {
        let mut out = Vec::with_capacity(768);
        jsonrpc::begin_result(&mut out, id.as_raw());
        let mut w = ObjectWriter::begin(&mut out);
        w.string("resultType", "complete");
        w.raw("supportedVersions", &supported_versions());
        self.write_capabilities(&mut w, endpoint);
        self.write_instructions(&mut w, endpoint);
        w.integer("ttlMs", DISCOVER_TTL_MS);
        w.string("cacheScope", "private");
        meta::write_for_downstream(&mut w, None, Some(&self.0.server_info));
        w.end();
        out.push(b'}');
        Reply::result(out)
    }

    /// A list, from the snapshot; waits only while its servers start or are being read again.
    pub(super) async fn list(&self, kind: Kind, request: &Request<'_>, caller: &Caller) -> Result<Bytes, GatewayError> {
        let cursor = cursor(request.params.object())?;
        self.0.catalog.settled(&caller.endpoint, self.0.settings.startup_wait).await;
        let era = caller.era();
        let snapshot = self.0.catalog.load();
        let view = snapshot.view(&caller.endpoint).ok_or(GatewayError::Method)?;
        let page = view
            .list(
                kind,
                Shape::of(era, caller.capabilities().shows_views()),
                cursor.as_deref(),
                self.0.settings.page_size,
            )
            .map_err(|_| GatewayError::Cursor)?;
        let now = Instant::now().into_std();
        // Answered from what there is; who asks next gets what is read now.
        for handle in view.outdated(kind, now).filter_map(|server| self.0.directory.get(server)) {
            handle.outdated(kind);
        }
        let mut out = Vec::with_capacity(page.len() + 256);
        jsonrpc::begin_result(&mut out, request.id.as_raw());
        out.push(b'{');
        if era == Era::Modern {
            let hints = view.hints(kind, now);
            out.extend_from_slice(b"\"resultType\":\"complete\",\"ttlMs\":");
            crate::protocol::object::write_integer(&mut out, hints.ttl_ms);
            out.extend_from_slice(b",\"cacheScope\":\"");
            out.extend_from_slice(hints.scope().as_bytes());
            out.extend_from_slice(b"\",\"_meta\":{\"");
            out.extend_from_slice(meta::SERVER_INFO.as_bytes());
            out.extend_from_slice(b"\":");
            out.extend_from_slice(self.0.server_info.as_bytes());
            out.extend_from_slice(b"},");
        }
        out.extend_from_slice(&page);
        out.extend_from_slice(b"}}");
        Ok(out.into())
    }

    /// `logging/setLevel`: remembered for the session, and asked of the upstreams that it sees.
    pub(super) async fn set_level(&self, request: &Request<'_>, caller: &Caller) -> Result<Reply, GatewayError> {
        let level = request.params.object().and_then(|p| p.string("level"));
        let level = level.and_then(|l| Level::parse(&l)).ok_or(GatewayError::Params("level is not a log level"))?;
        if let Peer::Legacy(session) = &caller.peer {
            session.set_log_level(level);
        }
        let asked = self.0.directory.all().into_iter().filter(|handle| match &caller.endpoint {
            Endpoint::Merged => true,
            Endpoint::Server(name) => handle.source().name == *name,
        });
        let asking = asked.map(|handle| async move { handle.want_level(level).await });
        let all = futures_util::future::join_all(asking);
        // Best effort: an upstream that takes long hears of it when it has time.
        let _ = tokio::time::timeout(super::LEVEL_WAIT, all).await;
        Ok(empty(request.id))
    }
}

/// Every served revision, newest first, as a JSON array.
pub fn supported_versions() -> String {
    let all: Vec<String> = Revision::ALL.iter().map(|r| format!("\"{r}\"")).collect();
    format!("[{}]", all.join(","))
}

fn cursor(params: Option<&Object<'_>>) -> Result<Option<String>, GatewayError> {
    match params.and_then(|p| p.get_some("cursor").map(|_| p.string("cursor"))) {
        None => Ok(None),
        Some(Some(text)) => Ok(Some(text.into_owned())),
        Some(None) => Err(GatewayError::Params("cursor is not a string")),
    }
}

/// The list that a method asks for.
pub const fn listed(method: Method) -> Option<Kind> {
    match method {
        Method::ToolsList => Some(Kind::Tools),
        Method::PromptsList => Some(Kind::Prompts),
        Method::ResourcesList => Some(Kind::Resources),
        Method::TemplatesList => Some(Kind::Templates),
        _ => None,
    }
}
