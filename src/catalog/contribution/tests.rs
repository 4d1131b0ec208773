//! What is read from an offer, what is left out of it, and how each shape of a list writes it.

use super::super::testing::*;
use super::super::{Reason, TaskSupport, Uris, Visibility};
use super::*;
use crate::catalog::merge::{Part, Standing, merge};

/// The single item of a list of each dress: merged modern, merged legacy, own modern, own legacy.
fn dressed(source: Source, offer: Offer, kind: Kind) -> [String; 4] {
    let (contribution, _) = Contribution::new(Arc::new(source), offer);
    [(true, Shape::Modern), (true, Shape::Legacy), (false, Shape::Modern), (false, Shape::Legacy)].map(
        |(merged, shape)| {
            let segment = contribution.segment(kind, shape, merged);
            String::from_utf8(segment.slice(0..contribution.count(kind, shape)).to_vec()).unwrap()
        },
    )
}

fn shown(kind: Kind, item: &str) -> [String; 4] {
    dressed(source("s", 0), offer(&[(kind, &[item])]), kind)
}

fn complaints(kind: Kind, items: &[&str]) -> Vec<(String, Reason)> {
    let (_, complaints) = Contribution::new(Arc::new(source("s", 0)), offer(&[(kind, items)]));
    complaints.into_iter().map(|c| (c.item, c.reason)).collect()
}

