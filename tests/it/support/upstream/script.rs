//! What a scripted upstream offers and how it behaves, as plain data that also travels to a child process.
//!
//! Items and results are kept as JSON text, never as parsed values, so that what a test writes is what goes out, to the byte.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Speaks both eras, offers nothing and behaves well, until told otherwise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Script {
    pub name: String,
    /// Legacy revisions that it accepts; asked for another one it answers with the first. Empty: no `initialize`.
    pub legacy: Vec<String>,
    /// Speaks 2026-07-28.
    pub modern: bool,
    /// Raw JSON of each item.
    pub tools: Vec<String>,
    pub resources: Vec<String>,
    pub templates: Vec<String>,
    pub prompts: Vec<String>,
    /// What a call does, by tool name, prompt name or resource URI; without an entry it echoes. A method is a key too, for
    /// what is done before it is answered (or instead): `.on("tools/list", [Step::Hold])`.
    pub behaviours: HashMap<String, Vec<Step>>,
    /// Raw JSON in place of the capabilities that follow from the items. Lists that it does not declare get -32601.
    pub capabilities: Option<String>,
    pub instructions: Option<String>,
    pub paging: Paging,
    /// How it meets `server/discover`.
    pub discover: Discover,
    /// `ttlMs` of modern lists.
    pub ttl_ms: u64,
    pub http: HttpManners,
    pub stdio: StdioManners,
}

