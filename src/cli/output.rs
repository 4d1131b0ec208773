//! What a person sees: the terminal's width, text that cannot play tricks on it, lines on standard error.
//!
//! Names and descriptions come from servers and may hold anything. What goes to a terminal loses its control
//! characters, so that no tool description can move the cursor or set the window title; what goes to a pipe stays as it is.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

/// Columns of the terminal that standard output is; `None` where it is none: then nothing needs to fit.
pub(super) fn width() -> Option<usize> {
    io::stdout().is_terminal().then(|| terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0)))
}

/// Whether standard error is a terminal, where progress may come and go on one line.
pub(super) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// One line to standard error. Nothing is left to be done where that cannot be written.
pub(super) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "manifold: {}", for_terminal(message));
}

/// Writes over the current line of standard error; an empty `text` clears it.
pub(super) fn passing(text: &str) {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "\r\x1b[K{}", on_one_line(text));
    let _ = stderr.flush();
}

/// Without control characters, except line ends and tabs.
pub(super) fn for_terminal(text: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| c.is_control() && c != '\n' && c != '\t';
    match text.contains(is_unsafe) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(text.replace(is_unsafe, "\u{fffd}")),
    }
}

/// White space runs, line ends among them, as one space; no other control characters.
pub(super) fn on_one_line(text: &str) -> String {
    for_terminal(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        for (text, want) in [
            ("plain\n\ttext ü 日本", "plain\n\ttext ü 日本"),
            ("\x1b]0;title\x07", "\u{fffd}]0;title\u{fffd}"),
            ("a\u{9b}2Jb", "a\u{fffd}2Jb"),
            ("over\rwritten", "over\u{fffd}written"),
        ] {
            assert_eq!(for_terminal(text), want);
        }
        assert_eq!(on_one_line("  a\r\n b\t\x1bc "), "a b \u{fffd}c");
    }
}
