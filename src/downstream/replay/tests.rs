//! What is kept of a stream, what goes first, and who may read it on.

use std::time::Duration;

use super::*;

const LIMITS: ReplayLimits = ReplayLimits { events: 4, bytes: 100, keep: Duration::from_secs(60) };

fn id(text: &str) -> EventId {
    EventId::parse(text).unwrap()
}

fn store(appends: &[(u64, &'static str)]) -> Store {
    let mut store = Store::new(LIMITS);
    store.open(true, Instant::now());
    store.open(false, Instant::now());
    for (stream, text) in appends {
        store.append(*stream, Bytes::from_static(text.as_bytes())).unwrap();
    }
    store
}

fn texts(unseen: Option<Unseen>) -> Option<Vec<String>> {
    Some(unseen?.events.iter().map(|(id, text)| format!("{id}={}", String::from_utf8_lossy(text))).collect())
}

#[test]
fn an_id_is_only_what_we_would_write() {
    assert_eq!(id("12-0").to_string(), "12-0");
    for bad in
        ["", "-", "1", "1-", "-1", "+1-1", "01-1", "1-01", "1-1-1", " 1-1", "1--1", "x-1", "99999999999999999999-1"]
    {
        assert_eq!(EventId::parse(bad), None, "{bad}");
    }
}

#[test]
fn exactly_what_was_missed_on_that_stream_comes_again() {
    let store = store(&[(1, "a"), (2, "x"), (1, "b"), (2, "y")]);
    for (last, want) in [
        ("1-0", Some(&["1-1=a", "1-2=b"][..])),
        ("1-1", Some(&["1-2=b"])),
        ("2-1", Some(&["2-2=y"])),
        ("2-2", Some(&[])),
        ("2-3", None),
        ("3-0", None),
    ] {
        let got = texts(store.after(id(last)));
        assert_eq!(got.as_deref(), want.map(|w| w.iter().map(ToString::to_string).collect::<Vec<_>>()).as_deref());
    }
}

#[test]
fn the_oldest_events_go_first_and_a_gap_is_never_hidden() {
    let store = store(&[(1, "a"), (2, "x"), (1, "b"), (1, "c"), (1, "d")]);
    assert_eq!(store.kept.len(), LIMITS.events);
    assert_eq!(texts(store.after(id("1-0"))), None);
    assert_eq!(texts(store.after(id("1-1"))).unwrap(), ["1-2=b", "1-3=c", "1-4=d"]);
    assert_eq!(texts(store.after(id("2-0"))).unwrap(), ["2-1=x"]);
}

#[test]
fn bytes_are_bounded_and_a_message_larger_than_all_of_them_is_not_kept() {
    let mut store = store(&[(1, "a"), (2, "x")]);
    store.append(1, vec![b'l'; 99].into()).unwrap();
    assert_eq!((store.bytes, store.kept.len()), (100, 2));
    store.append(2, vec![b'h'; 101].into()).unwrap();
    assert_eq!((store.bytes, store.kept.len()), (0, 0));
    assert_eq!(store.after(id("2-1")), None);
    assert_eq!(texts(store.after(id("2-2"))).unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_ended_stream_is_forgotten_after_its_time_and_others_are_not() {
    let mut store = store(&[(1, "a"), (2, "x")]);
    let now = Instant::now();
    store.end(2, now);
    store.expire(now + LIMITS.keep - Duration::from_millis(1));
    assert!(store.after(id("2-0")).unwrap().is_over);
    store.expire(now + LIMITS.keep);
    assert_eq!(store.after(id("2-0")), None);
    assert_eq!((store.bytes, store.streams.len()), (1, 1));
    assert!(!store.after(id("1-0")).unwrap().is_over);
}

#[tokio::test(start_paused = true)]
async fn an_ended_stream_of_which_nothing_is_kept_is_forgotten_at_once() {
    let mut store = store(&[]);
    store.end(2, Instant::now());
    let (third, _) = store.open(false, Instant::now());
    store.append(third, Bytes::from_static(b"z")).unwrap();
    store.end(third, Instant::now());
    for _ in 0..LIMITS.events {
        store.append(1, Bytes::from_static(b"a")).unwrap();
    }
    assert_eq!(store.streams.keys().collect::<Vec<_>>(), [&1]);
}

#[tokio::test]
async fn who_resumes_takes_the_stream_over() {
    let now = Instant::now();
    let replay = Arc::new(Replay::new(LIMITS));
    let (standalone, answering) = (replay.open(true, now), replay.open(false, now));
    for track in [&standalone, &answering] {
        track.append(Bytes::from_static(b"1")).unwrap();
        let resumed = replay.resume(track.beginning(), now).unwrap();
        assert_eq!(resumed.unseen.events.len(), 1);
        assert!(track.taken.is_cancelled() && !resumed.track.taken.is_cancelled());
    }
    assert_eq!(standalone.append(Bytes::from_static(b"2")), None, "the new reader would miss it");
    assert!(answering.append(Bytes::from_static(b"2")).is_some(), "its exchange still writes here");
}
