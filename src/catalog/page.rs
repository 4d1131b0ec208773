//! PURE. Lists as text, page by page, and the cursors between the pages.
//!
//! `gateway` answers every list with this. Pages are copies of segments; the first page, which is nearly always the only
//! one, is made once per snapshot. A cursor is bound to the list that it was made for, by a digest of everything the list shows:
//! it lives exactly as long as the list is the same, also over snapshots that changed something else, and never continues
//! one list in the middle of another.

use std::ops::Range;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use smallvec::{SmallVec, smallvec};

use super::index::At;
use super::kind::{Kind, Shape};
use super::snapshot::Slot;
use super::view::View;

/// Bytes of the digest in a cursor: enough that no two lists meet by chance. A cursor is no secret and grants nothing.
const DIGEST_LEN: usize = 12;

/// Digest, offset, page size.
const CURSOR_LEN: usize = DIGEST_LEN + 4 + 4;

/// A cursor that this list did not give out, or that it gave out before it changed. Downstream: -32602; the peer lists anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is not valid, or the list has changed since; list again without a cursor")]
pub struct BadCursor;

/// The first page of each list, with the page size that it was made for.
#[derive(Debug, Default)]
pub(super) struct FirstPages([[OnceLock<(usize, Bytes)>; Shape::COUNT]; 4]);

impl<'s> View<'s> {
    /// One page of a list: the members of the result without braces, `"tools":[…]` and, if there is more, `,"nextCursor":"…"`.
    /// `page_size` counts entries and is at least 1; a cursor only works with the size that it was made for.
    pub fn list(self, kind: Kind, shape: Shape, cursor: Option<&str>, page_size: usize) -> Result<Bytes, BadCursor> {
        let page_size = page_size.clamp(1, u32::MAX as usize);
        let Some(cursor) = cursor else {
            return Ok(self.first_page(kind, shape, page_size));
        };
        let offset = self.decode(kind, shape, cursor, page_size).ok_or(BadCursor)?;
        Ok(self.page(kind, shape, offset, page_size))
    }

    /// How many entries the whole list has.
    pub fn count(self, kind: Kind, shape: Shape) -> usize {
        self.runs(kind, shape).iter().map(|(_, run)| run.len()).sum()
    }

    fn first_page(self, kind: Kind, shape: Shape, page_size: usize) -> Bytes {
        let pages = self.only.map_or(&self.snapshot.pages, |slot| &slot.pages);
        let (size, page) =
            pages.0[kind.at()][shape.at()].get_or_init(|| (page_size, self.page(kind, shape, 0, page_size)));
        if *size == page_size { page.clone() } else { self.page(kind, shape, 0, page_size) }
    }

    fn page(self, kind: Kind, shape: Shape, offset: usize, page_size: usize) -> Bytes {
        let mut out = Vec::with_capacity(4096);
        out.push(b'"');
        out.extend_from_slice(kind.member().as_bytes());
        out.extend_from_slice(b"\":[");
        let (mut skip, mut room, mut left) = (offset, page_size, 0);
        for (slot, run) in self.runs(kind, shape) {
            let skipped = skip.min(run.len());
            let taken = room.min(run.len() - skipped);
            skip -= skipped;
            room -= taken;
            left += run.len() - skipped - taken;
            if taken > 0 {
                let start = run.start + skipped;
                let segment = slot.part.contribution.segment(kind, shape, self.only.is_none());
                out.extend_from_slice(segment.slice(start..start + taken));
                out.push(b',');
            }
        }
        if out.last() == Some(&b',') {
            out.pop();
        }
        out.push(b']');
        if left > 0 {
            out.extend_from_slice(b",\"nextCursor\":\"");
            out.extend_from_slice(self.encode(kind, shape, offset + page_size, page_size).as_bytes());
            out.push(b'"');
        }
        Bytes::from(out)
    }

    /// The list as runs of neighbours in segments: one a server, more where an entry is hidden between others.
    fn runs(self, kind: Kind, shape: Shape) -> SmallVec<[(&'s Slot, Range<usize>); 8]> {
        let hidden = &self.snapshot.index(kind).hidden;
        let mut runs = SmallVec::new();
        for (at, slot) in self.slots().iter().enumerate() {
            if self.only.is_some() || hidden.is_empty() {
                runs.push((slot, 0..slot.part.contribution.count(kind, shape)));
                continue;
            }
            let is_hidden = |entry: usize| hidden.contains(&At::new(at, entry));
            let flags = slot.part.contribution.shown(kind, shape).map(is_hidden);
            runs.extend(visible_runs(flags).into_iter().map(|run| (slot, run)));
        }
        runs
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a list of four thousand million entries does not fit the memory"
    )]
    fn encode(self, kind: Kind, shape: Shape, offset: usize, page_size: usize) -> String {
        let mut bytes = Vec::with_capacity(CURSOR_LEN);
        bytes.extend_from_slice(&self.digest(kind, shape));
        bytes.extend_from_slice(&(offset as u32).to_be_bytes());
        bytes.extend_from_slice(&(page_size as u32).to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn decode(self, kind: Kind, shape: Shape, cursor: &str, page_size: usize) -> Option<usize> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let bytes: &[u8; CURSOR_LEN] = bytes.as_slice().try_into().ok()?;
        let (digest, numbers) = bytes.split_at(DIGEST_LEN);
        let (offset, size) = numbers.split_at(4);
        let number = |b: &[u8]| b.iter().fold(0, |n, b| n << 8 | usize::from(*b));
        let (offset, size) = (number(offset), number(size));
        let is_ours = size == page_size && offset % size == 0 && (size..self.count(kind, shape)).contains(&offset);
        (is_ours && *digest == self.digest(kind, shape)).then_some(offset)
    }

    /// Of all that the list shows, and of which list it is.
    fn digest(self, kind: Kind, shape: Shape) -> [u8; DIGEST_LEN] {
        let mut hash = Sha256::new();
        hash.update([kind as u8, shape as u8, u8::from(self.only.is_some())]);
        let shown = self.slots().iter().map(|s| &s.part.contribution).filter(|c| !c.entries(kind).is_empty());
        for contribution in shown {
            hash.update(contribution.digest(kind));
        }
        if self.only.is_none() && !self.snapshot.index(kind).hidden.is_empty() {
            for conflict in self.snapshot.conflicts().iter().filter(|c| c.kind == kind) {
                hash.update(conflict.name.as_bytes());
                hash.update([0]);
            }
        }
        let digest: [u8; 32] = hash.finalize().into();
        std::array::from_fn(|i| digest[i])
    }
}

/// The ranges of places whose flag says that they are not hidden.
fn visible_runs(hidden: impl Iterator<Item = bool>) -> SmallVec<[Range<usize>; 4]> {
    let mut runs: SmallVec<[Range<usize>; 4]> = smallvec![];
    for (at, _) in hidden.enumerate().filter(|(_, hidden)| !hidden) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
