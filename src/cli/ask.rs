//! The commands that speak MCP to a running gateway: `tools`, `resources`, `prompts`, `call`.
//!
//! Each is one or a few requests over [`Endpoint`], then a table or JSON on standard output. Entries stay the JSON text
//! that came, so `--json` shows numbers and unknown fields as the server wrote them.

use std::io::{self, IsTerminal, Read, Write};

use serde_json::value::RawValue;

use super::endpoint::{Answer, Endpoint, EndpointError, Outgoing};
use super::output::{for_terminal, is_watched, passing, width};
use super::servers::conclude;
use super::suggest::suggestions;
use super::{CallArgs, Exit, Failure, GatewayArgs, ListArgs, table};
use crate::protocol::code;
use crate::protocol::header::ParamHeaders;
use crate::protocol::method::{Method, notification};
use crate::protocol::object::{self, Object};

/// Pages of one list: a gateway that never ends a list is cut off here.
const PAGES_MAX: usize = 1000;
/// Bytes of tool arguments from a file or standard input: what a gateway takes at most by default.
const ARGUMENTS_MAX: u64 = 4 * 1024 * 1024;

impl From<EndpointError> for Failure {
    fn from(error: EndpointError) -> Self {
        let exit = match error {
            EndpointError::Url(_) => Exit::Usage,
            EndpointError::Tls(_) => Exit::Failed,
            EndpointError::Unreachable { .. } | EndpointError::NotMcp { .. } | EndpointError::Timeout { .. } => {
                Exit::Unreachable
            }
        };
        Self::new(exit, error.to_string())
    }
}

/// `tools`.
pub(super) async fn tools(args: &ListArgs) -> Result<Exit, Failure> {
    let tools = list(&connect(&args.gateway)?, Method::ToolsList, "tools").await?;
    let row = |tool: &Object<'_>| [text(tool, "name"), about(tool)];
    show(args.json, ["NAME", "ABOUT"], &tools, row)?;
    conclude(args, tools.is_empty()).await
}

/// `resources`: those that are listed, then the templates.
pub(super) async fn resources(args: &ListArgs) -> Result<Exit, Failure> {
    let endpoint = connect(&args.gateway)?;
    let mut entries = list(&endpoint, Method::ResourcesList, "resources").await?;
    entries.extend(list(&endpoint, Method::TemplatesList, "resourceTemplates").await?);
    let row = |entry: &Object<'_>| {
        let uri = entry.string("uri").or_else(|| entry.string("uriTemplate")).unwrap_or_default().into_owned();
        [uri, text(entry, "name"), text(entry, "mimeType"), about(entry)]
    };
    show(args.json, ["URI", "NAME", "TYPE", "ABOUT"], &entries, row)?;
    conclude(args, entries.is_empty()).await
}

/// `prompts`.
pub(super) async fn prompts(args: &ListArgs) -> Result<Exit, Failure> {
    let prompts = list(&connect(&args.gateway)?, Method::PromptsList, "prompts").await?;
    let row = |prompt: &Object<'_>| [text(prompt, "name"), prompt_arguments(prompt), about(prompt)];
    show(args.json, ["NAME", "ARGUMENTS", "ABOUT"], &prompts, row)?;
    conclude(args, prompts.is_empty()).await
}

/// `call`: bad news when the tool says that it failed.
pub(super) async fn call(args: &CallArgs) -> Result<Exit, Failure> {
    let arguments = args.arguments.as_deref().map(read_arguments).transpose()?;
    let endpoint = connect(&args.gateway)?;
    let mut answer = send_call(&endpoint, &args.name, arguments.as_deref(), None).await?;
    if matches!(&answer, Answer::Error { code: code::HEADER_MISMATCH, .. }) {
        // The tool mirrors arguments in headers. Few do, so its schema is only read when the gateway asks for them.
        let tools = list(&endpoint, Method::ToolsList, "tools").await?;
        answer = send_call(&endpoint, &args.name, arguments.as_deref(), schema_of(&tools, &args.name)).await?;
    }
    if matches!(&answer, Answer::Error { code: code::INVALID_PARAMS, message } if message.starts_with("unknown tool")) {
        return Err(unknown(&args.name, &list(&endpoint, Method::ToolsList, "tools").await?));
    }
    let result = result_of(explained(&args.name, answer)?)?;
    let result_object = parsed(&result)?;
    if result_object.string("resultType").as_deref() == Some("input_required") {
        return Err(wants_input(&args.name));
    }
    let page = if args.raw { result.clone() } else { content_text(&result_object) };
    let mut stdout = io::stdout().lock();
    let shown = if stdout.is_terminal() { for_terminal(&page) } else { page.as_str().into() };
    writeln!(stdout, "{}", shown.trim_end_matches('\n'))?;
    Ok(if result_object.get("isError") == Some("true") { Exit::Problem } else { Exit::Ok })
}

