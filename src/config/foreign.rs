//! The keys that other hosts write and that do nothing here. Their files load as they are, with a warning a key: nobody
//! should believe that a tool is switched off when it is not.
//!
//! The lists are closed: any other unknown key is an error. A key with an empty note is passed over in silence.

/// A key of another host, and what to do instead.
pub(super) struct Foreign {
    pub key: &'static str,
    pub note: &'static str,
}

impl Foreign {
    /// The entry of a list, if the key is in it.
    pub fn find(list: &'static [Self], key: &str) -> Option<&'static Self> {
        list.iter().find(|foreign| foreign.key == key)
    }
}

const fn key(key: &'static str, note: &'static str) -> Foreign {
    Foreign { key, note }
}

const NOTHING: &str = "it can be removed";
const TOOLS: &str = "every tool of the server is listed";
const APPROVAL: &str = "approval is the host's business: every tool is listed";
const LOGIN: &str = "send a token in `headers`";

/// At the top: VS Code, Claude Desktop, Claude Code, Gemini CLI.
pub(super) const TOP: &[Foreign] = &[
    key("$schema", ""),
    key("inputs", "use environment variables: `${NAME}`"),
    key("globalShortcut", NOTHING),
    key("preferences", NOTHING),
    key("scale", NOTHING),
    key("locale", NOTHING),
    key("userThemeMode", NOTHING),
    key("sandbox", NOTHING),
];

/// In a server: VS Code, Cursor, Windsurf, Claude Code, Cline, Roo Code, Gemini CLI.
pub(super) const SERVER: &[Foreign] = &[
    key("name", "use `title`"),
    key("description", NOTHING),
    key("icon", NOTHING),
    key("icons", NOTHING),
    key("iconPath", NOTHING),
    key("version", NOTHING),
    key("gallery", NOTHING),
    key("fromGalleryId", NOTHING),
    key("dev", NOTHING),
    key("sandbox", NOTHING),
    key("sandboxEnabled", NOTHING),
    key("autoStart", "use `disabled`"),
    key("envFile", "write the variables in `env`, or load the file before the gateway starts"),
    key("timeout", "hosts mean seconds or milliseconds by it; write `timeouts: { call: 120s }`"),
    key("initTimeout", "write `timeouts: { initialize: 30s }`"),
    key("networkTimeout", "write `timeouts: { call: 120s }`"),
    key("autoApprove", APPROVAL),
    key("alwaysAllow", APPROVAL),
    key("trust", APPROVAL),
    key("alwaysLoad", NOTHING),
    key("watchPaths", NOTHING),
    key("tools", TOOLS),
    key("enabledTools", TOOLS),
    key("disabledTools", TOOLS),
    key("includeTools", TOOLS),
    key("excludeTools", TOOLS),
    key("auth", LOGIN),
    key("oauth", LOGIN),
    key("headersHelper", LOGIN),
];
