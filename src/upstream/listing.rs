//! Reads an upstream's lists, every page of them, all kinds side by side.
//!
//! The actor calls it when a connection opens and when a list changed; what comes out goes into a catalog offer.
//! Rules: protocol.md §4.8; never truncated silently (design §5).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::connection::Connection;
use super::dial::message;
use super::error::CallError;
use super::leg::{Leg, Limits};
use super::wire::Unobserved;
use crate::catalog::{Changed, Kind, List};
use crate::protocol::capability::ServerCapabilities;
use crate::protocol::code;
use crate::protocol::jsonrpc::{self, Message, Outcome, Reading};
use crate::protocol::meta;
use crate::protocol::method::Method;
use crate::protocol::object::{Object, ObjectWriter};

/// Pages followed of one list: far beyond any real one, near enough to end a server that never stops.
const PAGES_MAX: usize = 1_000;
/// Entries kept of one list.
const ENTRIES_MAX: usize = 20_000;

/// One list, and whether it was cut.
#[derive(Debug)]
pub struct Listed {
    /// Which list.
    pub kind: Kind,
    /// All of its entries, or why they could not be read.
    pub list: Result<List, CallError>,
    /// The list was longer than we read.
    pub truncated: bool,
}

/// The kinds that `changed` speaks of and that the upstream offers.
pub fn kinds(capabilities: &ServerCapabilities, changed: Changed) -> Vec<Kind> {
    Kind::ALL
        .into_iter()
        .filter(|kind| match kind {
            Kind::Tools => capabilities.tools && changed.tools,
            Kind::Prompts => capabilities.prompts && changed.prompts,
            Kind::Resources | Kind::Templates => capabilities.resources && changed.resources,
        })
        .collect()
}

/// Reads `kinds`, side by side. `limit` is for each page.
pub async fn read(connection: &Connection, kinds: &[Kind], limit: Duration) -> Vec<Listed> {
    join_all(kinds.iter().map(|kind| read_one(connection, *kind, limit))).await
}

async fn read_one(connection: &Connection, kind: Kind, limit: Duration) -> Listed {
    let capabilities = &connection.hello.capabilities;
    let mut list = List {
        pushes_list_changed: match kind {
            Kind::Tools => capabilities.tools_list_changed,
            Kind::Prompts => capabilities.prompts_list_changed,
            Kind::Resources | Kind::Templates => capabilities.resources_list_changed,
        },
        read_at: Some(Instant::now().into_std()),
        ..List::default()
    };
    let mut seen: Vec<Box<str>> = Vec::new();
    loop {
        let first = seen.is_empty();
        let page = match read_page(connection, kind, seen.last().map(AsRef::as_ref), limit).await {
            Ok(page) => page,
            Err(error) => return Listed { kind, list: Err(error), truncated: false },
        };
        list.items.extend(page.items);
        // The whole is as fresh as its first page to run out, and as private as its most private page.
        list.ttl_ms = if first { page.ttl_ms } else { list.ttl_ms.zip(page.ttl_ms).map(|(a, b)| a.min(b)) };
        list.public = page.public && (first || list.public);
        let Some(next) = page.next else { return Listed { kind, list: Ok(list), truncated: false } };
        if seen.contains(&next) || seen.len() + 1 >= PAGES_MAX || list.items.len() >= ENTRIES_MAX {
            let server = &connection.wire.server;
            warn!(server = %server, list = kind.list_method(), "the list does not end: a page cursor repeats or a cap is reached; read so far: {}", list.items.len());
            list.items.truncate(ENTRIES_MAX);
            return Listed { kind, list: Ok(list), truncated: true };
        }
        seen.push(next);
    }
}

#[derive(Default)]
struct Page {
    items: Vec<Box<str>>,
    next: Option<Box<str>>,
    ttl_ms: Option<u64>,
    public: bool,
}

const fn method(kind: Kind) -> Method {
    match kind {
        Kind::Tools => Method::ToolsList,
        Kind::Prompts => Method::PromptsList,
        Kind::Resources => Method::ResourcesList,
        Kind::Templates => Method::TemplatesList,
    }
}

