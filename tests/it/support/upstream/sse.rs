//! The deprecated HTTP+SSE transport: one stream per session, which the `endpoint` event opens; every answer comes on it.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, Response};
use tokio::sync::mpsc;

use super::engine::Engine;
use super::message::{Frame, Leg};
use super::{http, web};

/// `GET /base/sse` is the stream; a POST to whatever address the script announced, with `sid` in its query, is a message.
pub fn router(engine: Arc<Engine>) -> Router {
    Router::new().fallback(handle).with_state(engine)
}

async fn handle(State(engine): State<Arc<Engine>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let text = http::read(body).await;
    let session = sid(head.uri.query().unwrap_or_default()).to_owned();
    engine.record(http::record(&session, &head.method, &head.headers, &text));
    match (head.method, head.uri.path()) {
        (Method::GET, "/base/sse") => open(&engine),
        // Beside the stream's own directory there is nothing, so a wrongly resolved endpoint shows.
        (Method::POST, path) if path.starts_with("/base/") && path != "/base/sse" => match engine.stream_of(&session) {
            Some(leg) => {
                engine.spawn(text, leg);
                http::status(202, "Accepted".into())
            }
            None => http::status(404, String::new()),
        },
        (_, "/base/sse") => http::status(405, String::new()),
        _ => http::status(404, String::new()),
    }
}

fn open(engine: &Arc<Engine>) -> Response<Body> {
    let script = engine.script();
    let session = format!("sse-{}", engine.serial());
    let endpoint = script.http.endpoint.replace("{sid}", &session);
    let (out, frames) = mpsc::channel(64);
    engine.open_stream(Leg { from: session, out });
    let first = Frame::Noise(format!("event: endpoint\ndata: {endpoint}\n"));
    web::events(engine, vec![first], frames, Some("message"))
}

fn sid(query: &str) -> &str {
    query.split('&').find_map(|pair| pair.strip_prefix("sid=")).unwrap_or_default()
}
