//! One row per request method that a downstream may send: its eras, and how the gateway treats it (protocol.md §2.1, App. A.2).
//!
//! `downstream` asks whether a method exists for a peer; `gateway` asks where it goes; `telemetry` labels by it.

use super::revision::Era;

/// A request method we serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the methods'")]
pub enum Method {
    Initialize,
    Ping,
    Discover,
    ToolsList,
    ToolsCall,
    PromptsList,
    PromptsGet,
    ResourcesList,
    TemplatesList,
    ResourcesRead,
    Subscribe,
    Unsubscribe,
    Listen,
    Complete,
    SetLevel,
}

/// Which parameter names the target of a request; the modern era mirrors it in `Mcp-Name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// `params.name`
    Name,
    /// `params.uri`
    Uri,
}

impl NamedBy {
    /// The parameter's key.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Uri => "uri",
        }
    }
}

impl Method {
    /// Every method, in the order of the specification's pages.
    pub const ALL: [Self; 15] = [
        Self::Initialize,
        Self::Ping,
        Self::Discover,
        Self::ToolsList,
        Self::ToolsCall,
        Self::PromptsList,
        Self::PromptsGet,
        Self::ResourcesList,
        Self::TemplatesList,
        Self::ResourcesRead,
        Self::Subscribe,
        Self::Unsubscribe,
        Self::Listen,
        Self::Complete,
        Self::SetLevel,
    ];

    /// As it stands on the wire; also the metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Ping => "ping",
            Self::Discover => "server/discover",
            Self::ToolsList => "tools/list",
            Self::ToolsCall => "tools/call",
            Self::PromptsList => "prompts/list",
            Self::PromptsGet => "prompts/get",
            Self::ResourcesList => "resources/list",
            Self::TemplatesList => "resources/templates/list",
            Self::ResourcesRead => "resources/read",
            Self::Subscribe => "resources/subscribe",
            Self::Unsubscribe => "resources/unsubscribe",
            Self::Listen => "subscriptions/listen",
            Self::Complete => "completion/complete",
            Self::SetLevel => "logging/setLevel",
        }
    }

    /// The method of this exact name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.as_str() == name)
    }

    /// Whether a peer of `era` may send it.
    pub const fn exists_in(self, era: Era) -> bool {
        match self {
            Self::Initialize | Self::Ping | Self::Subscribe | Self::Unsubscribe | Self::SetLevel => {
                matches!(era, Era::Legacy)
            }
            Self::Discover | Self::Listen => matches!(era, Era::Modern),
            _ => true,
        }
    }

    /// The parameter that names its target, where the modern era mirrors it in a header (protocol.md §1.3 step 7).
    pub const fn named_by(self) -> Option<NamedBy> {
        match self {
            Self::ToolsCall | Self::PromptsGet => Some(NamedBy::Name),
            Self::ResourcesRead => Some(NamedBy::Uri),
            _ => None,
        }
    }

    /// Whether a modern result may be `input_required`, and whether a legacy server may ask something meanwhile.
    pub const fn may_ask(self) -> bool {
        matches!(self, Self::ToolsCall | Self::PromptsGet | Self::ResourcesRead)
    }

    /// Whether a modern result carries `ttlMs` and `cacheScope` (protocol.md §2.5).
    pub const fn has_cache_hints(self) -> bool {
        matches!(
            self,
            Self::Discover
                | Self::ToolsList
                | Self::PromptsList
                | Self::ResourcesList
                | Self::TemplatesList
                | Self::ResourcesRead
        )
    }

    /// Whether it may be sent again after a failure that leaves open if it ran (protocol.md §4.2).
    pub const fn is_repeatable(self) -> bool {
        !matches!(self, Self::ToolsCall)
    }
}

/// Whether `name` is a method of the modern era only: a peer that sends it without metadata is a malformed modern one.
pub fn is_modern_only(name: &str) -> bool {
    matches!(name, "server/discover" | "subscriptions/listen" | "tasks/update")
}

/// Notifications by name.
pub mod notification {
    #![allow(missing_docs, reason = "the names are the notifications'")]
    pub const INITIALIZED: &str = "notifications/initialized";
    pub const CANCELLED: &str = "notifications/cancelled";
    pub const PROGRESS: &str = "notifications/progress";
    pub const MESSAGE: &str = "notifications/message";
    pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
    pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
    pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
    pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
    pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
    pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
    pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
}

/// Questions: requests that a legacy server sends to its client, and kinds of a modern server's input requests.
pub mod question {
    #![allow(missing_docs, reason = "the names are the methods'")]
    pub const ROOTS: &str = "roots/list";
    pub const SAMPLING: &str = "sampling/createMessage";
    pub const ELICITATION: &str = "elicitation/create";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_eras_differ_where_the_specification_says() {
        for m in Method::ALL {
            assert_eq!(Method::parse(m.as_str()), Some(m));
        }
        assert!(!Method::Ping.exists_in(Era::Modern) && !Method::Discover.exists_in(Era::Legacy));
        assert!(Method::ToolsCall.exists_in(Era::Modern) && Method::ToolsCall.exists_in(Era::Legacy));
        assert_eq!(Method::parse("Tools/call"), None);
    }
}
