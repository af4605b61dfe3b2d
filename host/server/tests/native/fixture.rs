//! A server with a scripted model, native tools, a gate that asks, and a store on disk.

use crate::watched::{FailsFrom, Watched};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tollgate::config::ServeConfig;
use tollgate::models::{Delta, DeltaSink, ModelFault};
use tollgate::store::{Store, StoreLimits};
use tollgate::tools::MemoryBudget;
use tollgate::{
    Agent, FnTool, Gate, Host, HostBuilder, Model, ProposedCall, SqliteStore, Ticket, Verdict, async_trait,
};
use tollgate_agent::descriptor::ExecutionPolicy;
use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest};
use tollgate_agent::outcome::ResumeMode;
use tollgate_server::access::KeyRequest;
use tollgate_server::{
    AccessDatabase, Part, Parts, Principal, Scope, Server, ServerOptions, ServerState, Shared, router,
};

/// A backstop for waits that would otherwise hang.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Calls the tools that the user names, one after `call` each, and speaks otherwise. After `pause`, it
/// stops in the middle of its reply until the test goes on.
struct Echo(Arc<Notify>);

#[async_trait]
impl Model for Echo {
    fn name(&self) -> &str {
        "echo-1"
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let said = |text: &str| AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() };
        let message = match request.messages.last() {
            Some(Message::User(text)) => match text.strip_prefix("call ") {
                Some(names) => {
                    let call = |name: &str| ModelCall {
                        name: name.to_owned(),
                        arguments: "{}".to_owned(),
                        ..ModelCall::default()
                    };
                    let calls: Vec<_> = names.split_whitespace().map(call).collect();
                    AssistantMessage { calls: Arc::new(calls), ..AssistantMessage::default() }
                }
                None => {
                    let pauses = text.starts_with("pause");
                    let text = format!("You said: {text}");
                    for (at, word) in text.split_inclusive(' ').enumerate() {
                        if pauses && at == 2 {
                            self.0.notified().await;
                        }
                        deltas(Delta::Text(word.to_owned()));
                        tokio::task::yield_now().await;
                    }
                    said(&text)
                }
            },
            _ => said("Done."),
        };
        Ok(ModelReply { message, ..ModelReply::default() })
    }
}

/// Calls `echo` as often as the user says, in turns of many calls. The arguments count the calls, so
/// no two turns are the same, and the last answer says how many are left.
struct Busy;

/// The calls of one turn of [`Busy`].
const AT_ONCE: u64 = 50;

#[async_trait]
impl Model for Busy {
    fn name(&self) -> &str {
        "busy-1"
    }

    async fn reply(
        &self,
        request: ModelRequest,
        _deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let (made, wanted) = match request.messages.last() {
            Some(Message::User(text)) => (0, text.parse().unwrap()),
            Some(Message::Answer(answer)) => {
                let counted: Value = serde_json::from_str(&answer.content).unwrap();
                (counted["made"].as_u64().unwrap(), counted["wanted"].as_u64().unwrap())
            }
            other => panic!("there is no answer: {other:?}"),
        };
        let call = |made: u64| ModelCall {
            name: "echo".to_owned(),
            arguments: json!({"made": made, "wanted": wanted}).to_string(),
            ..ModelCall::default()
        };
        let calls: Vec<_> = (made + 1..=wanted.min(made + AT_ONCE)).map(call).collect();
        let text = if calls.is_empty() { "Done." } else { "" };
        let message =
            AssistantMessage { text: text.to_owned(), calls: Arc::new(calls), ..AssistantMessage::default() };
        Ok(ModelReply { message, ..ModelReply::default() })
    }
}

/// Returns an agent with room for very long runs.
fn busy() -> Agent {
    let mut busy = Agent::new("busy", Busy).with_tools(["echo"]);
    busy.limits.model_turns = 10_000;
    busy.limits.tool_calls = 1_000_000;
    busy.limits.wall_ms = 3_600_000;
    busy
}

/// Asks a person about each call of `ask` and `ask_too`.
struct AskingGate;

#[async_trait]
impl Gate for AskingGate {
    fn id(&self) -> &str {
        "asking"
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        if !call.tool.descriptor.name.starts_with("ask") {
            return Verdict::Allow;
        }
        Verdict::Suspend(Box::new(Ticket {
            action: "approve".to_owned(),
            message: "May it?".to_owned(),
            parameters: Value::Null,
            response_schema: Some(json!({"type": "boolean"})),
            resume_mode: ResumeMode::ReplayToolCall,
        }))
    }
}

/// A server under test.
pub struct TestServer {
    pub url: String,
    pub address: SocketAddr,
    pub client: Client,
    pub state: Shared,
    /// How many times `count` ran, in all processes of the data directory that this test starts.
    pub counted: Arc<AtomicUsize>,
    /// The data directory, if the server made it.
    pub data: Option<TempDir>,
    serving: JoinHandle<()>,
}

/// The settings of a server under test.
#[derive(Default)]
pub struct Setup {
    pub config: ServeConfig,
    /// The parts that the server leaves out.
    pub without: Vec<Part>,
    /// How many direct calls of a principal run at a time, unless the default counts.
    pub calls: Option<usize>,
    /// The address of the proxy in front of the server.
    pub behind_proxy: Option<std::net::IpAddr>,
    pub counted: Arc<AtomicUsize>,
    /// How many calls of `sleep` have begun.
    pub sleeping: Arc<AtomicUsize>,
    /// Lets a paused reply go on.
    pub going_on: Arc<Notify>,
    /// The write of the store from which on all fail; 0 means never.
    pub fails_from: u64,
    /// Whether other hosts continue the runs of this server when it shuts down.
    pub hands_over: bool,
    /// The memory of the host in bytes, unless the default counts.
    pub memory_budget_bytes: Option<u64>,
    /// The limits of the store.
    pub limits: StoreLimits,
}

