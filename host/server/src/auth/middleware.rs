//! The middleware that finds out who makes a request.

use super::sign_in::signed_out;
use super::watch::end_with_credential;
use super::{CredentialInUse, bearer, cookie};
use crate::access::{Credential, SecretDigest, digest};
use crate::body;
use crate::console::{ConsoleData, SIGN_OUT_PATH};
use crate::console_data::ServerData;
use crate::http_guard::RequestOrigin;
use crate::load;
use crate::problem::Problem;
use crate::state::{ServerState, Shared};
use axum::Extension;
use axum::body::HttpBody as _;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tollgate_mcp::ClientConnection;

/// The paths on which a session's cookie counts. Everywhere else, only a key does.
const COOKIE_PATHS: [&str; 3] = ["/console", "/api", "/sign-out"];

/// Admits a request with a valid key or session, and puts its
/// [`Principal`](crate::Principal) into the request.
pub(crate) async fn authenticate(
    State(state): State<Shared>,
    Extension(origin): Extension<RequestOrigin>,
    request: Request,
    next: Next,
) -> Response {
    let sends_key = bearer(request.headers()).is_some();
    match find(&state, &request, &origin) {
        Ok(Some(found)) => admit(&state, found, request, next).await,
        Ok(None) if wants_page(&request) => signed_out(request.into_parts().0).await,
        Ok(None) => refused(sends_key),
        Err(problem) => problem.into_response(),
    }
}

/// Passes on a request with its principal, within the limits of the principal.
async fn admit(state: &Shared, found: FoundCredential, request: Request, next: Next) -> Response {
    let FoundCredential { digest, credential } = found;
    let connection = request.extensions().get::<ConnectInfo<ClientConnection>>().cloned();
    if let Some(ConnectInfo(connection)) = &connection {
        connection.authenticated(Some(credential.principal.name.as_str()));
    }
    let share = state.load.share(&credential.principal.name);
    let place = match share.connection().await {
        Ok(place) => place,
        Err(problem) => return closing(problem),
    };
    let (mut request, memory) = match body::read_whole(request, &share).await {
        Ok(arrived) => arrived,
        Err(problem) => return problem.into_response(),
    };
    // A connection whose body is still to arrive may have to make room for others.
    let serving = connection.map(|ConnectInfo(connection)| connection.serve());
    let extensions = request.extensions_mut();
    extensions.insert((*credential.principal).clone());
    let session = credential.is_session.then(|| credential.id.clone());
    let data: Arc<dyn ConsoleData> = Arc::new(ServerData::new(Arc::clone(state), session));
    extensions.insert(data);
    extensions.insert(CredentialInUse(credential));
    extensions.insert(share.clone());
    let response = end_with_credential(next.run(request).await, (state, digest), share.ended());
    // A stream may repeat the parsed body, such as its messages. Other answers are complete.
    let memory = memory.filter(|_| response.body().size_hint().exact().is_none());
    load::answered(share, response, (place, serving, memory))
}

/// A valid credential and the digest of its secret.
struct FoundCredential {
    digest: SecretDigest,
    credential: Arc<Credential>,
}

/// Returns the valid credential of a request. A cookie is not enough for an unsafe request from
/// another site.
fn find(
    state: &ServerState,
    request: &Request,
    origin: &RequestOrigin,
) -> Result<Option<FoundCredential>, Problem> {
    let look_up = |secret: &str| {
        let digest = digest(secret);
        let found = state.access.credential(&digest).map_err(|e| Problem::internal(&e))?;
        Ok::<_, Problem>(found.map(|credential| FoundCredential { digest, credential }))
    };
    if request.headers().contains_key(header::AUTHORIZATION) {
        let Some(key) = bearer(request.headers()) else { return Ok(None) };
        return Ok(look_up(key)?.filter(|found| !found.credential.is_session));
    }
    if !COOKIE_PATHS.iter().any(|path| is_within(request.uri().path(), path)) {
        return Ok(None);
    }
    let Some(cookie) = cookie(request.headers(), &state.cookie_name()) else { return Ok(None) };
    let Some(found) = look_up(&cookie)?.filter(|found| found.credential.is_session) else { return Ok(None) };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        origin.require_same_origin()?;
    }
    Ok(Some(found))
}

fn is_within(path: &str, base: &str) -> bool {
    path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns whether a person's browser asks for a page of the console, or sends one of its forms.
fn wants_page(request: &Request) -> bool {
    let accepts = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let path = request.uri().path();
    (is_within(path, "/console") || path == SIGN_OUT_PATH)
        && accepts.is_some_and(|accept| accept.contains("text/html"))
}

/// Refuses a request without a valid credential.
fn refused(sends_key: bool) -> Response {
    let mut response = closing(if sends_key { Problem::invalid_key() } else { Problem::unauthenticated() });
    let headers = response.headers_mut();
    headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tollgate\""));
    response
}

/// Answers with a problem, and does not keep the connection alive.
fn closing(problem: Problem) -> Response {
    let mut response = problem.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
