//! What a mistyped tool name most likely meant. Pure; `ask` fills in the names that a gateway lists.

use crate::config::nearest;
use crate::name::SEPARATOR;

/// Names that are suggested for one: enough to choose from, few enough to read.
const SUGGESTIONS_MAX: usize = 5;

/// The listed names that `word` may have meant, in the order of the list: those of every server that has a tool of just
/// this name, or of the nearest one.
pub(super) fn suggestions<'n>(word: &str, names: &'n [String]) -> Vec<&'n str> {
    let named = |own: &str| -> Vec<&'n str> {
        names
            .iter()
            .map(String::as_str)
            .filter(|name| tails(name).any(|tail| tail == own))
            .take(SUGGESTIONS_MAX)
            .collect()
    };
    let exact = named(word);
    if exact.is_empty() {
        nearest(word, names.iter().flat_map(|name| tails(name))).map(named).unwrap_or_default()
    } else {
        exact
    }
}

/// The whole name, and everything that could be a server's own name in it: whose prefix ends where is not to be seen.
fn tails(name: &str) -> impl Iterator<Item = &str> {
    let after = |(at, separator): (usize, &str)| name.get(at + separator.len()..);
    std::iter::once(name).chain(name.match_indices(SEPARATOR).filter_map(after)).filter(|tail| !tail.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_its_server_or_with_a_slip_is_found() {
        let names =
            ["alpha__add", "alpha__read_file", "beta__add", "beta__echo", "odd__a__b", "bare"].map(str::to_owned);
        for (word, want) in [
            ("add", &["alpha__add", "beta__add"] as &[&str]),
            ("alpha__ad", &["alpha__add"]),
            ("adds", &["alpha__add", "beta__add"]),
            ("ecko", &["beta__echo"]),
            ("readFile", &["alpha__read_file"]),
            ("Alpha_Read-File", &["alpha__read_file"]),
            ("a__b", &["odd__a__b"]),
            ("bere", &["bare"]),
            ("something else", &[]),
        ] {
            assert_eq!(suggestions(word, &names), want, "{word}");
        }
        let many: Vec<String> = (0..9).map(|n| format!("s{n}__run")).collect();
        assert_eq!(suggestions("run", &many).len(), SUGGESTIONS_MAX);
    }
}
