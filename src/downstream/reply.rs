//! The one place where an answer becomes an HTTP response: its status, its headers, and JSON or a stream, chosen late.
//!
//! `endpoint` calls it with the running exchange. Until something forces the choice no header is sent, so that an error
//! still gets its status (protocol.md §3.6): the answer makes it JSON, a message before it or a long silence a stream.

use std::pin::pin;

use axum::body::Body;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;

use super::guard::Accepts;
use super::pending::{Answer, Pending};
use super::record::Outcome;
use super::settings::Settings;
use super::stream::Events;
use crate::gateway::{COME_AGAIN, Reply};
use crate::protocol::classify::Refusal;
use crate::protocol::code;
use crate::protocol::header::MCP_SESSION_ID;
use crate::protocol::revision::Era;

const FOR_A_PERSON: &str = "This is an MCP endpoint: programs speak to it, browsers do not.\n\
    Give the address of /mcp here to an MCP host (an assistant, an editor, an agent) as a server of type HTTP.\n\
    People have a page at the admin listener, whose address the gateway says when it starts.\n";

/// The status of a JSON-RPC reply. Who is turned away reads it in either era (protocol.md §11). Otherwise: legacy
/// clients read 400 and 404 as news about their transport or session, so for them an error rides on 200; modern ones
/// have statuses for four codes, and every other error is content.
pub fn status(era: Era, reply: &Reply) -> StatusCode {
    match (era, reply.error) {
        _ if reply.turned_away => StatusCode::SERVICE_UNAVAILABLE,
        (Era::Modern, Some(code::METHOD_NOT_FOUND)) => StatusCode::NOT_FOUND,
        (Era::Modern, Some(code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION)) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}

/// Answers as soon as the form is decided.
pub async fn respond(mut pending: Pending, accepts: Accepts, settings: &Settings) -> Response {
    let outlet = pending.outlet().clone();
    if !accepts.stream {
        // Nothing can be told before the answer, so nobody should wait for a question to be answered.
        outlet.close();
    }
    let mut silence = pin!(tokio::time::sleep(settings.undecided));
    let mut is_silent = false;
    loop {
        tokio::select! {
            biased;
            answer = &mut pending => {
                return match outlet.try_next().filter(|_| accepts.stream) {
                    Some(first) => stream(Events::finished(pending, first, answer, settings.keep_alive)),
                    None => finished(&pending, answer, accepts),
                };
            }
            first = outlet.next(), if accepts.stream => {
                return stream(Events::running(pending, first, settings.keep_alive));
            }
            () = &mut silence, if accepts.stream && !is_silent => {
                is_silent = true;
                if pending.standing().is_none_or(|s| s.may_stream) {
                    return stream(Events::running(pending, Some(Bytes::new()), settings.keep_alive));
                }
            }
        }
    }
}

fn finished(pending: &Pending, answer: Answer, accepts: Accepts) -> Response {
    let outcome = Outcome::from(&answer);
    let response = match answer {
        Answer::Reply { era, reply, session } => {
            let mut response = match status(era, &reply) {
                StatusCode::OK => message(reply.text, accepts),
                status => json(status, reply.text),
            };
            if let Some(id) = session.and_then(|id| HeaderValue::from_str(&id).ok()) {
                response.headers_mut().insert(MCP_SESSION_ID, id);
            }
            response
        }
        Answer::Batch(text) => message(text, accepts),
        Answer::Refused { refusal, id } => refused(&refusal, id.as_deref()),
        Answer::Accepted => bare(StatusCode::ACCEPTED),
        // The peer asked that nothing be answered: a stream that ends (protocol.md §3.10).
        Answer::Withdrawn => event_stream(Body::empty()),
    };
    pending.record(response.status(), outcome);
    response
}

/// A message with 200, in a form that the peer reads.
fn message(text: Bytes, accepts: Accepts) -> Response {
    if accepts.json { json(StatusCode::OK, text) } else { event_stream(super::stream::only(&text).into()) }
}

/// A refusal, with the headers that belong to its status.
pub fn refused(refusal: &Refusal, id: Option<&str>) -> Response {
    let mut response = json(refusal.status, refusal.body(id).into());
    if refusal.status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    }
    response
}

/// What somebody reads who opened the listener in a browser. That a session or a media type is missing is no news to a
/// person; that the address is wrong is.
pub fn for_a_person(refusal: &Refusal) -> Response {
    let text = match refusal.status {
        StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => format!("{}\n\n{FOR_A_PERSON}", refusal.message.trim_end()),
        _ => FOR_A_PERSON.to_owned(),
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = refusal.status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// A response of events that go out as they come.
pub fn stream(events: Events) -> Response {
    event_stream(events.into_body())
}

/// A response without a body.
pub fn bare(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn json(status: StatusCode, text: Bytes) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        headers.insert(RETRY_AFTER, HeaderValue::from(COME_AGAIN.as_secs()));
    }
    response
}

/// A response of events.
pub fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Some proxies hold back streams that do not say this.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests;
