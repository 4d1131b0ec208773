//! The JSON-RPC envelope: text to message in one borrowed pass, and message to text.
//!
//! Both edges call it: `downstream` on request bodies and lines, `upstream` on answers. It knows no method names;
//! parameters and results stay raw [`Object`]s. Rules: JSON-RPC 2.0, protocol.md §2.9 and §11.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::code;
use super::depth::is_too_deep;
use super::object::{Key, Object, ObjectVisitor, write_string};

/// A request id as it stands on the wire: the text of a JSON string or integer, so that it goes back with the same
/// value and type (`1` is not `"1"`, 9007199254740993 stays exact).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id<'a>(&'a str);

impl<'a> Id<'a> {
    /// Takes JSON text; only strings and integers are ids (protocol.md §2.9).
    pub fn parse(raw: &'a str) -> Option<Self> {
        let integer = raw.strip_prefix('-').unwrap_or(raw);
        let is_integer = !integer.is_empty() && integer.bytes().all(|b| b.is_ascii_digit());
        (raw.starts_with('"') || is_integer).then_some(Self(raw))
    }

    /// The JSON text.
    pub fn as_raw(self) -> &'a str {
        self.0
    }

    /// The id that an unsigned integer is, for ids that we gave out ourselves. A few servers send them back as strings.
    pub fn as_own(self) -> Option<u64> {
        self.0.trim_matches('"').parse().ok()
    }
}

/// An id kept beyond the text it came from. The default is the number 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedId(Box<str>);

impl Default for OwnedId {
    fn default() -> Self {
        Self("0".into())
    }
}

impl OwnedId {
    /// The JSON text.
    pub fn as_raw(&self) -> &str {
        &self.0
    }
}

impl From<Id<'_>> for OwnedId {
    /// Spells strings in one way, so that two spellings of one string are one id.
    fn from(id: Id<'_>) -> Self {
        match super::object::string(id.0) {
            Some(Cow::Owned(text)) => {
                let mut out = Vec::with_capacity(text.len() + 2);
                write_string(&mut out, &text);
                Self(String::from_utf8_lossy(&out).into())
            }
            _ => Self(id.0.into()),
        }
    }
}

/// What one message is.
#[derive(Debug)]
pub enum Message<'a> {
    /// Wants exactly one response.
    Request(Request<'a>),
    /// Wants none.
    Notification(Notification<'a>),
    /// Ends a request of ours.
    Response(Response<'a>),
}

/// A request.
#[derive(Debug)]
pub struct Request<'a> {
    /// Its id, as it stands on the wire.
    pub id: Id<'a>,
    /// Its method.
    pub method: Cow<'a, str>,
    /// Its parameters.
    pub params: Params<'a>,
}

/// A notification.
#[derive(Debug)]
pub struct Notification<'a> {
    /// Its method.
    pub method: Cow<'a, str>,
    /// Its parameters.
    pub params: Params<'a>,
}

/// A response.
#[derive(Debug)]
pub struct Response<'a> {
    /// The id it answers; `None` where the peer sent none or `null`, as some do when they could not read the request.
    pub id: Option<Id<'a>>,
    /// Result or error.
    pub outcome: Outcome<'a>,
}

/// How a request ended.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// A result object.
    Result(Object<'a>),
    /// A JSON-RPC error.
    Error(RpcError<'a>),
}

/// A JSON-RPC error as a peer sent it.
#[derive(Clone, Debug)]
pub struct RpcError<'a> {
    /// The code; 0 where it is not an integer that fits.
    pub code: i64,
    /// The message; empty where it is missing.
    pub message: Cow<'a, str>,
    /// The whole error object, unknown members included.
    pub raw: Object<'a>,
}

/// Parameters: an object, nothing, or something that MCP does not allow.
#[derive(Debug, Default)]
pub enum Params<'a> {
    /// No `params` member, or `null`.
    #[default]
    Absent,
    /// An object.
    Object(Object<'a>),
    /// An array or a scalar.
    Wrong,
}

impl<'a> Params<'a> {
    /// The members; an empty object where there are none.
    pub fn object(&self) -> Option<&Object<'a>> {
        match self {
            Self::Object(o) => Some(o),
            _ => None,
        }
    }
}

/// Why a text is not a message. `Display` may be shown to the peer: it never repeats the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvelopeError {
    /// [`code::PARSE_ERROR`] or [`code::INVALID_REQUEST`].
    pub code: i64,
    /// What is wrong.
    pub reason: &'static str,
    /// The id, where one could be read.
    pub id: Option<String>,
}

impl fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for EnvelopeError {}

/// How strictly a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A downstream's message: every rule holds.
    Strict,
    /// An upstream's message: `jsonrpc` may be missing (protocol.md §4.1).
    Lenient,
}

/// The first byte that is not white space: tells a batch (`[`) from a message (`{`).
pub fn first_byte(text: &[u8]) -> Option<u8> {
    text.iter().copied().find(|b| !b.is_ascii_whitespace())
}

