//! PURE. The instructions of all servers as one text (protocol.md §6.3), for `initialize` and `server/discover`.
//!
//! Untrusted text that hosts put before a model: each block stands under a heading that names the server it comes from and
//! the prefix of its tools, is cut to size, and can be switched off per server.

use super::merge::Part;
use super::view::View;
use crate::name::SEPARATOR;

/// Longest text of one server, in bytes: hosts put it before every conversation.
const SERVER_MAX: usize = 2 * 1024;

/// Longest text of all servers, in bytes.
const TOTAL_MAX: usize = 8 * 1024;

/// Says that something is missing.
const CUT: &str = "…";

/// Before everything else on the merged endpoint: where the texts come from.
const PREFACE: &str =
    "Several servers answer here. The text under each heading was written by the server that the heading names.";

/// What a view's servers have to say; `None` if nothing.
pub fn instructions(view: View<'_>) -> Option<String> {
    let mut texts = view.parts().filter_map(|part| text(part).map(|text| (part, text))).peekable();
    texts.peek()?;
    if view.is_single() {
        return texts.next().map(|(_, text)| cut(text, TOTAL_MAX));
    }
    let mut out = PREFACE.to_owned();
    for (part, text) in texts {
        let block = format!("\n\n{}\n\n{}", heading(part), cut(text, SERVER_MAX));
        if out.len() + block.len() > TOTAL_MAX {
            let room = TOTAL_MAX.saturating_sub(out.len());
            out.push_str(&cut(&block, room));
            break;
        }
        out.push_str(&block);
    }
    Some(out)
}

fn text(part: &Part) -> Option<&str> {
    part.contribution.instructions().filter(|_| part.source.instructions).map(str::trim).filter(|text| !text.is_empty())
}

fn heading(part: &Part) -> String {
    let source = &part.source;
    if source.prefix.is_empty() {
        format!("## {}", source.display_name())
    } else {
        format!("## {} (names begin with {}{SEPARATOR})", source.display_name(), source.prefix)
    }
}

/// `text`, or its head and a mark, together at most `max` bytes; nothing if not even the mark fits.
fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let Some(room) = max.checked_sub(CUT.len()) else { return String::new() };
    format!("{}{CUT}", &text[..text.floor_char_boundary(room)])
}
