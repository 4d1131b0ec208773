//! The closed sets that metric labels are drawn from.
//!
//! A label is a server's configured name or a variant of an enum: never a caller's text, a URI or an id, so that no
//! caller can make the number of series grow (design §5). `method` and `era` come from `protocol`.

/// An enum whose variants are the values of one label, in the order in which they index an array of children.
macro_rules! label {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])+ $variant:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])+ $variant,)+ }

        impl $name {
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();
            /// Every one, in declaration order.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The label's value.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

label! {
    /// How a call ended, as the downstream saw it.
    Outcome {
        /// A result.
        Ok = "ok",
        /// A tool result with `isError` that the upstream sent.
        ToolError = "tool_error",
        /// A JSON-RPC error that the upstream sent.
        RpcError = "rpc_error",
        /// The deadline passed.
        Timeout = "timeout",
        /// The downstream gave up, by notice or by hanging up.
        Cancelled = "cancelled",
        /// Never sent: a policy, a limit or a full queue said no.
        Refused = "refused",
        /// Never answered: the upstream was down, or went away while it had the call.
        Unavailable = "unavailable",
    }
}

label! {
    /// Where an upstream is in its life.
    UpstreamState {
        /// Being started, connected to or asked what it offers.
        Starting = "starting",
        /// Serving calls.
        Ready = "ready",
        /// Down; the next attempt has a time.
        BackingOff = "backing_off",
        /// Down for good: drained, removed, or given up on.
        Stopped = "stopped",
        /// Configured with `disabled: true`.
        Disabled = "disabled",
    }
}

label! {
    /// Why an upstream was started again.
    RestartReason {
        /// Its process ended or its connection was closed.
        Closed = "closed",
        /// Our own code for it panicked.
        Panic = "panic",
    }
}

label! {
    /// What a catalog lists.
    EntryKind {
        /// Tools.
        Tools = "tools",
        /// Resources.
        Resources = "resources",
        /// Resource templates.
        Templates = "templates",
        /// Prompts.
        Prompts = "prompts",
    }
}

label! {
    /// What an open downstream event stream is for.
    StreamKind {
        /// The answer to one request.
        Answer = "answer",
        /// A legacy session's standing stream.
        Session = "session",
        /// A modern `subscriptions/listen`.
        Listen = "listen",
    }
}

label! {
    /// What became of an upstream's question (elicitation, sampling, roots).
    QuestionOutcome {
        /// The downstream answered; a user's "no" is an answer.
        Answered = "answered",
        /// The downstream did not declare that it can be asked this.
        Unsupported = "unsupported",
        /// Nobody could tell which downstream it was meant for.
        Unattributed = "unattributed",
        /// No answer in time.
        Timeout = "timeout",
        /// The call that it belonged to ended first.
        Cancelled = "cancelled",
        /// The downstream answered with an error.
        Failed = "failed",
    }
}

label! {
    /// Why a listener turned a request away before it reached a server.
    Refusal {
        /// `Host` is not one of ours.
        Host = "host",
        /// `Origin` is not allowed.
        Origin = "origin",
        /// `Content-Type` or `Accept` rule out an answer.
        MediaType = "media_type",
        /// The body is larger than the limit.
        BodySize = "body_size",
        /// The headers are larger than the limit.
        HeaderSize = "header_size",
        /// The body did not arrive in time.
        SlowBody = "slow_body",
        /// The body is no message.
        Malformed = "malformed",
        /// A standard header is missing or disagrees with the body.
        HeaderMismatch = "header_mismatch",
        /// The protocol version is not served.
        Version = "version",
        /// The method is not served in this era.
        Method = "method",
        /// Nothing of that name or URI.
        Unknown = "unknown",
        /// The request needs a capability that the client did not declare.
        Capability = "capability",
        /// Something else is wrong with the request itself: a bad cursor, metadata that is missing.
        Invalid = "invalid",
        /// No credentials, or wrong ones.
        Unauthenticated = "unauthenticated",
        /// Policy says no.
        Forbidden = "forbidden",
        /// The session is unknown or ended.
        Session = "session",
        /// A limit on sessions, streams or requests is reached.
        Overload = "overload",
        /// The gateway is shutting down.
        Draining = "draining",
        /// The gateway itself failed.
        Internal = "internal",
    }
}

label! {
    /// Where a line that was thrown away came from.
    LineSource {
        /// Standard error, above the rate at which it is logged.
        Stderr = "stderr",
        /// Standard output, and not a message.
        Noise = "noise",
        /// Longer than the limit.
        TooLong = "too_long",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_snake_case_distinct_and_indexed_by_declaration() {
        fn check(values: &[(usize, &str)]) {
            for (place, (index, text)) in values.iter().enumerate() {
                assert_eq!(place, *index, "{text}");
                assert!(text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{text}");
                assert!(values[..place].iter().all(|(_, earlier)| earlier != text), "{text} twice");
            }
        }
        check(&Outcome::ALL.map(|v| (v as usize, v.as_str())));
        check(&UpstreamState::ALL.map(|v| (v as usize, v.as_str())));
        check(&RestartReason::ALL.map(|v| (v as usize, v.as_str())));
        check(&EntryKind::ALL.map(|v| (v as usize, v.as_str())));
        check(&StreamKind::ALL.map(|v| (v as usize, v.as_str())));
        check(&QuestionOutcome::ALL.map(|v| (v as usize, v.as_str())));
        check(&Refusal::ALL.map(|v| (v as usize, v.as_str())));
        check(&LineSource::ALL.map(|v| (v as usize, v.as_str())));
    }
}
