//! The console over a long day of real runs: `cargo run -p tollgate-server --example console_day`
//!
//! Options: `--port N` (default 7310), `--runs N` (default 360), `--as NAME` (default `ada`),
//! `--scopes a,b` (default: all that the console shows), and `--data DIR` (default: a temporary
//! directory). With `--hostile`, an agent and a tool write HTML, links and escapes.
//!
//! Everybody who connects is signed in, so this is only for looking at the console on this machine.

mod cast;
mod clock;
mod day;
mod hostile;
mod tools;

use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::IntoResponse as _;
use axum::routing::get;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tollgate::config::ServeConfig;
use tollgate::{Host, SqliteStore, async_trait};
use tollgate_agent::gate::permissions::RuleSpec;
use tollgate_server::console::{self, ComponentFacts, ConsoleData, KeyRow, Price, SessionRow};
use tollgate_server::{AccessDatabase, Principal, Problem, Scope, ServerOptions, ServerState};

const SCOPES: [Scope; 5] = [Scope::Use, Scope::Decide, Scope::DecideAny, Scope::Read, Scope::Operate];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let option = |name: &str| std::env::args().skip_while(|word| word != name).nth(1);
    let port: u16 = option("--port").map_or(Ok(7310), |port| port.parse())?;
    let runs: usize = option("--runs").map_or(Ok(360), |runs| runs.parse())?;
    let temporary = tempfile::tempdir()?;
    let data = option("--data").map_or_else(|| temporary.path().to_owned(), Into::into);
    let store = Arc::new(clock::Shifted::new(SqliteStore::open(&data)?));
    let builder = tools::with_tools(Host::builder().store(store.clone()))
        .gate(tools::permissions()?)
        .plugin(tools::Ledger)
        .visible_keys(["ledger.*"]);
    let is_hostile = std::env::args().any(|word| word == "--hostile");
    let builder = if is_hostile { hostile::with_agent(builder) } else { builder };
    let host = cast::agents().into_iter().fold(builder, tollgate::HostBuilder::agent).build()?;
    day::record(&host, &store, runs).await?;
    if is_hostile {
        hostile::record(&host).await?;
    }
    cast::PACE_US.store(60_000, Ordering::Relaxed);

    let names = option("--scopes");
    let is_named = |scope: &Scope| {
        names.as_ref().is_none_or(|names| names.split(',').any(|name| name == scope.as_str()))
    };
    let name = option("--as").unwrap_or_else(|| "ada".to_owned());
    let principal = Principal::new(name, SCOPES.into_iter().filter(is_named));
    let facts: Arc<dyn ConsoleData> = Arc::new(Facts);
    let sign_in = move |mut request: Request, next: Next| {
        request.extensions_mut().insert(principal.clone());
        request.extensions_mut().insert(Arc::clone(&facts));
        next.run(request)
    };
    let state = ServerState::new(
        host,
        AccessDatabase::open(&data)?,
        ServeConfig::default(),
        ServerOptions::default(),
    );
    let alone = |page: maud::Markup| async { console::protect(page.into_response()).await };
    let app = axum::Router::new()
        .nest("/console", console::router())
        .merge(console::assets_router())
        .route(console::SIGN_IN_PATH, get(move || alone(console::sign_in_page("", None))))
        .route("/wrong-code", get(move || alone(console::sign_in_page("", Some("this code is not valid")))))
        .route("/session-ended", get(move || alone(console::session_ended_page("/sign-in", "/console"))))
        .layer(middleware::from_fn(sign_in))
        .with_state(state);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}/console", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

/// Facts that a server would read from its keys, sessions and configuration.
struct Facts;

#[async_trait]
impl ConsoleData for Facts {
    async fn sessions(&self, viewer: &Principal) -> Result<Vec<SessionRow>, Problem> {
        let now = day::now_ms();
        let session = |id: &str, principal: &str, browser: &str, hours: u64, is_current| SessionRow {
            id: id.to_owned(),
            principal: principal.to_owned(),
            started_at_ms: now - hours * day::HOUR_MS,
            used_at_ms: now - hours * day::HOUR_MS / 9,
            ends_at_ms: now + 29 * 24 * day::HOUR_MS,
            browser: Some(browser.to_owned()),
            is_current,
        };
        Ok(vec![
            session("s1", &viewer.name, "Firefox 145 on Linux", 0, true),
            session("s2", &viewer.name, "Safari 19 on iPhone", 26, false),
            session("s3", "lin", "Chrome 142 on macOS", 5, false),
        ])
    }

    async fn end_session(&self, _viewer: &Principal, id: &str) -> Result<(), Problem> {
        if ["s2", "s3"].contains(&id) { Ok(()) } else { Err(Problem::not_found("session")) }
    }

    async fn keys(&self) -> Result<Vec<KeyRow>, Problem> {
        let now = day::now_ms();
        let key = |id: &str, name: &str, scopes: &[Scope], used: Option<u64>, is_revoked| KeyRow {
            id: id.to_owned(),
            name: name.to_owned(),
            scopes: scopes.to_vec(),
            created_at_ms: now - 40 * 24 * day::HOUR_MS,
            used_at_ms: used.map(|minutes| now - minutes * 60_000),
            expires_at_ms: Some(now + 50 * 24 * day::HOUR_MS),
            is_revoked,
        };
        Ok(vec![
            key("k7f2", "helpdesk", &[Scope::Use, Scope::Decide], Some(2), false),
            key("k19a", "nightly", &[Scope::Use], Some(420), false),
            key("k03c", "grafana", &[Scope::Metrics], Some(1), false),
            key("j88e", "helpdesk", &[Scope::Use], None, true),
        ])
    }

    fn component(&self, id: &str) -> Option<ComponentFacts> {
        if id == "leaflet" {
            return Some(hostile::facts());
        }
        (id == "send-email").then(|| ComponentFacts {
            version: "1.4.0".to_owned(),
            file: "send-email.wasm".to_owned(),
            origin: Some("oci://ghcr.io/example/send-email".to_owned()),
            signer: Some("https://github.com/example/tools".to_owned()),
            licence: Some("Apache-2.0".to_owned()),
            lock: Some("recorded; each load is checked against it".to_owned()),
            asks: Some(vec![
                "send HTTP requests: POST https://mail.example.org/".to_owned(),
                "have a secret join its requests: mail-key".to_owned(),
            ]),
            granted: vec!["http POST https://mail.example.org/".to_owned()],
            missing: vec![(
                "have a secret join its requests: mail-key".to_owned(),
                "--secret mail-key".to_owned(),
            )],
            limits: Vec::new(),
        })
    }

    fn price(&self, _model: &str) -> Option<Price> {
        Some(Price { input: 2.5, output: 10.0 })
    }

    fn keeps_rules(&self) -> bool {
        true
    }

    fn keep_rule(&self, _rule: &RuleSpec) -> Result<(), Problem> {
        Ok(())
    }
}
