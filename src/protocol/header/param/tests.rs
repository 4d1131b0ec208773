//! Annotations that hold and that do not, and the headers they ask for.

use http::HeaderValue;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::tests::headers;
use super::{AnnotationProblem as Problem, MAX_PARAM_HEADERS, ParamHeaders, strip};
use crate::protocol::header::HeaderError;

fn parsed(schema: &Value) -> Result<Vec<String>, (String, Problem)> {
    ParamHeaders::parse(&schema.to_string())
        .map(|set| set.names().iter().map(ToString::to_string).collect())
        .map_err(|error| (error.location, error.problem))
}

fn property(schema: Value) -> Value {
    json!({ "type": "object", "properties": { "a": schema } })
}

fn string_with(annotation: Value) -> Value {
    json!({ "type": "string", "x-mcp-header": annotation })
}

fn tool() -> ParamHeaders {
    let schema = r#"{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},
        "limit":{"x-mcp-header":"Limit","type":"integer"},
        "where":{"type":"object","properties":{"dry":{"type":"boolean","x-mcp-header":"Dry"}}},
        "query":{"type":"string"}}}"#;
    ParamHeaders::parse(schema).unwrap()
}

#[test]
fn annotations_on_reachable_primitives_are_read_in_order() {
    assert_eq!(tool().names(), ["mcp-param-region", "mcp-param-limit", "mcp-param-dry"]);
}

#[test]
fn what_is_no_annotation_is_left_alone() {
    for schema in [
        json!({}),
        json!(true),
        json!([{ "x-mcp-header": "A" }]),
        property(json!({ "type": "string" })),
        json!({ "properties": { "x-mcp-header": { "type": "string" } } }),
        property(json!({ "default": { "x-mcp-header": "A" }, "description": "\u{e9} x-mcp-header" })),
        property(json!({ "enum": [{ "x-mcp-header": "A" }], "const": { "x-mcp-header": "A" } })),
        json!({ "dependentRequired": { "x-mcp-header": ["a"] }, "required": ["x-mcp-header"] }),
        json!({ "dependencies": { "x-mcp-header": ["a"] } }),
    ] {
        assert_eq!(parsed(&schema), Ok(vec![]), "{schema}");
        assert_eq!(strip(&schema.to_string()), schema.to_string());
    }
}

#[test]
fn an_annotation_that_breaks_a_rule_is_named_with_its_reason() {
    let at = "properties/a";
    for (schema, location, problem) in [
        (property(string_with(json!(""))), at, Problem::Empty),
        (property(string_with(json!("a b"))), at, Problem::NotToken),
        (property(string_with(json!("a:b"))), at, Problem::NotToken),
        (property(string_with(json!("a\r\nb"))), at, Problem::NotToken),
        (property(string_with(json!("日"))), at, Problem::NotToken),
        (property(string_with(json!(7))), at, Problem::NotText),
        (property(string_with(json!(null))), at, Problem::NotText),
        (property(string_with(json!({ "x-mcp-header": "A" }))), at, Problem::NotText),
        (property(json!({ "x-mcp-header": "A" })), at, Problem::WrongType),
        (property(json!({ "type": "number", "x-mcp-header": "A" })), at, Problem::WrongType),
        (property(json!({ "type": "object", "x-mcp-header": "A" })), at, Problem::WrongType),
        (property(json!({ "type": ["string"], "x-mcp-header": "A" })), at, Problem::WrongType),
        (string_with(json!("A")), "", Problem::Unreachable),
    ] {
        assert_eq!(parsed(&schema), Err((location.to_owned(), problem)), "{schema}");
    }
    let error = ParamHeaders::parse(&property(string_with(json!(""))).to_string()).unwrap_err();
    assert_eq!(error.to_string(), "x-mcp-header at \"properties/a\": it must not be empty");
}

#[test]
fn an_annotation_behind_anything_but_properties_is_unreachable() {
    let inner = string_with(json!("A"));
    let within = json!({ "properties": { "b": inner } });
    for key in ["items", "additionalProperties", "not", "if", "then", "else", "contains", "x-own"] {
        for schema in [&inner, &within] {
            let schema = property(json!({ key: schema }));
            assert_eq!(parsed(&schema).unwrap_err().1, Problem::Unreachable, "{schema}");
        }
    }
    for key in ["allOf", "anyOf", "oneOf", "prefixItems", "items"] {
        let schema = json!({ key: [{}, within] });
        assert_eq!(parsed(&schema).unwrap_err().1, Problem::Unreachable, "{schema}");
    }
    for key in ["$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies"] {
        let schema = json!({ key: { "properties": inner } });
        assert_eq!(parsed(&schema).unwrap_err().1, Problem::Unreachable, "{schema}");
    }
}

