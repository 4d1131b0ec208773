//! How deeply a message is nested: checked before anything reads it, because values pass through here unread and whoever
//! reads them next may recurse.
//!
//! `jsonrpc` asks for what downstreams send (protocol.md §3.2); upstreams are configured, and bounded by size.

/// Levels of objects and arrays in a message, its own included. 128: common parsers give up there too.
pub const DEPTH_MAX: usize = 128;

/// Whether `text`, taken as JSON, is nested deeper than [`DEPTH_MAX`]. Of a text that is no JSON it says nothing useful.
pub fn is_too_deep(text: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_string(after),
            b'{' | b'[' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// What follows the string whose inside `text` starts with.
fn after_string(mut text: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', text) {
        let escaped = usize::from(text[at] == b'\\');
        text = text.get(at + 1 + escaped..).unwrap_or_default();
        if escaped == 0 {
            return text;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_levels_count() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (text, want) in [
            (String::new(), false),
            (nested(DEPTH_MAX), false),
            (nested(DEPTH_MAX + 1), true),
            (r#"{"a":"#.repeat(DEPTH_MAX + 1), true),
            (format!("[{}]", vec![nested(2); 1000].join(",")), false),
            (format!(r#"{{"a":"{}"}}"#, "[".repeat(1000)), false),
            (format!(r#"{{"a\"":"\\","b":"\"{}"}}"#, "[".repeat(1000)), false),
            (format!(r#"["\\",{}]"#, nested(DEPTH_MAX)), true),
            (r#"["unfinished \"#.to_owned(), false),
        ] {
            assert_eq!(is_too_deep(text.as_bytes()), want, "{text}");
        }
    }
}
