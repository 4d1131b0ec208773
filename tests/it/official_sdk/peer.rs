//! A client made of the official SDK, in either era, that remembers what it was told.

use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorData, Implementation, ProgressNotificationParam, ProtocolVersion,
    ServerNotification, SubscriptionFilter,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, PeerRequestOptions, RequestContext, RequestHandle,
    RoleClient, RunningService, Subscription,
};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::app::PATIENCE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub const BOTH: [Self; 2] = [Self::Legacy, Self::Modern];

    /// As a server's `protocol` in a configuration.
    pub fn pin(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// Answers every question with 42.
#[derive(Default)]
pub struct Handler {
    tools_changed: Notify,
    progressed: Notify,
    progress: AtomicUsize,
}

impl ClientHandler for Handler {
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

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        assert_eq!((progress.progress, progress.total, progress.message.as_deref()), (1.0, Some(2.0), Some("holding")));
        self.progress.fetch_add(1, Ordering::SeqCst);
        self.progressed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("sdk-peer", "0"))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }
}

/// A connected client.
pub struct Peer {
    pub running: RunningService<RoleClient, Handler>,
    /// What a modern client listens with; a legacy one is told by itself.
    subscription: Option<Subscription>,
}

impl Peer {
    /// Connects and, in the modern era, listens for changed tools.
    pub async fn connect(url: &str, era: Era) -> Self {
        let lifecycle = match era {
            Era::Legacy => ClientLifecycleMode::Initialize,
            Era::Modern => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        };
        let transport = StreamableHttpClientTransport::from_uri(url);
        let running = Handler::default().serve_with_lifecycle(transport, lifecycle).await.unwrap();
        let subscription = match era {
            Era::Legacy => None,
            Era::Modern => {
                let filter: SubscriptionFilter =
                    serde_json::from_value(json!({"toolsListChanged": true})).expect("a filter");
                Some(running.listen(filter).await.unwrap())
            }
        };
        Self { running, subscription }
    }

    /// The text of a call's result.
    pub async fn call(&self, tool: &str, arguments: Value) -> String {
        let result =
            timeout(PATIENCE, self.running.call_tool(params(tool, arguments))).await.expect("an answer in time");
        result.unwrap().content[0].as_text().unwrap().text.clone()
    }

    /// Names of all tools.
    pub async fn tools(&self) -> Vec<String> {
        self.running.list_all_tools().await.unwrap().into_iter().map(|tool| tool.name.into_owned()).collect()
    }

    /// Waits until it is told that tools changed.
    pub async fn told_of_tools(&mut self) {
        let told = async {
            match &mut self.subscription {
                None => self.running.service().tools_changed.notified().await,
                Some(subscription) => loop {
                    let notification = subscription.next().await.unwrap().expect("the subscription lasts");
                    if matches!(notification, ServerNotification::ToolListChangedNotification(_)) {
                        return;
                    }
                },
            }
        };
        timeout(PATIENCE, told).await.expect("told of changed tools in time");
    }

    /// Starts a call and returns once progress of it has come.
    pub async fn begin(&self, tool: &str) -> RequestHandle<RoleClient> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params(tool, json!({}))));
        let options = PeerRequestOptions::no_options();
        let handle = self.running.send_cancellable_request(request, options).await.unwrap();
        timeout(PATIENCE, self.running.service().progressed.notified()).await.expect("progress in time");
        handle
    }

    /// How often progress came.
    pub fn progress(&self) -> usize {
        self.running.service().progress.load(Ordering::SeqCst)
    }

    pub async fn close(self) {
        drop(self.subscription);
        self.running.cancel().await.unwrap();
    }
}

fn params(tool: &str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}
