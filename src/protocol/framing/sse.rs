//! Event streams: how both HTTP transports carry more than one message in an answer.
//!
//! The upstream HTTP transports read with [`EventDecoder`]; the downstream edge writes with the
//! functions below. The decoder follows the WHATWG algorithm, with two differences that MCP needs:
//! an event without a `data` line is still reported when it carries an `id` or a `retry`, and an
//! event above the limit is reported and skipped.
//!
//! Rules: <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>
//! and <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports>.

use bytes::{Buf, Bytes};
use memchr::{memchr, memchr2};

use super::{BOM, Partial, push_on_one_line};

/// One event of a stream, with what it changes about resuming.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The event's type; `None` means `message`, the default.
    pub event: Option<String>,
    /// The data lines joined with `\n`, as the bytes that came. `None` without a data line (such an
    /// event delivers nothing), `Some` and empty for a priming event.
    pub data: Option<Bytes>,
    /// The new last event id. `Some` and empty clears it; `None` leaves it as it was.
    pub id: Option<String>,
    /// The new reconnection delay in milliseconds; the caller caps it.
    pub retry_ms: Option<u64>,
}

impl Event {
    fn is_worth_reporting(&self) -> bool {
        self.data.is_some() || self.id.is_some() || self.retry_ms.is_some()
    }
}

/// An event that could not be handed over. The decoder goes on with the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// Reported once an event, as soon as it is certain, before the event has ended.
    #[error("an event of the stream is longer than the limit of {limit} bytes")]
    TooLong {
        /// Bytes the lines of an event may have together, line ends and comments not counted.
        limit: usize,
    },
}

/// The data lines so far. Most events have one, which is then never copied.
#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    One(Bytes),
    Joined(Vec<u8>),
}

impl Data {
    fn push(&mut self, line: Bytes) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(line),
            Self::One(first) => {
                let mut joined = Vec::with_capacity(first.len() + 1 + line.len());
                joined.extend_from_slice(&first);
                Self::join(joined, &line)
            }
            Self::Joined(joined) => Self::join(joined, &line),
        };
    }

    fn join(mut joined: Vec<u8>, line: &[u8]) -> Self {
        joined.push(b'\n');
        joined.extend_from_slice(line);
        Self::Joined(joined)
    }

    fn take(&mut self) -> Option<Bytes> {
        match std::mem::take(self) {
            Self::None => None,
            Self::One(line) => Some(line),
            Self::Joined(joined) => Some(Bytes::from(joined)),
        }
    }
}

/// Incremental decoder of an event stream.
///
/// LF, CRLF and CR end a line at any chunk boundary; a byte order mark at the very start is dropped.
/// As WHATWG demands, an event that the end of the stream cut short is not delivered.
#[derive(Debug)]
pub struct EventDecoder {
    limit: usize,
    partial: Partial,
    first: bool,
    after_cr: bool,
    skip: Skip,
    held: usize,
    event: Event,
    data: Data,
}

/// Whether an event above the limit is being skipped, and if so, whether the current line has
/// bytes: only an empty line ends the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skip {
    No,
    Event { line_has_bytes: bool },
}

