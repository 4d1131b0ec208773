//! How a conversation with an upstream begins: which era it speaks, and what it says of itself.
//!
//! `upstream/dial` sends what this module writes and asks it what an answer means; the clock and the pipes are the
//! dialler's. Rules: protocol.md §1.5, §1.6, §1.8.

use super::capability::{ClientCapabilities, ServerCapabilities};
use super::code;
use super::jsonrpc::{Outcome, RpcError};
use super::meta::{self, Stamp};
use super::object::{Object, ObjectWriter};
use super::revision::{Era, Revision};

/// What an upstream said of itself when the conversation began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The revision to speak.
    pub revision: Revision,
    /// What it offers.
    pub capabilities: ServerCapabilities,
    /// Its capabilities as it wrote them.
    pub capabilities_raw: Box<str>,
    /// Its implementation object as it wrote it, where it sent one.
    pub server_info: Option<Box<str>>,
    /// Its instructions.
    pub instructions: Option<Box<str>>,
}

impl Hello {
    /// Whether the upstream is spoken to without a handshake.
    pub fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }
}

/// What an answer to `server/discover` means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovered {
    /// It is modern and ready.
    Modern(Box<Hello>),
    /// It is modern but wants another version; try once more with this one.
    Retry(Revision),
    /// It is modern, and will not talk to us; the text says why.
    Refused(String),
    /// It does not know the question: say `initialize`.
    Legacy,
}

/// What an answer to `initialize` means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initialized {
    /// The handshake is done but for `notifications/initialized`.
    Legacy(Box<Hello>),
    /// It does not know `initialize`: it is modern after all, probe again.
    Modern,
    /// It will not talk to us; the text says why.
    Refused(String),
}

/// Reads the answer to a probe that asked in `asked`.
pub fn discovered(outcome: &Outcome<'_>, asked: Revision) -> Discovered {
    match outcome {
        Outcome::Result(result) => match result.get("supportedVersions").map(versions) {
            Some(Some(versions)) => from_versions(result, &versions),
            _ => Discovered::Legacy,
        },
        Outcome::Error(error) => from_error(error, asked),
    }
}

/// The strings of a JSON array; `None` where it is no array.
fn versions(raw: &str) -> Option<Vec<String>> {
    let list: Vec<serde_json::Value> = serde_json::from_str(raw).ok()?;
    Some(list.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect())
}

fn newest_modern(versions: &[String]) -> Option<Revision> {
    Revision::ALL.into_iter().find(|r| r.era() == Era::Modern && versions.iter().any(|v| v == r.as_str()))
}

fn from_versions(result: &Object<'_>, versions: &[String]) -> Discovered {
    match newest_modern(versions) {
        Some(revision) => Discovered::Modern(Box::new(hello(result, revision))),
        None if versions.iter().any(|v| Revision::parse(v).is_some()) => Discovered::Legacy,
        None => Discovered::Refused(format!("it serves none of our protocol versions, only {}", versions.join(", "))),
    }
}

fn from_error(error: &RpcError<'_>, asked: Revision) -> Discovered {
    let supported = error.raw.object("data").and_then(|d| d.get("supported").and_then(versions));
    match error.code {
        code::UNSUPPORTED_VERSION => match supported {
            Some(list) => match newest_modern(&list) {
                Some(revision) => Discovered::Retry(revision),
                None if list.iter().any(|v| Revision::parse(v).is_some()) => Discovered::Legacy,
                None => Discovered::Refused(format!("it refuses {asked} and serves only {}", list.join(", "))),
            },
            None => Discovered::Refused(format!("it refuses {asked} and does not say what it serves")),
        },
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY => {
            Discovered::Refused(format!("it is modern but refuses our probe with code {}", error.code))
        }
        // Codes that drafts used before the text was final mean nothing by themselves (protocol.md §1.6).
        _ => match supported.as_deref().and_then(newest_modern) {
            Some(revision) => Discovered::Retry(revision),
            None => Discovered::Legacy,
        },
    }
}

/// Reads the answer to `initialize`.
pub fn initialized(outcome: &Outcome<'_>) -> Initialized {
    match outcome {
        Outcome::Result(result) => {
            let version = result.string("protocolVersion").unwrap_or_default();
            match Revision::parse(&version) {
                Some(r) if r.era() == Era::Legacy => Initialized::Legacy(Box::new(hello(result, r))),
                Some(_) => Initialized::Modern,
                None => {
                    Initialized::Refused("it answers initialize with a protocol version that we do not know".into())
                }
            }
        }
        Outcome::Error(error) => match error.code {
            // Only a modern server has these codes, or no such method.
            code::METHOD_NOT_FOUND | code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION => {
                Initialized::Modern
            }
            code => Initialized::Refused(format!("it refuses initialize with code {code}")),
        },
    }
}

fn hello(result: &Object<'_>, revision: Revision) -> Hello {
    let capabilities_raw = result.get_some("capabilities").unwrap_or("{}");
    let in_meta = result.object("_meta").and_then(|m| m.get_some(meta::SERVER_INFO));
    Hello {
        revision,
        capabilities: ServerCapabilities::parse(capabilities_raw),
        capabilities_raw: capabilities_raw.into(),
        server_info: result.get_some("serverInfo").or(in_meta).map(Box::from),
        instructions: result.string("instructions").filter(|i| !i.trim().is_empty()).map(Box::from),
    }
}

