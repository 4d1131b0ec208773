//! Where names and URIs lead, and when they lead nowhere.

use super::super::testing::*;
use super::super::{Endpoint, Shape, Uris, merge};
use super::*;
use crate::name::ServerName;

/// `found server original`, `unlisted server original` or `unknown`.
fn said(lookup: Lookup<Route<'_>>) -> String {
    let (word, route) = match lookup {
        Lookup::Found(route) => ("found", route),
        Lookup::Unlisted(route) => ("unlisted", route),
        Lookup::Unknown => return "unknown".to_owned(),
    };
    assert_eq!(word == "found", route.entry.is_some(), "{route:?}");
    format!("{word} {} {}", route.source.name, route.original)
}

fn resource(uri: &str) -> String {
    format!(r#"{{"uri":"{uri}","name":"r"}}"#)
}

fn template(text: &str) -> String {
    format!(r#"{{"uriTemplate":"{text}","name":"t"}}"#)
}

/// A part with these resources and templates.
fn files(source: Source, uris: &[&str], templates: &[&str]) -> Part {
    let uris: Vec<String> = uris.iter().map(|u| resource(u)).collect();
    let templates: Vec<String> = templates.iter().map(|t| template(t)).collect();
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    let templates: Vec<&str> = templates.iter().map(String::as_str).collect();
    part(source, &[(Kind::Resources, &uris), (Kind::Templates, &templates)])
}

fn verbatim(key: &str, order: usize) -> Source {
    Source { uris: Uris::Verbatim, ..source(key, order) }
}

fn bare(key: &str, order: usize) -> Source {
    Source { prefix: String::new(), ..source(key, order) }
}

fn server(key: &str) -> Endpoint {
    Endpoint::Server(ServerName::new(key))
}

#[test]
fn name_collision_both_are_reachable_under_their_own_names() {
    let snapshot = merge(vec![tools(source("a", 0), &["search", "only"]), tools(source("b", 1), &["search"])], 1);
    let view = snapshot.merged();
    for (name, want) in [
        ("a__search", "found a search"),
        ("b__search", "found b search"),
        ("search", "unknown"),
        ("only", "found a only"),
        ("a__other", "unknown"),
        ("a", "unknown"),
        ("", "unknown"),
    ] {
        assert_eq!(said(view.tool(name)), want, "{name}");
    }
    assert_eq!(said(view.prompt("a__search")), "unknown");
    assert_eq!(snapshot.conflicts(), []);
}

#[test]
fn name_collision_without_prefixes_hides_both_whatever_the_order() {
    let parts = [tools(bare("a", 0), &["x", "search", "y"]), tools(bare("b", 1), &["search", "z"])];
    for parts in [parts.to_vec(), parts.iter().rev().cloned().collect()] {
        let snapshot = merge(parts, 1);
        let view = snapshot.merged();
        assert_eq!(said(view.tool("search")), "unknown");
        assert_eq!(said(view.tool("z")), "found b z");
        let listed = text(view, Kind::Tools, Shape::Modern);
        assert_eq!(listed, format!(r#""tools":[{},{},{}]"#, tool("x"), tool("y"), tool("z")));
        assert_eq!(view.count(Kind::Tools, Shape::Legacy), 3);
        let [conflict] = snapshot.conflicts() else { panic!("{:?}", snapshot.conflicts()) };
        assert_eq!(
            conflict.to_string(),
            r#"tool "search" is offered by a and b and hidden on each of them: give the servers different prefixes"#
        );
        assert_eq!(said(snapshot.view(&server("a")).unwrap().tool("search")), "found a search");
    }
}

#[test]
fn name_stability_a_second_server_renames_nothing() {
    let one = merge(vec![tools(source("a", 0), &["search_code"])], 1);
    let two = merge(vec![tools(source("a", 0), &["search_code"]), tools(source("b", 1), &["x"])], 2);
    for snapshot in [one, two] {
        assert_eq!(said(snapshot.merged().tool("a__search_code")), "found a search_code");
    }
}

#[test]
fn names_of_any_length_and_script_lead_back() {
    let long = "t".repeat(100);
    let names = [long.as_str(), "a.b", "日本", "a b"];
    let snapshot = merge(vec![tools(source(&"k".repeat(30), 0), &names)], 1);
    let part = snapshot.parts().next().unwrap();
    for (entry, name) in part.contribution.entries(Kind::Tools).iter().zip(names) {
        assert!(entry.exposed().len() <= 64);
        let route = snapshot.merged().tool(entry.exposed()).route().unwrap();
        assert_eq!(route.original, name);
    }
}

#[test]
fn a_servers_own_endpoint_has_its_own_names_and_forwards_what_it_does_not_list() {
    let parts = vec![files(source("a", 0), &["file:///a"], &["db://{id}"]), tools(source("b", 1), &["search"])];
    let snapshot = merge(parts, 1);
    let view = snapshot.view(&server("b")).unwrap();
    assert_eq!(said(view.tool("search")), "found b search");
    assert_eq!(said(view.tool("b__search")), "unlisted b b__search");
    assert_eq!(said(view.prompt("p")), "unlisted b p");
    let view = snapshot.view(&server("a")).unwrap();
    for (uri, want) in [
        ("file:///a", "found a file:///a"),
        ("db://7", "found a db://7"),
        ("a+file:///a", "unlisted a a+file:///a"),
        ("x:", "unlisted a x:"),
    ] {
        assert_eq!(said(view.resource(uri)), want);
    }
    assert_eq!(said(view.completion_resource("db://{id}")), "found a db://{id}");
    assert!(text(view, Kind::Resources, Shape::Modern).contains(r#""uri":"file:///a""#));
    assert!(snapshot.view(&server("c")).is_none());
}

#[test]
fn resource_uri_routing_the_same_uri_on_two_servers_goes_to_its_owner() {
    let snapshot = merge(
        vec![
            files(source("a", 0), &["file:///README.md", "file:///a", "ui://v/1"], &["db://{id}"]),
            files(source("b", 1), &["file:///README.md"], &["db://{id}/x", "log://{+path}"]),
            files(source("3c", 2), &["c:1"], &[]),
        ],
        1,
    );
    let view = snapshot.merged();
    for (uri, want) in [
        ("a+file:///README.md", "found a file:///README.md"),
        ("b+file:///README.md", "found b file:///README.md"),
        ("file:///README.md", "unknown"),
        ("file:///a", "found a file:///a"),
        ("ui://a/v/1", "found a ui://v/1"),
        ("ui://a/v/2", "unlisted a ui://v/2"),
        ("ui://v/1", "found a ui://v/1"),
        ("ui://zz/1", "unknown"),
        ("a+db://7", "found a db://7"),
        ("a+other:", "unlisted a other:"),
        ("x.3c+c:1", "found 3c c:1"),
        ("x.3c+c:2", "unlisted 3c c:2"),
        ("db://7", "found a db://7"),
        ("db://7/x", "found b db://7/x"),
        ("log://a/b", "found b log://a/b"),
        ("zz+file:///a", "unknown"),
        ("other:", "unknown"),
        ("", "unknown"),
    ] {
        assert_eq!(said(view.resource(uri)), want, "{uri}");
    }
}

#[test]
fn two_servers_whose_templates_match_are_not_guessed_between() {
    let snapshot =
        merge(vec![files(source("a", 0), &[], &["db://{id}"]), files(source("b", 1), &[], &["db://{+id}"])], 1);
    assert_eq!(said(snapshot.merged().resource("db://7")), "unknown");
    assert_eq!(said(snapshot.merged().resource("db://7/8")), "found b db://7/8");
}

#[test]
fn verbatim_uris_go_by_text_then_template_then_to_the_only_verbatim_server() {
    let one = merge(
        vec![
            files(source("a", 0), &["file:///a"], &["db://{id}"]),
            files(verbatim("v", 1), &["file:///a", "file:///v", "a+b:"], &["db://{id}"]),
        ],
        1,
    );
    for (uri, want) in [
        ("file:///a", "found v file:///a"),
        ("a+file:///a", "found a file:///a"),
        ("a+b:", "found v a+b:"),
        ("file:///v", "found v file:///v"),
        ("v+file:///v", "unlisted v v+file:///v"),
        ("db://7", "found v db://7"),
        ("other:", "unlisted v other:"),
    ] {
        assert_eq!(said(one.merged().resource(uri)), want, "{uri}");
    }
    let two =
        merge(vec![files(verbatim("v", 0), &["a:1", "b:1"], &[]), files(verbatim("w", 1), &["a:1"], &["t:{x}"])], 1);
    for (uri, want) in [("a:1", "unknown"), ("b:1", "found v b:1"), ("t:1", "found w t:1"), ("other:", "unknown")] {
        assert_eq!(said(two.merged().resource(uri)), want, "{uri}");
    }
    assert_eq!(two.conflicts().len(), 1);
}

#[test]
fn completion_refs_are_templates_by_text_first_and_then_uris() {
    let snapshot = merge(
        vec![
            files(source("a", 0), &["file:///a"], &["db://{id}", "a:{x}"]),
            files(source("b", 1), &[], &["db://{id}"]),
        ],
        1,
    );
    let view = snapshot.merged();
    for (text, want) in [
        ("a+db://{id}", "found a db://{id}"),
        ("b+db://{id}", "found b db://{id}"),
        ("db://{id}", "unknown"),
        ("a:{x}", "found a a:{x}"),
        ("a+file:///a", "found a file:///a"),
        ("zz", "unknown"),
    ] {
        assert_eq!(said(view.completion_resource(text)), want, "{text}");
    }
}

#[test]
fn endpoints_are_named_by_prefix_or_key() {
    let named = Source { prefix: "my-files".into(), ..source("My Files", 0) };
    let snapshot = merge(vec![tools(named, &["t"])], 1);
    for text in ["my-files", "My Files"] {
        assert_eq!(snapshot.endpoint(text), Some(server("My Files")), "{text}");
    }
    assert_eq!(snapshot.endpoint("mine"), None);
}

#[test]
fn a_server_that_is_not_there_has_an_endpoint_and_empty_lists() {
    let part = Part::empty(Arc::new(source("a", 0)), Standing::Expected);
    let snapshot = merge(vec![part], 1);
    let view = snapshot.view(&server("a")).unwrap();
    assert_eq!(text(view, Kind::Tools, Shape::Legacy), r#""tools":[]"#);
    assert_eq!(view.tool("t").route().map(|r| r.standing), Some(Standing::Expected));
}