impl EventDecoder {
    /// A decoder of events whose lines have at most `limit` bytes together.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            partial: Partial::default(),
            first: true,
            after_cr: false,
            skip: Skip::No,
            held: 0,
            event: Event::default(),
            data: Data::None,
        }
    }

    /// Takes the next event off the front of `input`; `None` when `input` is used up.
    ///
    /// # Errors
    /// [`SseError::TooLong`] once for each event above the limit; keep calling.
    pub fn decode(&mut self, input: &mut Bytes) -> Option<Result<Event, SseError>> {
        while !input.is_empty() {
            if std::mem::replace(&mut self.after_cr, false) && input.starts_with(b"\n") {
                input.advance(1);
                continue;
            }
            let item = match memchr2(b'\r', b'\n', input) {
                Some(end) => {
                    let rest = input.split_to(end);
                    self.after_cr = input.starts_with(b"\r");
                    input.advance(1);
                    self.close_line(rest)
                }
                None => self.keep(&std::mem::take(input)),
            };
            if item.is_some() {
                return item;
            }
        }
        None
    }

    /// Whether the stream, if it ended now, would have lost the beginning of an event.
    pub fn is_mid_event(&self) -> bool {
        self.partial.len() > 0 || self.held > 0 || self.skip != Skip::No
    }

    fn keep(&mut self, bytes: &[u8]) -> Option<Result<Event, SseError>> {
        if let Skip::Event { line_has_bytes } = &mut self.skip {
            *line_has_bytes = true;
            return None;
        }
        let length = self.held.saturating_add(self.partial.len() + bytes.len());
        if length > self.limit.saturating_add(BOM.len()) {
            return Some(Err(self.give_up(true)));
        }
        self.partial.keep(bytes);
        None
    }

    fn close_line(&mut self, rest: Bytes) -> Option<Result<Event, SseError>> {
        let first = std::mem::replace(&mut self.first, false);
        if let Skip::Event { line_has_bytes } = self.skip {
            let ends_event = !line_has_bytes && rest.is_empty();
            self.skip = if ends_event { Skip::No } else { Skip::Event { line_has_bytes: false } };
            return None;
        }
        let mut line = self.partial.complete(rest);
        if first && line.starts_with(BOM) {
            line.advance(BOM.len());
        }
        if line.is_empty() {
            return self.close_event().map(Ok);
        }
        if self.held.saturating_add(line.len()) > self.limit {
            return Some(Err(self.give_up(false)));
        }
        if line[0] != b':' {
            self.held += line.len();
            self.field(line);
        }
        None
    }

    fn field(&mut self, line: Bytes) {
        let (name, value) = match memchr(b':', &line) {
            Some(colon) => {
                let space = usize::from(line.get(colon + 1) == Some(&b' '));
                (&line[..colon], line.slice(colon + 1 + space..))
            }
            None => (&line[..], Bytes::new()),
        };
        match name {
            b"data" => self.data.push(value),
            b"event" => self.event.event = (!value.is_empty()).then(|| text(&value)),
            b"id" if memchr(0, &value).is_none() => self.event.id = Some(text(&value)),
            b"retry" => self.event.retry_ms = milliseconds(&value).or(self.event.retry_ms),
            _ => {}
        }
    }

    fn close_event(&mut self) -> Option<Event> {
        self.held = 0;
        let mut event = std::mem::take(&mut self.event);
        event.data = self.data.take();
        event.is_worth_reporting().then_some(event)
    }

    fn give_up(&mut self, line_has_bytes: bool) -> SseError {
        self.partial.forget();
        self.held = 0;
        self.event = Event::default();
        self.data = Data::None;
        self.skip = Skip::Event { line_has_bytes };
        SseError::TooLong { limit: self.limit }
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// A number that does not fit is as good as no number: the caller's own delay stays.
fn milliseconds(value: &[u8]) -> Option<u64> {
    if !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Appends one message as an event on one `data` line, after an `id` line when there is an id
/// (sessions that can resume; modern streams have none). The event type is the default, `message`.
pub fn event(out: &mut Vec<u8>, id: Option<&str>, json: &[u8]) {
    out.reserve(json.len() + id.map_or(0, str::len) + 16);
    if let Some(id) = id {
        field_line(out, b"id: ", id.as_bytes());
    }
    field_line(out, b"data: ", json);
    out.push(b'\n');
}

/// Appends a priming event: an id to resume from and an empty `data` line, with the reconnection
/// delay when the stream is about to be closed on purpose. Only for sessions at 2025-11-25: older
/// readers parse the empty data as JSON.
pub fn priming(out: &mut Vec<u8>, id: &str, retry_ms: Option<u64>) {
    field_line(out, b"id: ", id.as_bytes());
    if let Some(delay) = retry_ms {
        field_line(out, b"retry: ", delay.to_string().as_bytes());
    }
    field_line(out, b"data: ", b"");
    out.push(b'\n');
}

/// Appends a comment: keeps an idle stream alive and is nothing to its reader.
pub fn comment(out: &mut Vec<u8>) {
    out.extend_from_slice(b":\n\n");
}

/// The same on a stream whose events have ids: some readers (httpx-sse) take the empty line after a comment for an event
/// without data once they have seen an id.
pub fn comment_among_ids(out: &mut Vec<u8>) {
    out.extend_from_slice(b":\n");
}

/// Appends an event that only sets the reader's reconnection delay, in milliseconds.
pub fn retry(out: &mut Vec<u8>, delay_ms: u64) {
    field_line(out, b"retry: ", delay_ms.to_string().as_bytes());
    out.push(b'\n');
}

fn field_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    push_on_one_line(out, value);
    out.push(b'\n');
}

#[cfg(test)]
mod tests;
