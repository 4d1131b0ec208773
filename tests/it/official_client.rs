//! The official SDK's client gets on with our two servers, the demo and the scripted upstream, in both eras: a second opinion
//! on what they say, as all other tests judge them by our own reading of the specification.

use std::time::Duration;

use mcp_manifold::demo;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ErrorData, GetPromptRequestParams, Implementation, ProtocolVersion, ReadResourceRequestParams,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RoleClient, RunningService,
};
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, object};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::support::upstream::{Answer, Script, Step, Upstream};

/// Answers every question with 42 and notes when it hears of new tools.
#[derive(Default)]
struct Answering {
    tools_changed: Notify,
}

impl ClientHandler for Answering {
    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"answer": "42"})))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("test", "0"))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }
}

type Connected = RunningService<RoleClient, Answering>;

fn lifecycles() -> [ClientLifecycleMode; 2] {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    [ClientLifecycleMode::Initialize, ClientLifecycleMode::Discover { preferred_versions }]
}

async fn connect<T, E, A>(transport: T, lifecycle: ClientLifecycleMode) -> Connected
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    Answering::default().serve_with_lifecycle(transport, lifecycle).await.unwrap()
}

async fn call(peer: &Connected, tool: &'static str, arguments: Value) -> String {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let result = peer.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await.unwrap();
    result.content[0].as_text().unwrap().text.clone()
}

#[tokio::test]
async fn the_demo_server_serves_it() {
    for lifecycle in lifecycles() {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(far);
        let mut server = JoinSet::new();
        server.spawn(demo::run("demo".into(), input, output));
        let peer = connect(near, lifecycle.clone()).await;
        assert_eq!(peer.list_all_tools().await.unwrap().len(), 7);
        assert_eq!(peer.list_all_prompts().await.unwrap().len(), 1);
        assert_eq!(peer.list_all_resources().await.unwrap().len(), 1);
        assert_eq!(peer.list_all_resource_templates().await.unwrap().len(), 1);
        assert_eq!(call(&peer, "add", json!({"a": 2, "b": 3})).await, "5");
        assert_eq!(call(&peer, "ask", json!({"question": "6 x 7?"})).await, "The answer is: 42");
        let read = peer.read_resource(ReadResourceRequestParams::new("demo://greeting/Ada")).await.unwrap();
        assert_eq!(read.contents.len(), 1);
        let prompt = GetPromptRequestParams::new("greet").with_arguments(object!({"who": "Ada"}));
        assert_eq!(peer.get_prompt(prompt).await.unwrap().messages.len(), 1);
        assert_eq!(peer.complete_prompt_simple("greet", "who", "G").await.unwrap(), ["Grace"]);
        if lifecycle == ClientLifecycleMode::Initialize {
            assert_eq!(call(&peer, "add_tool", json!({"name": "extra"})).await, "Added extra.");
            assert_eq!(call(&peer, "extra", json!({})).await, "I am extra.");
            let told = peer.service().tools_changed.notified();
            tokio::time::timeout(Duration::from_secs(10), told).await.expect("the peer is told of the new tool");
        }
        peer.cancel().await.unwrap();
        server.join_next().await.unwrap().unwrap().unwrap();
    }
}

fn script() -> Script {
    Script::new("scripted").tool("t", [Step::Progress(1), Step::elicit("6 x 7?"), Step::Answers])
}

async fn is_served(peer: Connected) {
    assert_eq!(peer.list_all_tools().await.unwrap().len(), 1);
    let answers: Value = serde_json::from_str(&call(&peer, "t", json!({})).await).unwrap();
    assert_eq!(answers[0]["content"], json!({"answer": "42"}));
    peer.cancel().await.unwrap();
}

#[tokio::test]
async fn the_scripted_upstream_serves_it_over_http() {
    for lifecycle in lifecycles() {
        for answer in [Answer::Json, Answer::Sse] {
            let upstream = Upstream::http(script().with(|script| script.http.answer = answer)).await;
            let transport = StreamableHttpClientTransport::from_uri(upstream.url());
            is_served(connect(transport, lifecycle.clone()).await).await;
        }
    }
}

#[tokio::test]
async fn the_scripted_upstream_serves_it_over_stdio() {
    for lifecycle in lifecycles() {
        let upstream = Upstream::stdio(script()).await;
        let mut command = tokio::process::Command::new(upstream.command());
        command.args(upstream.args()).envs(upstream.env());
        is_served(connect(TokioChildProcess::new(command).unwrap(), lifecycle).await).await;
    }
}
