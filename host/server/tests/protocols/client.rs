//! A client of the test server.

use crate::server;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tollgate::config::{OpenAiConfig, ServeConfig};
use tollgate::tools::ProgressStatus;
use tollgate::tools::Report;
use tollgate::{FnTool, Host, Ticket, ToolContext, ToolResult};
use tollgate_agent::outcome::ResumeMode;

/// Longer than anything takes on a busy machine.
pub(crate) const BACKSTOP: Duration = Duration::from_secs(60);

async fn slow_report(arguments: Value, call: ToolContext) -> Value {
    let pause = Duration::from_millis(arguments["pause_ms"].as_u64().unwrap_or_default());
    for part in 1..=arguments["parts"].as_u64().unwrap_or_default() {
        call.report(Report::Progress {
            status: ProgressStatus::Running,
            message: Some(format!("part {part}")),
            progress: None,
        });
        tokio::time::sleep(pause).await;
    }
    json!({"parts": arguments["parts"]})
}

async fn request_approval(arguments: Value, call: ToolContext) -> ToolResult {
    match call.resumption() {
        Some(resumption) => ToolResult::success(resumption.value.clone()),
        None => ToolResult::suspended_with(Ticket {
            action: "approve".to_owned(),
            message: arguments["question"].as_str().unwrap_or_default().to_owned(),
            parameters: Value::Null,
            response_schema: Some(json!({
                "type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"],
            })),
            resume_mode: ResumeMode::ReplayToolCall,
        }),
    }
}

fn story() -> Host {
    let builder = Host::builder()
        .tool(FnTool::new("slow-report", "slow_report", "Reports slowly.", slow_report))
        .tool(FnTool::new("approve", "request_approval", "Asks a person.", request_approval))
        .tool(FnTool::new("echo", "echo", "Echoes.", |arguments: Value, _| async move { arguments }));
    server::with_story(builder).build().unwrap()
}

/// Takes the interfaces of other bindings out of an agent card.
async fn only(binding: &str, request: Request, next: Next) -> axum::response::Response {
    let is_card = request.uri().path().ends_with("/agent-card.json");
    let response = next.run(request).await;
    if !is_card || response.status() != StatusCode::OK {
        return response;
    }
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let mut card: Value = serde_json::from_slice(&body).unwrap();
    let interfaces = card["supportedInterfaces"].as_array_mut().unwrap();
    interfaces.retain(|interface| interface["protocolBinding"] == binding);
    assert_eq!(interfaces.len(), 1);
    axum::Json(card).into_response()
}

/// A server, and the key of a client.
#[derive(Clone)]
pub(crate) struct Client {
    base: String,
    http: reqwest::Client,
    key: String,
    keys: Arc<BTreeMap<&'static str, String>>,
    /// The data directory of the server.
    _data: Arc<TempDir>,
}

impl Client {
    /// Starts a server and returns a client with the key `ada`.
    pub(crate) async fn start() -> Self {
        Self::serving(story()).await
    }

    /// Starts a server whose agent cards offer only this binding of A2A.
    pub(crate) async fn offering(binding: &'static str) -> Self {
        let only = move |request: Request, next: Next| only(binding, request, next);
        Self::serving_with(story(), ServeConfig::default(), |routes| routes.layer(from_fn(only))).await
    }

    /// Starts a server with this treatment of OpenAI's clients.
    pub(crate) async fn with_openai(openai: OpenAiConfig) -> Self {
        let config = ServeConfig { openai, ..ServeConfig::default() };
        Self::serving_with(story(), config, |routes| routes).await
    }

    /// Starts a server with this host and returns a client with the key `ada`.
    pub(crate) async fn serving(host: Host) -> Self {
        Self::serving_with(host, ServeConfig::default(), |routes| routes).await
    }

    async fn serving_with(host: Host, config: ServeConfig, change: impl FnOnce(Router) -> Router) -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = server::serve_with(host, data.path(), config, change).await.unwrap();
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().timeout(BACKSTOP).build().unwrap();
        let key = server.keys["ada"].clone();
        let base = format!("http://{}", server.address);
        Self { base, http, key, keys: Arc::new(server.keys), _data: Arc::new(data) }
    }

    /// Returns a client of the same server with the key of this principal; any other name is a
    /// wrong key.
    pub(crate) fn with_key(&self, name: &str) -> Self {
        let key = self.keys.get(name).map_or(name, String::as_str).to_owned();
        Self { key, ..self.clone() }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Returns the address with the scheme.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn address(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.key)
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        json_of(self.request(Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        json_of(self.send(path, body).await).await
    }

    /// Sends JSON and returns the answer, whose body may be a stream.
    pub(crate) async fn send(&self, path: &str, body: &Value) -> Response {
        self.request(Method::POST, path).json(body).send().await.unwrap()
    }

    /// Sends JSON and returns the events of the answer, which must be a stream.
    pub(crate) async fn stream(&self, path: &str, body: &Value) -> Events {
        Events::of(self.send(path, body).await)
    }

    /// Says yes with the form of the console, in a session of this key's principal.
    pub(crate) async fn approve_in_console(&self, run: &str, suspension: &str) -> StatusCode {
        let code = json!({"code": self.key});
        let signed = self.http.post(format!("{}/sign-in", self.base)).json(&code).send().await.unwrap();
        let cookie = signed.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let form = format!("s={}&do=answer&f=true", suspension.replace('/', "%2F"));
        let request = self.http.post(format!("{}/console/runs/{run}/decide", self.base));
        let request = request.header("cookie", cookie).header("origin", &self.base);
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(form);
        request.send().await.unwrap().status()
    }

    /// Answers a question by the native API.
    pub(crate) async fn decide(&self, run: &str, suspension: &str, answer: &Value) -> StatusCode {
        let path = format!("/api/v1/runs/{run}/questions/{}", suspension.replace('/', "%2F"));
        self.send(&path, &json!({"answer": answer})).await.status()
    }
}

async fn json_of(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// The events of a stream, one at a time.
pub(crate) struct Events {
    response: Response,
    pending: String,
}

impl Events {
    pub(crate) fn of(response: Response) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        let kind = response.headers()["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/event-stream"), "{kind}");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self { response, pending: String::new() }
    }

    /// Returns the data of the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.pending.split_once("\n\n") {
                let data: Vec<&str> = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                let data = data.join("\n");
                self.pending = rest.to_owned();
                if data.is_empty() {
                    continue;
                }
                return Some(serde_json::from_str(&data).unwrap_or(Value::String(data)));
            }
            let chunk = self.response.chunk().await.unwrap()?;
            self.pending.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Returns events up to the first for which this holds, which must come.
    pub(crate) async fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("the stream ended: {events:#?}"));
            let stops = is_last(&event);
            events.push(event);
            if stops {
                return events;
            }
        }
    }

    /// Returns all further events.
    pub(crate) async fn rest(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}
