//! Pages and cursors.

use proptest::prelude::*;

use super::super::testing::*;
use super::super::{Endpoint, Part, Snapshot, Source, merge};
use super::*;
use crate::name::ServerName;

fn page(view: View<'_>, cursor: Option<&str>, size: usize) -> Result<(Vec<String>, Option<String>), BadCursor> {
    let text = view.list(Kind::Tools, Shape::Legacy, cursor, size)?;
    let result: serde_json::Value = serde_json::from_str(&format!("{{{}}}", str::from_utf8(&text).unwrap())).unwrap();
    let names = result["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect();
    Ok((names, result.get("nextCursor").map(|c| c.as_str().unwrap().to_owned())))
}

fn all_pages(view: View<'_>, size: usize) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let (names, next) = page(view, cursor.as_deref(), size).unwrap();
        assert!(names.len() <= size && (next.is_none() || names.len() == size));
        all.extend(names);
        match next {
            Some(next) => cursor = Some(next),
            None => return all,
        }
    }
}

fn three() -> Snapshot {
    merge(vec![tools(source("a", 0), &["1", "2"]), tools(source("b", 1), &["3"])], 1)
}

#[test]
fn pagination_every_entry_of_every_page_is_reached() {
    let snapshot = three();
    assert_eq!(page(snapshot.merged(), None, 1000).unwrap(), (vec!["a__1".into(), "a__2".into(), "b__3".into()], None));
    for size in 1..=4 {
        assert_eq!(all_pages(snapshot.merged(), size), ["a__1", "a__2", "b__3"], "{size}");
    }
}

#[test]
fn an_empty_list_is_an_array_without_a_cursor() {
    let snapshot = merge(Vec::new(), 0);
    for kind in Kind::ALL {
        assert_eq!(text(snapshot.merged(), kind, Shape::Modern), format!("\"{}\":[]", kind.member()));
    }
}

#[test]
fn a_cursor_works_for_its_own_list_and_size_only() {
    let snapshot = three();
    let cursor = page(snapshot.merged(), None, 2).unwrap().1.unwrap();
    let cursor = Some(cursor.as_str());
    assert_eq!(page(snapshot.merged(), cursor, 2).unwrap().0, ["b__3"]);
    assert_eq!(page(snapshot.merged(), cursor, 1), Err(BadCursor));
    assert!(snapshot.merged().list(Kind::Tools, Shape::Modern, cursor, 2).is_err());
    assert!(snapshot.merged().list(Kind::Prompts, Shape::Legacy, cursor, 2).is_err());
    let own = snapshot.view(&Endpoint::Server(ServerName::new("a"))).unwrap();
    assert_eq!(page(own, cursor, 2), Err(BadCursor));
    for bad in ["", "x", "AAAA", "!!!!", &"A".repeat(27), &"A".repeat(1000)] {
        assert_eq!(page(snapshot.merged(), Some(bad), 2), Err(BadCursor), "{bad}");
    }
}

#[test]
fn a_cursor_never_continues_another_list_and_outlives_changes_elsewhere() {
    let old = three();
    let cursor = page(old.merged(), None, 2).unwrap().1.unwrap();
    let a = || tools(source("a", 0), &["1", "2"]);
    let prompt = part(source("c", 2), &[(Kind::Prompts, &[r#"{"name":"p"}"#])]);
    let elsewhere = merge(vec![a(), tools(source("b", 1), &["3"]), prompt], 7);
    assert_eq!(page(elsewhere.merged(), Some(&cursor), 2).unwrap().0, ["b__3"]);
    for changed in [
        vec![a(), tools(source("b", 1), &["4"])],
        vec![a(), tools(source("b", 1), &["3", "4"])],
        vec![tools(source("a", 1), &["1", "2"]), tools(source("b", 0), &["3"])],
        vec![a(), tools(source("c", 1), &["3"])],
    ] {
        assert_eq!(page(merge(changed, 2).merged(), Some(&cursor), 2), Err(BadCursor));
    }
}

#[test]
fn first_pages_are_made_once() {
    let snapshot = three();
    let list = || snapshot.merged().list(Kind::Tools, Shape::Modern, None, 1000).unwrap();
    assert_eq!(list().as_ptr(), list().as_ptr());
}

#[test]
fn a_rebuild_reuses_the_text_of_servers_that_did_not_change() {
    let (a, b) = (tools(source("a", 0), &["1"]), tools(source("b", 1), &["2"]));
    let old = merge(vec![a.clone(), b], 1);
    text(old.merged(), Kind::Tools, Shape::Modern);
    let new = merge(vec![a.clone(), tools(source("b", 1), &["3"])], 2);
    text(new.merged(), Kind::Tools, Shape::Modern);
    let segment = |p: &Part| std::ptr::from_ref(p.contribution.segment(Kind::Tools, Shape::Modern, true));
    assert_eq!(segment(old.parts().next().unwrap()), segment(new.parts().next().unwrap()));
}

proptest! {
    #[test]
    fn pages_put_together_are_the_whole_list(
        counts in proptest::collection::vec(0usize..6, 0..5),
        size in 1usize..8,
        shared in any::<bool>(),
    ) {
        let parts = counts.iter().enumerate().map(|(order, count)| {
            let names: Vec<String> = (0..*count).map(|n| format!("t{n}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let key = format!("s{order}");
            // Without prefixes names meet and are hidden, wherever they stand.
            let prefix = if shared && order % 2 == 0 { String::new() } else { key.clone() };
            tools(Source { prefix, ..source(&key, order) }, &names)
        });
        let snapshot = merge(parts.collect(), 1);
        let whole = page(snapshot.merged(), None, 10_000).unwrap().0;
        prop_assert_eq!(all_pages(snapshot.merged(), size), whole.clone());
        prop_assert_eq!(snapshot.merged().count(Kind::Tools, Shape::Legacy), whole.len());
        for name in &whole {
            prop_assert!(snapshot.merged().tool(name).route().is_some());
        }
    }

    #[test]
    fn no_cursor_makes_it_panic(cursor in any::<String>(), bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let snapshot = three();
        prop_assert!(page(snapshot.merged(), Some(&cursor), 2).is_err());
        prop_assert!(page(snapshot.merged(), Some(&URL_SAFE_NO_PAD.encode(bytes)), 2).is_err());
    }
}