/// One thing that a call does. The first of them that answers ends the call; a list without one ends with [`Step::Echo`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    // Steps that go on.
    /// Waits for `release(name)`.
    Hold,
    /// Waits this many milliseconds (of the real clock; prefer [`Step::Hold`]).
    Pause(u64),
    /// Sends this many progress notifications, if the call brought a token.
    Progress(u32),
    /// Sends a progress notification for each of these values, right or wrong, if the call brought a token.
    ProgressAt(Vec<i64>),
    /// Sends a notification on the call's stream: method, raw params.
    Notify(String, String),
    /// Asks: method and raw params. A legacy peer gets a request and the call waits; a modern one gets `input_required` with
    /// a `requestState` that is checked, and consecutive asks become one round. See [`Step::Answers`]. Towards a legacy peer
    /// `$ARGUMENTS` becomes the arguments of the call, as text.
    Ask(String, String),
    /// Writes these bytes as they are: a line of noise on stdout, or between the events of a stream (a legal comment
    /// there starts with `:`).
    Noise(String),
    /// Writes this many bytes to stderr. Stdio only.
    Stderr(usize),
    /// Closes the stream after an event with an id and `retry: 10`; the call goes on for who resumes it with a GET and
    /// `Last-Event-ID`. Legacy Streamable HTTP only.
    Park,
    // Steps that answer.
    /// A text: the raw bytes of `arguments`, or `absent`.
    Echo,
    /// A text: a JSON array of the answers to all asks (a legacy error as `{"error": …}`).
    Answers,
    /// A text: the name of this upstream.
    Name,
    /// Raw JSON of the result.
    Result(String),
    /// Raw JSON of the JSON-RPC error.
    Error(String),
    /// A text of this many bytes.
    Huge(usize),
    /// Bytes in place of a message: a line, an event's data or a JSON body. `$ID` becomes the request's id.
    Garbage(String),
    /// This many bytes without a line end, and no answer.
    Endless(usize),
    /// An HTTP status and body in place of the answer; only before anything else was sent.
    Status(u16, String),
    Never,
    /// Exits with code 1, or cuts the connection.
    Die,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Paging {
    /// All on one page, no cursor.
    Whole,
    /// Pages of this size with cursors; no cursor on the last.
    Of(usize),
    /// As `Of`, with `nextCursor: null` on the last.
    NullAtEnd(usize),
    /// Every answer holds all items and the same cursor, for ever.
    Repeating,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Discover {
    /// As the eras it speaks demand: a result, or -32601 (over HTTP 400 for want of a session).
    Normal,
    /// Answers after this many milliseconds.
    After(u64),
    Silent,
    /// Answers `{}` to it, as mocks do.
    EmptyResult,
    /// Answers with this error code.
    Error(i64),
    /// Answers -32022 to the first and names 2026-07-28 in `data.supported`; then as `Normal`.
    VersionFirst,
    /// Exits, or cuts the connection.
    Die,
}

/// The form of a plain answer over Streamable HTTP; anything but a plain answer is a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Json,
    Sse,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HttpManners {
    pub answer: Answer,
    /// Ends lines of a stream with CR LF, in chunks cut between the two.
    pub crlf: bool,
    /// Answers `/mcp` with 307 to `/mcp/`.
    pub redirect: bool,
    /// Refuses (400) a legacy request whose `MCP-Protocol-Version` is not the negotiated one.
    pub strict_version: bool,
    /// Refuses (406) a POST whose `Accept` lacks one of the two types.
    pub strict_accept: bool,
    /// Compresses JSON answers for who accepts gzip.
    pub gzip: bool,
    /// Hands out session ids and demands them.
    pub sessions: bool,
    /// Forgets a session after this many requests in it.
    pub forget_after: Option<usize>,
    /// Status for a session that it does not know: 404, or 400 with an error whose id is null.
    pub lost_status: u16,
    /// Offers the GET stream; otherwise 405.
    pub get_stream: bool,
    /// What the `endpoint` event of HTTP+SSE says; `{sid}` stands for the session.
    pub endpoint: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StdioManners {
    /// Milliseconds before it reads its first line.
    pub start_delay_ms: u64,
    /// Lines it prints on stdout when it starts.
    pub banner: Vec<String>,
    /// Exits before it reads anything.
    pub exit_at_start: bool,
    /// Exits when it gets a second `initialize`.
    pub dies_at_second_initialize: bool,
    /// Writes one byte at a time.
    pub byte_by_byte: bool,
    /// Goes on when stdin ends.
    pub ignores_eof: bool,
    /// Goes on after SIGTERM.
    pub ignores_sigterm: bool,
    /// Stays behind a shell that waits for it, as behind `npx`.
    pub wrapped: bool,
}

impl Script {
    pub fn new(name: &str) -> Self {
        let legacy = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
        Self {
            name: name.into(),
            legacy: legacy.map(String::from).to_vec(),
            modern: true,
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            behaviours: HashMap::new(),
            capabilities: None,
            instructions: None,
            paging: Paging::Whole,
            discover: Discover::Normal,
            ttl_ms: 0,
            http: HttpManners {
                answer: Answer::Json,
                crlf: false,
                redirect: false,
                strict_version: false,
                strict_accept: false,
                gzip: false,
                sessions: true,
                forget_after: None,
                lost_status: 404,
                get_stream: true,
                endpoint: "messages?sid={sid}".into(),
            },
            stdio: StdioManners::default(),
        }
    }

    /// Speaks only the legacy era.
    pub fn legacy_only(mut self) -> Self {
        self.modern = false;
        self
    }

    /// Speaks only this one revision.
    pub fn only_revision(mut self, revision: &str) -> Self {
        self.modern = false;
        self.legacy = vec![revision.into()];
        self
    }

    pub fn modern_only(mut self) -> Self {
        self.legacy.clear();
        self
    }

    /// Offers a plain tool that does these steps when called.
    pub fn tool(self, name: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.raw_tool(tool(name)).on(name, steps)
    }

    /// Offers a tool as this JSON: a `Value`, or text whose bytes matter.
    pub fn raw_tool(mut self, item: impl ToString) -> Self {
        self.tools.push(item.to_string());
        self
    }

    pub fn resource(mut self, uri: &str) -> Self {
        self.resources.push(json!({"uri": uri, "name": uri}).to_string());
        self
    }

    pub fn template(mut self, template: &str) -> Self {
        self.templates.push(json!({"uriTemplate": template, "name": template}).to_string());
        self
    }

    pub fn prompt(mut self, name: &str) -> Self {
        self.prompts.push(json!({"name": name}).to_string());
        self
    }

    /// Sets what a call of this tool, a get of this prompt, a read of this URI or a request of this method does.
    pub fn on(mut self, what: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.behaviours.insert(what.into(), steps.into_iter().collect());
        self
    }

    /// Any other change: `script.with(|s| s.http.crlf = true)`.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Step {
    /// A form elicitation that asks for `answer`.
    pub fn elicit(message: &str) -> Self {
        let schema = json!({"type": "object", "properties": {"answer": {"type": "string"}}});
        Self::Ask("elicitation/create".into(), json!({"message": message, "requestedSchema": schema}).to_string())
    }

    pub fn sample(text: &str) -> Self {
        let message = json!({"role": "user", "content": {"type": "text", "text": text}});
        Self::Ask("sampling/createMessage".into(), json!({"messages": [message], "maxTokens": 10}).to_string())
    }

    pub fn roots() -> Self {
        Self::Ask("roots/list".into(), "{}".into())
    }

    pub fn log(level: &str, text: &str) -> Self {
        Self::Notify("notifications/message".into(), json!({"level": level, "data": text}).to_string())
    }
}

/// The JSON of a plain tool.
pub fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}
