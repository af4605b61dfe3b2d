//! Signing in and out with a browser. A sign-in code is in the fragment of a link, which reaches
//! no log; without JavaScript, the person types it.

use super::middleware::{CredentialInUse, cookie};
use super::records::AccessError;
use super::secret;
use crate::body;
use crate::console::{SIGN_IN_PATH, SIGN_OUT_PATH, protect, sign_in_page};
use crate::http_guard::RequestOrigin;
use crate::problem::Problem;
use crate::state::{ServerState, Shared};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use cookie::{Cookie, SameSite};
use std::time::Duration;
use tokio::sync::Semaphore;
use tollgate::store::now_ms;

/// The pause after a wrong code.
const PAUSE: Duration = Duration::from_millis(500);
/// The maximum number of attempts to sign in at a time.
const ATTEMPTS: usize = 8;
/// The maximum length of a typed code or key, in bytes.
const MAX_CODE_BYTES: usize = 200;
/// The maximum length of a body, in bytes.
const MAX_BODY_BYTES: usize = 2_048;
/// The page after signing in.
const HOME: &str = "/console";

static PLACES: Semaphore = Semaphore::const_new(ATTEMPTS);

/// Returns the public routes of signing in.
pub(crate) fn router() -> Router<Shared> {
    Router::new().route(SIGN_IN_PATH, get(page).post(sign_in))
}

/// Returns the route of signing out, for sessions.
pub(crate) fn sign_out_router() -> Router<Shared> {
    Router::new().route(SIGN_OUT_PATH, post(sign_out))
}

async fn page() -> Response {
    shown(StatusCode::OK, None).await
}

async fn shown(status: StatusCode, problem: Option<&str>) -> Response {
    let page = Html(sign_in_page(problem).into_string());
    protect((status, page).into_response()).await
}

/// A form or a JSON body: `{"code": "..."}`.
#[derive(serde::Deserialize)]
struct SignIn {
    code: String,
}

async fn sign_in(
    State(state): State<Shared>,
    Extension(origin): Extension<RequestOrigin>,
    request: Request,
) -> Response {
    let is_form = is_form(request.headers());
    let answer = try_sign_in(&state, &origin, is_form, request).await;
    match answer {
        Ok(cookie) if is_form => {
            let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, HeaderValue::from_static(HOME))];
            (StatusCode::SEE_OTHER, headers).into_response()
        }
        Ok(cookie) => {
            ([(header::SET_COOKIE, cookie)], Json(serde_json::json!({"next": HOME}))).into_response()
        }
        Err(problem) if is_form => shown(problem.status, Some(&problem.detail)).await,
        Err(problem) => problem.into_response(),
    }
}

async fn try_sign_in(
    state: &Shared,
    origin: &RequestOrigin,
    is_form: bool,
    request: Request,
) -> Result<HeaderValue, Problem> {
    // A foreign page must not sign a browser in as another principal.
    if request.headers().contains_key(header::ORIGIN) || request.headers().contains_key("sec-fetch-site") {
        origin.require_same_origin()?;
    }
    let before = cookie(request.headers(), &state.cookie_name());
    // Read first: a body that arrives slowly takes no place from others.
    let sent = body::read_short(request, MAX_BODY_BYTES).await?;
    let read = match is_form {
        true => code_of_form(&sent),
        false => serde_json::from_slice(&sent).ok(),
    };
    let Some(SignIn { code }) = read.filter(|read: &SignIn| read.code.len() <= MAX_CODE_BYTES) else {
        return Err(Problem::bad_request("the body has no `code` of at most 200 bytes; send one"));
    };
    let Ok(_place) = PLACES.try_acquire() else {
        return Err(Problem::too_many("attempts to sign in are in progress"));
    };
    let shared = Shared::clone(state);
    let began = tokio::task::spawn_blocking(move || {
        let Some(began) = shared.access.sign_in(&code)? else { return Ok(None) };
        // The presented session ends, so a planted one does not live on.
        if let Some(before) = before
            && let Ok(Some(session)) = shared.access.credential(&secret::digest(&before))
            && session.is_session
        {
            shared.access.end_session(&session.id)?;
        }
        Ok(Some(began))
    });
    let began: Result<_, AccessError> = began.await.map_err(|e| Problem::internal(&e))?;
    let began = began.map_err(|e| Problem::internal(&e))?;
    let Some((secret, ends_at_ms)) = began else {
        tokio::time::sleep(PAUSE).await;
        let detail = "this code or key is not valid; `tollgate sign-in` prints a new link";
        return Err(Problem::new(StatusCode::FORBIDDEN, "wrong_code", detail));
    };
    session_cookie(state, secret, ends_at_ms.saturating_sub(now_ms()) / 1_000)
}

/// Returns the code of a form's body.
fn code_of_form(sent: &[u8]) -> Option<SignIn> {
    let text = std::str::from_utf8(sent).ok()?;
    let code = text.split('&').find_map(|pair| pair.strip_prefix("code="))?;
    // A code or key has no character that a browser would encode, except for typed spaces.
    Some(SignIn { code: code.replace(['+', ' '], "").replace("%20", "") })
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.starts_with("application/x-www-form-urlencoded")
}

/// Returns the cookie of a session. A lifetime of 0 removes it.
fn session_cookie(state: &ServerState, secret: String, seconds: u64) -> Result<HeaderValue, Problem> {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let cookie = Cookie::build((state.cookie_name(), secret))
        .path("/")
        .http_only(true)
        .same_site(SameSite::Strict)
        .secure(state.is_behind_proxy())
        .max_age(cookie::time::Duration::seconds(seconds));
    HeaderValue::from_str(&cookie.build().to_string()).map_err(|e| Problem::internal(&e))
}

async fn sign_out(
    State(state): State<Shared>,
    Extension(CredentialInUse(session)): Extension<CredentialInUse>,
) -> Result<Response, Problem> {
    if !session.is_session {
        return Err(Problem::bad_request("there is no session to end; `tollgate keys revoke` ends a key"));
    }
    let shared = Shared::clone(&state);
    let id = session.id.clone();
    let ended = tokio::task::spawn_blocking(move || shared.access.end_session(&id)).await;
    ended.map_err(|e| Problem::internal(&e))?.map_err(|e| Problem::internal(&e))?;
    let cookie = session_cookie(&state, String::new(), 0)?;
    let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, HeaderValue::from_static("/sign-in"))];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}
