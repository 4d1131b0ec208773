//! Questions of a legacy upstream that a modern client is to be asked: collected while the call runs, handed out as
//! `inputRequests`, answered from `inputResponses` (protocol.md §5a).
//!
//! An exchange owns one; readers of the upstream add, the suspended call takes. Nothing here waits but [`Asks::asked`].

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::protocol::bridge;
use crate::protocol::code;
use crate::protocol::jsonrpc::OwnedId;
use crate::protocol::method::question;
use crate::protocol::object::{Object, ObjectWriter, is_object};
use crate::telemetry::metrics::label::QuestionOutcome;
use crate::upstream::question::Question;

/// Questions that one call may have open; more are refused to the upstream.
const OPEN_MAX: usize = 16;

/// The questions of one call.
#[derive(Debug, Default)]
pub struct Asks {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    given: u32,
    open: Vec<(Box<str>, Question)>,
    closed: bool,
}

impl Asks {
    /// One more question.
    pub fn add(&self, question: Question) {
        let mut state = self.lock();
        if state.closed || state.open.len() >= OPEN_MAX {
            drop(state);
            return question.replier.error(QuestionOutcome::Failed, code::INTERNAL_ERROR, "too many open questions");
        }
        state.given += 1;
        let key = format!("{}{}", initial(&question.method), state.given);
        state.open.push((key.into(), question));
        drop(state);
        self.wake.notify_one();
    }

    /// The upstream took its question back (`None`), or we give up and say why.
    pub fn withdraw(&self, id: &OwnedId, reason: Option<&str>) {
        let taken = {
            let mut state = self.lock();
            let at = state.open.iter().position(|(_, q)| q.replier.id() == id);
            at.map(|at| state.open.remove(at).1)
        };
        match (taken, reason) {
            (Some(q), Some(why)) => q.replier.error(QuestionOutcome::Timeout, code::INTERNAL_ERROR, why),
            (Some(q), None) => q.replier.forget(),
            (None, _) => {}
        }
    }

    /// Waits until a question is open. Cancel safe.
    pub async fn asked(&self) {
        loop {
            let woken = self.wake.notified();
            if !self.lock().open.is_empty() {
                return;
            }
            woken.await;
        }
    }

    /// Whether a question is open.
    pub fn is_open(&self) -> bool {
        !self.lock().open.is_empty()
    }

    /// JSON text of `inputRequests`: every open question under its key.
    pub fn requests(&self) -> String {
        let state = self.lock();
        let mut out = Vec::new();
        let mut w = ObjectWriter::begin(&mut out);
        for (key, question) in &state.open {
            let mut ask = ObjectWriter::begin(w.key(key));
            ask.string("method", &question.method);
            bridge::write_modern_params(ask.key("params"), &question.method, &question.params);
            ask.end();
        }
        w.end();
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Brings answers back. Keys that are not open are ignored; a malformed answer refuses all of them and changes
    /// nothing, so that the same state can be used again (protocol.md §5a rules 4 and 6).
    pub fn answer(&self, responses: &Object<'_>) -> Result<(), &'static str> {
        let answered = {
            let mut state = self.lock();
            for (key, question) in &state.open {
                if let Some(answer) = responses.get(key) {
                    check(&question.method, answer)?;
                }
            }
            let (answered, open) = std::mem::take(&mut state.open).into_iter().partition(|(key, _)| responses.has(key));
            state.open = open;
            answered
        };
        for (key, question) in answered {
            question.replier.result(responses.get(&key).unwrap_or("{}"));
        }
        Ok(())
    }

    /// The client will not come back: each question gets the answer that its kind has for that (protocol.md §5a rule 11).
    pub fn give_up(&self) {
        let open = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.open)
        };
        for (_, question) in open {
            let replier = question.replier;
            match question.method.as_ref() {
                question::ELICITATION => replier.result(r#"{"action":"cancel"}"#),
                question::SAMPLING => {
                    replier.error(QuestionOutcome::Timeout, code::USER_REJECTED, "the user did not respond");
                }
                _ => replier.error(QuestionOutcome::Timeout, code::INTERNAL_ERROR, "the client did not respond"),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn initial(method: &str) -> char {
    match method {
        question::ELICITATION => 'e',
        question::SAMPLING => 's',
        _ => 'r',
    }
}

/// Only the envelope is checked: what a form's answer holds is the asking server's business (protocol.md §5.0).
fn check(method: &str, answer: &str) -> Result<(), &'static str> {
    if !is_object(answer) {
        return Err("an input response is not an object");
    }
    let action = Object::parse(answer).ok().and_then(|a| a.string("action").map(std::borrow::Cow::into_owned));
    match (method, action.as_deref()) {
        (question::ELICITATION, Some("accept" | "decline" | "cancel")) => Ok(()),
        (question::ELICITATION, _) => Err("an elicitation response has no valid action"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use tokio::sync::mpsc;

    use super::*;
    use crate::protocol::jsonrpc::Id;
    use crate::upstream::question::testing::replier;

    fn ask(asks: &Asks, method: &str, id: &str) -> mpsc::Receiver<Bytes> {
        let (replier, answers) = replier(Id::parse(id).unwrap());
        asks.add(Question { method: method.into(), params: r#"{"message":"m"}"#.into(), fallback: None, replier });
        answers
    }

    #[tokio::test]
    async fn questions_have_keys_of_their_own_and_answers_find_them() {
        let asks = Arc::new(Asks::default());
        let mut first = ask(&asks, question::ELICITATION, "1");
        let mut second = ask(&asks, question::SAMPLING, "\"1\"");
        asks.asked().await;
        let requests = asks.requests();
        assert!(
            requests.starts_with(r#"{"e1":{"method":"elicitation/create","params":{"message":"m"}},"s2":{"#),
            "{requests}"
        );
        let answers = Object::parse(r#"{"e1":{"action":"accept","content":{"n":1.0}},"zz":{}}"#).unwrap();
        asks.answer(&answers).unwrap();
        assert_eq!(
            first.try_recv().unwrap(),
            r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"n":1.0}}}"#
        );
        assert!(second.try_recv().is_err() && asks.is_open(), "the other one is still open");
        assert!(asks.requests().starts_with(r#"{"s2":"#));
    }

    #[test]
    fn a_malformed_answer_changes_nothing() {
        let asks = Asks::default();
        let mut answers = ask(&asks, question::ELICITATION, "1");
        for bad in [r#"{"e1":7}"#, r#"{"e1":{}}"#, r#"{"e1":{"action":"maybe"}}"#] {
            assert!(asks.answer(&Object::parse(bad).unwrap()).is_err(), "{bad}");
        }
        assert!(answers.try_recv().is_err());
        asks.answer(&Object::parse(r#"{"e1":{"action":"decline"}}"#).unwrap()).unwrap();
        assert!(answers.try_recv().is_ok());
    }

    #[test]
    fn a_client_that_never_returns_answers_in_the_way_of_each_kind() {
        let asks = Asks::default();
        let (mut e, mut s, mut r) = (
            ask(&asks, question::ELICITATION, "1"),
            ask(&asks, question::SAMPLING, "2"),
            ask(&asks, question::ROOTS, "3"),
        );
        asks.give_up();
        let text = |rx: &mut mpsc::Receiver<Bytes>| String::from_utf8(rx.try_recv().unwrap().to_vec()).unwrap();
        assert!(text(&mut e).contains(r#""action":"cancel""#));
        assert!(text(&mut s).contains("-1,"));
        assert!(text(&mut r).contains("-32603"));
        let mut late = ask(&asks, question::ROOTS, "4");
        assert!(text(&mut late).contains("error"));
    }
}