#[test]
fn dropped_fields_every_member_of_a_tool_survives_byte_for_byte() {
    let item = r#"{"x-vendor":{"n":9007199254740993,"z":null, "f":1.10},"name":"t","title":"T","annotations":{"readOnlyHint":true,"x":1e400},"inputSchema":{"type":"object","properties":{ "a":{"const":null}}},"outputSchema":{"type":"object"},"icons":[{"src":"data:,"}],"_meta":{"v":"\u65e5"}}"#;
    let merged = item.replace(r#""name":"t""#, r#""name":"s__t""#);
    assert_eq!(shown(Kind::Tools, item), [&merged, &merged, item, item]);
}

#[test]
fn ref_and_defs_are_kept_at_every_depth() {
    for schema in [
        r##"{"type":"object","definitions":{"Q":{"type":"string"}},"properties":{"q":{"$ref":"#/definitions/Q"}}}"##,
        r##"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["q"],"properties":{"q":{"$ref":"#/$defs/Q"}},"$defs":{"Q":{"$defs":{"R":{}},"allOf":[{"if":{},"then":{"$ref":"#/$defs/Q/$defs/R"}}]}}}"##,
    ] {
        let item = format!(r#"{{"name":"t","inputSchema":{schema}}}"#);
        for text in shown(Kind::Tools, &item) {
            assert!(text.contains(schema), "{text}");
        }
    }
}

#[test]
fn null_where_absent_is_meant_is_left_out_and_unknown_nulls_are_kept() {
    for (kind, item, want) in [
        (
            Kind::Tools,
            r#"{"name":"t","title":null,"description":null,"annotations":null,"outputSchema":null,"icons":null,"_meta":null,"execution":null,"inputSchema":{"type":"object"},"size":null,"x":null}"#,
            r#"{"name":"t","inputSchema":{"type":"object"},"size":null,"x":null}"#,
        ),
        (
            Kind::Tools,
            r#"{"name":"t","inputSchema":{"type":"object","description":null},"annotations":{"title":null,"readOnlyHint":true,"x":null},"icons":[{"src":"a","mimeType":null},3]}"#,
            r#"{"name":"t","inputSchema":{"type":"object","description":null},"annotations":{"readOnlyHint":true,"x":null},"icons":[{"src":"a"},3]}"#,
        ),
        (
            Kind::Prompts,
            r#"{"name":"t","arguments":[{"name":"a","description":null,"required":null},{"name":"b"}],"mimeType":null}"#,
            r#"{"name":"t","arguments":[{"name":"a"},{"name":"b"}],"mimeType":null}"#,
        ),
        (Kind::Prompts, r#"{"name":"t","arguments":null}"#, r#"{"name":"t"}"#),
        (
            Kind::Resources,
            r#"{"name":"t","uri":"a:b","mimeType":null,"size":null,"annotations":{"priority":null}}"#,
            r#"{"name":"t","uri":"a:b","annotations":{}}"#,
        ),
    ] {
        assert_eq!(shown(kind, item)[2], want);
    }
}

#[test]
fn names_and_uris_are_exposed_on_the_merged_endpoint_only() {
    for (kind, own, merged) in [
        (Kind::Prompts, r#"{"name":"p"}"#, r#"{"name":"s__p"}"#),
        (Kind::Resources, r#"{"uri":"file:///a","name":"a"}"#, r#"{"uri":"s+file:///a","name":"a"}"#),
        (Kind::Templates, r#"{"uriTemplate":"f:{+p}","name":"a"}"#, r#"{"uriTemplate":"s+f:{+p}","name":"a"}"#),
        (Kind::Resources, r#"{"uri":"ui:\/\/v\/x","name":"a"}"#, r#"{"uri":"ui://s/v/x","name":"a"}"#),
        (
            Kind::Tools,
            r#"{"name":"t","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://v","x":1},"ui/resourceUri":"ui://v"}}"#,
            r#"{"name":"s__t","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://s/v","x":1},"ui/resourceUri":"ui://s/v"}}"#,
        ),
    ] {
        assert_eq!(shown(kind, own), [merged, merged, own, own]);
    }
    let verbatim = Source { uris: Uris::Verbatim, ..source("s", 0) };
    let item = r#"{"uri":"file:///a","name":"a"}"#;
    assert_eq!(dressed(verbatim, offer(&[(Kind::Resources, &[item])]), Kind::Resources)[0], item);
}

#[test]
fn legacy_lists_hold_no_schema_that_old_libraries_refuse() {
    for (item, modern, legacy) in [
        (
            r#"{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}"#,
            r#"{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}"#,
            r#"{"name":"t","inputSchema":{"type":"object"}}"#,
        ),
        (
            r#"{"name":"t","inputSchema":{"properties":{"a":true,"b":false,"c":{"properties":{"d":true}}},"type":"object"}}"#,
            r#"{"name":"t","inputSchema":{"properties":{"a":true,"b":false,"c":{"properties":{"d":true}}},"type":"object"}}"#,
            r#"{"name":"t","inputSchema":{"properties":{"a":{},"b":{"not":{}},"c":{"properties":{"d":true}}},"type":"object"}}"#,
        ),
        (r#"{"name":"t","inputSchema":{"anyOf":[]}}"#, r#"{"name":"t","inputSchema":{"anyOf":[]}}"#, ""),
        (
            r#"{"name":"t","execution":{"taskSupport":"optional"},"inputSchema":{"type":"object"}}"#,
            r#"{"name":"t","inputSchema":{"type":"object"}}"#,
            r#"{"name":"t","inputSchema":{"type":"object"}}"#,
        ),
    ] {
        let [_, _, own_modern, own_legacy] = shown(Kind::Tools, item);
        assert_eq!((own_modern.as_str(), own_legacy.as_str()), (modern, legacy));
    }
}

#[test]
fn a_hidden_tool_does_not_hide_its_neighbours() {
    let items = [tool("a"), r#"{"name":"b","inputSchema":{}}"#.to_owned(), tool("c")];
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let (contribution, complaints) = Contribution::new(Arc::new(source("s", 0)), offer(&[(Kind::Tools, &items)]));
    assert_eq!(
        (contribution.count(Kind::Tools, Shape::Modern), contribution.count(Kind::Tools, Shape::Legacy)),
        (3, 2)
    );
    assert_eq!(
        complaints[0].to_string(),
        r#"s: tool "b" is hidden from legacy peers: the root of its inputSchema is not of type object"#
    );
    let legacy = contribution.segment(Kind::Tools, Shape::Legacy, false);
    assert_eq!(legacy.slice(0..2), format!("{},{}", tool("a"), tool("c")).as_bytes());
}

#[test]
fn one_bad_item_is_left_out_alone_with_a_reason() {
    let schema = r#""inputSchema":{"type":"object"}"#;
    for (kind, item, label, reason) in [
        (Kind::Tools, "3".to_owned(), "#2", Reason::NotAnObject),
        (Kind::Tools, format!(r#"{{"name":"b","name":"c",{schema}}}"#), "#2", Reason::NotAnObject),
        (Kind::Tools, format!("{{{schema}}}"), "#2", Reason::Missing("name")),
        (Kind::Tools, format!(r#"{{"name":7,{schema}}}"#), "#2", Reason::Missing("name")),
        (Kind::Tools, format!(r#"{{"name":"",{schema}}}"#), "#2", Reason::Missing("name")),
        (Kind::Tools, r#"{"name":"b"}"#.to_owned(), "b", Reason::NoSchema),
        (Kind::Tools, r#"{"name":"b","inputSchema":null}"#.to_owned(), "b", Reason::NoSchema),
        (Kind::Tools, format!(r#"{{"name":"a",{schema}}}"#), "a", Reason::Duplicate),
        (Kind::Resources, r#"{"name":"b"}"#.to_owned(), "#2", Reason::Missing("uri")),
        (Kind::Resources, r#"{"uri":"b:"}"#.to_owned(), "b:", Reason::Missing("name")),
        (Kind::Templates, r#"{"name":"b","uri":"b:"}"#.to_owned(), "#2", Reason::Missing("uriTemplate")),
        (Kind::Prompts, "[]".to_owned(), "#2", Reason::NotAnObject),
    ] {
        let good = match kind {
            Kind::Tools => tool("a"),
            _ => r#"{"name":"a","uri":"a:","uriTemplate":"a:"}"#.to_owned(),
        };
        let offer = offer(&[(kind, &[&good, &item])]);
        let (contribution, complaints) = Contribution::new(Arc::new(source("s", 0)), offer);
        assert_eq!(contribution.entries(kind).len(), 1, "{item}");
        let found: Vec<_> = complaints.iter().map(|c| (c.item.as_str(), c.reason.clone())).collect();
        assert_eq!(found, [(label, reason)], "{item}");
        assert!(complaints[0].to_string().contains("is left out"), "{item}");
    }
}

#[test]
fn a_malformed_template_is_kept_and_found_by_its_text() {
    let item = r#"{"name":"t","uriTemplate":"a:{"}"#;
    assert_eq!(complaints(Kind::Templates, &[item]), [("a:{".to_owned(), Reason::Template)]);
    let (c, _) = Contribution::new(Arc::new(source("s", 0)), offer(&[(Kind::Templates, &[item])]));
    assert!(c.find(Kind::Templates, "a:{").is_some());
}

#[test]
fn header_annotations_bind_only_on_modern_upstreams_over_http() {
    let annotated = |value: &str| {
        format!(
            r#"{{"name":"t","inputSchema":{{"type":"object","properties":{{"a":{{"type":"string","x-mcp-header":"{value}"}}}}}}}}"#
        )
    };
    let stripped = r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}"#;
    let (good, bad) = (annotated("A"), annotated(""));
    for (era, is_http, item, binding) in [
        (Era::Modern, true, &good, true),
        (Era::Modern, false, &good, false),
        (Era::Legacy, true, &good, false),
        (Era::Modern, false, &bad, false),
    ] {
        let mut offer = Offer::new(era, is_http);
        offer.set(Kind::Tools, list(&[item]));
        let (contribution, complaints) = Contribution::new(Arc::new(source("s", 0)), offer.clone());
        assert_eq!(complaints, []);
        let facts = contribution.entries(Kind::Tools)[0].tool().unwrap();
        assert_eq!(facts.param_headers.is_empty(), !binding);
        let [_, _, modern, legacy] = dressed(source("s", 0), offer, Kind::Tools);
        assert_eq!(modern, if binding { item.as_str() } else { stripped });
        assert_eq!(legacy, *item);
    }
    let (contribution, complaints) =
        Contribution::new(Arc::new(source("s", 0)), offer(&[(Kind::Tools, &[&bad, &tool("u")])]));
    assert_eq!(contribution.entries(Kind::Tools).len(), 1);
    assert!(matches!(complaints[..], [Complaint { reason: Reason::Annotation(_), .. }]), "{complaints:?}");
}

#[test]
fn facts_of_a_tool_are_read_once() {
    let item = r#"{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"array"},"annotations":{"readOnlyHint":true,"idempotentHint":"yes"},"execution":{"taskSupport":"required"},"_meta":{"ui":{"visibility":["app"]}}}"#;
    let part = part(source("s", 0), &[(Kind::Tools, &[item, &tool("plain")])]);
    let [first, plain] = part.contribution.entries(Kind::Tools) else { panic!() };
    let facts = first.tool().unwrap();
    assert!(facts.read_only && !facts.idempotent && facts.has_output_schema && !facts.has_legacy_output_schema);
    assert_eq!(facts.tasks, TaskSupport::Required);
    assert_eq!(facts.visibility, Visibility { model: false, app: true });
    assert_eq!(plain.tool().unwrap(), &super::super::Tool::default());
}

#[test]
fn the_longest_literal_start_wins_among_templates_of_one_server() {
    let items = [
        r#"{"name":"a","uriTemplate":"f:{+rest}"}"#,
        r#"{"name":"b","uriTemplate":"f:/x/{y}"}"#,
        r#"{"name":"c","uriTemplate":"f:/x/{z}"}"#,
    ];
    let part = part(source("s", 0), &[(Kind::Templates, &items)]);
    for (uri, want) in [("f:/x/1", Some("f:/x/{y}")), ("f:/q", Some("f:{+rest}")), ("g:", None)] {
        let found = part.contribution.matching_template(uri).map(|e| &**e.original());
        assert_eq!(found, want, "{uri}");
    }
}

#[test]
fn the_same_input_gives_the_same_bytes_whatever_order_it_came_in() {
    let parts =
        || vec![tools(source("b", 1), &["y", "x"]), tools(source("a", 0), &["z"]), tools(source("c", 2), &["x"])];
    let forward = merge(parts(), 1);
    let backward = merge(parts().into_iter().rev().collect(), 9);
    let want = r#""tools":[{"name":"a__z","inputSchema":{"type":"object"}},{"name":"b__y","inputSchema":{"type":"object"}},{"name":"b__x","inputSchema":{"type":"object"}},{"name":"c__x","inputSchema":{"type":"object"}}]"#;
    assert_eq!(text(forward.merged(), Kind::Tools, Shape::Modern), want);
    assert_eq!(text(backward.merged(), Kind::Tools, Shape::Modern), want);
    assert!(matches!(parts()[0], Part { standing: Standing::Fresh, .. }));
}

#[test]
fn a_tool_for_views_only_is_listed_for_who_shows_views() {
    let of = |(at, words): (usize, &&str)| {
        let meta = format!(r#"{{"ui":{{"visibility":[{words}]}}}}"#);
        format!(r#"{{"name":"t{at}","inputSchema":{{"type":"object"}},"_meta":{meta}}}"#)
    };
    let items: Vec<String> = [r#""app""#, r#""model""#, r#""model","app""#, ""].iter().enumerate().map(of).collect();
    let odd = r#"{"name":"odd","inputSchema":{"type":"array"},"_meta":{"ui":{"visibility":["app"]}}}"#;
    let items: Vec<&str> = items.iter().map(String::as_str).chain([odd]).collect();
    let (contribution, _) = Contribution::new(Arc::new(source("s", 0)), offer(&[(Kind::Tools, &items)]));
    for (shape, want) in [
        (Shape::Modern, vec![1, 2]),
        (Shape::Legacy, vec![1, 2]),
        (Shape::ModernApps, vec![0, 1, 2, 3, 4]),
        (Shape::LegacyApps, vec![0, 1, 2, 3]),
    ] {
        assert_eq!(contribution.shown(Kind::Tools, shape).collect::<Vec<_>>(), want, "{shape:?}");
        assert_eq!(contribution.count(Kind::Tools, shape), want.len());
        let text = contribution.segment(Kind::Tools, shape, true).slice(0..want.len());
        assert_eq!(memchr::memmem::find_iter(text, "\"name\"").count(), want.len(), "{shape:?}");
    }
    assert!(contribution.has_apps());
}

#[test]
fn one_text_serves_all_shapes_that_read_the_same() {
    let (contribution, _) = Contribution::new(Arc::new(source("s", 0)), offer(&[(Kind::Tools, &[&tool("t")])]));
    let text = |shape| std::ptr::from_ref(contribution.segment(Kind::Tools, shape, true));
    assert!(SHAPES.into_iter().all(|shape| text(shape) == text(Shape::Modern)));
    assert!(!contribution.has_apps());
}

#[test]
fn a_server_has_apps_if_it_says_so_or_links_to_one() {
    let flat = r#"{"name":"t","inputSchema":{"type":"object"},"_meta":{"ui/resourceUri":"ui://v"}}"#;
    let says = r#"{"tools":{},"extensions":{"io.modelcontextprotocol/ui":{}}}"#;
    for (capabilities, item, want) in [
        (None, flat.to_owned(), true),
        (Some(says), tool("t"), true),
        (Some(r#"{"extensions":{"x/y":{}}}"#), tool("t"), false),
        (Some("[]"), tool("t"), false),
        (None, tool("t"), false),
    ] {
        let mut offer = offer(&[(Kind::Tools, &[&item])]);
        offer.capabilities = capabilities.map(Box::from);
        assert_eq!(Contribution::new(Arc::new(source("s", 0)), offer).0.has_apps(), want, "{capabilities:?} {item}");
    }
}