impl TestServer {
    pub async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub async fn with(setup: Setup) -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = Self::on(data.path(), setup).await;
        Self { data: Some(data), ..server }
    }

    /// Starts a server on an existing data directory.
    pub async fn on(data: &Path, setup: Setup) -> Self {
        let Setup {
            config,
            without,
            calls,
            behind_proxy,
            counted,
            sleeping,
            going_on,
            fails_from,
            hands_over,
            memory_budget_bytes,
            limits,
        } = setup;
        let mut store: Arc<dyn Store> = Arc::new(SqliteStore::open(data).unwrap().with_limits(limits));
        if fails_from > 0 {
            store = Watched::new(store, FailsFrom(AtomicU64::new(fails_from)));
        }
        let mut host = host(store, &counted, &sleeping, &going_on);
        if let Some(bytes) = memory_budget_bytes {
            host = host.memory_budget(MemoryBudget::new(bytes));
        }
        let host = host.build().unwrap();
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = server.address().unwrap();
        let access = AccessDatabase::open(data).unwrap();
        let defaults = ServerOptions::default();
        let calls = calls.unwrap_or(defaults.calls);
        let options = ServerOptions { address, calls, behind_proxy, hands_over, ..defaults };
        let state = ServerState::new(host, access, config, options);
        let routes = router(Arc::clone(&state), &Parts::all().without(without));
        let shared = Arc::clone(&state);
        let serving = tokio::spawn(async move { server.serve(shared, routes).await.unwrap() });
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client =
            Client::builder().no_proxy().timeout(PATIENCE).redirect(reqwest::redirect::Policy::none());
        let (url, client) = (format!("http://{address}"), client.build().unwrap());
        Self { url, address, client, state, counted, data: None, serving }
    }

    /// Stops the server in order and returns its data directory.
    pub async fn stop(self) -> TempDir {
        self.state.stop.cancel();
        tokio::time::timeout(PATIENCE, self.serving).await.unwrap().unwrap();
        self.state.store().flush().await.unwrap();
        self.data.unwrap()
    }

    /// Makes a key of this principal.
    pub fn key(&self, name: &str, scopes: &[Scope]) -> Key {
        self.key_of(Principal::new(name, scopes.iter().copied()))
    }

    pub fn key_of(&self, principal: Principal) -> Key {
        let request = KeyRequest { principal, expires_at_ms: None };
        let (id, secret) = self.state.access.add_key(&request).unwrap();
        Key { id, secret }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    pub async fn get(&self, key: &Key, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path).bearer_auth(&key.secret).send().await.unwrap()).await
    }

    pub async fn post(&self, key: &Key, path: &str, body: Value) -> (StatusCode, Value) {
        let request = self.request(Method::POST, path).bearer_auth(&key.secret).json(&body);
        answer(request.send().await.unwrap()).await
    }

    /// Starts a run and waits until it rests.
    pub async fn run(&self, key: &Key, input: &str) -> Value {
        let (status, run) = self.post(key, "/api/v1/runs", json!({"agent": "default", "input": input})).await;
        assert!(status.is_success(), "{status}: {run}");
        run
    }
}

/// A key and its id.
pub struct Key {
    pub id: String,
    pub secret: String,
}

/// Reads a JSON answer.
pub async fn answer(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let text = response.text().await.unwrap();
    let value =
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or(json!(text)) };
    (status, value)
}

/// Waits until a count has reached this number.
pub async fn reaches(count: &AtomicUsize, number: usize) {
    let counting = async {
        while count.load(Ordering::SeqCst) < number {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counting).await.unwrap();
}

fn host(
    store: Arc<dyn Store>,
    counted: &Arc<AtomicUsize>,
    sleeping: &Arc<AtomicUsize>,
    going_on: &Arc<Notify>,
) -> HostBuilder {
    let echo = || Echo(Arc::clone(going_on));
    let (counter, sleeping) = (Arc::clone(counted), Arc::clone(sleeping));
    let once = ExecutionPolicy { idempotent: false, ..ExecutionPolicy::default() };
    Host::builder()
        .store(store)
        .gate(AskingGate)
        .tool(FnTool::new(
            "echo",
            "echo",
            "Answers with its arguments.",
            |args: Value, _| async move { args },
        ))
        .tool(FnTool::new("large", "large", "Answers with 200 KiB.", |_: Value, _| async {
            "x".repeat(200 << 10)
        }))
        .tool(FnTool::new("ask", "ask", "Needs an answer.", |_: Value, _| async { "asked" }))
        .tool(FnTool::new("ask-too", "ask_too", "Needs an answer too.", |_: Value, _| async { "asked too" }))
        .tool(
            FnTool::new("count", "count", "Counts its calls.", move |_: Value, _| {
                let counter = Arc::clone(&counter);
                async move { json!(counter.fetch_add(1, Ordering::SeqCst) + 1) }
            })
            .with_execution(once),
        )
        .tool(FnTool::new("sleep", "sleep", "Sleeps for a minute.", move |_: Value, _| {
            sleeping.fetch_add(1, Ordering::SeqCst);
            async {
                tokio::time::sleep(PATIENCE).await;
                "slept"
            }
        }))
        .agent(Agent::new("default", echo()).with_instructions("Be kind.").with_tools(["*"]))
        .agent(Agent::new("other", echo()).with_tools(["*"]))
        .agent(busy())
}
