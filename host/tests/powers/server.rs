//! A server on this machine that records the requests it receives.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse};
use axum::routing::{any, get};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Seen = Arc<Mutex<Vec<String>>>;

pub(crate) struct Server {
    address: SocketAddr,
    seen: Seen,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let seen = Seen::default();
        let router = Router::new()
            .route("/open/echo", any(echo))
            .route("/open/moved", get(moved))
            .route("/open/page", get(|| async { Html(PAGE) }))
            .route("/open/drips", get(drips))
            .route("/open/never", get(std::future::pending::<()>))
            .route("/v1/forecast", get(forecast))
            .with_state(Arc::clone(&seen));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, seen }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the credentials of every request, and an entry for each dripped byte.
    pub(crate) fn authorizations(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

const PAGE: &str =
    "<title>A page</title><nav>menu</nav><h1>Hello</h1><p>Some <b>words</b>, <a href=more>more</a>.";

fn remember(seen: &Seen, headers: &HeaderMap) {
    let text = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("none");
    seen.lock().unwrap().push(text.to_owned());
}

async fn echo(State(seen): State<Seen>, headers: HeaderMap, body: String) -> Json<Value> {
    remember(&seen, &headers);
    let headers: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    Json(json!({"headers": headers, "body": body}))
}

async fn moved(State(seen): State<Seen>, headers: HeaderMap) -> impl IntoResponse {
    remember(&seen, &headers);
    (StatusCode::FOUND, [(header::LOCATION, "http://169.254.169.254/")])
}

/// Sends a byte every 50 ms forever: no single read waits long.
async fn drips(State(seen): State<Seen>) -> Body {
    let bytes = futures::stream::unfold(seen, |seen| async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        seen.lock().unwrap().push("drip".to_owned());
        Some((Ok::<_, Infallible>("."), seen))
    });
    Body::from_stream(bytes)
}

async fn forecast() -> Json<Value> {
    Json(json!({
        "current": {"temperature_2m": 60.1, "wind_speed_10m": 5.0, "weather_code": 0},
        "current_units": {"temperature_2m": "°F"},
    }))
}
