//! Messages as they come and go, and the leg on which a transport carries them.

use std::collections::HashMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

/// What the engine wants written.
#[derive(Debug)]
pub enum Frame {
    /// A message that is not the last word.
    Message(String),
    /// The response; the status matters only to Streamable HTTP.
    Answer(u16, String),
    /// Bytes as they are, as a line or between events.
    Noise(String),
    Stderr(usize),
    /// Ends the stream after an event with this id; what follows waits for a peer that resumes there. HTTP only.
    Park(String),
    Endless(usize),
    Die,
}

/// Where a message came from and where to speak about it.
#[derive(Clone)]
pub struct Leg {
    /// Session or process.
    pub from: String,
    pub out: mpsc::Sender<Frame>,
}

impl Leg {
    pub async fn send(&self, frame: Frame) {
        let _ = self.out.send(frame).await;
    }

    pub async fn result(&self, id: &str, result: &str) {
        self.send(Frame::Answer(200, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))).await;
    }

    pub async fn error(&self, status: u16, id: &str, error: Value) {
        self.send(Frame::Answer(status, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))).await;
    }

    pub async fn notify(&self, method: &str, params: &str) {
        self.send(Frame::Message(notification(method, params))).await;
    }
}

/// The parts of a message that matter here; arguments stay raw.
#[derive(Deserialize)]
pub struct Incoming<'a> {
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    pub method: Option<String>,
    #[serde(default)]
    #[serde(borrow)]
    pub params: Params<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Params<'a> {
    #[serde(rename = "_meta")]
    pub meta: Value,
    pub name: Option<String>,
    pub uri: Option<String>,
    pub cursor: Option<Value>,
    #[serde(borrow, deserialize_with = "even_null")]
    pub arguments: Option<&'a RawValue>,
    pub request_state: Option<String>,
    pub input_responses: Option<HashMap<String, Box<RawValue>>>,
    pub request_id: Option<Value>,
    pub notifications: Value,
    pub protocol_version: Option<String>,
}

pub fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

/// A raw value in which an explicit null is a value too.
fn even_null<'de: 'a, 'a, D: Deserializer<'de>>(input: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(input).map(Some)
}
