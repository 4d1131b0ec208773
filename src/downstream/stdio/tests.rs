//! The pieces of the loop. Whole conversations need a gateway with servers and are scenarios in `tests/it`.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader, duplex};

use super::*;

fn reply(text: &'static str) -> Reply {
    Reply::result(Bytes::from_static(text.as_bytes()))
}

#[tokio::test]
async fn an_exchange_sends_what_comes_before_its_end_first() {
    let (lines, mut waiting) = mpsc::channel(8);
    let outlet = Outlet::new();
    let inner = outlet.clone();
    let work = async move {
        inner.send(Bytes::from_static(b"1")).unwrap();
        tokio::task::yield_now().await;
        inner.send(Bytes::from_static(b"2")).unwrap();
        Some(reply("end"))
    };
    exchange(work, outlet, CancellationToken::new(), lines).await;
    let mut got = Vec::new();
    while let Some(line) = waiting.recv().await {
        got.push(line);
    }
    assert_eq!(got, ["1", "2", "end"]);
}

#[tokio::test]
async fn a_withdrawn_exchange_is_dropped_and_answers_nothing() {
    let (lines, mut waiting) = mpsc::channel(8);
    let withdrawn = CancellationToken::new();
    withdrawn.cancel();
    exchange(std::future::pending(), Outlet::new(), withdrawn, lines).await;
    assert_eq!(waiting.recv().await, None);
}

#[tokio::test]
async fn the_writer_writes_whole_lines_in_order() {
    let (near, far) = duplex(3);
    let (lines, waiting) = mpsc::channel(8);
    for text in ["{\"a\":\n1}", "{}"] {
        lines.send(Bytes::from_static(text.as_bytes())).await.unwrap();
    }
    drop(lines);
    let reader = async {
        let mut got = Vec::new();
        let mut far = BufReader::new(far).lines();
        while let Some(line) = far.next_line().await.unwrap() {
            got.push(line);
        }
        got
    };
    let (written, got) = tokio::join!(write(near, waiting, StdioSettings::default()), reader);
    written.unwrap();
    assert_eq!(got, ["{\"a\": 1}", "{}"]);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_read_ends_the_run() {
    let (near, _far) = duplex(1);
    let (lines, waiting) = mpsc::channel(8);
    lines.send(Bytes::from_static(b"{}")).await.unwrap();
    let began = Instant::now();
    let error = write(near, waiting, StdioSettings::default()).await.unwrap_err();
    assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, Duration::from_secs(60)));
}

#[tokio::test]
async fn the_end_of_a_subscription_names_the_id_as_it_came() {
    let (lines, mut waiting) = mpsc::channel(8);
    end_of_subscription(&lines, "\"a\"").await;
    let line = waiting.recv().await.unwrap();
    assert_eq!(line, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#);
}
