//! Log levels of `notifications/message`, in the specification's order (RFC 5424 names).

/// How severe a log message is; later is more severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the levels'")]
#[repr(u8)]
pub enum Level {
    Debug = 1,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level of this exact name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|l| l.as_str() == name)
    }

    /// The level of this number, as `level as u8` gives it.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|l| *l as u8 == number)
    }

    /// As it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_named() {
        assert!(Level::Debug < Level::Notice && Level::Notice < Level::Emergency);
        for l in Level::ALL {
            assert_eq!(Level::parse(l.as_str()), Some(l));
            assert_eq!(Level::from_number(l as u8), Some(l));
        }
        assert_eq!(Level::parse("warn"), None);
        assert_eq!(Level::from_number(0), None);
    }
}