/// Errors of a call for which there is better advice than their text.
fn explained(name: &str, answer: Answer) -> Result<Answer, Failure> {
    match &answer {
        // What it misses is a client that can be asked.
        Answer::Error { code: code::MISSING_CAPABILITY, .. } => Err(wants_input(name)),
        _ => Ok(answer),
    }
}

/// No tool has this name. Several servers may have it as their own name for one.
fn unknown(name: &str, tools: &[String]) -> Failure {
    let names: Vec<String> = tools.iter().filter_map(|tool| Some(text(&Object::parse(tool).ok()?, "name"))).collect();
    let advice = match &*suggestions(name, &names) {
        [] => "`manifold tools` lists those that there are".to_owned(),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    Failure::new(Exit::Problem, format!("unknown tool: {name}; {advice}"))
}

fn wants_input(name: &str) -> Failure {
    Failure::new(Exit::Problem, format!("{name} wants to ask its user something, which this command cannot do"))
}

fn connect(args: &GatewayArgs) -> Result<Endpoint, Failure> {
    Ok(Endpoint::new(&args.url, args.timeout)?)
}

async fn send_call(
    endpoint: &Endpoint,
    name: &str,
    arguments: Option<&str>,
    schema: Option<&str>,
) -> Result<Answer, Failure> {
    let unsendable = |why: String| Failure::new(Exit::Problem, format!("{name} cannot be called: {why}"));
    let mirrored = match schema {
        Some(schema) => ParamHeaders::parse(schema)
            .map_err(|error| unsendable(error.to_string()))?
            .headers_for(arguments)
            .map_err(|error| unsendable(error.to_string()))?,
        None => Vec::new(),
    };
    let quoted = quote(name);
    let mut params = vec![("name", quoted.as_str())];
    params.extend(arguments.map(|arguments| ("arguments", arguments)));
    let outgoing = Outgoing { method: Method::ToolsCall, params: &params, name: Some(name), mirrored };
    let is_watched = is_watched();
    let answer = endpoint
        .request(&outgoing, &mut |method, params| {
            if is_watched && method == notification::PROGRESS {
                passing(&progress_line(params));
            }
        })
        .await;
    if is_watched {
        passing("");
    }
    Ok(answer?)
}

/// Every page of a list: its entries as they came.
async fn list(endpoint: &Endpoint, method: Method, key: &str) -> Result<Vec<String>, Failure> {
    let mut entries = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let params: Vec<(&str, &str)> = cursor.iter().map(|cursor| ("cursor", cursor.as_str())).collect();
        let outgoing = Outgoing { method, params: &params, name: None, mirrored: Vec::new() };
        let result = result_of(endpoint.request(&outgoing, &mut |_, _| {}).await?)?;
        let page = parsed(&result)?;
        let listed: Vec<&RawValue> = page.get(key).and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
        entries.extend(listed.iter().map(|entry| entry.get().to_owned()));
        let next = page.get_some("nextCursor").map(str::to_owned);
        if next.is_none() {
            return Ok(entries);
        }
        if next == cursor {
            break;
        }
        cursor = next;
    }
    Err(Failure::new(Exit::Problem, format!("{} does not come to an end", method.as_str())))
}

fn result_of(answer: Answer) -> Result<String, Failure> {
    match answer {
        Answer::Result(result) => Ok(result),
        Answer::Error { code, message } => {
            Err(Failure::new(Exit::Problem, format!("the gateway answered with error {code}: {message}")))
        }
    }
}

fn parsed(result: &str) -> Result<Object<'_>, Failure> {
    Object::parse(result).map_err(|error| Failure::new(Exit::Problem, format!("the result cannot be read: {error}")))
}

