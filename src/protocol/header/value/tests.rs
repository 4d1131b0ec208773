//! Encoded and plain values, the specification's own examples among them.

use http::HeaderValue;
use proptest::prelude::*;

use super::super::{HeaderError, MCP_NAME};
use super::{decode_value, encode_value};

#[test]
fn only_what_needs_it_is_encoded() {
    for (text, header) in [
        ("", ""),
        ("us-west1", "us-west1"),
        ("two  words", "two  words"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        (" ", "=?base64?IA==?="),
        ("a\tb", "=?base64?YQli?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("\u{7f}", "=?base64?fw==?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ("=?BASE64?literal?=", "=?BASE64?literal?="),
        ("=?base64?open", "=?base64?open"),
    ] {
        assert_eq!(encode_value(text), header, "{text:?}");
        let value = HeaderValue::from_str(header).unwrap();
        assert_eq!(decode_value(&MCP_NAME, &value).as_deref(), Ok(text), "{header:?}");
    }
}

#[test]
fn values_are_trimmed_then_decoded_strictly() {
    let encoding = Err(HeaderError::Encoding(MCP_NAME));
    let characters = Err(HeaderError::Characters(MCP_NAME));
    for (header, expected) in [
        (&b" \tplain\t "[..], Ok("plain")),
        (b"a\tb", Ok("a\tb")),
        (b" =?base64?IHBhZGRlZCA=?= ", Ok(" padded ")),
        (b"=?base64?cGxhaW4=?=", Ok("plain")),
        (b"=?base64??=", Ok("")),
        (b"=?base64?=", Ok("=?base64?=")),
        (b"x=?base64?cGxhaW4=?=", Ok("x=?base64?cGxhaW4=?=")),
        (b"=?base64?cGxhaW4?=", encoding.clone()),
        (b"=?base64?cGxhaW4==?=", encoding.clone()),
        (b"=?base64?cGxh aW4=?=", encoding.clone()),
        (b"=?base64?-_-_?=", encoding.clone()),
        (b"=?base64?cGxhaW5=?=", encoding.clone()),
        (b"=?base64?/w==?=", encoding),
        (b"caf\xC3\xA9", characters.clone()),
        (b"\x80", characters),
    ] {
        let value = HeaderValue::from_bytes(header).unwrap();
        let decoded = decode_value(&MCP_NAME, &value);
        assert_eq!(decoded.as_deref(), expected.as_ref().copied(), "{header:?}");
    }
}

proptest! {
    #[test]
    fn every_text_survives(text in any::<String>()) {
        let encoded = encode_value(&text);
        prop_assert!(encoded.bytes().all(|byte| (0x20..=0x7E).contains(&byte)));
        let value = HeaderValue::from_str(&encoded).unwrap();
        let decoded = decode_value(&MCP_NAME, &value);
        prop_assert_eq!(decoded.as_deref(), Ok(text.as_str()));
    }

    #[test]
    fn no_header_value_panics(bytes in prop::collection::vec(any::<u8>(), 0..40), wrap: bool) {
        let mut bytes = bytes;
        if wrap {
            bytes = [b"=?base64?", &bytes[..], b"?="].concat();
        }
        if let Ok(value) = HeaderValue::from_bytes(&bytes) {
            drop(decode_value(&MCP_NAME, &value));
        }
    }
}
