//! When an upstream wants input: the four ways between its era and the client's (protocol.md §5.0).
//!
//! | client \\ upstream | legacy asks during the call | modern answers `input_required` |
//! |---|---|---|
//! | modern | the call is suspended ([`Gateway::suspend`]) | passed on, its state sealed ([`Gateway::pass_questions`]) |
//! | legacy | through its session (`exchange`) | asked and called again ([`Gateway::next_round`]) |

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use tokio::time::sleep;

use super::answer;
use super::error::GatewayError;
use super::exchange::refusal;
use super::rounds::{self, Retry};
use super::service::{Call, Ended};
use super::session::Session;
use super::state::{Binding, Held, digest};
use super::suspended::Attached;
use super::{Gateway, Peer, Reply};
use crate::protocol::object::{Object, ObjectWriter, is_object};
use crate::protocol::revision::Era;
use crate::telemetry::metrics::label;
use crate::upstream::error::CallError;

impl Gateway {
    /// A modern client's request may bring answers and a state back. A state that is not ours, or not for this request,
    /// is refused, and nothing runs.
    pub(super) fn take_back(&self, call: &mut Call<'_, '_>) -> Result<(), GatewayError> {
        let responses = match call.params.get("inputResponses") {
            None => Object::default(),
            Some(raw) => answers(raw).ok_or(GatewayError::Params("inputResponses is not an object of objects"))?,
        };
        if !call.params.has("requestState") {
            return Ok(());
        }
        let text = call.params.string("requestState").ok_or(GatewayError::State)?;
        match self.0.sealer.open(&text, &binding(call), self.seconds()).map_err(|_| GatewayError::State)? {
            Held::Upstream(state) => call.retry.state = Some(state),
            Held::Call { key, round } => {
                let attached = self.0.suspended.attach(key, round).map_err(|_| GatewayError::State)?;
                if let Err(wrong) = attached.exchange().asks.answer(&responses) {
                    attached.step_back();
                    return Err(GatewayError::Params(wrong));
                }
                attached.exchange().continue_on(&call.exchange);
                call.resumed = Some(attached);
            }
        }
        Ok(())
    }

    /// A legacy upstream asked during the call of a modern client: the client gets the questions, and comes back.
    pub(super) fn suspend(&self, call: &Call<'_, '_>, attached: Attached) -> Result<Ended, GatewayError> {
        let requests = attached.exchange().asks.requests();
        let mut text = Vec::new();
        let mut w = ObjectWriter::begin(&mut text);
        w.string("resultType", "input_required");
        w.raw("inputRequests", &requests);
        w.end();
        let text = String::from_utf8_lossy(&text).into_owned();
        let result = Object::parse(&text).unwrap_or_default();
        let (key, round) = attached.leave();
        let sealed = self.0.sealer.seal(binding(call), Held::Call { key, round }, self.seconds());
        let state = sealed.map_err(|_| GatewayError::State)?;
        let text = answer::write_result(&result, self.wanted(call, Era::Modern), Some(&state));
        Ok(Ended { reply: Reply::result(text), outcome: label::Outcome::Ok })
    }

    /// A modern upstream wants input, and so does the client get to read it: the questions as they are, our seal on the state.
    pub(super) fn pass_questions(&self, call: &Call<'_, '_>, result: &Object<'_>) -> Result<Ended, GatewayError> {
        let broken = |what| GatewayError::upstream(call.route.source.name.as_str(), CallError::Violation(what));
        let Peer::Modern(peer) = &call.caller.peer else { return Err(GatewayError::Method) };
        let (asks, state) = rounds::read(result).ok_or_else(|| broken("its input_required is malformed"))?;
        if !call.method.may_ask() {
            return Err(broken("it asks for input where it must not"));
        }
        let allowed = |ask: &str| {
            let ask = Object::parse(ask).unwrap_or_default();
            let method = ask.string("method").unwrap_or_default();
            refusal(&peer.capabilities, &method, ask.get("params").unwrap_or("{}")).is_none()
        };
        if !asks.iter().all(|(_, ask)| allowed(ask)) {
            return Err(broken("it asks for input that the client did not offer"));
        }
        let sealed = state.map(|state| self.0.sealer.seal(binding(call), Held::Upstream(state), self.seconds()));
        let sealed = sealed.transpose().map_err(|_| broken("its requestState is too long"))?;
        let text = answer::write_result(result, self.wanted(call, Era::Modern), sealed.as_deref());
        Ok(Ended { reply: Reply::result(text), outcome: label::Outcome::Ok })
    }

    /// A modern upstream wants input from a legacy client: ask it, and keep the answers for the next leg.
    pub(super) async fn next_round(
        &self,
        call: &mut Call<'_, '_>,
        session: &Arc<Session>,
        result: &Object<'_>,
    ) -> Result<(), GatewayError> {
        let server = call.route.source.name.as_str();
        let broken = |what| GatewayError::upstream(server, CallError::Violation(what));
        let (asks, state) = rounds::read(result).ok_or_else(|| broken("its input_required is malformed"))?;
        if !call.method.may_ask() {
            return Err(broken("it asks for input where it must not"));
        }
        if asks.is_empty() {
            if call.waits >= rounds::WAITS_MAX {
                return Err(broken("it never stops asking to be called again"));
            }
            sleep(rounds::wait_before(call.waits)).await;
            call.waits += 1;
            call.retry = Retry { responses: None, state };
            return Ok(());
        }
        if call.rounds >= rounds::ROUNDS_MAX {
            return Err(broken("it asks for input again and again"));
        }
        call.rounds += 1;
        let patience = call.handle.config().timeouts.user_input;
        let asked = rounds::ask(session, &call.exchange, &asks, patience).await;
        let responses = asked.map_err(|_| GatewayError::InputNotSupported { server: server.to_owned() })?;
        call.retry = Retry { responses: Some(responses), state };
        Ok(())
    }

    /// The clock of sealed states. One that is set to before 1970 stands still.
    fn seconds(&self) -> u64 {
        (self.0.wall)().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}

fn binding(call: &Call<'_, '_>) -> Binding {
    Binding {
        server: call.route.source.name.to_string(),
        principal: call.caller.principal.as_str().to_owned(),
        method: call.method.as_str().to_owned(),
        target: call.route.original.to_string(),
        digest: digest(call.method, call.params),
    }
}

/// `inputResponses`, which is an object of objects; nothing else about it is ours to judge.
fn answers(raw: &str) -> Option<Object<'_>> {
    Object::parse(raw).ok().filter(|all| all.iter().all(|(_, answer)| is_object(answer)))
}
