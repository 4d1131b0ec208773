//! A modern upstream wants input and the client is a legacy one: the gateway asks it, and calls again with the answers
//! (protocol.md §5b).
//!
//! The service drives the rounds; this module turns one `input_required` result into questions on the session's stream,
//! and the answers into `inputResponses`.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::exchange::{Exchange, refusal};
use super::session::Session;
use crate::protocol::bridge;
use crate::protocol::jsonrpc::{self, Id, Message, Outcome, Reading};
use crate::protocol::method::question;
use crate::protocol::object::{Object, ObjectWriter};
use crate::upstream::question::{Question, Replier};

/// Rounds with questions for one call.
pub const ROUNDS_MAX: u32 = 10;
/// Rounds without questions, where the upstream only wants to be called again.
pub const WAITS_MAX: u32 = 60;
/// First and longest wait before such a round.
const WAIT_MIN: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What the next leg of a call carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// JSON text of `inputResponses`, where questions were answered.
    pub responses: Option<String>,
    /// The upstream's `requestState`, byte for byte; none where it sent none.
    pub state: Option<String>,
}

/// The client cannot be asked, did not answer in time, or answered with an error that has no modern form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client could not give the input that the server wants")]
pub struct NoInput;

/// Takes a result apart; `None` where it is not as the specification wants it.
pub fn read<'a>(result: &Object<'a>) -> Option<(Object<'a>, Option<String>)> {
    let state = match result.get_some("requestState") {
        Some(_) => Some(result.string("requestState")?.into_owned()),
        None => None,
    };
    let asks = match result.get_some("inputRequests") {
        Some(raw) => Object::parse(raw).ok()?,
        None if state.is_some() => Object::default(),
        None => return None,
    };
    Some((asks, state))
}

/// How long to wait before round `n` of those without questions, from 0.
pub fn wait_before(n: u32) -> Duration {
    WAIT_MIN.saturating_mul(1 << n.min(8)).min(WAIT_MAX)
}

/// Asks everything of one round at once, on the stream of the exchange, and waits for all answers.
pub async fn ask(
    session: &Session,
    exchange: &Exchange,
    asks: &Object<'_>,
    patience: Duration,
) -> Result<String, NoInput> {
    let parsed: Vec<(&str, String, &str)> = asks.iter().filter_map(|(key, ask)| parse(key, ask)).collect();
    if parsed.len() != asks.iter().count() {
        return Err(NoInput);
    }
    // Checked before anything is asked: half a set of answers helps nobody.
    if parsed.iter().any(|(_, method, params)| refusal(&session.capabilities, method, params).is_some()) {
        return Err(NoInput);
    }
    let (answers, mut answered) = mpsc::channel(parsed.len().max(1));
    let mut open = Open { session, numbers: Vec::with_capacity(parsed.len()) };
    for (key, method, params) in &parsed {
        let mut text = Vec::new();
        bridge::write_legacy_params(&mut text, method, params, None);
        let question = Question {
            method: method.as_str().into(),
            params: String::from_utf8_lossy(&text).into(),
            fallback: None,
            replier: Replier::of_ours(key, answers.clone()),
        };
        open.numbers.push(session.ask(question, &exchange.outlet()).ok_or(NoInput)?);
    }
    drop(answers);
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    for _ in 0..parsed.len() {
        let text = timeout(patience, answered.recv()).await.ok().flatten().ok_or(NoInput)?;
        let (key, answer) = response(&text, &parsed)?;
        w.raw(&key, &answer);
    }
    w.end();
    open.numbers.clear();
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn parse<'a>(key: &'a str, ask: &'a str) -> Option<(&'a str, String, &'a str)> {
    let ask = Object::parse(ask).ok()?;
    let method = ask.string("method")?.into_owned();
    Some((key, method, ask.get("params").unwrap_or("{}")))
}

/// One answer: its key and the JSON text of the input response.
fn response(text: &Bytes, asked: &[(&str, String, &str)]) -> Result<(String, String), NoInput> {
    let utf8 = std::str::from_utf8(text).map_err(|_| NoInput)?;
    let Ok(Message::Response(response)) = jsonrpc::parse(utf8, Reading::Strict) else { return Err(NoInput) };
    let id = response.id.map(Id::as_raw).and_then(crate::protocol::object::string).ok_or(NoInput)?;
    let (key, method, _) = asked.iter().find(|(key, ..)| *key == id).ok_or(NoInput)?;
    match response.outcome {
        Outcome::Result(result) => {
            let mut out = Vec::new();
            let mut w = ObjectWriter::begin(&mut out);
            // An elicitation's answer has no metadata in the modern era.
            let keep = |name: &str| name != "_meta" || method != question::ELICITATION;
            result.iter().filter(|(name, _)| keep(name)).for_each(|(name, value)| w.raw(name, value));
            w.end();
            Ok(((*key).to_owned(), String::from_utf8_lossy(&out).into_owned()))
        }
        // The modern era has no error in an input response; for a form, "cancel" says the same (protocol.md §5b rule 6).
        Outcome::Error(_) if method == question::ELICITATION => {
            Ok(((*key).to_owned(), r#"{"action":"cancel"}"#.to_owned()))
        }
        Outcome::Error(_) => Err(NoInput),
    }
}

/// Questions of a round; what is still open when it is dropped is taken back at the client.
struct Open<'s> {
    session: &'s Session,
    numbers: Vec<u64>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        for number in self.numbers.drain(..) {
            self.session.withdraw(number, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_needs_questions_or_a_state() {
        let of = |text: &str| read(&Object::parse(text).unwrap()).map(|(asks, state)| (asks.iter().count(), state));
        assert_eq!(of(r#"{"inputRequests":{"a":{}},"requestState":"S"}"#), Some((1, Some("S".into()))));
        assert_eq!(of(r#"{"requestState":"S"}"#), Some((0, Some("S".into()))));
        assert_eq!(of(r#"{"inputRequests":{"a":{}}}"#), Some((1, None)));
        for bad in [r"{}", r#"{"requestState":7}"#, r#"{"inputRequests":[]}"#] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn waits_double_to_a_cap() {
        let waits: Vec<u128> = (0..7).map(|n| wait_before(n).as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 5000, 5000]);
    }

    #[test]
    fn an_error_to_a_form_is_a_cancel_and_to_others_the_end() {
        let asked = [("k\"1", question::ELICITATION.to_owned(), "{}"), ("s", question::SAMPLING.to_owned(), "{}")];
        let of = |text: &str| response(&Bytes::from(text.to_owned()), &asked);
        assert_eq!(
            of(r#"{"jsonrpc":"2.0","id":"k\"1","error":{"code":-1,"message":""}}"#),
            Ok(("k\"1".into(), r#"{"action":"cancel"}"#.into()))
        );
        assert_eq!(
            of(r#"{"jsonrpc":"2.0","id":"k\"1","result":{"action":"accept","_meta":{},"content":{"n":1.0}}}"#),
            Ok(("k\"1".into(), r#"{"action":"accept","content":{"n":1.0}}"#.into()))
        );
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":"s","error":{"code":-1,"message":""}}"#), Err(NoInput));
    }
}
