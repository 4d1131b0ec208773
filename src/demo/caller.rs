//! The two eras, reduced to one question: who asks, and what may they be told?
//!
//! A legacy caller introduces itself once, with `initialize`, for the whole process. A modern caller does so in the `_meta`
//! of every request. Either way the rest of the server sees a [`Caller`].

use serde_json::{Map, Value, json};

use super::wire::{Fault, INVALID_REQUEST, UNSUPPORTED_VERSION};

const MODERN: &str = "2026-07-28";
/// Newest first: the first is offered to a peer that asks for one we do not know.
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The revisions that have no `outputSchema` and `structuredContent`, nor elicitation.
const UNSTRUCTURED: [&str; 2] = ["2025-03-26", "2024-11-05"];
/// The one revision in which a line may hold an array of messages.
const BATCHING: &str = "2025-03-26";

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";
pub(super) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

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
    revision: &'static str,
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
            (None, "server/discover" | "subscriptions/listen") => {
                Err(Fault::params(format!("{method} needs {VERSION_KEY} and {CAPABILITIES_KEY} in params._meta")))
            }
            (None, _) => Err(Fault::new(
                INVALID_REQUEST,
                format!("send initialize first, or {VERSION_KEY} in params._meta of each request"),
            )),
        }
    }

    fn modern(meta: &Map<String, Value>) -> Result<Self, Fault> {
        let version = meta.get(VERSION_KEY).and_then(Value::as_str);
        let capabilities = meta.get(CAPABILITIES_KEY).filter(|value| value.is_object());
        let (Some(version), Some(capabilities)) = (version, capabilities) else {
            return Err(Fault::params(format!(
                "_meta must hold {VERSION_KEY} (string) and {CAPABILITIES_KEY} (object)"
            )));
        };
        if version != MODERN {
            // A legacy version cannot be spoken this way, so it is not offered back to who just tried one.
            let supported = if LEGACY.contains(&version) { vec![MODERN] } else { supported_versions() };
            return Err(Fault::new(UNSUPPORTED_VERSION, format!("{version} is not spoken here"))
                .with_data(json!({"supported": supported, "requested": version})));
        }
        let log_level = meta.get(LOG_LEVEL_KEY).map(log_level).transpose()?;
        let answers_questions = takes_forms(capabilities);
        Ok(Self { modern: true, answers_questions, log_level, revision: MODERN })
    }

    /// The caller that shook hands, asking for `version`.
    pub(super) fn legacy(version: Option<&str>, capabilities: &Value) -> Self {
        let revision = LEGACY.into_iter().find(|own| Some(*own) == version).unwrap_or(LEGACY[0]);
        let answers_questions = !UNSTRUCTURED.contains(&revision) && takes_forms(capabilities);
        Self { modern: false, answers_questions, log_level: None, revision }
    }

    pub(super) fn revision(&self) -> &'static str {
        self.revision
    }

    pub(super) fn may_batch(&self) -> bool {
        self.revision == BATCHING
    }

    pub(super) fn knows_structured_content(&self) -> bool {
        !UNSTRUCTURED.contains(&self.revision)
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
        result["_meta"][SERVER_INFO_KEY] = identity.clone();
        result
    }
}

/// The `_meta` of a modern request. One of the two required keys is enough to tell it from a legacy one.
pub(super) fn modern_meta(params: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let meta = params.get("_meta")?.as_object()?;
    (meta.contains_key(VERSION_KEY) || meta.contains_key(CAPABILITIES_KEY)).then_some(meta)
}

pub(super) fn supported_versions() -> Vec<&'static str> {
    std::iter::once(MODERN).chain(LEGACY).collect()
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
