//! What can be read rather than called: one resource, one template, one prompt, and completions for them.

use serde_json::{Map, Value, json};

use super::caller::Caller;
use super::wire::{Fault, INVALID_PARAMS, RESOURCE_NOT_FOUND};

pub(super) const GREETING: &str = "demo://greeting";
const TEMPLATE: &str = "demo://greeting/{who}";
const PROMPT: &str = "greet";
/// Names that completion proposes for `who`.
const NAMES: [&str; 5] = ["Ada", "Alan", "Barbara", "Edsger", "Grace"];

pub(super) fn resources() -> Value {
    json!({"resources": [{
        "uri": GREETING, "name": "greeting", "mimeType": "text/plain",
        "description": "A greeting that counts the tools, so it changes with add_tool and remove_tool.",
    }]})
}

pub(super) fn templates() -> Value {
    json!({"resourceTemplates": [{
        "uriTemplate": TEMPLATE, "name": "personal-greeting", "mimeType": "text/plain",
        "description": "A greeting for somebody.",
    }]})
}

pub(super) fn prompts() -> Value {
    json!({"prompts": [{
        "name": PROMPT, "description": "Asks the model to greet somebody.",
        "arguments": [{"name": "who", "description": "Whom to greet.", "required": true}],
    }]})
}

/// `resources/read`. `name` and `tools` (a count) are what the greeting speaks of.
pub(super) fn read(caller: &Caller, params: &Map<String, Value>, name: &str, tools: usize) -> Result<Value, Fault> {
    let uri = uri(caller, params)?;
    let text = match who(uri) {
        None => format!("Hello from {name}, which has {tools} tools."),
        Some(who) => format!("Hello {who}, from {name}."),
    };
    Ok(json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}))
}

/// The `uri` of a request, if something can be read there.
pub(super) fn uri<'a>(caller: &Caller, params: &'a Map<String, Value>) -> Result<&'a str, Fault> {
    let uri = text(params, "uri")?;
    if uri == GREETING || who(uri).is_some() {
        return Ok(uri);
    }
    let code = if caller.modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
    Err(Fault::new(code, format!("no resource {uri}")).with_data(json!({"uri": uri})))
}

fn who(uri: &str) -> Option<&str> {
    uri.strip_prefix(GREETING)?.strip_prefix('/').filter(|who| !who.is_empty() && !who.contains('/'))
}

/// `prompts/get`.
pub(super) fn prompt(params: &Map<String, Value>) -> Result<Value, Fault> {
    let name = text(params, "name")?;
    if name != PROMPT {
        return Err(Fault::params(format!("no prompt {name}")));
    }
    let who = params.get("arguments").and_then(|arguments| arguments.get("who"));
    let Some(who) = who.and_then(Value::as_str) else {
        return Err(Fault::params(format!("the prompt {PROMPT} needs the argument who, a string")));
    };
    let text = format!("Greet {who} in one warm sentence.");
    Ok(json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}))
}

/// `completion/complete`: `who` is completed for the prompt and for the template, whatever its letter case.
pub(super) fn complete(params: &Map<String, Value>) -> Result<Value, Fault> {
    let reference = params.get("ref").unwrap_or(&Value::Null);
    let known = match reference["type"].as_str() {
        Some("ref/prompt") => reference["name"] == PROMPT,
        Some("ref/resource") => reference["uri"] == TEMPLATE,
        _ => return Err(Fault::params("ref.type must be ref/prompt or ref/resource")),
    };
    if !known {
        return Err(Fault::params("ref names nothing that is offered here"));
    }
    let argument = params.get("argument").unwrap_or(&Value::Null);
    let Some(typed) = argument["value"].as_str() else {
        return Err(Fault::params("argument.value must be a string"));
    };
    let typed = typed.to_lowercase();
    let fits = |name: &&str| argument["name"] == "who" && name.to_lowercase().starts_with(&typed);
    let values: Vec<_> = NAMES.into_iter().filter(fits).collect();
    Ok(json!({"completion": {"total": values.len(), "hasMore": false, "values": values}}))
}

/// A string that `params` must hold.
pub(super) fn text<'a>(params: &'a Map<String, Value>, key: &str) -> Result<&'a str, Fault> {
    params.get(key).and_then(Value::as_str).ok_or_else(|| Fault::params(format!("{key} must be a string")))
}
