//! `requestState` towards modern clients: an upstream's own state, sealed so that only the same caller can bring it
//! back, for the same request, in time (protocol.md §5c).
//!
//! The service seals when a modern upstream wants input and opens on the retry; nothing is remembered in between. Whatever
//! does not open is refused and never runs anything.

use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::protocol::method::Method;
use crate::protocol::object::Object;

/// Longest state taken from an upstream, in bytes.
pub const STATE_FROM_UPSTREAM_MAX: usize = 48 * 1024;
/// Longest state taken from a client, in characters.
pub const STATE_FROM_DOWNSTREAM_MAX: usize = 96 * 1024;
/// How long a state may be brought back. The upstream has a limit of its own.
pub const STATE_TTL: Duration = Duration::from_secs(3600);

const NONCE_LEN: usize = 12;

/// What a state is bound to: all of it must match on the retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The upstream that asked.
    pub server: String,
    /// Who called.
    pub principal: String,
    /// What was called.
    pub method: String,
    /// On which tool, prompt or resource, by its original name.
    pub target: String,
    /// [`digest`] of the parameters.
    pub digest: String,
}

/// What a state stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Held {
    /// A modern upstream's own `requestState`, byte for byte.
    Upstream(String),
    /// A call that this gateway holds open.
    Call {
        /// Its key in the table of suspended calls; no other process has one like it.
        key: u64,
        /// The round that the client was given.
        round: u32,
    },
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    binding: Binding,
    held: Held,
    expires: u64,
}

/// A key of a [`Sealer`].
pub type SealingKey = [u8; 32];

/// Seals and opens states.
pub struct Sealer {
    first: RandomizedNonceKey,
    older: Vec<RandomizedNonceKey>,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer(****)")
    }
}

/// The state does not open, or not for this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state is not valid for this request")]
pub struct Invalid;

impl Sealer {
    /// `first` seals; it and the `older` ones open, so that a key can be replaced while states of the last hour are out.
    pub fn new(first: &SealingKey, older: &[SealingKey]) -> Result<Self, Invalid> {
        let ready = |key: &SealingKey| RandomizedNonceKey::new(&AES_256_GCM_SIV, key).map_err(|_| Invalid);
        Ok(Self { first: ready(first)?, older: older.iter().map(ready).collect::<Result<_, _>>()? })
    }

    /// Seals a state until `now` + [`STATE_TTL`]; `now` is in seconds of the clock that whoever opens it has too:
    /// this process after a restart, or another instance.
    pub fn seal(&self, binding: Binding, held: Held, now: u64) -> Result<String, Invalid> {
        if matches!(&held, Held::Upstream(state) if state.len() > STATE_FROM_UPSTREAM_MAX) {
            return Err(Invalid);
        }
        let sealed = Sealed { binding, held, expires: now + STATE_TTL.as_secs() };
        let mut text = serde_json::to_vec(&sealed).map_err(|_| Invalid)?;
        let nonce = self.first.seal_in_place_append_tag(Aad::empty(), &mut text).map_err(|_| Invalid)?;
        let mut out = nonce.as_ref().to_vec();
        out.extend_from_slice(&text);
        Ok(URL_SAFE_NO_PAD.encode(out))
    }

    /// What was sealed, if `text` was sealed here for the same binding and is still in time.
    pub fn open(&self, text: &str, binding: &Binding, now: u64) -> Result<Held, Invalid> {
        if text.len() > STATE_FROM_DOWNSTREAM_MAX {
            return Err(Invalid);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| Invalid)?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN).ok_or(Invalid)?;
        let mut keys = std::iter::once(&self.first).chain(&self.older);
        let sealed = keys.find_map(|key| opened(key, nonce, sealed)).ok_or(Invalid)?;
        if sealed.binding == *binding && now < sealed.expires { Ok(sealed.held) } else { Err(Invalid) }
    }
}

fn opened(key: &RandomizedNonceKey, nonce: &[u8], sealed: &[u8]) -> Option<Sealed> {
    let mut sealed = sealed.to_vec();
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let opened = key.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
    serde_json::from_slice(opened).ok()
}

