//! Values in a row, however they are separated and cut.

use bytes::Bytes;
use proptest::prelude::*;

use super::super::tests::{cut, lengths, lively_bytes};
use super::{ValueDecoder, ValueError};

type Item = Result<Bytes, ValueError>;

fn decoded(chunks: Vec<Bytes>, limit: usize) -> Vec<Item> {
    let mut decoder = ValueDecoder::new(limit);
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

fn values(items: &[&str]) -> Vec<Item> {
    items.iter().map(|value| Ok(Bytes::copy_from_slice(value.as_bytes()))).collect()
}

#[test]
fn values_come_out_whole_at_any_boundary() {
    for (input, expected) in [
        ("", &[][..]),
        (" \r\n\t", &[]),
        ("{}", &["{}"]),
        ("{}{}[]", &["{}", "{}", "[]"]),
        ("{}\n{}\r\n\n{}", &["{}", "{}", "{}"]),
        ("\u{feff}{}", &["{}"]),
        ("{\n  \"a\": [1, {\"b\": []}]\n}\n", &["{\n  \"a\": [1, {\"b\": []}]\n}"]),
        (r#"{"a":"}\"{\\"}{"b":"]"}"#, &[r#"{"a":"}\"{\\"}"#, r#"{"b":"]"}"#]),
        (r#"{"日":"\u005c\"😀"} {}"#, &[r#"{"日":"\u005c\"😀"}"#, "{}"]),
        ("null", &["null"]),
        ("no such page {}\n{}", &["no such page {}", "{}"]),
        ("}{\n{}", &["}{", "{}"]),
    ] {
        for lengths in [&[][..], &[1], &[2], &[3, 1]] {
            let items = decoded(cut(input.as_bytes(), lengths), 100);
            assert_eq!(items, values(expected), "{input:?} cut {lengths:?}");
        }
    }
}

#[test]
fn a_message_is_there_before_the_body_ends() {
    let mut decoder = ValueDecoder::new(100);
    let mut chunk = Bytes::from_static(b"{\"progress\":1}");
    assert_eq!(decoder.decode(&mut chunk), Some(Ok(Bytes::from_static(b"{\"progress\":1}"))));
}

#[test]
fn a_body_that_ends_within_a_message_says_so() {
    for input in ["{", "{\"a", "{\"a\\", "[[]", "{}{\"a\":"] {
        for lengths in [&[][..], &[1]] {
            let items = decoded(cut(input.as_bytes(), lengths), 100);
            assert_eq!(items.last(), Some(&Err(ValueError::CutShort)), "{input:?}");
        }
    }
}

#[test]
fn a_value_above_the_limit_is_reported_once_and_the_next_one_comes() {
    let too_long = Err(ValueError::TooLong { limit: 5 });
    let next = Ok(Bytes::from_static(b"{}"));
    for (input, expected) in [
        ("[123]{}", vec![Ok(Bytes::from_static(b"[123]")), next.clone()]),
        ("[1234]{}", vec![too_long.clone(), next.clone()]),
        ("{\"a\":\"}}}\"} {}", vec![too_long.clone(), next.clone()]),
        ("something else\n{}", vec![too_long.clone(), next]),
        ("[[[[[[[[[[", vec![too_long]),
    ] {
        for lengths in [&[][..], &[1], &[3]] {
            assert_eq!(decoded(cut(input.as_bytes(), lengths), 5), expected, "{input:?}");
        }
    }
}

#[test]
fn a_value_without_end_gives_its_memory_back() {
    let mut decoder = ValueDecoder::new(1 << 10);
    for _ in 0..1000 {
        while decoder.decode(&mut Bytes::from_static(b"[\"text\",")).is_some() {}
        assert!(decoder.partial.0.capacity() <= 4 << 10);
    }
    assert_eq!(decoder.partial.0.capacity(), 0);
}

proptest! {
    #[test]
    fn chunking_changes_nothing(
        input in lively_bytes(), lengths in lengths(), limit in 0_usize..60,
    ) {
        prop_assert_eq!(decoded(cut(&input, &[]), limit), decoded(cut(&input, &lengths), limit));
    }

    #[test]
    fn any_json_comes_back(
        texts in prop::collection::vec(".{0,12}", 1..5),
        separator in prop::sample::select(vec!["", " ", "\n", "\r\n"]),
        lengths in lengths(),
        pretty: bool,
    ) {
        let json: Vec<String> = texts.iter().map(|text| {
            let value = serde_json::json!({ text: [text, { "a": text }] });
            if pretty { format!("{value:#}") } else { value.to_string() }
        }).collect();
        let expected: Vec<Item> = json.iter().map(|text| Ok(Bytes::from(text.clone()))).collect();
        prop_assert_eq!(decoded(cut(json.join(separator).as_bytes(), &lengths), 1 << 20), expected);
    }
}
