//! The small words of the catalog: kinds of entries, shapes of lists, endpoints that show them. Everyone here uses them.

use crate::name::ServerName;
use crate::protocol::revision::Era;

/// A kind of entries, each with a list of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Tools, known by name.
    Tools,
    /// Prompts, known by name.
    Prompts,
    /// Resources, known by URI.
    Resources,
    /// Resource templates, known by their URI template.
    Templates,
}

impl Kind {
    /// Every kind, in the order in which they are read and shown.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The member of a list result that holds the entries.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The method that lists it.
    pub const fn list_method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// One entry, in messages to people.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Prompts => "prompt",
            Self::Resources => "resource",
            Self::Templates => "resource template",
        }
    }

    /// The member of an entry that it is known by.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    pub(super) const fn at(self) -> usize {
        self as usize
    }
}

/// The form of a list: what the peer that asked can read (protocol.md §5j) and show (§7.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// For peers of 2026-07-28 and later.
    Modern,
    /// For peers with a handshake, whose libraries refuse a whole list for one schema that they do not know.
    Legacy,
    /// As `Modern`, for hosts with views: they keep tools that are for views away from the model themselves.
    ModernApps,
    /// As `Legacy`, for hosts with views.
    LegacyApps,
}

impl Shape {
    /// How many there are.
    pub(super) const COUNT: usize = 4;

    /// For a peer of this era; `apps`: it shows views, so it gets the tools that are for views only.
    pub const fn of(era: Era, apps: bool) -> Self {
        match (era, apps) {
            (Era::Modern, false) => Self::Modern,
            (Era::Legacy, false) => Self::Legacy,
            (Era::Modern, true) => Self::ModernApps,
            (Era::Legacy, true) => Self::LegacyApps,
        }
    }

    /// The era whose form it has.
    pub const fn era(self) -> Era {
        match self {
            Self::Modern | Self::ModernApps => Era::Modern,
            Self::Legacy | Self::LegacyApps => Era::Legacy,
        }
    }

    /// It shows tools that are for views only.
    pub const fn has_apps(self) -> bool {
        matches!(self, Self::ModernApps | Self::LegacyApps)
    }

    pub(super) const fn at(self) -> usize {
        self as usize
    }
}

/// Where downstreams meet the catalog. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/mcp`: all servers, under exposed names and URIs.
    Merged,
    /// `/mcp/{name}`: one server, under its own names and URIs.
    Server(ServerName),
}
