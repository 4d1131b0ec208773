//! The two eras, reduced to one question: who asks, and what may they be told?
//!
//! A legacy caller introduces itself once, with `initialize`, for the whole process. A modern caller does so in the `_meta`
//! of every request. Either way the rest of the server sees a [`Caller`].

use serde_json::{Map, Value, json};

use super::wire::{Fault, INVALID_REQUEST, UNSUPPORTED_VERSION};
use crate::protocol::meta::{CLIENT_CAPABILITIES, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO};
use crate::protocol::revision::Revision;

const MODERN: Revision = Revision::NEWEST_MODERN;

/// Log levels from chatty to dire, so that an index is a severity.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// How long a modern peer may keep a list or a text, in milliseconds. Short, as `add_tool` changes them at any time;
/// who wants to know sooner subscribes.
const TTL_MS: u32 = 10_000;

/// Who sent a request, as far as an answer depends on it.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) modern: bool,
    /// May be asked a question (has declared elicitation in form mode).
    pub(super) answers_questions: bool,
    /// Least severe log message it wants to see; `None` is none at all.
    log_level: Option<usize>,
    revision: Revision,
}

impl Caller {
    /// The caller of a request: modern if the request says so, otherwise whoever shook hands on this process.
    pub(super) fn of(method: &str, params: &Map<String, Value>, handshake: Option<&Caller>) -> Result<Self, Fault> {
        if let Some(meta) = modern_meta(params) {
            return Self::modern(meta);
        }
        match (handshake, method) {
            (Some(caller), _) => Ok(caller.clone()),
            (None, "ping") => Ok(Self::legacy(None, &Value::Null)),
            (None, "server/discover" | "subscriptions/listen") => Err(Fault::params(format!(
                "{method} needs {PROTOCOL_VERSION} and {CLIENT_CAPABILITIES} in params._meta"
            ))),
            (None, _) => Err(Fault::new(
                INVALID_REQUEST,
                format!("send initialize first, or {PROTOCOL_VERSION} in params._meta of each request"),
            )),
        }
    }

    fn modern(meta: &Map<String, Value>) -> Result<Self, Fault> {
        let version = meta.get(PROTOCOL_VERSION).and_then(Value::as_str);
        let capabilities = meta.get(CLIENT_CAPABILITIES).filter(|value| value.is_object());
        let (Some(version), Some(capabilities)) = (version, capabilities) else {
            return Err(Fault::params(format!(
                "_meta must hold {PROTOCOL_VERSION} (string) and {CLIENT_CAPABILITIES} (object)"
            )));
        };
        let known = Revision::parse(version);
        if known != Some(MODERN) {
            // A legacy version cannot be spoken this way, so it is not offered back to who just tried one.
            let supported = if known.is_some() { vec![MODERN.as_str()] } else { supported_versions() };
            return Err(Fault::new(UNSUPPORTED_VERSION, format!("{version} is not spoken here"))
                .with_data(json!({"supported": supported, "requested": version})));
        }
        let log_level = meta.get(LOG_LEVEL).map(log_level).transpose()?;
        let answers_questions = takes_forms(capabilities);
        Ok(Self { modern: true, answers_questions, log_level, revision: MODERN })
    }

    /// The caller that shook hands, asking for `version`.
    pub(super) fn legacy(version: Option<&str>, capabilities: &Value) -> Self {
        let revision = Revision::negotiate_legacy(version.unwrap_or_default());
        let answers_questions = revision.has_elicitation() && takes_forms(capabilities);
        Self { modern: false, answers_questions, log_level: None, revision }
    }

    pub(super) fn revision(&self) -> &'static str {
        self.revision.as_str()
    }

    pub(super) fn may_batch(&self) -> bool {
        self.revision.has_batches()
    }

    pub(super) fn knows_structured_content(&self) -> bool {
        self.revision.has_structured_content()
    }

    pub(super) fn wants_log(&self, level: &str) -> bool {
        let severity = LEVELS.iter().position(|known| *known == level);
        self.log_level.is_some_and(|least| severity >= Some(least))
    }

    /// `logging/setLevel`: only a legacy caller has a level that lasts.
    pub(super) fn set_log_level(&mut self, level: &Value) -> Result<(), Fault> {
        self.log_level = Some(log_level(level)?);
        Ok(())
    }

    /// What the caller's revision wants around the result of `method`.
    pub(super) fn dress(&self, method: &str, identity: &Value, mut result: Value) -> Value {
        if !self.modern {
            return result;
        }
        let asks_back = result.get("resultType").is_some();
        if !asks_back {
            result["resultType"] = "complete".into();
            if is_cacheable(method) {
                result["ttlMs"] = TTL_MS.into();
                result["cacheScope"] = "public".into();
            }
        }
        result["_meta"][SERVER_INFO] = identity.clone();
        result
    }
}

/// The `_meta` of a modern request. One of the two required keys is enough to tell it from a legacy one.
pub(super) fn modern_meta(params: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let meta = params.get("_meta")?.as_object()?;
    (meta.contains_key(PROTOCOL_VERSION) || meta.contains_key(CLIENT_CAPABILITIES)).then_some(meta)
}

pub(super) fn supported_versions() -> Vec<&'static str> {
    Revision::ALL.map(Revision::as_str).to_vec()
}

fn is_cacheable(method: &str) -> bool {
    method.ends_with("/list") || matches!(method, "server/discover" | "resources/read")
}

/// `elicitation: {}` means form mode, the only one there was when it was invented.
fn takes_forms(capabilities: &Value) -> bool {
    capabilities
        .get("elicitation")
        .and_then(Value::as_object)
        .is_some_and(|elicitation| elicitation.contains_key("form") || !elicitation.contains_key("url"))
}

fn log_level(level: &Value) -> Result<usize, Fault> {
    LEVELS
        .iter()
        .position(|known| level == known)
        .ok_or_else(|| Fault::params(format!("a log level is one of {}", LEVELS.join(", "))))
}