async fn read_page(
    connection: &Connection,
    kind: Kind,
    cursor: Option<&str>,
    limit: Duration,
) -> Result<Page, CallError> {
    let mut params = Vec::new();
    let mut w = ObjectWriter::begin(&mut params);
    if let Some(cursor) = cursor {
        w.string("cursor", cursor);
    }
    meta::write_for_upstream(&mut w, None, connection.own_stamp(), None);
    w.end();
    let leg = Leg::open(&connection.wire, Arc::new(Unobserved));
    let out = message(leg.id(), method(kind), &params);
    let text = leg.run(out, Limits::of(limit)).await?;
    page(&text, kind, &connection.wire.server)
}

fn page(text: &Bytes, kind: Kind, server: &crate::name::ServerName) -> Result<Page, CallError> {
    let utf8 = std::str::from_utf8(text).map_err(|_| CallError::Violation("it is not UTF-8"))?;
    let Ok(Message::Response(response)) = jsonrpc::parse(utf8, Reading::Lenient) else {
        return Err(CallError::Violation("it is not a JSON-RPC response"));
    };
    match response.outcome {
        Outcome::Result(result) => read_result(&result, kind),
        // Some servers advertise a capability and know only half of its methods.
        Outcome::Error(error) if error.code == code::METHOD_NOT_FOUND => Ok(Page::default()),
        Outcome::Error(error) => {
            debug!(server = %server, list = kind.list_method(), code = error.code, "the list was refused");
            Err(CallError::Violation("it refuses to list"))
        }
    }
}

fn read_result(result: &Object<'_>, kind: Kind) -> Result<Page, CallError> {
    let Some(raw) = result.get_some(kind.member()) else {
        return Err(CallError::Violation("the list is missing"));
    };
    let items: Vec<&RawValue> =
        serde_json::from_str(raw).map_err(|_| CallError::Violation("the list is not an array"))?;
    Ok(Page {
        items: items.into_iter().map(|item| Box::from(item.get())).collect(),
        // An empty string is a cursor like any other; null means none (bug report kind "null where absent is meant").
        next: result.string("nextCursor").map(Box::from),
        ttl_ms: result.get("ttlMs").and_then(|t| t.parse().ok()),
        public: result.string("cacheScope").as_deref() == Some("public"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::ServerName;

    fn read_text(body: &str) -> Result<Page, CallError> {
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,{body}}}");
        page(&Bytes::from(text), Kind::Tools, &ServerName::new("x"))
    }

    #[test]
    fn null_where_absent_is_meant_ends_the_list() {
        let page =
            read_text(r#""result":{"tools":[{"name":"a","n":9007199254740993}],"nextCursor":null,"ttlMs":5}"#).unwrap();
        assert_eq!(page.items[0].as_ref(), r#"{"name":"a","n":9007199254740993}"#);
        assert_eq!((page.next, page.ttl_ms), (None, Some(5)));
        let page = read_text(r#""result":{"tools":[],"nextCursor":""}"#).unwrap();
        assert_eq!(page.next.as_deref(), Some(""));
    }

    #[test]
    fn an_unknown_list_method_is_an_empty_list_and_garbage_is_not() {
        assert!(read_text(r#""error":{"code":-32601,"message":""}"#).unwrap().items.is_empty());
        for bad in [r#""error":{"code":-32603,"message":""}"#, r#""result":{}"#, r#""result":{"tools":{}}"#] {
            assert!(read_text(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_what_is_declared_is_asked_for() {
        let tools_only = ServerCapabilities { tools: true, ..ServerCapabilities::default() };
        assert_eq!(kinds(&tools_only, Changed::ALL), [Kind::Tools]);
        let resources = ServerCapabilities { resources: true, ..ServerCapabilities::default() };
        assert_eq!(kinds(&resources, Changed::ALL), [Kind::Resources, Kind::Templates]);
        assert!(kinds(&resources, Changed { tools: true, ..Changed::NONE }).is_empty());
    }
}
