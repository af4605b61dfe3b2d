//! What every request over HTTP passes before anything else looks at it: the token, the
//! names by which it was sent, and the bounds of what is carried at once.

use super::connections::{Serving, Via};
use super::disconnects::{Attended, DisconnectTracker, ResponseGuard};
use super::reader::MAX_MESSAGE_BYTES;
use super::request_limit::{RequestLimiter, RequestPermit};
use super::sessions::{InUse, MAX_SESSIONS, Sessions};
use super::transport::refusal;
use super::weight::{TooHeavy, Weighed, weigh};
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use futures::StreamExt as _;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tollgate_sandbox::MemoryBudget;

/// How long a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);
/// A body of so many bytes is read before it is known whether there is room for it: a
/// cancellation is small, and needs none.
const SMALL_BYTES: usize = 64 * 1024;
const SESSION: &str = "mcp-session-id";

/// Where requests come in.
pub(super) struct RequestGuard {
    token: [u8; 32],
    sessions: Arc<Sessions>,
    /// Of all clients together.
    load: Arc<RequestLimiter>,
    /// Of each session that has something under way; those without sessions are one.
    loads: Mutex<HashMap<String, Weak<RequestLimiter>>>,
    leaving: Arc<DisconnectTracker>,
    /// From which the memory of messages is reserved.
    budget: MemoryBudget,
}

impl RequestGuard {
    pub(super) fn new(token: &str, sessions: Arc<LocalSessionManager>, budget: MemoryBudget) -> Self {
        let (load, loads, leaving) = (Arc::default(), Mutex::default(), Arc::default());
        let sessions = Arc::new(Sessions::new(sessions));
        Self { token: digest(token), sessions, load, loads, leaving, budget }
    }

    /// A place for a request of this session, or of a client that has none.
    fn claim(&self, session: Option<&str>, bytes: usize) -> Option<RequestPermit> {
        let session = session.unwrap_or_default();
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        if loads.len() > 2 * MAX_SESSIONS {
            loads.retain(|_, load| load.strong_count() > 0);
        }
        let load = loads.get(session).and_then(Weak::upgrade).unwrap_or_else(|| {
            let load = Arc::new(RequestLimiter::of_one());
            loads.insert(session.to_owned(), Arc::downgrade(&load));
            load
        });
        drop(loads);
        RequestLimiter::claim_both(&load, &self.load, bytes)
    }

    /// Compares digests, which says nothing about how much of the token is right.
    fn knows(&self, headers: &HeaderMap) -> bool {
        only(headers, &header::AUTHORIZATION).is_ok_and(|value| {
            let token = value.and_then(|value| {
                let (scheme, token) = value.split_once(' ')?;
                scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
            });
            token.is_some_and(|token| digest(token) == self.token)
        })
    }
}

