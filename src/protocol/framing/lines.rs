//! Newline-delimited messages, as stdio carries them in every revision.
//!
//! The stdio edges (an upstream's child process, our own stdin) read with [`LineDecoder`] and write
//! with [`encode_line`]. Splitting happens on the newline byte and before any text decoding, so a
//! character cut by a read boundary survives. Whether a line is a message is the reader's question:
//! noise on stdout comes out as a line like any other.
//!
//! Rule: <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio>.

use bytes::{Buf, Bytes};
use memchr::memchr;

use super::{BOM, Clipped, Partial, push_on_one_line};

/// A line that could not be handed over. The decoder goes on with the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Reported once a line, when the line has ended.
    #[error("a message line is longer than the limit of {limit} bytes")]
    TooLong {
        /// Bytes a line may have without its newline.
        limit: usize,
    },
}

/// Incremental decoder of newline-delimited messages.
///
/// `\n` ends a line, one `\r` before it is dropped, so is a byte order mark at the very start. Lines
/// with nothing but whitespace are skipped.
#[derive(Debug)]
pub struct LineDecoder {
    limit: usize,
    partial: Partial,
    first: bool,
    skipping: bool,
    clipped: Clipped,
}

/// What may stand around a line of exactly `limit` bytes before it is certain to be too long: a
/// byte order mark and a carriage return.
const SLACK: usize = BOM.len() + 1;

impl LineDecoder {
    /// A decoder of lines of at most `limit` bytes, newline not counted.
    pub fn new(limit: usize) -> Self {
        Self { limit, partial: Partial::default(), first: true, skipping: false, clipped: Clipped::default() }
    }

    /// Takes the next line off the front of `input`; `None` when `input` is used up.
    ///
    /// # Errors
    /// [`LineError::TooLong`] once for each line above the limit; keep calling.
    pub fn decode(&mut self, input: &mut Bytes) -> Option<Result<Bytes, LineError>> {
        while !input.is_empty() {
            let item = match memchr(b'\n', input) {
                Some(end) => {
                    let rest = input.split_to(end);
                    input.advance(1);
                    self.close(rest)
                }
                None => {
                    self.keep(&std::mem::take(input));
                    None
                }
            };
            if item.is_some() {
                return item;
            }
        }
        None
    }

    /// Ends the input: a last line without a newline is a line too.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn finish(&mut self) -> Option<Result<Bytes, LineError>> {
        self.close(Bytes::new())
    }

    /// Whether the line that arrives now is above the limit already.
    pub fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// The ends of the line above the limit that was reported last.
    pub fn clipped(&self) -> &Clipped {
        &self.clipped
    }

    fn close(&mut self, rest: Bytes) -> Option<Result<Bytes, LineError>> {
        let first = std::mem::replace(&mut self.first, false);
        if std::mem::replace(&mut self.skipping, false) {
            self.clipped.push(&rest);
            return Some(Err(self.too_long()));
        }
        let mut line = self.partial.complete(rest);
        if first && line.starts_with(BOM) {
            line.advance(BOM.len());
        }
        if line.ends_with(b"\r") {
            line.truncate(line.len() - 1);
        }
        if line.len() > self.limit {
            self.clipped = Clipped::default();
            self.clipped.push(&line);
            return Some(Err(self.too_long()));
        }
        let blank = line.iter().all(u8::is_ascii_whitespace);
        (!blank).then_some(Ok(line))
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.skipping {
            self.clipped.push(bytes);
        } else if self.partial.len().saturating_add(bytes.len()) > self.limit.saturating_add(SLACK) {
            self.skipping = true;
            self.clipped = Clipped::default();
            self.clipped.push(&self.partial.0);
            self.clipped.push(bytes);
            self.partial.forget();
        } else {
            self.partial.keep(bytes);
        }
    }

    fn too_long(&self) -> LineError {
        LineError::TooLong { limit: self.limit }
    }
}

/// Appends one message and its newline. `json` must be one JSON text; newlines between its tokens
/// become spaces, everything else is copied as it is.
pub fn encode_line(out: &mut Vec<u8>, json: &[u8]) {
    out.reserve(json.len() + 1);
    push_on_one_line(out, json);
    out.push(b'\n');
}

#[cfg(test)]
mod tests;
