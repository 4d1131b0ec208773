//! The entries of one contribution as list text, written once and then only copied.
//!
//! A new snapshot with one changed upstream reuses the segments of all others, so a rebuild costs index work, not JSON work.

use std::ops::Range;

/// Items joined by commas.
#[derive(Debug, Default)]
pub(super) struct Segment {
    text: Vec<u8>,
    /// Where each item ends in `text`.
    ends: Vec<usize>,
}

impl Segment {
    /// Adds what `write` writes as the next item.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.ends.is_empty() {
            self.text.push(b',');
        }
        write(&mut self.text);
        self.ends.push(self.text.len());
    }

    /// The text of the items at `range`, joined by commas; empty where there are none.
    pub(super) fn slice(&self, range: Range<usize>) -> &[u8] {
        let start = match range.start {
            0 => 0,
            n => self.ends.get(n - 1).map_or(self.text.len(), |end| end + 1),
        };
        let end = range.end.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0);
        self.text.get(start..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_run_of_items_is_a_slice() {
        let mut segment = Segment::default();
        for item in ["{}", "{\"a\":1}", "{\"b\":2}"] {
            segment.push(|out| out.extend_from_slice(item.as_bytes()));
        }
        for (range, want) in [
            (0..3, "{},{\"a\":1},{\"b\":2}"),
            (0..1, "{}"),
            (1..2, "{\"a\":1}"),
            (1..3, "{\"a\":1},{\"b\":2}"),
            (3..3, ""),
            (0..0, ""),
        ] {
            assert_eq!(segment.slice(range.clone()), want.as_bytes(), "{range:?}");
        }
        assert_eq!(Segment::default().slice(0..0), b"");
    }
}
