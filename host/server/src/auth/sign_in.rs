//! Signing in and out with a browser. A sign-in code is in the fragment of a link, which reaches
//! no log; without JavaScript, the person types it.

use super::{CredentialInUse, cookie};
use crate::access::{AccessError, NewSession, digest};
use crate::access_audit;
use crate::body;
use crate::console::{Entries, SIGN_IN_PATH, SIGN_OUT_PATH, href, protect, session_ended_page, sign_in_page};
use crate::http_guard::RequestOrigin;
use crate::problem::Problem;
use crate::state::{ServerState, Shared};
use axum::extract::{Extension, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use cookie::{Cookie, SameSite};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tollgate::store::now_ms;

/// The pause after a wrong code.
const PAUSE: Duration = Duration::from_millis(500);
/// The maximum number of codes that are checked at a time; others wait.
const ATTEMPTS: usize = 8;
/// How long a sign-in waits for its code to be checked.
const PLACE_WAIT: Duration = Duration::from_secs(5);
/// The maximum length of a typed code or key, in bytes.
const MAX_CODE_BYTES: usize = 200;
/// The maximum length of a body, in bytes.
const MAX_BODY_BYTES: usize = 4_096;
/// The page after signing in, unless the person asked for another page of the console.
const HOME: &str = "/console";
/// The maximum length of the address of the page after signing in, in bytes.
const MAX_NEXT_BYTES: usize = 1_000;

static PLACES: Semaphore = Semaphore::const_new(ATTEMPTS);

/// Returns the public routes of signing in.
pub(crate) fn router() -> Router<Shared> {
    Router::new().route(SIGN_IN_PATH, get(page).post(sign_in))
}

/// Returns the route of signing out, for sessions.
pub(crate) fn sign_out_router() -> Router<Shared> {
    Router::new().route(SIGN_OUT_PATH, post(sign_out))
}

async fn page(uri: Uri) -> Response {
    let query = Entries::read(uri.query().unwrap_or_default().as_bytes());
    shown(StatusCode::OK, query.get("next").and_then(known_page).unwrap_or_default(), None).await
}

async fn shown(status: StatusCode, next: &str, problem: Option<&str>) -> Response {
    let page = Html(sign_in_page(next, problem).into_string());
    protect((status, page).into_response()).await
}

/// Answers the request of a person without a session: leads to the page to sign in on, and from
/// there back to the requested page. A form is not lost: the answer's page can be sent again.
pub(super) async fn signed_out(request: Parts) -> Response {
    let address = |next: Option<&str>| {
        href(SIGN_IN_PATH, &[("next", next.filter(|next| *next != HOME).unwrap_or_default())])
    };
    if matches!(request.method, Method::GET | Method::HEAD) || request.uri.path() == SIGN_OUT_PATH {
        let wanted = request.uri.path_and_query().map_or(HOME, |wanted| wanted.as_str());
        return Redirect::to(&address(known_page(wanted))).into_response();
    }
    let referer = request.headers.get(header::REFERER).and_then(|referer| referer.to_str().ok());
    let referer = referer.and_then(|referer| url::Url::parse(referer).ok());
    let form = referer.map(|form| form[url::Position::BeforePath..url::Position::AfterQuery].to_owned());
    let form = form.as_deref().and_then(known_page);
    let page = Html(session_ended_page(&address(form), form.unwrap_or(HOME)).into_string());
    protect((StatusCode::UNAUTHORIZED, page).into_response()).await
}

/// Returns the path and query of a page if it is one of the console.
fn known_page(next: &str) -> Option<&str> {
    let rest = next.strip_prefix(HOME)?;
    let is_plain = next.len() <= MAX_NEXT_BYTES && next.bytes().all(|byte| byte.is_ascii_graphic());
    (is_plain && (rest.is_empty() || rest.starts_with(['/', '?']))).then_some(next)
}

/// A form or a JSON body: `{"code": "..."}`.
#[derive(serde::Deserialize)]
struct SignIn {
    code: String,
    /// The page to show afterwards.
    #[serde(default)]
    next: String,
}

async fn sign_in(
    State(state): State<Shared>,
    Extension(origin): Extension<RequestOrigin>,
    request: Request,
) -> Response {
    let is_form = is_form(request.headers());
    let before = cookie(request.headers(), &state.cookie_name());
    let user_agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let user_agent = user_agent.map(str::to_owned);
    // Read first: a body that arrives slowly takes no place from others.
    let read = read(&origin, is_form, request).await;
    let next = read.as_ref().ok().and_then(|read| known_page(&read.next)).map(str::to_owned);
    let answer = match read {
        Ok(read) => begin_session(&state, before, read.code, user_agent).await,
        Err(problem) => Err(problem),
    };
    match answer {
        Ok(cookie) => {
            let next = next.as_deref().unwrap_or(HOME);
            let cookie = [(header::SET_COOKIE, cookie)];
            match is_form {
                true => (cookie, Redirect::to(next)).into_response(),
                false => (cookie, Json(serde_json::json!({"next": next}))).into_response(),
            }
        }
        Err(problem) if is_form => {
            shown(problem.status, next.as_deref().unwrap_or_default(), Some(&problem.detail)).await
        }
        Err(problem) => problem.into_response(),
    }
}

async fn read(origin: &RequestOrigin, is_form: bool, request: Request) -> Result<SignIn, Problem> {
    // A foreign page must not sign a browser in as another principal.
    if request.headers().contains_key(header::ORIGIN) || request.headers().contains_key("sec-fetch-site") {
        origin.require_same_origin()?;
    }
    let sent = body::read_short(request, MAX_BODY_BYTES).await?;
    let read = match is_form {
        true => Some(read_form(&sent)),
        false => serde_json::from_slice(&sent).ok(),
    };
    let read = read.filter(|read| !read.code.is_empty() && read.code.len() <= MAX_CODE_BYTES);
    read.ok_or_else(|| Problem::bad_request("the body has no `code` of at most 200 bytes; send one"))
}

/// Exchanges a code or key for a session. Returns the cookie of the session, and ends the session
/// of the cookie `before`.
async fn begin_session(
    state: &Shared,
    before: Option<String>,
    code: String,
    user_agent: Option<String>,
) -> Result<HeaderValue, Problem> {
    let place = place(&PLACES).await?;
    // Codes need no limit: each works once, and only an operator makes them.
    let key = state.access.credential(&digest(code.trim())).map_err(|e| Problem::internal(&e))?;
    if let Some(key) = key.filter(|found| !found.is_session) {
        state.load.share(&key.principal.name).sign_in()?;
    }
    let shared = Shared::clone(state);
    let began = tokio::task::spawn_blocking(move || {
        // Released before the pause after a wrong code, so that guesses do not keep others waiting.
        let _place = place;
        let Some(began) = shared.access.sign_in(&code, user_agent.as_deref())? else { return Ok(None) };
        // The presented session ends, so a planted one does not live on.
        if let Some(before) = before
            && let Ok(Some(session)) = shared.access.credential(&digest(&before))
            && session.is_session
        {
            shared.access.end_session(&session.id)?;
            return Ok(Some((began, Some(session))));
        }
        Ok(Some((began, None)))
    });
    let began: Result<_, AccessError> = began.await.map_err(|e| Problem::internal(&e))?;
    let began = began.map_err(|e| Problem::internal(&e))?;
    let Some((began, replaced)) = began else {
        tokio::time::sleep(PAUSE).await;
        let detail = "this code or key is not valid; `tollgate sign-in` prints a new link";
        return Err(Problem::new(StatusCode::FORBIDDEN, "wrong_code", detail));
    };
    let NewSession { id, name, cookie, ends_at_ms } = began;
    if let Some(replaced) = replaced {
        access_audit::ended(state, &name, &replaced.id, &replaced.principal.name).await;
    }
    access_audit::signed_in(state, &name, &id).await;
    session_cookie(state, cookie, ends_at_ms.saturating_sub(now_ms()) / 1_000)
}

/// Waits for a place to check a code.
async fn place(places: &'static Semaphore) -> Result<SemaphorePermit<'static>, Problem> {
    match tokio::time::timeout(PLACE_WAIT, places.acquire()).await {
        Ok(Ok(place)) => Ok(place),
        _ => Err(Problem::too_many("sign-ins are in progress")),
    }
}

/// Reads the body of a form. Spaces in a typed code do not count.
fn read_form(sent: &[u8]) -> SignIn {
    let form = Entries::read(sent);
    let entry = |name: &str| form.get(name).unwrap_or_default();
    SignIn { code: entry("code").replace(' ', ""), next: entry("next").to_owned() }
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
    let name = &session.principal.name;
    access_audit::end_session(&state, name, &session.id, name).await?;
    let cookie = session_cookie(&state, String::new(), 0)?;
    let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, HeaderValue::from_static("/sign-in"))];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sign_in_waits_for_a_limited_time() {
        static ONE: Semaphore = Semaphore::const_new(1);
        let first = place(&ONE).await.unwrap();
        assert_eq!(place(&ONE).await.unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
        let release = async {
            tokio::time::sleep(PLACE_WAIT / 2).await;
            drop(first);
        };
        let (second, ()) = tokio::join!(place(&ONE), release);
        assert!(second.is_ok());
    }
}
