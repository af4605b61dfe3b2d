//! A real server with the console, over a real host and store, and the requests of a browser.

use axum::extract::Request;
use axum::middleware::{self, Next};
use reqwest::header::HeaderMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tollgate::config::ServeConfig;
use tollgate::models::{DeltaSink, ModelFault};
use tollgate::store::RunFilter;
use tollgate::{Agent, FnTool, Host, HostBuilder, Model, SqliteStore, ToolContext, ToolResult, async_trait};
use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest, TokenUsage};
use tollgate_server::console::ConsoleData;
use tollgate_server::{AccessDatabase, Principal, Scope, ServerOptions, ServerState, console};

pub(crate) const ALL: [Scope; 5] = [Scope::Use, Scope::Decide, Scope::DecideAny, Scope::Read, Scope::Operate];

/// A model that calls tools with fixed arguments, one after the other, and then answers.
pub(crate) struct Script {
    pub(crate) calls: Vec<(&'static str, serde_json::Value)>,
    pub(crate) answer: String,
}

#[async_trait]
impl Model for Script {
    fn name(&self) -> &str {
        "script"
    }

    async fn reply(&self, request: ModelRequest, _: &mut DeltaSink<'_>) -> Result<ModelReply, ModelFault> {
        let asked = request.messages.iter().rposition(|message| matches!(message, Message::User(_)));
        let after = &request.messages[asked.unwrap_or(0)..];
        let turn = after.iter().filter(|message| matches!(message, Message::Assistant(_))).count();
        let message = match self.calls.get(turn) {
            Some((name, arguments)) => AssistantMessage {
                calls: Arc::new(vec![ModelCall {
                    name: (*name).to_owned(),
                    arguments: arguments.to_string(),
                    ..ModelCall::default()
                }]),
                ..AssistantMessage::default()
            },
            None => AssistantMessage { text: self.answer.clone(), ..AssistantMessage::default() },
        };
        let usage = TokenUsage { input_tokens: 100, output_tokens: 20 };
        Ok(ModelReply { message, usage, ..ModelReply::default() })
    }
}

/// A server that treats every request as one of the current principal.
pub(crate) struct Server {
    pub(crate) host: Host,
    pub(crate) origin: String,
    client: reqwest::Client,
    principal: Arc<Mutex<Option<Principal>>>,
    facts: Arc<Mutex<Option<Arc<dyn ConsoleData>>>>,
    _data: tempfile::TempDir,
}

/// An answer of the server.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) path: String,
}

pub(crate) fn principal(name: &str, scopes: &[Scope]) -> Principal {
    Principal::new(name, scopes.iter().copied())
}

/// A tool that asks a person with this ticket, and answers with the decision.
pub(crate) fn asking(id: &'static str, ticket: tollgate::Ticket) -> impl tollgate::NativeTool {
    FnTool::new(id, id, "Asks a person.", move |_: serde_json::Value, call: ToolContext| {
        let ticket = ticket.clone();
        async move {
            match call.resumption() {
                None => ToolResult::suspended_with(ticket),
                Some(decided) => ToolResult::success(decided.value.clone()),
            }
        }
    })
}

impl Server {
    /// Starts a server over a host with these parts.
    pub(crate) async fn start(parts: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        Self::configured(parts, ServeConfig::default()).await
    }

    /// Starts a server with this configuration, over a host with these parts.
    pub(crate) async fn configured(
        parts: impl FnOnce(HostBuilder) -> HostBuilder,
        config: ServeConfig,
    ) -> Self {
        let data = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(data.path()).unwrap());
        let host = parts(Host::builder()).store(store).build().unwrap();
        let principal = Arc::new(Mutex::new(Some(principal("ada", &ALL))));
        let facts: Arc<Mutex<Option<Arc<dyn ConsoleData>>>> = Arc::default();
        let (current, known) = (Arc::clone(&principal), Arc::clone(&facts));
        let sign_in = move |mut request: Request, next: Next| {
            if let Some(principal) = current.lock().unwrap().clone() {
                request.extensions_mut().insert(principal);
            }
            if let Some(facts) = known.lock().unwrap().clone() {
                request.extensions_mut().insert(facts);
            }
            next.run(request)
        };
        let app = axum::Router::new()
            .nest("/console", console::router())
            .merge(console::assets_router())
            .layer(middleware::from_fn(sign_in))
            .with_state(ServerState::new(
                host.clone(),
                AccessDatabase::open(data.path()).unwrap(),
                config,
                ServerOptions::default(),
            ));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { host, origin, client, principal, facts, _data: data }
    }

    /// Starts a server with one agent, `clerk`, and these tools.
    pub(crate) async fn with_script(script: Script, parts: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        Self::start(|builder| parts(builder.agent(Agent::new("clerk", script).with_tools(["*"])))).await
    }

    pub(crate) fn sign_in(&self, principal: Option<Principal>) {
        *self.principal.lock().unwrap() = principal;
    }

    pub(crate) fn knows(&self, facts: impl ConsoleData + 'static) {
        *self.facts.lock().unwrap() = Some(Arc::new(facts));
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.answer(self.client.get(format!("{}{path}", self.origin))).await
    }

    pub(crate) async fn post(&self, path: &str, entries: &[(String, String)]) -> Answer {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(entries).finish();
        let request = self.client.post(format!("{}{path}", self.origin)).body(body);
        self.answer(request.header("content-type", "application/x-www-form-urlencoded")).await
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Answer {
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let path = answer.url().path().to_owned();
        Answer { status, headers, path, body: answer.text().await.unwrap() }
    }

    /// Returns the response to a request, to read its stream.
    pub(crate) async fn open(&self, path: &str) -> reqwest::Response {
        self.client.get(format!("{}{path}", self.origin)).send().await.unwrap()
    }

    /// Runs the agent on a thread until it ends or waits, and returns the run's id.
    pub(crate) async fn run(&self, prompt: &str, thread: &str) -> String {
        let mut request = tollgate::RunRequest::new("clerk", prompt).on_thread(thread);
        request.principal = thread.split_once('/').map(|(owner, _)| owner.into());
        self.host.run(request).await.unwrap().wait().await.unwrap().run_id.to_string()
    }

    /// Waits until a run has this status.
    pub(crate) async fn becomes(&self, run_id: &str, status: &str) {
        for _ in 0..1_200 {
            let runs = self.host.store().runs(RunFilter::one(run_id)).await.unwrap();
            if runs.first().is_some_and(|run| run.status == status) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the run {run_id} did not become {status}");
    }
}

/// Returns the value of an attribute of the first element that contains this text.
pub(crate) fn attribute(html: &str, element: &str, name: &str) -> Option<String> {
    let start = html.find(element)?;
    let tag = &html[start..start + html[start..].find('>')?];
    let value = &tag[tag.find(&format!("{name}=\""))? + name.len() + 2..];
    Some(value[..value.find('"')?].replace("&amp;", "&"))
}