/// A fingerprint of what is asked, the same however a client writes it down again: members sorted, numbers by value,
/// without what a retry adds.
pub fn digest(method: Method, params: &Object<'_>) -> String {
    let mut members: Vec<(&str, &str)> =
        params.iter().filter(|(k, _)| !matches!(*k, "_meta" | "inputResponses" | "requestState")).collect();
    members.sort_unstable();
    let mut hash = Sha256::new().chain_update(method.as_str());
    for (key, value) in members {
        let canonical = serde_json::from_str(value).map_or_else(|_| value.to_owned(), canonical);
        hash = hash.chain_update([0]).chain_update(key).chain_update([0]).chain_update(canonical);
    }
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

fn canonical(value: serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            let mut members: Vec<(String, Value)> = map.into_iter().collect();
            members.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            let members: Vec<String> =
                members.into_iter().map(|(k, v)| format!("{}:{}", Value::from(k), canonical(v))).collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.into_iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        // 1.0 and 1 are one value; a float that is whole is written as an integer.
        Value::Number(n) => match n.as_f64() {
            Some(f) if n.is_f64() && f.fract() == 0.0 && f.abs() < 9e15 => format!("{f:.0}"),
            _ => n.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(target: &str) -> Binding {
        Binding {
            server: "s".into(),
            principal: "local".into(),
            method: "tools/call".into(),
            target: target.into(),
            digest: "d".into(),
        }
    }

    #[test]
    fn a_state_opens_for_its_own_request_and_time_only() {
        let sealer = Sealer::new(&[7; 32], &[]).unwrap();
        let held = Held::Upstream("S\u{e9}\"\\".into());
        let text = sealer.seal(binding("ask"), held.clone(), 1000).unwrap();
        assert_eq!(sealer.open(&text, &binding("ask"), 1000), Ok(held.clone()));
        assert_eq!(sealer.open(&text, &binding("ask"), 1000 + 3599), Ok(held.clone()));
        assert_eq!(sealer.open(&text, &binding("ask"), 1000 + 3600), Err(Invalid));
        assert_eq!(sealer.open(&text, &binding("other"), 1000), Err(Invalid));
        let foreign = Sealer::new(&[8; 32], &[]).unwrap();
        assert_eq!(foreign.open(&text, &binding("ask"), 1000), Err(Invalid));
        let rotated = Sealer::new(&[8; 32], &[[9; 32], [7; 32]]).unwrap();
        assert_eq!(rotated.open(&text, &binding("ask"), 1000), Ok(held.clone()));
        let new = rotated.seal(binding("ask"), held.clone(), 1000).unwrap();
        assert_eq!(sealer.open(&new, &binding("ask"), 1000), Err(Invalid), "the first key seals");
        assert_ne!(text, sealer.seal(binding("ask"), held, 1000).unwrap(), "two rounds, two texts");
    }

    #[test]
    fn any_change_of_a_state_is_refused() {
        let sealer = Sealer::new(&[7; 32], &[]).unwrap();
        let text = sealer.seal(binding("ask"), Held::Call { key: 7, round: 1 }, 0).unwrap();
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            if changed != text {
                assert_eq!(sealer.open(&changed, &binding("ask"), 0), Err(Invalid), "byte {at}");
            }
        }
        for wrong in ["", "A", "not base64 !", &"A".repeat(STATE_FROM_DOWNSTREAM_MAX + 1)] {
            assert_eq!(sealer.open(wrong, &binding("ask"), 0), Err(Invalid));
        }
    }

    #[test]
    fn writing_the_same_arguments_differently_changes_nothing() {
        let of = |text: &str| digest(Method::ToolsCall, &Object::parse(text).unwrap());
        let one = of(r#"{"name":"t","arguments":{"a":1,"b":[1.0,"x"]}}"#);
        assert_eq!(
            one,
            of(
                r#"{"arguments":{"b":[1,"\u0078"],"a":1.0},"name":"t","_meta":{},"requestState":"z","inputResponses":{}}"#
            )
        );
        assert_ne!(one, of(r#"{"name":"t","arguments":{"a":2,"b":[1,"x"]}}"#));
        assert_ne!(
            one,
            digest(Method::PromptsGet, &Object::parse(r#"{"name":"t","arguments":{"a":1,"b":[1,"x"]}}"#).unwrap())
        );
    }
}
