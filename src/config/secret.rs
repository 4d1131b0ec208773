//! Strings that must not print: `config` puts every credential into one of these, and whoever needs the text asks for it.
//!
//! Masking lives in the type, not in the care of whoever logs: `Debug` and `Display` of a whole configuration are safe.
//! None of the types here is `Serialize`, so that no page or API answers one by accident.

use std::fmt;

use url::Url;

/// What stands in the place of a secret.
pub const MASK: &str = "****";

/// A string that never prints: the value of an environment variable, a header, an argument.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it on.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// A string that prints as the file has it, but masked once any part of it came from `${...}`.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    text: String,
    hidden: bool,
}

impl Text {
    /// A text that may print.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), hidden: false }
    }

    /// A text that prints masked when `hidden`.
    pub fn new(text: impl Into<String>, hidden: bool) -> Self {
        Self { text: text.into(), hidden }
    }

    /// The text itself, to use and not to print.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Whether it prints masked.
    pub fn is_hidden(&self) -> bool {
        self.hidden
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.hidden { f.write_str(MASK) } else { write!(f, "{:?}", self.text) }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.hidden { MASK } else { &self.text })
    }
}

/// The address of an upstream. Prints scheme, host, port and path; user, password and query print masked, and
/// everything behind the scheme does when any part came from `${...}`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl {
    url: Url,
    hidden: bool,
}

impl SecretUrl {
    /// An address that prints in part, or only its scheme when `hidden`.
    pub fn new(url: Url, hidden: bool) -> Self {
        Self { url, hidden }
    }

    /// The whole address, to dial and not to print.
    pub fn expose(&self) -> &Url {
        &self.url
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = &self.url;
        write!(f, "{}://", url.scheme())?;
        if self.hidden {
            return f.write_str(MASK);
        }
        if !url.username().is_empty() || url.password().is_some() {
            write!(f, "{MASK}@")?;
        }
        f.write_str(url.host_str().unwrap_or_default())?;
        if let Some(port) = url.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(url.path())?;
        if url.query().is_some() { write!(f, "?{MASK}") } else { Ok(()) }
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_print_masked() {
        assert_eq!(format!("{} {:?}", Secret::new("hunter2"), Secret::new("hunter2")), "**** ****");
        assert_eq!(format!("{} {:?}", Text::new("hunter2", true), Text::new("hunter2", true)), "**** ****");
        assert_eq!(format!("{} {:?}", Text::plain("npx"), Text::plain("npx")), "npx \"npx\"");
    }

    #[test]
    fn addresses_print_without_their_credentials() {
        for (url, hidden, want) in [
            ("https://example.com/mcp", false, "https://example.com/mcp"),
            ("http://h:81/", false, "http://h:81/"),
            ("https://u:p@example.com/mcp?key=k", false, "https://****@example.com/mcp?****"),
            ("https://:p@example.com/", false, "https://****@example.com/"),
            ("https://example.com/token/sse", true, "https://****"),
        ] {
            let Ok(parsed) = Url::parse(url) else { panic!("{url}") };
            assert_eq!(format!("{:?}", SecretUrl::new(parsed, hidden)), want);
        }
    }
}
