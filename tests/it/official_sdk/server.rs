//! An MCP server made of the official SDK: both eras, one of everything, a tool that adds a tool.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult, ContentBlock,
    ElicitRequestParams, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation,
    InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ResourceContents, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The server; clones share what they know, as HTTP makes one for each session and each modern request.
#[derive(Clone, Default)]
pub struct Sdk(Arc<State>);

#[derive(Default)]
struct State {
    has_grown: AtomicBool,
    cancelled: AtomicUsize,
    release: Notify,
    peers: Mutex<Vec<Peer<RoleServer>>>,
    changes: watch::Sender<u32>,
}

/// Plain data of the SDK from JSON: shorter than its constructors, and what is meant is what goes over the wire.
fn made<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("what the SDK reads")
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

fn question() -> ElicitRequestParams {
    made(json!({
        "mode": "form",
        "message": "6 x 7?",
        "requestedSchema": {"type": "object", "properties": {"answer": {"type": "string"}}},
    }))
}

impl Sdk {
    /// Adds a tool and tells everybody.
    async fn grow(&self) {
        self.0.has_grown.store(true, Ordering::SeqCst);
        self.0.changes.send_modify(|n| *n += 1);
        let peers = self.0.peers.lock().unwrap().clone();
        for peer in peers {
            // A session that ended meanwhile has nobody to tell.
            let _ = peer.notify_tool_list_changed().await;
        }
    }

    /// Progress, then nothing until it is released or cancelled.
    async fn hold(&self, context: &RequestContext<RoleServer>) -> CallToolResponse {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, 1.0).with_total(2.0).with_message("holding");
            context.peer.notify_progress(progress).await.unwrap();
        }
        tokio::select! {
            () = context.ct.cancelled() => {
                self.0.cancelled.fetch_add(1, Ordering::SeqCst);
                text("cancelled")
            }
            () = self.0.release.notified() => text("released"),
        }
    }

    /// Asks in the way of the era in which it was asked.
    async fn ask(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answer = if context.protocol_version() == Some(ProtocolVersion::V_2026_07_28) {
            let Some(responses) = &request.input_responses else {
                let requests = json!({"q": {"method": "elicitation/create", "params": question()}});
                return Ok(InputRequiredResult::new(Some(made(requests)), Some("asked".into())).into());
            };
            assert_eq!(request.request_state.as_deref(), Some("asked"));
            responses["q"]["content"]["answer"].clone()
        } else {
            let asked = context.peer.create_elicitation(question()).await;
            let result = asked.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            result.content.map_or(Value::Null, |content| json!(content)["answer"].clone())
        };
        Ok(text(format!("The answer is {}", answer.as_str().unwrap_or("missing"))))
    }
}

impl ServerHandler for Sdk {
    fn get_info(&self) -> ServerConfig {
        let capabilities = json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {}, "completions": {}});
        ServerConfig::new(made(capabilities)).with_server_info(Implementation::new("sdk", "1"))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.0.peers.lock().unwrap().push(context.peer);
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.0.changes.subscribe();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = changes.changed() => {
                    if changed.is_err() || context.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut names = vec!["echo", "hold", "release", "cancelled", "ask", "grow"];
        names.extend(self.0.has_grown.load(Ordering::SeqCst).then_some("extra"));
        let tools: Vec<Value> =
            names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
        Ok(ListToolsResult::with_all_items(made(json!(tools))))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(match request.name.as_ref() {
            "echo" => text(json!(request.arguments).to_string()),
            "hold" => self.hold(&context).await,
            "release" => {
                self.0.release.notify_one();
                text("done")
            }
            "cancelled" => text(self.0.cancelled.load(Ordering::SeqCst).to_string()),
            "ask" => self.ask(&request, &context).await?,
            "grow" => {
                self.grow().await;
                text("done")
            }
            "extra" => text("I am extra"),
            name => return Err(ErrorData::invalid_params(format!("unknown tool {name}"), None)),
        })
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(made(json!([{"uri": "sdk://a", "name": "a"}]))))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(made(json!([{"uriTemplate": "sdk://{x}", "name": "any"}]))))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(ReadResourceResult::new(vec![ResourceContents::text("content", request.uri)]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(made(json!([{"name": "greet", "arguments": [{"name": "who"}]}]))))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let who = request.arguments.map_or(Value::Null, |arguments| json!(arguments)["who"].clone());
        let said = format!("Greet {}", who.as_str().unwrap_or("everybody"));
        let messages = json!([{"role": "user", "content": {"type": "text", "text": said}}]);
        Ok(GetPromptResult::new(made(messages)).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let value = format!("{}race", request.argument.value);
        Ok(made(json!({"resultType": "complete", "completion": {"values": [value]}})))
    }
}

/// The server on Streamable HTTP at a free port; dropping it ends it.
pub struct Listening {
    pub url: String,
    stop: CancellationToken,
    _task: JoinSet<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Serves over HTTP, both eras.
pub async fn over_http() -> Listening {
    let (sdk, stop) = (Sdk::default(), CancellationToken::new());
    let config = StreamableHttpServerConfig::default().with_cancellation_token(stop.clone());
    let service: StreamableHttpService<Sdk, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(sdk.clone()), Default::default(), config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let mut task = JoinSet::new();
    task.spawn(async move {
        axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await.unwrap();
    });
    Listening { url, stop, _task: task }
}

/// Set in the environment of a child that is to be the server.
const CHILD: &str = "MANIFOLD_TEST_SDK_CHILD";

/// An entry of `mcpServers` that starts this very binary as a stdio server (see `support::upstream`).
pub fn over_stdio() -> Value {
    let exe = std::env::current_exe().unwrap();
    let test = "official_sdk::server::official_sdk_child";
    let line = r#"exec "$0" "$@" 3>&1 >/dev/null"#;
    json!({
        "command": "sh",
        "args": ["-c", line, exe, test, "--exact", "--ignored", "--test-threads=1"],
        "env": {CHILD: "1"},
    })
}

#[tokio::test]
#[ignore = "this is the body of a stdio server, which other tests start as a child process"]
async fn official_sdk_child() {
    // Somebody who runs the ignored tests too gets here without a gateway to talk to.
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let output = tokio::fs::OpenOptions::new().write(true).open("/dev/fd/3").await.unwrap();
    let running = Sdk::default().serve((tokio::io::stdin(), output)).await.unwrap();
    running.waiting().await.unwrap();
}
