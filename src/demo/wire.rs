//! JSON-RPC 2.0 messages as this server writes them, and the faults it reports.

use serde_json::{Map, Value, json};

pub(super) use crate::protocol::code::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY, PARSE_ERROR,
    RESOURCE_NOT_FOUND, UNSUPPORTED_VERSION,
};

/// Why a request is refused: becomes the `error` member of its response.
#[derive(Debug)]
pub(super) struct Fault {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl Fault {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    pub(super) fn method(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("no method {method} here"))
    }
}

pub(super) fn success(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// An error response. Without an id, because it could not be read, the member is left out: it is never null.
pub(super) fn failure(id: Option<&Value>, fault: Fault) -> Value {
    let mut error = json!({"code": fault.code, "message": fault.message});
    if let Some(data) = fault.data {
        error["data"] = data;
    }
    let mut message = json!({"jsonrpc": "2.0", "error": error});
    if let Some(id) = id {
        message["id"] = id.clone();
    }
    message
}

pub(super) fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

pub(super) fn request(id: &str, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A line sorted by what JSON-RPC says it is.
pub(super) enum Message {
    Request { id: Value, method: String, params: Map<String, Value> },
    Notification { method: String, params: Map<String, Value> },
    Response { id: Value, answer: Result<Value, Value> },
}

/// Sorts one parsed message. The error is the complete response that says what is wrong with it.
pub(super) fn sort(message: Value) -> Result<Message, Value> {
    let refuse = |id: Option<&Value>, why: &str| failure(id, Fault::new(INVALID_REQUEST, why));
    let Value::Object(mut message) = message else {
        return Err(refuse(None, "a message is a JSON object"));
    };
    let id = message.remove("id");
    let readable = id.as_ref().filter(|id| id.is_string() || id.is_i64() || id.is_u64());
    if id.is_some() && readable.is_none() {
        return Err(refuse(None, "an id is a string or an integer"));
    }
    if message.get("jsonrpc") != Some(&Value::from("2.0")) {
        return Err(refuse(readable, "jsonrpc must be \"2.0\""));
    }
    match (id, message.remove("method")) {
        (id, Some(Value::String(method))) => {
            let params = match message.remove("params") {
                None => Map::new(),
                Some(Value::Object(params)) => params,
                Some(_) => return Err(refuse(id.as_ref(), "params must be an object")),
            };
            Ok(match id {
                Some(id) => Message::Request { id, method, params },
                None => Message::Notification { method, params },
            })
        }
        (Some(id), None) => {
            let answer = match (message.remove("result"), message.remove("error")) {
                (Some(result), None) => Ok(result),
                (_, error) => Err(error.unwrap_or(Value::Null)),
            };
            Ok(Message::Response { id, answer })
        }
        (id, _) => Err(refuse(id.as_ref(), "method must be a string")),
    }
}