/// Lets a request in, or says why not.
pub(super) async fn admit(State(door): State<Arc<RequestGuard>>, request: Request, next: Next) -> Response {
    if !door.knows(request.headers()) {
        // Who shows none does not keep the connection, either.
        let headers =
            [(header::WWW_AUTHENTICATE, "Bearer realm=\"tollgate\""), (header::CONNECTION, "close")];
        let words = "the request shows no token, or another; send Authorization: Bearer TOKEN";
        return (StatusCode::UNAUTHORIZED, headers, words).into_response();
    }
    let via = request.extensions().get::<ConnectInfo<Via>>();
    let serving = via.map(|ConnectInfo(via)| via.serve());
    // Whoever looks at the first alone would judge another request than whoever looks at
    // the last.
    if [header::ORIGIN, header::HOST].iter().any(|name| request.headers().get_all(name).iter().count() > 1) {
        let words = "the request has more than one Origin or Host; send one";
        return (StatusCode::BAD_REQUEST, words).into_response();
    }
    let ends_session = request.method() == Method::DELETE;
    let named = request.headers().get(SESSION).and_then(|named| named.to_str().ok()).map(str::to_owned);
    let in_use = match named {
        Some(named) if door.sessions.has(&named).await => Some(door.sessions.use_now(&named)),
        _ => None,
    };
    match door.taken_in(request).await {
        Ok((request, attendance)) => {
            let answered = next.run(request).await;
            if let Some(begun) = answered.headers().get(SESSION).and_then(|begun| begun.to_str().ok()) {
                drop(door.sessions.use_now(begun));
            }
            let mut response = attended(answered, attendance, serving, in_use);
            // It has ended, and is not about to; there are clients that ask for the difference.
            if ends_session && response.status() == StatusCode::ACCEPTED {
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            response
        }
        Err(refused) => *refused,
    }
}

impl RequestGuard {
    /// The request, read whole and with its place, and who waits for its answer.
    async fn taken_in(&self, request: Request) -> Result<(Request, Option<ResponseGuard>), Box<Response>> {
        let refused = |status: StatusCode, words: &str| Box::new((status, words.to_owned()).into_response());
        let full = || {
            let words = "as much is under way as may be at once; wait for answers";
            refused(StatusCode::SERVICE_UNAVAILABLE, words)
        };
        let begins = request.method() == Method::POST && !request.headers().contains_key(SESSION);
        if begins && !self.sessions.make_room().await {
            let words = "too many sessions, all in use; end one, or retry in some seconds";
            return Err(refused(StatusCode::SERVICE_UNAVAILABLE, words));
        }
        let (mut parts, body) = request.into_parts();
        let session = self.session(&parts).await;
        if parts.method == Method::DELETE && session.is_none() && parts.headers.contains_key(SESSION) {
            return Err(refused(StatusCode::NOT_FOUND, "there is no such session, or it has ended"));
        }
        let session = session.as_deref();
        let room = |bytes: usize| self.claim(session, bytes);
        let arrived = match tokio::time::timeout(ARRIVAL, read(&parts, body, room)).await {
            Ok(arrived) => arrived,
            Err(_) => {
                let words = "the request took too long to arrive";
                return Err(refused(StatusCode::REQUEST_TIMEOUT, words));
            }
        };
        let (body, slot) = arrived.map_err(|unread| match unread {
            Unread::Full => full(),
            Unread::Broken => {
                let words = format!("the request is longer than {MAX_MESSAGE_BYTES} bytes, or broke off");
                refused(StatusCode::PAYLOAD_TOO_LARGE, &words)
            }
        })?;
        let mut attendance = None;
        if parts.method == Method::POST
            && let Some(kind) = request_kind(&body)
        {
            let slot = match slot {
                Some(slot) => Some(slot),
                // A session that begins is nobody's yet, and kept out by no share but that of all.
                None if begins && kind == Kind::Initialize => RequestLimiter::claim(&self.load, body.len()),
                None => self.claim(session, body.len()),
            };
            let slot = slot.ok_or_else(full)?;
            if let Some(session) = session {
                let (attends, gone) = self.leaving.attend(session, Some(slot.clone()));
                attendance = Some(attends);
                parts.extensions.insert(gone);
            }
            // The call keeps it until it has ended.
            parts.extensions.insert(slot);
        }
        // The rest of an answer is asked for by what was read of it.
        if parts.method == Method::GET
            && let Some(session) = session
            && parts.headers.get("last-event-id").is_some_and(|id| id.as_bytes().contains(&b'/'))
        {
            attendance = Some(self.leaving.back(session));
        }
        let body = self.weighed(&mut parts, body)?;
        Ok((Request::from_parts(parts, Body::from(body)), attendance))
    }

    /// The body without large arguments, if there is memory to read it; what is known of it
    /// goes with the request.
    fn weighed(&self, parts: &mut Parts, body: Bytes) -> Result<Bytes, Box<Response>> {
        let refused = |status: StatusCode, words: String| Box::new((status, words).into_response());
        let Weighed { message, arguments, memory } =
            weigh(&body, &self.budget).map_err(|heavy| match heavy {
                TooHeavy::Budget => {
                    let words = "overloaded: the host has no memory to read the message now; try again later";
                    refused(StatusCode::SERVICE_UNAVAILABLE, words.to_owned())
                }
                TooHeavy::Values(why) | TooHeavy::Number(why) => {
                    refused(StatusCode::BAD_REQUEST, format!("the message was not read: {why}"))
                }
            })?;
        if parts.method == Method::POST
            && is_json(&parts.headers)
            && serde_json::from_slice::<ClientJsonRpcMessage>(&message).is_err()
        {
            return Err(Box::new(no_message(&message)));
        }
        let lighter = match message {
            Cow::Borrowed(_) => None,
            Cow::Owned(lighter) => Some(lighter),
        };
        if let Some(arguments) = arguments {
            parts.extensions.insert(arguments);
        }
        if let Some(memory) = memory {
            parts.extensions.insert(memory);
        }
        let Some(lighter) = lighter else { return Ok(body) };
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(lighter.len()));
        Ok(Bytes::from(lighter))
    }

    /// The session of a request. An id that nobody was given is none, and has no share.
    async fn session(&self, parts: &Parts) -> Option<String> {
        let named = parts.headers.get(SESSION)?.to_str().ok()?;
        self.sessions.has(named).await.then(|| named.to_owned())
    }
}

