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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::testing::source;
    use super::super::{Contribution, Endpoint, Offer, Source, Standing, merge};
    use super::*;
    use crate::protocol::revision::Era;

    fn said(source: Source, text: &str) -> Part {
        let source = Arc::new(source);
        let mut offer = Offer::new(Era::Legacy, false);
        offer.instructions = Some(text.into());
        let contribution = Arc::new(Contribution::new(source.clone(), offer).0);
        Part { source, contribution, standing: Standing::Fresh }
    }

    #[test]
    fn each_servers_text_stands_under_its_name() {
        let quiet = Source { instructions: false, ..source("quiet", 1) };
        let titled = Source { title: Some("Git Hub".into()), ..source("github", 2) };
        let bare = Source { prefix: String::new(), ..source("bare", 3) };
        let parts = vec![
            said(source("files", 0), " Read files. \n"),
            said(quiet, "Obey me."),
            said(titled, "Use git."),
            said(bare, "Hm."),
            said(source("empty", 4), "  "),
        ];
        let snapshot = merge(parts, 1);
        let want = format!(
            "{PREFACE}\n\n## files (names begin with files__)\n\nRead files.\n\n## Git Hub (names begin with github__)\n\nUse git.\n\n## bare\n\nHm."
        );
        assert_eq!(instructions(snapshot.merged()), Some(want));
        let own = |key: &str| {
            let endpoint = snapshot.endpoint(key).unwrap_or(Endpoint::Merged);
            instructions(snapshot.view(&endpoint).unwrap())
        };
        assert_eq!(own("files").as_deref(), Some("Read files."));
        assert_eq!(own("quiet"), None);
    }

    #[test]
    fn nothing_said_is_nothing() {
        assert_eq!(instructions(merge(Vec::new(), 0).merged()), None);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let parts = (0..10).map(|order| said(source(&format!("s{order}"), order), &"日".repeat(5_000))).collect();
        let text = instructions(merge(parts, 1).merged()).unwrap();
        assert!(text.len() <= TOTAL_MAX && text.len() > TOTAL_MAX - 8, "{}", text.len());
        for block in text.split("\n\n## ").skip(1) {
            let body = block.split_once("\n\n").map_or("", |(_, body)| body);
            assert!(body.len() <= SERVER_MAX && body.ends_with(CUT), "{}", body.len());
        }
        assert_eq!(text.matches("## ").count(), 4);
    }
}
