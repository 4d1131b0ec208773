//! What all decoders share, and the ways to cut bytes that their tests use.

use bytes::Bytes;
use proptest::prelude::*;

use super::{Partial, push_on_one_line};

/// `whole` cut into chunks of the given lengths, again and again; no lengths means one chunk.
pub(super) fn cut(whole: &[u8], lengths: &[usize]) -> Vec<Bytes> {
    let mut rest = Bytes::copy_from_slice(whole);
    let mut chunks = Vec::new();
    let mut lengths = lengths.iter().cycle();
    while !rest.is_empty() {
        let length = lengths.next().copied().unwrap_or(rest.len());
        chunks.push(rest.split_to(length.clamp(1, rest.len())));
    }
    chunks
}

/// Bytes in which everything that means something to a decoder is frequent.
pub(super) fn lively_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "\n", "\r", "\r\n", "\n\n", ":", " ", "{", "}", "[", "]", "\"", "\\", "\u{feff}",
            "data: ", "data", "id: 7", "id:\0", "event: x", "retry: 12", "日", "😀", "null",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

pub(super) fn lengths() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1_usize..6, 1..6)
}

#[test]
fn an_item_within_one_chunk_is_not_copied() {
    let chunk = Bytes::from_static(b"whole");
    assert_eq!(Partial::default().complete(chunk.clone()).as_ptr(), chunk.as_ptr());
}

#[test]
fn a_completed_item_leaves_no_memory_behind() {
    let mut partial = Partial::default();
    partial.keep(&vec![b'x'; 1 << 20]);
    partial.complete(Bytes::new());
    assert_eq!(partial.0.capacity(), 0);
}

#[test]
fn newlines_between_tokens_become_spaces() {
    for (json, line) in [("", ""), ("{}", "{}"), ("{\n\"a\":\r\n1}\n", "{ \"a\":  1} "), (r#""a\nb""#, r#""a\nb""#)] {
        let mut out = Vec::new();
        push_on_one_line(&mut out, json.as_bytes());
        assert_eq!(out, line.as_bytes());
    }
}
