//! JSON values one after another in a body, however they are separated.
//!
//! Some servers stream several messages under `application/json`, a value a line or simply one after
//! the other; others pretty-print a single one. The modern HTTP transport reads every JSON body with
//! [`ValueDecoder`], so that each message is seen when it is complete and not when the body ends.
//! It follows brackets, strings and escapes, no more: whether a value is JSON is for its parser.

use bytes::{Buf, Bytes};
use memchr::{memchr, memchr2};

use super::{BOM, Partial};

/// A value that could not be handed over. The decoder goes on with the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Reported once a value, as soon as it is certain, before the value has ended.
    #[error("a message in the body is longer than the limit of {limit} bytes")]
    TooLong {
        /// Bytes a value may have, whitespace between its tokens counted.
        limit: usize,
    },
    /// The body ended inside an object or an array.
    #[error("the body ended in the middle of a message")]
    CutShort,
}

/// Incremental splitter of top-level JSON values.
///
/// Objects and arrays end at their last bracket. Anything else that starts a value (a scalar, or
/// text that is not JSON at all) ends with its line, so that a parser can refuse it as a whole.
#[derive(Debug)]
pub struct ValueDecoder {
    limit: usize,
    partial: Partial,
    place: Place,
    skipping: bool,
    bom: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Between,
    Line,
    Brackets { depth: usize },
    Text { depth: usize, escaped: bool },
}

impl ValueDecoder {
    /// A decoder of values of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, partial: Partial::default(), place: Place::Between, skipping: false, bom: 0 }
    }

    /// Takes the next value off the front of `input`; `None` when `input` is used up.
    ///
    /// # Errors
    /// [`ValueError::TooLong`] once for each value above the limit; keep calling.
    pub fn decode(&mut self, input: &mut Bytes) -> Option<Result<Bytes, ValueError>> {
        while !input.is_empty() {
            if self.place == Place::Between {
                self.begin(input);
                continue;
            }
            let item = match self.end(input) {
                Some(end) => {
                    let rest = input.split_to(end);
                    self.close(rest)
                }
                None => self.keep(&std::mem::take(input)),
            };
            if item.is_some() {
                return item;
            }
        }
        None
    }

    /// Ends the input: what has no brackets is complete with it.
    ///
    /// # Errors
    /// [`ValueError::CutShort`] when a bracket or a string is still open, else as
    /// [`decode`](Self::decode).
    pub fn finish(&mut self) -> Option<Result<Bytes, ValueError>> {
        match std::mem::replace(&mut self.place, Place::Between) {
            Place::Between => None,
            Place::Line => self.close(Bytes::new()),
            Place::Brackets { .. } | Place::Text { .. } => {
                self.partial.forget();
                let reported = std::mem::replace(&mut self.skipping, false);
                (!reported).then_some(Err(ValueError::CutShort))
            }
        }
    }

    /// Drops what stands before a value and decides by its first byte how it will end.
    fn begin(&mut self, input: &mut Bytes) {
        while let Some(&byte) = input.first() {
            if self.bom < BOM.len() {
                if byte == BOM[self.bom] {
                    self.bom += 1;
                    input.advance(1);
                    continue;
                }
                self.partial.keep(&BOM[..self.bom]);
                self.bom = BOM.len();
            }
            if self.partial.len() > 0 {
                self.place = Place::Line;
                return;
            }
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => input.advance(1),
                b'{' | b'[' => {
                    self.place = Place::Brackets { depth: 0 };
                    return;
                }
                _ => {
                    self.place = Place::Line;
                    return;
                }
            }
        }
    }

    /// Moves the place through `input`; the offset behind the value's last byte when it is there.
    fn end(&mut self, input: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < input.len() {
            match self.place {
                Place::Between => return Some(at),
                Place::Line => {
                    let end = memchr(b'\n', &input[at..])?;
                    self.place = Place::Between;
                    return Some(at + end);
                }
                Place::Brackets { depth } => {
                    self.place = match input[at] {
                        b'{' | b'[' => Place::Brackets { depth: depth + 1 },
                        b'}' | b']' if depth <= 1 => Place::Between,
                        b'}' | b']' => Place::Brackets { depth: depth - 1 },
                        b'"' => Place::Text { depth, escaped: false },
                        _ => self.place,
                    };
                    at += 1;
                }
                Place::Text { depth, escaped: true } => {
                    self.place = Place::Text { depth, escaped: false };
                    at += 1;
                }
                Place::Text { depth, escaped: false } => {
                    at += memchr2(b'"', b'\\', &input[at..])?;
                    self.place = match input[at] {
                        b'"' => Place::Brackets { depth },
                        _ => Place::Text { depth, escaped: true },
                    };
                    at += 1;
                }
            }
        }
        (self.place == Place::Between).then_some(at)
    }

    fn close(&mut self, rest: Bytes) -> Option<Result<Bytes, ValueError>> {
        if std::mem::replace(&mut self.skipping, false) {
            return None;
        }
        let value = self.partial.complete(rest);
        if value.len() > self.limit {
            return Some(Err(ValueError::TooLong { limit: self.limit }));
        }
        Some(Ok(value))
    }

    fn keep(&mut self, bytes: &[u8]) -> Option<Result<Bytes, ValueError>> {
        if self.skipping {
            return None;
        }
        if self.partial.len().saturating_add(bytes.len()) > self.limit {
            self.partial.forget();
            self.skipping = true;
            return Some(Err(ValueError::TooLong { limit: self.limit }));
        }
        self.partial.keep(bytes);
        None
    }
}

#[cfg(test)]
mod tests;
