//! Event streams as WHATWG describes them, at every chunk boundary, and beyond the limit.

use bytes::Bytes;
use proptest::prelude::*;

use super::super::tests::{cut, lengths, lively_bytes};
use super::{Event, EventDecoder, SseError, comment, event, priming, retry};

type Item = Result<Event, SseError>;

fn decoded(chunks: Vec<Bytes>, limit: usize) -> Vec<Item> {
    let mut decoder = EventDecoder::new(limit);
    let mut items = Vec::new();
    for mut chunk in chunks {
        while let Some(item) = decoder.decode(&mut chunk) {
            items.push(item);
        }
        assert!(chunk.is_empty(), "the whole chunk is used");
    }
    items
}

fn data(text: &str) -> Event {
    Event { data: Some(Bytes::copy_from_slice(text.as_bytes())), ..Event::default() }
}

fn id(text: &str) -> Event {
    Event { id: Some(text.to_owned()), ..Event::default() }
}

fn of_type(name: &str, event: Event) -> Event {
    Event { event: Some(name.to_owned()), ..event }
}

fn cases() -> Vec<(&'static str, Vec<Event>)> {
    vec![
        ("", vec![]),
        ("\n\n\n", vec![]),
        ("data: {}\n\n", vec![data("{}")]),
        ("data:{}\n\n", vec![data("{}")]),
        ("data:  two\n\n", vec![data(" two")]),
        ("data: a\ndata: b\ndata\ndata: c\n\n", vec![data("a\nb\n\nc")]),
        ("data\n\n", vec![data("")]),
        ("data:\n\n", vec![data("")]),
        ("data: \n\n", vec![data("")]),
        ("data: a:b: c\n\n", vec![data("a:b: c")]),
        (": hello\n\n:\n\n", vec![]),
        (":x\ndata: a\n:y\n\n", vec![data("a")]),
        ("event: ping\ndata: a\n\n", vec![of_type("ping", data("a"))]),
        ("event: ping\nevent:\ndata: a\n\n", vec![data("a")]),
        ("event: ping\n\ndata: a\n\n", vec![data("a")]),
        ("id: 7\n\n", vec![id("7")]),
        ("id\n\n", vec![id("")]),
        ("id: a\0b\n\n", vec![]),
        ("id: 7\nid: a\0b\ndata: x\n\n", vec![Event { id: Some("7".into()), ..data("x") }]),
        ("retry: 500\n\n", vec![Event { retry_ms: Some(500), ..Event::default() }]),
        ("retry: 5s\n\nretry:\n\nretry: -1\n\nretry: 99999999999999999999\n\n", vec![]),
        ("retry: 5\nretry: x\n\n", vec![Event { retry_ms: Some(5), ..Event::default() }]),
        ("unknown: x\nDATA: y\ndata : z\n data: w\n\n", vec![]),
        ("\u{feff}data: a\n\n\u{feff}data: b\n\n", vec![data("a")]),
        ("data: 日本 — 😀\n\n", vec![data("日本 — 😀")]),
        ("data: a\n\ndata: cut", vec![data("a")]),
        ("data: a\n\ndata: cut\n", vec![data("a")]),
    ]
}

#[test]
fn events_come_out_whole_at_any_boundary_with_any_line_end() {
    for (input, expected) in cases() {
        for end in ["\n", "\r\n", "\r"] {
            let input = input.replace('\n', end);
            for lengths in [&[][..], &[1], &[2], &[3, 1]] {
                let items = decoded(cut(input.as_bytes(), lengths), 1000);
                let expected: Vec<Item> = expected.iter().cloned().map(Ok).collect();
                assert_eq!(items, expected, "{input:?} cut {lengths:?}");
            }
        }
    }
}

/// B038: CRLF line ends, cut between CR and LF.
#[test]
fn sse_with_crlf_cut_between_cr_and_lf() {
    let chunks = ["data: 1\r", "\n\r", "\ndata: 2\r\n\r", "\n"];
    let chunks = chunks.map(|chunk| Bytes::from_static(chunk.as_bytes())).to_vec();
    assert_eq!(decoded(chunks, 100), [Ok(data("1")), Ok(data("2"))]);
}

#[test]
fn an_event_that_ends_with_cr_does_not_wait_for_the_next_byte() {
    let chunks = vec![Bytes::from_static(b"data: 1\r\r")];
    assert_eq!(decoded(chunks, 100), [Ok(data("1"))]);
}