fn show<const N: usize>(
    json: bool,
    heads: [&str; N],
    entries: &[String],
    row: impl Fn(&Object<'_>) -> [String; N],
) -> Result<(), Failure> {
    let page = match json {
        true if entries.is_empty() => "[]\n".to_owned(),
        true => format!("[\n{}\n]\n", entries.join(",\n")),
        false => {
            let rows: Vec<_> = entries.iter().filter_map(|entry| Some(row(&Object::parse(entry).ok()?))).collect();
            table::render(heads, &rows, width())
        }
    };
    Ok(io::stdout().write_all(page.as_bytes())?)
}

fn text(entry: &Object<'_>, key: &str) -> String {
    entry.string(key).unwrap_or_default().into_owned()
}

/// The description, or where there is none the title.
fn about(entry: &Object<'_>) -> String {
    let filled = |key| entry.string(key).filter(|text| !text.trim().is_empty());
    filled("description").or_else(|| filled("title")).unwrap_or_default().into_owned()
}

/// `file mode?`: a question mark where an argument may be left out.
fn prompt_arguments(prompt: &Object<'_>) -> String {
    let arguments: Vec<Object<'_>> =
        prompt.get("arguments").and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
    let shown = arguments.iter().map(|argument| {
        let mark = if argument.get("required") == Some("true") { "" } else { "?" };
        format!("{}{mark}", text(argument, "name"))
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn schema_of<'t>(tools: &'t [String], name: &str) -> Option<&'t str> {
    let mut parsed = tools.iter().filter_map(|tool| Object::parse(tool).ok());
    parsed.find(|tool| tool.string("name").as_deref() == Some(name))?.get("inputSchema")
}

fn quote(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    object::write_string(&mut out, text);
    String::from_utf8_lossy(&out).into_owned()
}

/// `3/10 copying`: whatever of it is there.
fn progress_line(params: &Object<'_>) -> String {
    let total = params.get_some("total").map(|total| format!("/{total}")).unwrap_or_default();
    format!("{}{total} {}", params.get_some("progress").unwrap_or(""), text(params, "message"))
}

/// Tool arguments from where the command line says: the text itself, `@FILE`, or `-` for standard input.
fn read_arguments(given: &str) -> Result<String, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let text = match given.strip_prefix('@') {
        Some(file) => std::fs::File::open(file)
            .and_then(read_text)
            .map_err(|error| usage(format!("cannot read the arguments from {file}: {error}")))?,
        None if given == "-" => read_text(io::stdin().lock())
            .map_err(|error| usage(format!("cannot read the arguments from standard input: {error}")))?,
        None => given.to_owned(),
    };
    match Object::parse(&text) {
        Ok(_) => Ok(text.trim().to_owned()),
        Err(error) => {
            Err(usage(format!("the arguments are not one JSON object, like '{{\"path\":\"/tmp\"}}': {error}")))
        }
    }
}

fn read_text(source: impl Read) -> io::Result<String> {
    let mut text = String::new();
    source.take(ARGUMENTS_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > ARGUMENTS_MAX {
        true => Err(io::Error::other(format!("more than {ARGUMENTS_MAX} bytes"))),
        false => Ok(text),
    }
}

/// A result for reading: texts as they are, a line in brackets for what is no text.
fn content_text(result: &Object<'_>) -> String {
    let blocks: Vec<Object<'_>> =
        result.get("content").and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
    if blocks.is_empty() {
        return result.get_some("structuredContent").unwrap_or_default().to_owned();
    }
    blocks.iter().map(block_text).collect::<Vec<_>>().join("\n")
}

fn block_text(block: &Object<'_>) -> String {
    match block.string("type").as_deref() {
        Some("text") => text(block, "text"),
        Some("resource_link") => format!("[link to {}]", text(block, "uri")),
        Some("resource") => {
            let inside = block.object("resource").unwrap_or_default();
            let uri = || format!("[resource {}, {}]", text(&inside, "uri"), text(&inside, "mimeType"));
            inside.string("text").map_or_else(uri, std::borrow::Cow::into_owned)
        }
        kind => format!("[{}, {}]", kind.unwrap_or("content of no type"), text(block, "mimeType")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_reads_like_text() {
        for (result, want) in [
            (r#"{"content":[{"type":"text","text":"a\nb"},{"type":"text","text":"c"}]}"#, "a\nb\nc"),
            (r#"{"content":[{"type":"image","mimeType":"image/png","data":"AA=="}]}"#, "[image, image/png]"),
            (r#"{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}"#, "[link to file:///a]"),
            (r#"{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"in it"}}]}"#, "in it"),
            (r#"{"content":[],"structuredContent":{"n":9007199254740993}}"#, r#"{"n":9007199254740993}"#),
            (r#"{"content":[{}]}"#, "[content of no type, ]"),
            ("{}", ""),
        ] {
            assert_eq!(content_text(&Object::parse(result).unwrap()), want);
        }
    }

    #[test]
    fn arguments_are_one_object_kept_to_the_letter() {
        let big = r#" {"n": 12345678901234567890123, "z":1,"a":null} "#;
        assert_eq!(read_arguments(big).unwrap(), big.trim());
        for bad in ["", "[]", "{", "{} {}", "\"x\"", "@/nowhere/at/all", r#"{"a":1,"a":2}"#] {
            assert_eq!(read_arguments(bad).unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }

    #[test]
    fn progress_shows_what_is_there() {
        for (params, want) in [
            (r#"{"progress":3,"total":10,"message":"copying"}"#, "3/10 copying"),
            (r#"{"progress":0.5,"total":null}"#, "0.5 "),
        ] {
            assert_eq!(progress_line(&Object::parse(params).unwrap()), want);
        }
    }

    #[test]
    fn optional_prompt_arguments_carry_a_question_mark() {
        let prompt = Object::parse(r#"{"arguments":[{"name":"file","required":true},{"name":"mode"}]}"#).unwrap();
        assert_eq!(prompt_arguments(&prompt), "file mode?");
    }
}
