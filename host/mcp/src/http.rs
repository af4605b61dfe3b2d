//! The protocol over HTTP, as routes of a server. With a token of the operator, each request needs
//! it: requests of web pages are refused unless their origin is allowed, and so are requests under any
//! name of this machine that is not its own. Otherwise the server authenticates requests itself.

use super::guard::{RequestGuard, admit, admit_mounted};
use super::reader::MAX_MESSAGE_BYTES;
use super::server::{Calls, Conversation, Server, SharedParts};
use super::tool_list::ToolList;
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::{get, get_service};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tollgate::Host;
use tollgate::metrics::{CONTENT_TYPE, Metrics};
use uuid::Uuid;

/// The path of the protocol.
pub const HTTP_PATH: &str = "/mcp";
/// The path of the metrics, which require the token too.
pub const METRICS_PATH: &str = "/metrics";

/// The token and the allowed names of a server whose clients share one token.
#[derive(Debug, Clone)]
pub struct TokenOptions {
    /// The token that every request sends as `Authorization: Bearer TOKEN`.
    pub token: String,
    /// Origins whose pages may use the server, such as `https://example.com`.
    pub origins: Vec<String>,
    /// Names by which clients reach this machine, in addition to those of the loopback.
    pub hosts: Vec<String>,
    /// The number of calls of one session that run at once, from 1 to 128. All clients without
    /// sessions together have the same limit. A value below the sandbox's limit leaves room for
    /// other sessions.
    pub session_calls: usize,
}

/// Returns an unguessable token.
#[must_use]
pub fn new_token() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// The protocol as a part of a server.
pub struct MountedServer {
    routes: Router,
    under_way: Calls,
}

impl MountedServer {
    /// Creates the routes for clients that share one token, and of metrics, if there are any. When
    /// `stop` is cancelled, calls in progress are cancelled.
    #[must_use]
    pub fn with_token(
        host: Host,
        offer: ToolList,
        options: TokenOptions,
        metrics: Option<Metrics>,
        stop: CancellationToken,
    ) -> Self {
        let shown = metrics.map(|metrics| shown_metrics(metrics, host.clone(), &options));
        let mut config = StreamableHttpServerConfig::default()
            .with_cancellation_token(stop.child_token())
            .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
            .with_allowed_origins(options.origins.iter().map(|origin| with_port(origin)))
            .enforce_origin_validation();
        config.allowed_hosts.extend(options.hosts);
        let under_way = Calls::until(stop);
        let budget = host.memory_budget().clone();
        let calls = Some(options.session_calls);
        let (service, sessions) = service(host, offer, config, calls, under_way.clone());
        let guard = Arc::new(RequestGuard::new(Some(&options.token), sessions, budget));
        let routes = Router::new().nest_service(HTTP_PATH, service).merge(shown.unwrap_or_default());
        Self { routes: routes.layer(from_fn_with_state(guard, admit)), under_way }
    }

    /// Creates the routes as a part of a server that authenticates each request, checks the names
    /// under which it was sent and the size of its body, and adds a [`MountedClient`] to its
    /// extensions. A session belongs to the principal that began it and does not exist for others.
    /// When `stop` is cancelled, streams end and calls in progress are cancelled.
    ///
    /// [`MountedClient`]: crate::MountedClient
    #[must_use]
    pub fn new(host: Host, offer: ToolList, stop: CancellationToken) -> Self {
        let config = StreamableHttpServerConfig::default()
            .with_cancellation_token(stop.child_token())
            .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let under_way = Calls::until(stop);
        let budget = host.memory_budget().clone();
        let (service, sessions) = service(host, offer, config, None, under_way.clone());
        let guard = Arc::new(RequestGuard::new(None, sessions, budget));
        // Other methods have no handler, so that the mounting server answers them in its own form.
        let methods = get_service(service.clone()).post_service(service.clone()).delete_service(service);
        let routes = Router::new().route(HTTP_PATH, methods);
        Self { routes: routes.layer(from_fn_with_state(guard, admit_mounted)), under_way }
    }

    /// Returns the routes: [`HTTP_PATH`], and [`METRICS_PATH`] if metrics are served.
    pub fn router<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        self.routes.clone().with_state(())
    }

    /// Waits for a short time until the calls in progress have ended and are recorded. The server
    /// has stopped.
    pub async fn ended(&self) {
        self.under_way.ended().await;
    }
}

/// Returns the service of the protocol and its sessions. `calls` is the number of calls that one
/// session runs at once; `None` if another server mounts the service, and limits each principal.
fn service(
    host: Host,
    offer: ToolList,
    config: StreamableHttpServerConfig,
    calls: Option<usize>,
    under_way: Calls,
) -> (StreamableHttpService<Server, LocalSessionManager>, Arc<LocalSessionManager>) {
    let sessions = Arc::<LocalSessionManager>::default();
    let (offer, shared) = (Arc::new(offer), Arc::<SharedParts>::default());
    let sessionless = Arc::new(Conversation::new(&offer, calls));
    let new_session = move || {
        let (offer, shared, sessionless) =
            (Arc::clone(&offer), Arc::clone(&shared), Arc::clone(&sessionless));
        Ok(Server::sharing(host.clone(), offer, shared, sessionless, calls, under_way.clone()))
    };
    (StreamableHttpService::new(new_session, Arc::clone(&sessions), config), sessions)
}

/// Returns an origin with its port. Without one, it means the default port of its scheme, and no
/// other.
fn with_port(origin: &str) -> String {
    let origin = origin.trim().trim_end_matches('/');
    let Some((scheme, host)) = origin.split_once("://") else { return origin.to_owned() };
    // Colons within brackets belong to an IPv6 address.
    let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
    match scheme.to_ascii_lowercase().as_str() {
        _ if has_port => origin.to_owned(),
        "https" => format!("{origin}:443"),
        "http" => format!("{origin}:80"),
        _ => origin.to_owned(),
    }
}

/// Returns the route of the metrics, for programs and for pages of the allowed origins.
fn shown_metrics(metrics: Metrics, host: Host, options: &TokenOptions) -> Router {
    let origins = options.origins.clone();
    let show = async move |request: Request| {
        let mut shown = request.headers().get_all(header::ORIGIN).iter();
        let may = |origin: &HeaderValue| origins.iter().any(|known| known.as_bytes() == origin.as_bytes());
        if !shown.all(may) {
            return (StatusCode::FORBIDDEN, "this origin is not allowed").into_response();
        }
        ([(header::CONTENT_TYPE, CONTENT_TYPE)], metrics.text(&host)).into_response()
    };
    Router::new().route(METRICS_PATH, get(show))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_without_a_port_means_that_of_its_scheme() {
        for (named, meant) in [
            ("https://good.example", "https://good.example:443"),
            ("HTTP://good.example/", "HTTP://good.example:80"),
            ("https://good.example:8443", "https://good.example:8443"),
            ("http://[::1]", "http://[::1]:80"),
            ("http://[::1]:9", "http://[::1]:9"),
            ("https://good.example:*", "https://good.example:*"),
            ("null", "null"),
        ] {
            assert_eq!(with_port(named), meant);
        }
    }
}