#[test]
fn single_line_data_is_a_slice_of_its_chunk() {
    let chunk = Bytes::from_static(b"data: {\"a\":1}\n\n");
    let items = decoded(vec![chunk.clone()], 100);
    let data = items[0].as_ref().unwrap().data.as_ref().unwrap();
    assert_eq!(data.as_ptr(), chunk[6..].as_ptr());
}

#[test]
fn an_event_above_the_limit_is_reported_once_and_the_next_one_comes() {
    let too_long = Err(SseError::TooLong { limit: 10 });
    for (input, expected) in [
        ("data: 1234\n\n", vec![Ok(data("1234"))]),
        ("\u{feff}data: 1234\n\n", vec![Ok(data("1234"))]),
        ("data: 12345\n\ndata: a\n\n", vec![too_long.clone(), Ok(data("a"))]),
        ("data: 12345678901234567\ndata: b\n\ndata: a\n\n", vec![too_long.clone(), Ok(data("a"))]),
        ("data:1\ndata:2\ndata:3\n\ndata: a\n\n", vec![too_long.clone(), Ok(data("a"))]),
        ("id:1\nid:2\nid:3\n\ndata: a\n\n", vec![too_long.clone(), Ok(data("a"))]),
        (":1\n:2\n:3\n:4\n:5\n:6\ndata: a\n\n", vec![Ok(data("a"))]),
        ("data: 12345678901234567", vec![too_long]),
    ] {
        for end in ["\n", "\r\n", "\r"] {
            let input = input.replace('\n', end);
            for lengths in [&[][..], &[1], &[3]] {
                assert_eq!(decoded(cut(input.as_bytes(), lengths), 10), expected, "{input:?}");
            }
        }
    }
}

#[test]
fn an_event_without_end_gives_its_memory_back() {
    let mut decoder = EventDecoder::new(1 << 10);
    let mut errors = 0;
    for _ in 0..1000 {
        let mut chunk = Bytes::from_static(b"data: something\n");
        errors += decoder.decode(&mut chunk).iter().filter(|item| item.is_err()).count();
    }
    assert_eq!((errors, decoder.held, decoder.partial.0.capacity()), (1, 0, 0));
    assert!(decoder.is_mid_event());
    let mut rest = Bytes::from_static(b"\ndata: a\n\n");
    assert_eq!(decoder.decode(&mut rest), Some(Ok(data("a"))));
    assert!(!decoder.is_mid_event());
}

#[test]
fn a_stream_cut_within_an_event_is_known_to_be() {
    for (input, mid) in [("", false), ("data: a\n\n", false), ("dat", true), ("data: a\n", true)] {
        let mut decoder = EventDecoder::new(100);
        let mut chunk = Bytes::from_static(input.as_bytes());
        while decoder.decode(&mut chunk).is_some() {}
        assert_eq!(decoder.is_mid_event(), mid, "{input:?}");
    }
}

#[test]
fn written_events_are_exactly_these_bytes() {
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(written(&|out| event(out, None, b"{\n}")), "data: { }\n\n");
    assert_eq!(written(&|out| event(out, Some("s-1"), b"{}")), "id: s-1\ndata: {}\n\n");
    assert_eq!(written(&|out| priming(out, "s-0", None)), "id: s-0\ndata: \n\n");
    assert_eq!(written(&|out| priming(out, "s-0", Some(5))), "id: s-0\nretry: 5\ndata: \n\n");
    assert_eq!(written(&|out| retry(out, 500)), "retry: 500\n\n");
    assert_eq!(written(&comment), ":\n\n");
}

proptest! {
    #[test]
    fn chunking_changes_nothing(
        input in lively_bytes(), lengths in lengths(), limit in 0_usize..60,
    ) {
        prop_assert_eq!(decoded(cut(&input, &[]), limit), decoded(cut(&input, &lengths), limit));
    }

    #[test]
    fn written_events_come_back(
        json in "[ -~日😀\r\n]{0,40}", name in "[!-~]{1,8}", lengths in lengths(),
    ) {
        let mut out = Vec::new();
        comment(&mut out);
        event(&mut out, Some(&name), json.as_bytes());
        priming(&mut out, &name, Some(3));
        let expected = json.replace(['\r', '\n'], " ");
        prop_assert_eq!(decoded(cut(&out, &lengths), 1000), vec![
            Ok(Event { id: Some(name.clone()), ..data(&expected) }),
            Ok(Event { id: Some(name), retry_ms: Some(3), ..data("") }),
        ]);
    }
}
