//! What a refusal of this edge is counted as.
//!
//! `protocol` and the guards give each refusal a word for the log; metrics have a smaller set, in which an operator finds
//! who has to do something. Whoever answers with a refusal counts it: `endpoint`, `pending`, `legacy`, `stdio`.

use crate::protocol::classify::Refusal;
use crate::telemetry::metrics::label;

/// The label of a refusal.
pub fn label(refusal: &Refusal) -> label::Refusal {
    of_word(refusal.reason).unwrap_or(label::Refusal::Invalid)
}

fn of_word(reason: &str) -> Option<label::Refusal> {
    use label::Refusal::{
        BodySize, Draining, HeaderMismatch, HeaderSize, Host, Internal, Invalid, Malformed, MediaType, Method, Origin,
        Overload, Session, SlowBody, Unknown, Version,
    };
    Some(match reason {
        "host" => Host,
        "origin" => Origin,
        "accept" | "content_type" => MediaType,
        "body_size" | "line_size" => BodySize,
        "header_size" => HeaderSize,
        "body_timeout" => SlowBody,
        "body" | "utf8" | "envelope" | "batch" | "batch_size" => Malformed,
        "header_mismatch" => HeaderMismatch,
        "version_unsupported" | "unclassifiable" => Version,
        "http_method" | "method_unknown" => Method,
        "path" => Unknown,
        "session_unknown" | "session_required" | "initialized" | "last_event_id" => Session,
        "limit" => Overload,
        "draining" => Draining,
        "internal" => Internal,
        "meta_missing" | "modern_response" | "log_level" | "duplicate_id" => Invalid,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::classify;
    use crate::protocol::revision::Era;

    #[test]
    fn refusals_are_counted_by_who_has_to_do_something() {
        for (refusal, want) in [
            (classify::session_unknown(), label::Refusal::Session),
            (classify::session_required(), label::Refusal::Session),
            (classify::method_unknown(Era::Modern), label::Refusal::Method),
            (classify::no_batches(), label::Refusal::Malformed),
            (super::super::guard::too_large(1), label::Refusal::BodySize),
            (Refusal::invalid("a word that is new", ""), label::Refusal::Invalid),
        ] {
            assert_eq!(label(&refusal), want, "{}", refusal.reason);
        }
    }

    /// Reads the sources, so that a new word cannot be counted as something it is not by being forgotten here.
    #[test]
    fn every_word_of_the_edge_has_a_label() {
        let places =
            ["downstream", "protocol"].map(|d| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(d));
        let mut words = 0;
        for place in places {
            for file in std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).filter(|p| p.is_file()) {
                let text = std::fs::read_to_string(&file).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                for start in ["Refusal::invalid(", "Refusal::new(", "refuse("] {
                    for call in code.split(start).skip(1) {
                        // The word is the first string among the arguments, where it stands there itself.
                        let arguments = call.split(';').next().unwrap();
                        let Some(word) = arguments.split('"').nth(1) else { continue };
                        if word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
                            words += 1;
                            assert!(of_word(word).is_some(), "{word} in {}", file.display());
                        }
                    }
                }
            }
        }
        assert!(words > 15, "only {words} words were found");
    }
}