/// The parameters of a probe.
pub fn discover_params(client_info: &str, capabilities: &ClientCapabilities, revision: Revision) -> Vec<u8> {
    let mut declared = Vec::new();
    capabilities.write(&mut declared, revision);
    let declared = String::from_utf8_lossy(&declared);
    let stamp = Stamp { version: revision.as_str(), client_info, capabilities: &declared, log_level: None };
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    meta::write_for_upstream(&mut w, None, Some(stamp), None);
    w.end();
    out
}

/// The parameters of a handshake. We offer the newest legacy revision and accept any (protocol.md §1.8).
pub fn initialize_params(client_info: &str, capabilities: &ClientCapabilities) -> Vec<u8> {
    let revision = Revision::NEWEST_LEGACY;
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    w.string("protocolVersion", revision.as_str());
    capabilities.write(w.key("capabilities"), revision);
    w.raw("clientInfo", client_info);
    w.end();
    out
}

/// What an HTTP answer to `server/discover` means by its status, where the body holds no JSON-RPC answer (protocol.md §1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByStatus {
    /// Try `initialize`.
    Legacy,
    /// The upstream wants credentials.
    Unauthorized,
    /// Busy or broken: try again later; the era stays unknown.
    Later,
    /// It points elsewhere, to another origin.
    Redirect,
}

/// Reads the status of an answer without a usable body.
pub fn by_status(status: u16) -> ByStatus {
    match status {
        401 | 403 => ByStatus::Unauthorized,
        429 | 500.. => ByStatus::Later,
        300..=399 => ByStatus::Redirect,
        _ => ByStatus::Legacy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::jsonrpc::{Message, Reading, parse};

    fn outcome<R>(body: &str, read: impl FnOnce(&Outcome<'_>) -> R) -> R {
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,{body}}}");
        match parse(&text, Reading::Lenient).unwrap() {
            Message::Response(r) => read(&r.outcome),
            other => panic!("{other:?}"),
        }
    }

    fn probe(body: &str) -> Discovered {
        outcome(body, |o| discovered(o, Revision::NEWEST_MODERN))
    }

    #[test]
    fn a_probe_is_read_by_its_content_never_by_one_code() {
        assert!(matches!(
            probe(r#""result":{"supportedVersions":["2025-11-25","2026-07-28"]}"#),
            Discovered::Modern(_)
        ));
        for legacy in [
            r#""result":{}"#,
            r#""result":{"supportedVersions":"2026-07-28"}"#,
            r#""result":{"supportedVersions":["2025-06-18"]}"#,
            r#""error":{"code":-32601,"message":""}"#,
            r#""error":{"code":-32602,"message":""}"#,
            r#""error":{"code":-32000,"message":""}"#,
            r#""error":{"code":0,"message":""}"#,
            r#""error":{"code":-32022,"message":"","data":{"supported":["2025-06-18"]}}"#,
        ] {
            assert_eq!(probe(legacy), Discovered::Legacy, "{legacy}");
        }
        for retry in [
            r#""error":{"code":-32022,"message":"","data":{"supported":["2026-07-28"]}}"#,
            r#""error":{"code":-32004,"message":"","data":{"supported":["2026-07-28"]}}"#,
        ] {
            assert_eq!(probe(retry), Discovered::Retry(Revision::V2026_07_28), "{retry}");
        }
        for refused in [
            r#""error":{"code":-32020,"message":""}"#,
            r#""error":{"code":-32021,"message":""}"#,
            r#""error":{"code":-32022,"message":""}"#,
            r#""result":{"supportedVersions":["2030-01-01"]}"#,
        ] {
            assert!(matches!(probe(refused), Discovered::Refused(_)), "{refused}");
        }
    }

    #[test]
    fn a_hello_keeps_what_the_upstream_said() {
        let Discovered::Modern(hello) = probe(
            r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"instructions":"hi","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"}}}"#,
        ) else {
            panic!()
        };
        assert!(hello.capabilities.tools_list_changed);
        assert_eq!(hello.server_info.as_deref(), Some(r#"{"name":"x"}"#));
        assert_eq!(hello.instructions.as_deref(), Some("hi"));
    }

    #[test]
    fn a_handshake_accepts_every_legacy_revision_and_no_other() {
        for (body, legacy) in [
            (r#""result":{"protocolVersion":"2024-11-05","capabilities":{}}"#, Some(Revision::V2024_11_05)),
            (r#""result":{"protocolVersion":"2025-11-25","capabilities":{}}"#, Some(Revision::V2025_11_25)),
            (r#""result":{"protocolVersion":"2023-01-01"}"#, None),
            (r#""result":{}"#, None),
            (r#""error":{"code":-32600,"message":""}"#, None),
        ] {
            let got = outcome(body, initialized);
            match (got, legacy) {
                (Initialized::Legacy(h), Some(want)) => assert_eq!(h.revision, want),
                (Initialized::Refused(_), None) => {}
                other => panic!("{body}: {other:?}"),
            }
        }
        for modern in [
            r#""result":{"protocolVersion":"2026-07-28"}"#,
            r#""error":{"code":-32601,"message":""}"#,
            r#""error":{"code":-32022,"message":""}"#,
        ] {
            assert_eq!(outcome(modern, initialized), Initialized::Modern, "{modern}");
        }
    }
}
