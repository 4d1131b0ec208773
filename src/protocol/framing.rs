//! Bytes on a pipe or a socket to messages, and messages to bytes.
//!
//! Transports upstream and downstream feed chunks as they arrive; the decoders here cut them into
//! whole messages without looking into them. All three work alike: `decode` takes from the front of
//! the chunk it is given and answers one item a call, `None` once the chunk is used up. What a
//! chunk boundary cuts through is kept inside, up to a limit that the caller names; an item above
//! it is reported once, forgotten, and the stream goes on behind it.
//!
//! The same bytes give the same items however they are cut into chunks.
//!
//! An item that lies whole in one chunk is a slice of that chunk, not a copy. It therefore keeps
//! the chunk's memory alive: who stores items for long copies them.

pub mod lines;
pub mod sse;
pub mod values;

use bytes::Bytes;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The beginning of an item whose end has not arrived.
///
/// Its memory leaves with the item, so nothing of a huge one stays behind.
#[derive(Debug, Default)]
struct Partial(Vec<u8>);

impl Partial {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn complete(&mut self, rest: Bytes) -> Bytes {
        if self.0.is_empty() {
            return rest;
        }
        self.0.extend_from_slice(&rest);
        Bytes::from(std::mem::take(&mut self.0))
    }

    fn forget(&mut self) {
        self.0 = Vec::new();
    }
}

/// What is kept of an item above the limit: enough to find out whose it was (see `protocol::clipped`).
#[derive(Debug, Default)]
pub struct Clipped {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Clipped {
    /// Bytes kept of either end.
    const KEPT: usize = 256;

    /// The first bytes.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The last bytes.
    pub fn tail(&self) -> &[u8] {
        &self.tail
    }

    fn push(&mut self, bytes: &[u8]) {
        let missing = Self::KEPT - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(missing)]);
        let last = &bytes[bytes.len().saturating_sub(Self::KEPT)..];
        let surplus = (self.tail.len() + last.len()).saturating_sub(Self::KEPT);
        self.tail.drain(..surplus);
        self.tail.extend_from_slice(last);
    }
}

/// Appends `json` on one line: raw CR and LF, which JSON allows only between tokens, become spaces.
fn push_on_one_line(out: &mut Vec<u8>, json: &[u8]) {
    let mut rest = json;
    while let Some(at) = memchr::memchr2(b'\r', b'\n', rest) {
        out.extend_from_slice(&rest[..at]);
        out.push(b' ');
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests;