/// The elements of a batch, unparsed.
pub fn batch(text: &str) -> Result<Vec<&RawValue>, EnvelopeError> {
    serde_json::from_str(text).map_err(|_| not_json())
}

/// Parses one message.
pub fn parse(text: &str, reading: Reading) -> Result<Message<'_>, EnvelopeError> {
    if first_byte(text.as_bytes()) != Some(b'{') {
        let valid = serde_json::from_str::<IgnoredAny>(text).is_ok();
        return Err(if valid { invalid("the message is not a JSON object", None) } else { not_json() });
    }
    if reading == Reading::Strict && is_too_deep(text.as_bytes()) {
        let reason = "the message is nested too deeply; 128 levels are the limit";
        return Err(EnvelopeError { code: code::PARSE_ERROR, reason, id: None });
    }
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|_| not_json())?;
    envelope.classify(reading)
}

fn not_json() -> EnvelopeError {
    EnvelopeError { code: code::PARSE_ERROR, reason: "the message is not valid JSON", id: None }
}

fn invalid(reason: &'static str, id: Option<Id<'_>>) -> EnvelopeError {
    EnvelopeError { code: code::INVALID_REQUEST, reason, id: id.map(|id| id.as_raw().to_owned()) }
}

#[derive(Default)]
struct Envelope<'a> {
    version: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<Params<'a>>,
    result: Option<Params<'a>>,
    error: Option<Params<'a>>,
}

impl<'a> Envelope<'a> {
    fn classify(self, reading: Reading) -> Result<Message<'a>, EnvelopeError> {
        let id = match self.id {
            None | Some("null") => None,
            Some(raw) => {
                Some(Id::parse(raw).ok_or_else(|| invalid("the id is neither a string nor an integer", None))?)
            }
        };
        match self.version {
            Some("\"2.0\"") => {}
            None if reading == Reading::Lenient => {}
            _ => return Err(invalid("jsonrpc is not \"2.0\"", id)),
        }
        if let Some(raw) = self.method {
            return Self::call(self.id, id, raw, self.params.unwrap_or_default());
        }
        match (self.result, self.error) {
            (Some(Params::Object(result)), None) => {
                Ok(Message::Response(Response { id, outcome: Outcome::Result(result) }))
            }
            (None, Some(Params::Object(raw))) => {
                Ok(Message::Response(Response { id, outcome: Outcome::Error(rpc_error(raw)) }))
            }
            (None, None) => Err(invalid("the message has neither method nor result nor error", id)),
            _ => Err(invalid("the response is not one object as result or error", id)),
        }
    }

    fn call(
        raw_id: Option<&'a str>,
        id: Option<Id<'a>>,
        method: &'a str,
        params: Params<'a>,
    ) -> Result<Message<'a>, EnvelopeError> {
        let method = super::object::string(method).ok_or_else(|| invalid("the method is not a string", id))?;
        match (raw_id, id) {
            (None, _) => Ok(Message::Notification(Notification { method, params })),
            (Some(_), Some(id)) => Ok(Message::Request(Request { id, method, params })),
            (Some(_), None) => Err(invalid("the id is null", None)),
        }
    }
}

fn rpc_error(raw: Object<'_>) -> RpcError<'_> {
    RpcError {
        code: raw.get("code").and_then(|c| c.parse().ok()).unwrap_or(0),
        message: raw.string("message").unwrap_or_default(),
        raw,
    }
}

impl<'de> de::Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(Key(key)) = map.next_key()? {
            match key.as_ref() {
                "jsonrpc" => once(&mut envelope.version, map.next_value::<&RawValue>()?.get())?,
                "id" => once(&mut envelope.id, map.next_value::<&RawValue>()?.get())?,
                "method" => once(&mut envelope.method, map.next_value::<&RawValue>()?.get())?,
                "params" => once(&mut envelope.params, map.next_value()?)?,
                "result" => once(&mut envelope.result, map.next_value()?)?,
                "error" => once(&mut envelope.error, map.next_value()?)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(envelope)
    }
}

fn once<T, E: de::Error>(slot: &mut Option<T>, value: T) -> Result<(), E> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::custom("duplicate key")),
    }
}

impl<'de> de::Deserialize<'de> for Params<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParamsVisitor)
    }
}

struct ParamsVisitor;

impl<'de> Visitor<'de> for ParamsVisitor {
    type Value = Params<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        ObjectVisitor.visit_map(map).map(Params::Object)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Params::Wrong)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Params::Absent)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Params::Wrong)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Params::Wrong)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Params::Wrong)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Params::Wrong)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Params::Wrong)
    }
}

/// Writes a request up to and including `"params":`; the caller writes the parameters and then `}`.
pub fn begin_request(out: &mut Vec<u8>, id: &str, method: &str) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"method\":");
    write_string(out, method);
    out.extend_from_slice(b",\"params\":");
}

