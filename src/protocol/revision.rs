//! Dated protocol revisions and the two eras they fall into (protocol.md §1.1, §1.8).
//!
//! The only place where a date is written. Rules ask a revision what it has; nobody compares dates as text.

use std::fmt;

/// How a peer opens a conversation: with a handshake and a session, or with metadata on each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// `initialize`, sessions, server-to-client requests: up to 2025-11-25.
    Legacy,
    /// Stateless, version and capabilities in each request's `_meta`: from 2026-07-28.
    Modern,
}

impl Era {
    /// Metric label and log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// A published revision of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Revision {
    /// 2024-11-05: HTTP+SSE, no elicitation, no annotations.
    V2024_11_05,
    /// 2025-03-26: Streamable HTTP, batches, audio.
    V2025_03_26,
    /// 2025-06-18: elicitation, structured content, resource links.
    V2025_06_18,
    /// 2025-11-25: URL elicitation, icons, sampling with tools, polling streams.
    V2025_11_25,
    /// 2026-07-28: stateless.
    V2026_07_28,
}

use Revision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};

impl Revision {
    /// Every served revision, newest first: the order of `supportedVersions`.
    pub const ALL: [Self; 5] = [V2026_07_28, V2025_11_25, V2025_06_18, V2025_03_26, V2024_11_05];
    /// What we offer in a handshake, and answer to an unknown version in one (protocol.md §1.8).
    pub const NEWEST_LEGACY: Self = V2025_11_25;
    /// The newest stateless revision.
    pub const NEWEST_MODERN: Self = V2026_07_28;

    /// As it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            V2024_11_05 => "2024-11-05",
            V2025_03_26 => "2025-03-26",
            V2025_06_18 => "2025-06-18",
            V2025_11_25 => "2025-11-25",
            V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision of this exact text, if it is one that we serve.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == text)
    }

    /// Which era it belongs to.
    pub const fn era(self) -> Era {
        match self {
            V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// The revision that a handshake asking for `text` ends with: the same where it is a legacy one, else the newest legacy one.
    pub fn negotiate_legacy(text: &str) -> Self {
        Self::parse(text).filter(|r| r.era() == Era::Legacy).unwrap_or(Self::NEWEST_LEGACY)
    }

    /// Event streams can be read on with `Last-Event-ID`.
    pub const fn has_resuming(self) -> bool {
        matches!(self, V2025_03_26 | V2025_06_18 | V2025_11_25)
    }

    /// JSON-RPC batches may be received.
    pub const fn has_batches(self) -> bool {
        matches!(self, V2025_03_26)
    }

    /// `MCP-Protocol-Version` is sent after the handshake.
    pub const fn has_version_header(self) -> bool {
        matches!(self, V2025_06_18 | V2025_11_25 | V2026_07_28)
    }

    /// Tools have output schemas, and results structured content.
    pub const fn has_structured_content(self) -> bool {
        matches!(self, V2025_06_18 | V2025_11_25 | V2026_07_28)
    }

    /// `elicitation/create` exists.
    pub const fn has_elicitation(self) -> bool {
        matches!(self, V2025_06_18 | V2025_11_25 | V2026_07_28)
    }

    /// Elicitation has modes, URL mode among them.
    pub const fn has_elicitation_modes(self) -> bool {
        matches!(self, V2025_11_25 | V2026_07_28)
    }

    /// Content may be audio.
    pub const fn has_audio(self) -> bool {
        !matches!(self, V2024_11_05)
    }

    /// Content may be a `resource_link`.
    pub const fn has_resource_links(self) -> bool {
        !matches!(self, V2024_11_05 | V2025_03_26)
    }

    /// `completion/complete` may carry `context`.
    pub const fn has_completion_context(self) -> bool {
        matches!(self, V2025_06_18 | V2025_11_25 | V2026_07_28)
    }

    /// A stream may open with a priming event and be polled; older client libraries crash on it.
    pub const fn has_priming_events(self) -> bool {
        matches!(self, V2025_11_25)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_ends_with_a_legacy_revision() {
        for (asked, want) in [
            ("2024-11-05", V2024_11_05),
            ("2025-11-25", V2025_11_25),
            ("2026-07-28", V2025_11_25),
            ("2025-11-26", V2025_11_25),
            ("", V2025_11_25),
        ] {
            assert_eq!(Revision::negotiate_legacy(asked), want, "{asked}");
        }
    }

    #[test]
    fn text_and_value_agree() {
        for r in Revision::ALL {
            assert_eq!(Revision::parse(r.as_str()), Some(r));
        }
        assert_eq!(Revision::parse("2025-06-18 "), None);
    }
}
