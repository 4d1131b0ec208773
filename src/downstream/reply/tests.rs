//! JSON or a stream, decided by what comes first: made by hand, on a paused clock.

use std::future::{Future, pending as forever};
use std::time::Duration;

use http_body_util::BodyExt as _;
use tokio_util::task::TaskTracker;

use super::super::pending::tests::pending;
use super::*;
use crate::gateway::Reply;
use crate::gateway::outlet::Outlet;

const BOTH: Accepts = Accepts { json: true, stream: true };

fn reply(era: Era, error: Option<i64>) -> Answer {
    Answer::Reply { era, reply: message(error), session: None }
}

fn message(error: Option<i64>) -> Reply {
    Reply { error, ..Reply::result(&b"{\"id\":1}"[..]) }
}

async fn respond_to(
    era: Era,
    accepts: Accepts,
    outlet: &Outlet,
    work: impl Future<Output = Answer> + Send + 'static,
) -> Response {
    respond(pending(era, outlet, &TaskTracker::new(), work), accepts, &Settings::default()).await
}

async fn read(response: Response) -> (u16, String, String) {
    let status = response.status().as_u16();
    let media = response.headers().get(CONTENT_TYPE).map_or("", |v| v.to_str().unwrap()).to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, media, String::from_utf8(body.to_vec()).unwrap())
}

#[test]
fn statuses_follow_era_and_code() {
    for (error, modern) in [
        (None, 200),
        (Some(-32601), 404),
        (Some(-32020), 400),
        (Some(-32021), 400),
        (Some(-32022), 400),
        (Some(-32602), 200),
        (Some(-32603), 200),
        (Some(-32002), 200),
    ] {
        assert_eq!(status(Era::Modern, &message(error)).as_u16(), modern, "{error:?}");
        assert_eq!(status(Era::Legacy, &message(error)).as_u16(), 200, "{error:?}");
    }
}

#[tokio::test]
async fn who_is_turned_away_reads_when_to_come_again() {
    for era in [Era::Modern, Era::Legacy] {
        let reply = Reply { turned_away: true, ..message(Some(-32603)) };
        let answer = Answer::Reply { era, reply, session: None };
        let response = respond_to(era, BOTH, &Outlet::new(), async { answer }).await;
        assert_eq!((response.status().as_u16(), &response.headers()[RETRY_AFTER]), (503, &HeaderValue::from(5)));
    }
}

#[tokio::test]
async fn an_answer_alone_is_json_with_its_status() {
    let outlet = Outlet::new();
    let response = respond_to(Era::Modern, BOTH, &outlet, async { reply(Era::Modern, Some(-32601)) }).await;
    assert_eq!(read(response).await, (404, "application/json".into(), "{\"id\":1}".into()));
}

#[tokio::test]
async fn messages_before_the_answer_make_a_stream_in_their_order() {
    let outlet = Outlet::new();
    let inner = outlet.clone();
    let work = async move {
        inner.send(Bytes::from_static(b"{\"p\":1}")).unwrap();
        tokio::task::yield_now().await;
        inner.send(Bytes::from_static(b"{\"p\":2}")).unwrap();
        reply(Era::Modern, Some(-32601))
    };
    let response = respond_to(Era::Modern, BOTH, &outlet, work).await;
    assert_eq!(response.headers()["cache-control"], "no-cache, no-transform");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    let (status, media, body) = read(response).await;
    assert_eq!((status, media.as_str()), (200, "text/event-stream"));
    assert_eq!(body, "data: {\"p\":1}\n\ndata: {\"p\":2}\n\ndata: {\"id\":1}\n\n");
}

#[tokio::test]
async fn a_message_sent_in_the_last_moment_is_not_lost() {
    let outlet = Outlet::new();
    let inner = outlet.clone();
    let work = async move {
        inner.send(Bytes::from_static(b"{\"p\":1}")).unwrap();
        reply(Era::Legacy, None)
    };
    let (_, _, body) = read(respond_to(Era::Legacy, BOTH, &outlet, work).await).await;
    assert_eq!(body, "data: {\"p\":1}\n\ndata: {\"id\":1}\n\n");
}

#[tokio::test(start_paused = true)]
async fn silence_makes_a_stream_that_is_kept_alive() {
    let began = tokio::time::Instant::now();
    let response = respond_to(Era::Legacy, BOTH, &Outlet::new(), async {
        tokio::time::sleep(Duration::from_secs(40)).await;
        reply(Era::Legacy, None)
    })
    .await;
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    let (_, _, body) = read(response).await;
    assert_eq!(body, ":\n\n:\n\n:\n\ndata: {\"id\":1}\n\n");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_json_only_waits_for_its_answer() {
    let accepts = Accepts { json: true, stream: false };
    let outlet = Outlet::new();
    let inner = outlet.clone();
    let response = respond_to(Era::Legacy, accepts, &outlet, async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!inner.offer(Bytes::from_static(b"{}")));
        reply(Era::Legacy, None)
    })
    .await;
    assert_eq!(read(response).await.1, "application/json");
}

#[tokio::test]
async fn a_peer_that_reads_streams_only_gets_its_answer_as_one_event() {
    let accepts = Accepts { json: false, stream: true };
    let response = respond_to(Era::Modern, accepts, &Outlet::new(), async { reply(Era::Modern, None) }).await;
    assert_eq!(read(response).await, (200, "text/event-stream".into(), "data: {\"id\":1}\n\n".into()));
}

#[tokio::test]
async fn a_withdrawn_request_gets_a_stream_that_just_ends() {
    let response = respond_to(Era::Legacy, BOTH, &Outlet::new(), async { Answer::Withdrawn }).await;
    assert_eq!(read(response).await, (200, "text/event-stream".into(), String::new()));
}

#[tokio::test]
async fn an_overflowing_stream_ends_and_its_legacy_exchange_goes_on() {
    let outlet = Outlet::new();
    let orphans = TaskTracker::new();
    let inner = outlet.clone();
    let work = async move {
        while inner.send(Bytes::from_static(b"{}")).is_ok() {}
        forever().await
    };
    let pending = pending(Era::Legacy, &outlet, &orphans, work);
    let metrics = std::sync::Arc::clone(pending.metrics());
    let response = respond(pending, BOTH, &Settings::default()).await;
    assert_eq!(read(response).await.2, "");
    assert_eq!(orphans.len(), 1);
    let page = metrics.render();
    for line in [r#"manifold_slow_streams_total{kind="answer"} 1"#, r#"manifold_streams{kind="answer"} 0"#] {
        assert!(page.lines().any(|l| l == line), "{line} is not in\n{page}");
    }
}

#[test]
fn refusals_carry_the_headers_of_their_status() {
    let refusal = |status| Refusal::new(status, -32600, "x", "x");
    assert_eq!(refused(&refusal(StatusCode::METHOD_NOT_ALLOWED), None).headers()[ALLOW], "POST, GET, DELETE");
    assert_eq!(refused(&refusal(StatusCode::SERVICE_UNAVAILABLE), None).headers()[RETRY_AFTER], "5");
}