/// A whole notification; `params` is JSON text.
pub fn notification(method: &str, params: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(48 + method.len() + params.len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
    write_string(&mut out, method);
    out.extend_from_slice(b",\"params\":");
    out.extend_from_slice(params.as_bytes());
    out.push(b'}');
    out
}

/// Writes a response up to and including `"result":`; the caller writes the result and then `}`.
pub fn begin_result(out: &mut Vec<u8>, id: &str) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"result\":");
}

/// A whole error response. `id` is left out where it could not be read (never `null`, protocol.md §1.3); `data` is JSON text.
pub fn error(id: Option<&str>, code: i64, message: &str, data: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(96 + message.len());
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
    if let Some(id) = id {
        out.extend_from_slice(b"\"id\":");
        out.extend_from_slice(id.as_bytes());
        out.push(b',');
    }
    out.extend_from_slice(b"\"error\":{\"code\":");
    out.extend_from_slice(code.to_string().as_bytes());
    out.extend_from_slice(b",\"message\":");
    write_string(&mut out, message);
    if let Some(data) = data {
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(data.as_bytes());
    }
    out.extend_from_slice(b"}}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_value_and_type() {
        for raw in ["\"1\"", "1", "\"a-b\"", "0", "9007199254740993", "\"\"", "-5", "18446744073709551617"] {
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{raw},\"method\":\"ping\"}}");
            match parse(&text, Reading::Strict).unwrap() {
                Message::Request(r) => assert_eq!(r.id.as_raw(), raw),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn texts_that_are_no_messages_say_why() {
        let table = [
            ("", code::PARSE_ERROR),
            ("{", code::PARSE_ERROR),
            ("\u{feff}{}", code::PARSE_ERROR),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#, code::PARSE_ERROR),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":2}}"#, code::PARSE_ERROR),
            ("[]", code::INVALID_REQUEST),
            ("3", code::INVALID_REQUEST),
            ("{}", code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1e3,"method":"x"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, code::INVALID_REQUEST),
            (r#"{"id":1,"method":"x"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"result":3}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, code::INVALID_REQUEST),
        ];
        for (text, want) in table {
            assert_eq!(parse(text, Reading::Strict).map(drop).unwrap_err().code, want, "{text}");
        }
    }

    #[test]
    fn an_error_names_the_id_where_one_was_read() {
        let e = parse(r#"{"jsonrpc":"1.0","id":"a","method":"x"}"#, Reading::Strict).map(drop).unwrap_err();
        assert_eq!(e.id.as_deref(), Some("\"a\""));
    }

    #[test]
    fn a_null_id_is_not_a_notification() {
        assert!(parse(r#"{"jsonrpc":"2.0","id":null,"method":"notifications/x"}"#, Reading::Strict).is_err());
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, Reading::Strict),
            Ok(Message::Notification(_))
        ));
    }

    #[test]
    fn params_may_come_before_the_method_and_stay_raw() {
        let text = r#"{"params":{"arguments":{"x":1e400}},"method":"tools/call","jsonrpc":"2.0","id":1}"#;
        let Message::Request(r) = parse(text, Reading::Strict).unwrap() else { panic!() };
        assert_eq!(r.params.object().unwrap().get("arguments"), Some(r#"{"x":1e400}"#));
        for (params, absent) in [("null", true), ("[1e3]", false), ("3", false), ("\"s\"", false), ("true", false)] {
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{params}}}");
            let Message::Request(r) = parse(&text, Reading::Strict).unwrap() else { panic!() };
            assert_eq!(matches!(r.params, Params::Absent), absent, "{params}");
        }
    }

    #[test]
    fn an_upstream_answer_may_lack_the_version_and_have_any_code() {
        let text = r#"{"id":7,"error":{"code":-99999999999,"message":"m","x":1}}"#;
        let Message::Response(r) = parse(text, Reading::Lenient).unwrap() else { panic!() };
        let Outcome::Error(e) = r.outcome else { panic!() };
        assert_eq!((e.code, e.message.as_ref(), e.raw.get("x")), (-99_999_999_999, "m", Some("1")));
        assert_eq!(r.id.and_then(Id::as_own), Some(7));
    }

    #[test]
    fn written_messages_parse_again() {
        let e = error(Some("\"a\""), -32602, "no \"x\"", Some("{\"k\":1}"));
        assert!(matches!(parse(std::str::from_utf8(&e).unwrap(), Reading::Strict), Ok(Message::Response(_))));
        let n = notification("notifications/x", "{}");
        assert!(matches!(parse(std::str::from_utf8(&n).unwrap(), Reading::Strict), Ok(Message::Notification(_))));
        let without_id = error(None, -32700, "m", None);
        assert!(!String::from_utf8(without_id).unwrap().contains("\"id\""));
    }
}