#[test]
fn names_are_unique_whatever_their_letter_case_and_bounded() {
    let two = json!({ "properties": {
        "a": string_with(json!("Region")),
        "b": { "properties": { "c": string_with(json!("REGION")) } },
    } });
    assert_eq!(parsed(&two), Err(("properties/b/properties/c".into(), Problem::Taken)));
    let twice = r#"{"properties":{"a":{"type":"string","x-mcp-header":"A","x-mcp-header":"B"}}}"#;
    assert_eq!(ParamHeaders::parse(twice).unwrap_err().problem, Problem::NotText);
    let many: serde_json::Map<_, _> =
        (0..=MAX_PARAM_HEADERS).map(|n| (format!("p{n}"), string_with(json!(format!("H{n}"))))).collect();
    assert_eq!(parsed(&json!({ "properties": many })).unwrap_err().1, Problem::TooMany);
    let broken = ParamHeaders::parse("{\"x-mcp-header\"").unwrap_err();
    assert_eq!(broken.problem, Problem::NotJson);
}

#[test]
fn keys_and_names_behind_escapes_are_found() {
    let schema = r#"{"pr\u006fperties":{"\u0061":{"type":"string","x\u002dmcp-header":"\u0041"}}}"#;
    let set = ParamHeaders::parse(schema).unwrap();
    let sent = set.headers_for(Some(r#"{"a":"v"}"#)).unwrap();
    assert_eq!(sent, [("mcp-param-a".parse().unwrap(), HeaderValue::from_static("v"))]);
    assert_eq!(strip(schema), r#"{"pr\u006fperties":{"\u0061":{"type":"string"}}}"#);
}

#[test]
fn an_annotation_named_method_is_not_the_method_header() {
    let set = ParamHeaders::parse(&property(string_with(json!("Method"))).to_string()).unwrap();
    assert_eq!(set.names(), ["mcp-param-method"]);
}

/// B073: mirrored arguments, too, come from the body that goes out.
#[test]
fn mirrored_headers_follow_the_outgoing_arguments() {
    for (arguments, expected) in [
        (None, &[][..]),
        (Some("null"), &[]),
        (Some("{}"), &[]),
        (Some(r#"{"region":null,"where":null,"limit":null}"#), &[]),
        (Some(r#"{"region":["eu"],"where":"x","limit":{}}"#), &[]),
        (Some(r#"{"region":"","dry":true}"#), &[("mcp-param-region", "")]),
        (Some(r#"{"region":" eu "}"#), &[("mcp-param-region", "=?base64?IGV1IA==?=")]),
        (Some(r#"{"limit":42.0}"#), &[("mcp-param-limit", "42")]),
        (Some(r#"{"limit":-7,"region":4.50}"#), &[("mcp-param-region", "4.50"), ("mcp-param-limit", "-7")]),
        (Some(r#"{"where":{"dry":false},"limit":"many"}"#), &[("mcp-param-limit", "many"), ("mcp-param-dry", "false")]),
    ] {
        let sent = tool().headers_for(arguments).unwrap();
        let sent: Vec<_> = sent.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(sent, expected, "{arguments:?}");
    }
    let limit = || tool().names()[1].clone();
    let region = || tool().names()[0].clone();
    for (arguments, error) in [
        (r#"{"limit":9007199254740992}"#, HeaderError::OutOfRange(limit())),
        (r#"{"region":"\udc00"}"#, HeaderError::Unsendable(region())),
        (r#"{"region":1"#, HeaderError::Arguments("not valid JSON")),
    ] {
        assert_eq!(tool().headers_for(Some(arguments)), Err(error));
    }
}

#[test]
fn headers_are_checked_against_the_arguments_both_ways() {
    let limit = || tool().names()[1].clone();
    let region = || tool().names()[0].clone();
    let body = r#"{"region":"eu","limit":42}"#;
    let eu = ("Mcp-Param-Region", &b"eu"[..]);
    let sure = ("Mcp-Param-Limit", &b"42"[..]);
    for (given, arguments, expected) in [
        (&[eu, sure][..], body, Ok(())),
        (&[eu, ("mcp-param-limit", b" 42.0 ")], body, Ok(())),
        (&[("mcp-param-region", b"=?base64?ZXU=?="), sure], body, Ok(())),
        (&[eu, sure, ("mcp-param-other", b"\xFF"), ("mcp-param-other", b"x")], body, Ok(())),
        (&[], r#"{"region":null}"#, Ok(())),
        (&[], r#"{"region":["eu"]}"#, Ok(())),
        (&[("mcp-param-region", b"")], r#"{"region":""}"#, Ok(())),
        (&[sure], r#"{"limit":"42"}"#, Ok(())),
        (&[("mcp-param-limit", b"4.5")], r#"{"limit":4.5}"#, Ok(())),
        (&[eu], body, Err(HeaderError::Missing(limit()))),
        (&[], r#"{"region":""}"#, Err(HeaderError::Missing(region()))),
        (&[("mcp-param-region", b"EU"), sure], body, Err(HeaderError::Mismatch(region()))),
        (&[eu, ("mcp-param-limit", b"43")], body, Err(HeaderError::Mismatch(limit()))),
        (&[eu, ("mcp-param-limit", b"forty")], body, Err(HeaderError::Mismatch(limit()))),
        (&[eu, sure, sure], body, Err(HeaderError::Repeated(limit()))),
        (&[eu, sure], r#"{"region":"eu"}"#, Err(HeaderError::Unexpected(limit()))),
        (&[eu], r#"{"region":null}"#, Err(HeaderError::Unexpected(region()))),
        (&[eu], r#"{"region":["eu"]}"#, Err(HeaderError::Unexpected(region()))),
        (&[("mcp-param-region", b"=?base64?ZXU?=")], body, Err(HeaderError::Encoding(region()))),
        (&[("mcp-param-region", b"e\xFF")], body, Err(HeaderError::Characters(region()))),
        (&[("mcp-param-limit", b"1e17")], r#"{"limit":1e17}"#, Err(HeaderError::OutOfRange(limit()))),
        (&[eu], r#"{"region":"\ud800"}"#, Err(HeaderError::Mismatch(region()))),
    ] {
        assert_eq!(tool().check(&headers(given), Some(arguments)), expected, "{given:?} {arguments}");
    }
    assert_eq!(tool().check(&headers(&[eu]), None), Err(HeaderError::Unexpected(region())));
    assert_eq!(ParamHeaders::default().check(&headers(&[eu]), Some("not even JSON")), Ok(()));
}

#[test]
fn stripping_leaves_every_other_byte() {
    for (schema, expected) in [
        (r#"{"x-mcp-header":"A"}"#, "{}"),
        (r#"{ "x-mcp-header" : "A" }"#, "{ }"),
        (r#"{"x-mcp-header":"A", "n":1.0}"#, r#"{"n":1.0}"#),
        (r#"{"n":1e400 , "x-mcp-header":"A" }"#, r#"{"n":1e400 }"#),
        (r#"{"n":1,"x-mcp-header":"A","m":2}"#, r#"{"n":1,"m":2}"#),
        (r#"{"n":1,"x-mcp-header":"A","x-mcp-header":{"b":[]}}"#, r#"{"n":1}"#),
        (r#"{"x-mcp-header":1,"n":1,"x-mcp-header":2}"#, r#"{"n":1}"#),
        (r#"{"x-mcp-header":1,"x-mcp-header":2}"#, "{}"),
        (
            r#"{"anyOf":[{"properties":{"x-mcp-header":{"x-mcp-header":"A"}}}],"z":18446744073709551616}"#,
            r#"{"anyOf":[{"properties":{"x-mcp-header":{}}}],"z":18446744073709551616}"#,
        ),
        (
            "{\"properties\": {\n  \"é\\\"\": {\n    \"type\": \"string\",\n    \"x-mcp-header\": \"A\"\n  }\n}}",
            "{\"properties\": {\n  \"é\\\"\": {\n    \"type\": \"string\"\n  }\n}}",
        ),
        (r#"{"x-mcp-header"#, r#"{"x-mcp-header"#),
    ] {
        assert_eq!(strip(schema), expected, "{schema}");
    }
}

#[test]
fn a_schema_nested_without_end_costs_neither_stack_nor_time() {
    let depth = 100_000;
    let open = r#"{"properties":{"a":"#.repeat(depth);
    let schema = format!("{open}{{\"x-mcp-header\":\"A\"}}{}", "}}".repeat(depth));
    assert_eq!(ParamHeaders::parse(&schema), Ok(ParamHeaders::default()));
    assert_eq!(strip(&schema), schema);
}

/// Schemas in which annotations, and what looks like them, stand everywhere.
fn schemas() -> impl Strategy<Value = Value> {
    let keys = prop::sample::select(vec!["x-mcp-header", "properties", "items", "anyOf", "default", "type", "a", "日"]);
    let leaf = prop::sample::select(vec![json!("A"), json!("string"), json!(1.5), json!(null)]);
    leaf.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(keys.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_stripped_schema_is_valid_and_has_no_annotation_left(schema in schemas(), pretty: bool) {
        let text = if pretty { format!("{schema:#}") } else { schema.to_string() };
        let stripped = strip(&text);
        prop_assert!(serde_json::from_str::<Value>(&stripped).is_ok(), "{}", stripped);
        prop_assert_eq!(ParamHeaders::parse(&stripped), Ok(ParamHeaders::default()));
        prop_assert_eq!(strip(&stripped), stripped);
    }

    #[test]
    fn what_we_send_is_what_we_accept(
        region in any::<String>(), limit in -9_007_199_254_740_991_i64..=9_007_199_254_740_991,
        dry: bool, query in any::<String>(),
    ) {
        let arguments = json!({
            "region": region, "limit": limit, "where": { "dry": dry }, "query": query,
        }).to_string();
        let sent = tool().headers_for(Some(&arguments)).unwrap();
        prop_assert_eq!(sent.len(), 3);
        prop_assert_eq!(tool().check(&sent.into_iter().collect(), Some(&arguments)), Ok(()));
    }

    #[test]
    fn no_text_panics(text in r#"["{}\[\]:,\\ax日-]{0,60}"#, arguments in any::<String>()) {
        for schema in [text.clone(), format!("{{\"x-mcp-header\":{text}"), format!("{text}x-mcp-header")] {
            drop(ParamHeaders::parse(&schema));
            strip(&schema);
        }
        drop(tool().headers_for(Some(&arguments)));
        drop(tool().headers_for(Some(&format!("{{\"region\":{arguments}"))));
    }
}
