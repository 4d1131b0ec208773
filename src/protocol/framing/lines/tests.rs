//! Lines at every chunk boundary, at the limit and beyond it.

use bytes::Bytes;
use proptest::prelude::*;

use super::super::tests::{cut, lengths, lively_bytes};
use super::{LineDecoder, LineError, encode_line};

type Item = Result<Bytes, LineError>;

fn decoded(chunks: Vec<Bytes>, limit: usize) -> Vec<Item> {
    let mut decoder = LineDecoder::new(limit);
    let mut items = Vec::new();
    for mut chunk in chunks {
        while let Some(item) = decoder.decode(&mut chunk) {
            items.push(item);
        }
        assert!(chunk.is_empty(), "the whole chunk is used");
    }
    items.extend(decoder.finish());
    items
}

fn lines(items: &[&str]) -> Vec<Item> {
    items.iter().map(|line| Ok(Bytes::copy_from_slice(line.as_bytes()))).collect()
}

#[test]
fn lines_come_out_whole_at_any_boundary() {
    for (input, expected) in [
        ("", &[][..]),
        ("\n\r\n \t\n", &[]),
        ("{}\n", &["{}"]),
        ("{}", &["{}"]),
        ("{}\r\n[]\r\n", &["{}", "[]"]),
        ("\u{feff}{}\n\u{feff}{}\n", &["{}", "\u{feff}{}"]),
        ("\u{feff}\n{}\n", &["{}"]),
        (" {\"a\": 1} \n\n\n{}\r", &[" {\"a\": 1} ", "{}"]),
    ] {
        for lengths in [&[][..], &[1], &[2], &[3, 1]] {
            let items = decoded(cut(input.as_bytes(), lengths), 100);
            assert_eq!(items, lines(expected), "{input:?} cut {lengths:?}");
        }
    }
}

/// B051: a multi-byte character cut by a read boundary.
#[test]
fn utf8_split_across_reads_survives() {
    let message = r#"{"text":"日本 — 😀"}"#;
    let input = format!("{message}\n{message}\n");
    assert_eq!(decoded(cut(input.as_bytes(), &[1]), 100), lines(&[message, message]));
}

/// B025: a banner on stdout is a line like any other; the reader skips what is no message.
#[test]
fn stdout_noise_does_not_touch_the_messages_around_it() {
    let input = "Server running on stdio\n{\"a\":1}\n\x1b[32mready\x1b[0m\n{\"b\":2}\n";
    let items = decoded(cut(input.as_bytes(), &[7]), 100);
    assert_eq!(items[1], lines(&["{\"a\":1}"])[0]);
    assert_eq!(items[3], lines(&["{\"b\":2}"])[0]);
}

/// B052: messages far above the usual read buffer.
#[test]
fn message_above_64_kib_comes_through() {
    for size in [100 << 10, 1 << 20, 8 << 20] {
        let mut input = vec![b'x'; size];
        input.push(b'\n');
        let items = decoded(cut(&input, &[64 << 10]), 32 << 20);
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].as_ref().map(Bytes::len), Ok(size));
    }
}

/// B053: a peer that never sends a newline.
#[test]
fn line_without_end_is_reported_once_and_its_memory_given_back() {
    let mut decoder = LineDecoder::new(1 << 10);
    let mut errors = 0;
    for _ in 0..1000 {
        let mut chunk = Bytes::from_static(&[b'x'; 500]);
        errors += decoder.decode(&mut chunk).iter().filter(|item| item.is_err()).count();
        assert!(decoder.partial.0.capacity() <= 4 << 10);
    }
    assert_eq!((errors, decoder.is_skipping(), decoder.partial.0.capacity()), (0, true, 0));
    let mut rest = Bytes::from_static(b"tail\n{}\n");
    assert!(decoder.decode(&mut rest).is_some_and(|item| item.is_err()), "reported once, at its end");
    assert!(!decoder.is_skipping());
    assert!(decoder.clipped().head().starts_with(b"xxx") && decoder.clipped().tail().ends_with(b"xtail"));
    assert_eq!(decoder.decode(&mut rest), Some(Ok(Bytes::from_static(b"{}"))));
}

#[test]
fn the_limit_counts_the_line_without_its_surroundings() {
    let too_long = Err(LineError::TooLong { limit: 4 });
    for (input, expected) in [
        ("1234\n", lines(&["1234"])),
        ("1234\r\n", lines(&["1234"])),
        ("\u{feff}1234\r\n5\n", lines(&["1234", "5"])),
        ("12345\n6\n", vec![too_long.clone(), lines(&["6"])[0].clone()]),
        ("\u{feff}12345\r\n6", vec![too_long.clone(), lines(&["6"])[0].clone()]),
        ("1234567890123", vec![too_long.clone()]),
        ("12345", vec![too_long.clone()]),
        ("1234567890\n1234567890\n", vec![too_long.clone(), too_long]),
    ] {
        for lengths in [&[][..], &[1], &[3]] {
            assert_eq!(decoded(cut(input.as_bytes(), lengths), 4), expected, "{input:?}");
        }
    }
}

proptest! {
    #[test]
    fn chunking_changes_nothing(
        input in lively_bytes(), lengths in lengths(), limit in 0_usize..60,
    ) {
        prop_assert_eq!(decoded(cut(&input, &[]), limit), decoded(cut(&input, &lengths), limit));
    }

    #[test]
    fn encoded_messages_come_back(messages in prop::collection::vec("[ -~日😀]{1,30}", 0..8)) {
        let mut out = Vec::new();
        messages.iter().for_each(|message| encode_line(&mut out, message.as_bytes()));
        let expected: Vec<_> = messages.iter().filter(|text| !text.trim().is_empty()).collect();
        let items = decoded(cut(&out, &[5]), 1000);
        prop_assert_eq!(items.len(), expected.len());
        for (item, message) in items.iter().zip(expected) {
            prop_assert_eq!(item.as_deref(), Ok(message.as_bytes()));
        }
    }
}
