//! Every kind of block for every revision, byte for byte where nothing is to be done.

use super::super::revision::Revision::{
    self, V2024_11_05 as R1, V2025_03_26 as R2, V2025_06_18 as R3, V2025_11_25 as R4, V2026_07_28 as M,
};
use super::*;

const LINK: &str = r#"{"type":"resource_link","uri":"file:///a","name":"a","title":"A","size":3,"annotations":{"audience":["user"]},"_meta":{"n":1.10}}"#;
const AUDIO: &str = r#"{"type":"audio","data":"AA==","mimeType":"audio/wav"}"#;

fn told(block: &str, revision: Revision) -> String {
    for_revision("content", &format!("[{block}]"), revision).map_or(block.to_owned(), |t| t[1..t.len() - 1].to_owned())
}

#[test]
fn a_block_that_a_revision_lacks_becomes_a_text() {
    let link = r#"{"type":"text","text":"a: file:///a","annotations":{"audience":["user"]},"_meta":{"n":1.10}}"#;
    let audio =
        r#"{"type":"text","text":"[audio, audio/wav: not shown, because protocol revision 2024-11-05 has no audio]"}"#;
    let text = r#"{"type":"text","text":"\"audio\" \"resource_link\"","x":1e400}"#;
    let image = r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#;
    let embedded = r#"{"type":"resource","resource":{"uri":"a:b","text":"\u65e5"}}"#;
    let unknown = r#"{"type":"hologram","n":9007199254740993}"#;
    for (block, want) in [
        (LINK, [link, link, LINK, LINK, LINK]),
        (AUDIO, [audio, AUDIO, AUDIO, AUDIO, AUDIO]),
        (text, [text; 5]),
        (image, [image; 5]),
        (embedded, [embedded; 5]),
        (unknown, [unknown; 5]),
    ] {
        for (revision, want) in [R1, R2, R3, R4, M].into_iter().zip(want) {
            assert_eq!(told(block, revision), want, "{revision}");
        }
    }
}

#[test]
fn neighbours_keep_their_place_and_their_bytes() {
    let content = format!(r#"[ {{"type":"text","text":"x" , "n":1.10}} ,{AUDIO},{{"type":"hologram"}}]"#);
    let new = for_revision("content", &content, R1).unwrap();
    assert!(new.starts_with(r#"[{"type":"text","text":"x" , "n":1.10},{"type":"text","text":"[audio"#), "{new}");
    assert!(new.ends_with(r#",{"type":"hologram"}]"#), "{new}");
    assert_eq!(for_revision("content", &content, R2), None);
}

#[test]
fn messages_of_a_prompt_are_looked_into() {
    let messages = format!(r#"[{{"role":"user","content":{LINK},"x":1.0}},{{"role":"user","content":[{LINK}]}}]"#);
    let new = for_revision("messages", &messages, R2).unwrap();
    assert!(new.starts_with(r#"[{"role":"user","content":{"type":"text","text":"a: file:///a""#), "{new}");
    assert!(new.contains(r#""x":1.0},{"role":"user","content":[{"type":"text""#), "{new}");
    for same in [r#"[{"role":"user","content":"resource_link"}]"#, r#"{"type":"resource_link"}"#, "[3]"] {
        assert_eq!(for_revision("messages", same, R1), None, "{same}");
    }
    assert_eq!(for_revision("structuredContent", LINK, R1), None, "data is no content");
}

#[test]
fn a_link_says_what_it_says_of_itself() {
    for (block, want) in [
        (r#"{"type":"resource_link","uri":"a:b","name":"n","description":"d"}"#, r#""text":"n: a:b (d)"}"#),
        (r#"{"type":"resource_link","uri":"a:b"}"#, r#""text":"a:b"}"#),
    ] {
        assert!(told(block, R1).ends_with(want), "{}", told(block, R1));
    }
}

#[test]
fn only_structured_content_alone_needs_a_text() {
    for (result, want) in [
        (r#"{"structuredContent":{}}"#, true),
        (r#"{"structuredContent":[1],"content":[]}"#, true),
        (r#"{"structuredContent":{},"content":[ ]}"#, true),
        (r#"{"structuredContent":{},"content":null}"#, true),
        (r#"{"structuredContent":{},"content":[{"type":"text","text":""}]}"#, false),
        (r#"{"structuredContent":null}"#, false),
        (r#"{"content":[]}"#, false),
        ("{}", false),
    ] {
        assert_eq!(lacks_text(&Object::parse(result).unwrap()), want, "{result}");
    }
}

#[test]
fn a_completion_has_at_most_a_hundred_values() {
    let of =
        |n: usize| format!(r#"{{"values":[{}],"total":{n},"hasMore":false,"x":1.0}}"#, vec![r#""v""#; n].join(","));
    for n in [0, 1, 100] {
        assert_eq!(short_completion(&of(n)), None, "{n}");
    }
    let short = short_completion(&of(101)).unwrap();
    assert_eq!(short.matches(r#""v""#).count(), 100);
    assert!(short.ends_with(r#"],"total":101,"x":1.0,"hasMore":true}"#), "{short}");
    assert_eq!(short_completion(&"x".repeat(1000)), None);
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(key in "content|messages", text: String) {
        for revision in Revision::ALL {
            for_revision(&key, &text, revision);
        }
        short_completion(&text);
    }
}
