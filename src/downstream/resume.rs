//! GET with `Last-Event-ID`: a stream that broke is read on.
//!
//! `endpoint` calls it. The standalone stream goes on as it was; the stream of a request is read from what its exchange
//! keeps (`pending`), until its answer. Rules: protocol.md §3.9.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;

use super::replay::{EventId, Resumed};
use super::session::Visit;
use super::stream::missed;
use crate::protocol::classify::Refusal;
use crate::protocol::framing::sse;
use crate::telemetry::metrics::Held;

/// The state of a request's stream that is read on.
pub struct Reading {
    pub resumed: Resumed,
    /// The newest event that this connection has.
    pub seen: EventId,
    /// Held so that the session is not idle meanwhile.
    pub visit: Visit,
    pub keep_alive: Duration,
    /// Counts it as open.
    pub _open: Held,
}

impl Reading {
    /// As a body.
    pub fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(self, |mut reading| async move {
            let frame = reading.next().await?;
            Some((Ok::<_, Infallible>(Bytes::from(frame)), reading))
        }))
    }

    async fn next(&mut self) -> Option<Vec<u8>> {
        let track = &self.resumed.track;
        loop {
            let grown = track.grown();
            let unseen = track.after(self.seen)?;
            if let Some((newest, _)) = unseen.events.last() {
                self.seen = *newest;
                return Some(missed(&unseen.events));
            }
            if unseen.is_over {
                return None;
            }
            tokio::select! {
                biased;
                // First, so that an answer still goes out when its session ends right after it.
                () = grown => {}
                () = self.visit.session().ended.cancelled() => return None,
                () = track.taken.cancelled() => return None,
                () = tokio::time::sleep(self.keep_alive) => {
                    let mut out = Vec::new();
                    sse::comment_among_ids(&mut out);
                    return Some(out);
                }
            }
        }
    }
}

/// The event is unknown, or what came after it is not kept any more.
pub fn unavailable() -> Refusal {
    Refusal::invalid(
        "last_event_id",
        "the event of Last-Event-ID is no longer available; open the stream without it, and send again what was not answered",
    )
}
