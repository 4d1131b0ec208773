//! What a script says about itself: capabilities, handshakes, and lists page by page. Pure text building.

use serde_json::{Value, json};

use super::engine::MODERN;
use super::script::{Paging, Script};

const NONE: &str = r#""resultType":"complete""#;

fn capabilities(script: &Script) -> Value {
    if let Some(raw) = &script.capabilities {
        return serde_json::from_str(raw).expect("the capabilities of a script are JSON");
    }
    let mut declared = json!({"tools": {"listChanged": true}, "logging": {}, "completions": {}});
    if !(script.resources.is_empty() && script.templates.is_empty()) {
        declared["resources"] = json!({"listChanged": true, "subscribe": true});
    }
    if !script.prompts.is_empty() {
        declared["prompts"] = json!({"listChanged": true});
    }
    declared
}

fn identity(script: &Script) -> Value {
    json!({"name": script.name, "version": "1.0"})
}

pub fn initialize(script: &Script, asked: Option<&str>) -> String {
    let mut result = json!({"protocolVersion": revision(script, asked), "capabilities": capabilities(script),
        "serverInfo": identity(script)});
    if let Some(instructions) = &script.instructions {
        result["instructions"] = instructions.as_str().into();
    }
    result.to_string()
}

/// The legacy revision that a peer gets which asks for `asked`.
pub fn revision(script: &Script, asked: Option<&str>) -> String {
    let same = script.legacy.iter().find(|own| Some(own.as_str()) == asked);
    same.or(script.legacy.first()).cloned().unwrap_or_default()
}

pub fn discover(script: &Script) -> String {
    let mut supported = vec![MODERN.to_owned()];
    supported.extend(script.legacy.iter().cloned());
    let mut result = json!({"supportedVersions": supported, "capabilities": capabilities(script),
        "resultType": "complete", "ttlMs": script.ttl_ms, "cacheScope": "public",
        "_meta": {"io.modelcontextprotocol/serverInfo": identity(script)}});
    if let Some(instructions) = &script.instructions {
        result["instructions"] = instructions.as_str().into();
    }
    result.to_string()
}

/// One page of a list: its result, or an error code; `None` if the method is no list of this script.
pub fn list(script: &Script, method: &str, cursor: Option<&Value>, modern: bool) -> Option<Result<String, i64>> {
    let (kind, key, items) = match method {
        "tools/list" => ("tools", "tools", &script.tools),
        "resources/list" => ("resources", "resources", &script.resources),
        "resources/templates/list" => ("resources", "resourceTemplates", &script.templates),
        "prompts/list" => ("prompts", "prompts", &script.prompts),
        _ => return None,
    };
    if capabilities(script).get(kind).is_none() {
        return Some(Err(-32601));
    }
    Some(page(script.paging, items, cursor).map(|(items, cursor)| {
        let hints = format!(r#"{NONE},"ttlMs":{},"cacheScope":"public""#, script.ttl_ms);
        let cursor = cursor.map(|cursor| format!(r#""nextCursor":{cursor}"#));
        let list = format!(r#""{key}":[{}]"#, items.join(","));
        let members: Vec<_> = [Some(list), cursor, modern.then_some(hints)].into_iter().flatten().collect();
        format!("{{{}}}", members.join(","))
    }))
}

/// The items of a page and the raw JSON of its `nextCursor`.
fn page<'a>(
    paging: Paging,
    items: &'a [String],
    cursor: Option<&Value>,
) -> Result<(&'a [String], Option<String>), i64> {
    let (size, at_end) = match paging {
        Paging::Whole if cursor.is_some() => return Err(-32602),
        Paging::Whole => return Ok((items, None)),
        Paging::Repeating => return Ok((items, Some(r#""x""#.into()))),
        Paging::Of(size) => (size, None),
        Paging::NullAtEnd(size) => (size, Some("null".into())),
    };
    let start = match cursor.map(|cursor| cursor.as_str().and_then(|cursor| cursor.strip_prefix("from-"))) {
        None => 0,
        Some(start) => start.and_then(|start| start.parse().ok()).filter(|start| *start < items.len()).ok_or(-32602)?,
    };
    let end = (start + size).min(items.len());
    let next = if end < items.len() { Some(format!(r#""from-{end}""#)) } else { at_end };
    Ok((&items[start..end], next))
}

/// Whether a listen with this filter asked for this notification.
pub fn wants(wish: &Value, method: &str, params: &Value) -> bool {
    match method {
        "notifications/tools/list_changed" => wish["toolsListChanged"] == true,
        "notifications/prompts/list_changed" => wish["promptsListChanged"] == true,
        "notifications/resources/list_changed" => wish["resourcesListChanged"] == true,
        "notifications/resources/updated" => {
            wish["resourceSubscriptions"].as_array().is_some_and(|uris| uris.contains(&params["uri"]))
        }
        _ => false,
    }
}