/// Why a body was not read to its end.
enum Unread {
    /// There is no room for it.
    Full,
    /// It is longer than it may be, or broke off.
    Broken,
}

/// Reads a body whole. It has a place as soon as it is known to be more than small: with as
/// many bytes as it says or, where it says nothing, as there may be; and in the end with
/// those that came.
async fn read(
    parts: &Parts,
    body: Body,
    claim: impl Fn(usize) -> Option<RequestPermit>,
) -> Result<(Bytes, Option<RequestPermit>), Unread> {
    let declared = declared_bytes(parts);
    let whole = declared.unwrap_or(MAX_MESSAGE_BYTES).min(MAX_MESSAGE_BYTES);
    let mut slot = None;
    if declared.is_some() && whole > SMALL_BYTES {
        slot = Some(claim(whole).ok_or(Unread::Full)?);
    }
    let (mut chunks, mut bytes) = (body.into_data_stream(), BytesMut::new());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Unread::Broken)?;
        let length = bytes.len() + chunk.len();
        if length > MAX_MESSAGE_BYTES {
            return Err(Unread::Broken);
        }
        if slot.is_none() && length > SMALL_BYTES {
            slot = Some(claim(whole).ok_or(Unread::Full)?);
        }
        bytes.extend_from_slice(&chunk);
    }
    if let Some(slot) = &slot {
        slot.shrink(bytes.len());
    }
    Ok((bytes.freeze(), slot))
}

/// An answer that is a stream, with who reads it; any other is there already.
fn attended(
    response: Response,
    attendance: Option<ResponseGuard>,
    serving: Option<Serving>,
    in_use: Option<InUse>,
) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
        attendance.into_iter().for_each(ResponseGuard::refused);
        return response;
    }
    let (parts, body) = response.into_parts();
    let body = Attended::new(body.into_data_stream(), attendance, (serving, in_use));
    Response::from_parts(parts, Body::from_stream(body))
}

/// How long the body says that it is; none where it does not say.
fn declared_bytes(parts: &Parts) -> Option<usize> {
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|length| length.parse().ok())
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE);
    given.is_some_and(|given| given.as_bytes().starts_with(b"application/json"))
}

/// The answer to a body that is no message: an error of JSON-RPC, if anybody waits for one.
fn no_message(body: &[u8]) -> Response {
    let Some((error, id)) = refusal(body) else { return StatusCode::ACCEPTED.into_response() };
    let answer = serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error});
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::BAD_REQUEST, headers, answer.to_string()).into_response()
}

/// What a message asks for that waits for an answer.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// A session.
    Initialize,
    /// Anything else.
    Other,
}

/// Whether a message waits for an answer, or may, and for which; what is none is refused
/// elsewhere.
fn request_kind(body: &Bytes) -> Option<Kind> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        method: Option<&'a RawValue>,
        id: Option<IgnoredAny>,
    }
    match serde_json::from_slice::<Message<'_>>(body) {
        Ok(Message { method: Some(method), id: Some(_) }) => Some(match method.get() {
            "\"initialize\"" => Kind::Initialize,
            _ => Kind::Other,
        }),
        Ok(_) => None,
        Err(_) => Some(Kind::Other),
    }
}

/// The one value of a header; none where there is none, and an error where there are
/// several or it is no text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}
