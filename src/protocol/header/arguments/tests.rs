//! Numbers as integers, and values at their paths.

use proptest::prelude::*;

use super::super::HeaderError;
use super::{LARGEST, Mirrored, Wanted, Whole, whole};

#[test]
fn numbers_are_integers_by_value() {
    for (text, expected) in [
        ("0", Whole::Integer(0)),
        ("-0.0", Whole::Integer(0)),
        ("0e999", Whole::Integer(0)),
        ("42", Whole::Integer(42)),
        ("42.0", Whole::Integer(42)),
        ("-42.000", Whole::Integer(-42)),
        ("4.2e1", Whole::Integer(42)),
        ("4200E-2", Whole::Integer(42)),
        ("0.042e+3", Whole::Integer(42)),
        ("100", Whole::Integer(100)),
        ("9007199254740991", Whole::Integer(LARGEST)),
        ("-9007199254740991", Whole::Integer(-LARGEST)),
        ("9007199254740992", Whole::OutOfRange),
        ("-9007199254740992", Whole::OutOfRange),
        ("9007199254740991.5", Whole::Not),
        ("1e400", Whole::OutOfRange),
        ("1e99999999999999999999", Whole::OutOfRange),
        ("1e-99999999999999999999", Whole::Not),
        ("4.5", Whole::Not),
        ("", Whole::Not),
        ("-", Whole::Not),
        ("+42", Whole::Not),
        ("42.", Whole::Not),
        (".5", Whole::Not),
        ("4e", Whole::Not),
        ("4 2", Whole::Not),
        ("0x10", Whole::Not),
        ("NaN", Whole::Not),
        ("\u{664}\u{662}", Whole::Not),
    ] {
        assert_eq!(whole(text), expected, "{text:?}");
    }
}

#[test]
fn values_have_the_header_form_of_their_own_type() {
    for (json, expected) in [
        (None, Mirrored::Nothing),
        (Some("null"), Mirrored::Nothing),
        (Some("{}"), Mirrored::Nothing),
        (Some("[1]"), Mirrored::Nothing),
        (Some("true"), Mirrored::Text("true".into())),
        (Some("false"), Mirrored::Text("false".into())),
        (Some(r#""""#), Mirrored::Text("".into())),
        (Some(r#""\u65e5\n""#), Mirrored::Text("日\n".into())),
        (Some(r#""\ud800""#), Mirrored::Unreadable),
        (Some("42.0"), Mirrored::Integer(42)),
        (Some("4.50"), Mirrored::Fraction("4.50")),
        (Some("1e17"), Mirrored::OutOfRange),
    ] {
        assert_eq!(Mirrored::of(json), expected, "{json:?}");
    }
}

#[test]
fn values_are_read_at_exactly_their_path() {
    let mut wanted = Wanted::default();
    let paths: [&[&str]; 4] = [&["a"], &["a", "b"], &["x.y/~"], &["日\"", "properties", ""]];
    for (slot, path) in paths.iter().enumerate() {
        let path: Vec<_> = path.iter().map(ToString::to_string).collect();
        wanted.add(&path, slot);
    }
    let malformed = |text| Err(HeaderError::Arguments(text));
    let twice = "a property that a header mirrors is given more than once";
    for (arguments, expected) in [
        ("", Ok([None; 4])),
        ("null", Ok([None; 4])),
        ("[{\"a\":1}]", Ok([None; 4])),
        ("{\"b\":1,\"b\":2,\"\\ud800\":3}", Ok([None; 4])),
        ("{\"a\": 1.0 }", Ok([Some("1.0"), None, None, None])),
        ("{\"\\u0061\":1}", Ok([Some("1"), None, None, None])),
        ("{\"a\":{\"b\":2}}", Ok([Some("{\"b\":2}"), Some("2"), None, None])),
        (
            " {\"x.y/~\":\"v\",\"\u{65e5}\\\"\":{\"properties\":{\"\":true}}}",
            Ok([None, None, Some("\"v\""), Some("true")]),
        ),
        ("{\"a\":1,\"a\":1}", malformed(twice)),
        ("{\"a\":{\"b\":1,\"b\":2}}", malformed(twice)),
        ("{\"a\":", malformed("not valid JSON")),
    ] {
        let mut slots = [None; 4];
        let outcome = wanted.find(arguments, &mut slots);
        assert_eq!(outcome.map(|()| slots), expected, "{arguments}");
    }
}

proptest! {
    #[test]
    fn every_safe_integer_is_itself(value in -LARGEST..=LARGEST, zeros in 0_usize..5) {
        prop_assert_eq!(whole(&value.to_string()), Whole::Integer(value));
        let padded = format!("{value}.0{}", "0".repeat(zeros));
        prop_assert_eq!(whole(&padded), Whole::Integer(value));
    }

    #[test]
    fn no_text_panics(text in any::<String>(), number in "-?[0-9]{0,25}[.]?[0-9]{0,5}[eE]?[-+]?[0-9]{0,25}") {
        whole(&text);
        whole(&number);
        let mut wanted = Wanted::default();
        wanted.add(&["a".to_owned()], 0);
        drop(wanted.find(&format!("{{{text}"), &mut [None]));
    }
}
