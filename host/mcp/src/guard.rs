//! The checks of every HTTP request before anything else sees it: the token, the names under
//! which it was sent, and the limits on requests in flight. If another server mounts this one, that
//! server has checked the credential and the names.

use super::connections::{ClientConnection, RequestInProgress};
use super::disconnects::{AnswerMemory, AttendedBody, DisconnectTracker, ResponseGuard};
use super::memory_share::{MemoryShare, NoSharedMemory, SharedMemory};
use super::mounted_client::MountedClient;
use super::reader::MAX_MESSAGE_BYTES;
use super::request_limit::{RequestLimiter, RequestPermit};
use super::sessions::{IdInUse, MAX_SESSIONS, RequestIds, SessionUse, Sessions};
use super::transport::refusal;
use super::weight::{NO_MEMORY, TooHeavy, WeighedMessage, weigh};
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Extension, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use futures::StreamExt as _;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tollgate_sandbox::MemoryBudget;

/// How long a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);
/// A body up to this size is read before its share of the limit is claimed: a cancellation is
/// small, and needs none.
const SMALL_BYTES: usize = 64 * 1024;
const SESSION: &str = "mcp-session-id";
const NO_SESSION: &str = "the session does not exist, or has ended";

/// The guard of all incoming requests.
pub(super) struct RequestGuard {
    /// The digest of the token; `None` if another server authenticates requests.
    token: Option<[u8; 32]>,
    sessions: Arc<Sessions>,
    /// The limit of all clients together.
    load: Arc<RequestLimiter>,
    /// The limit of each session with requests in flight. All clients without sessions share one.
    /// In a mounted server, the limit of each principal.
    loads: Mutex<HashMap<String, Weak<RequestLimiter>>>,
    leaving: Arc<DisconnectTracker>,
    /// The ids of requests in progress.
    ids: Arc<RequestIds>,
    /// The memory of the parsed messages of all clients with the token. A mounted server uses that of each
    /// principal.
    bodies: MemoryShare,
    /// The memory of answers.
    answers: AnswerMemory,
}

impl RequestGuard {
    pub(super) fn new(token: Option<&str>, sessions: Arc<LocalSessionManager>, budget: MemoryBudget) -> Self {
        let (load, loads) = (Arc::default(), Mutex::default());
        let (leaving, ids) = (Arc::default(), Arc::default());
        let sessions = Arc::new(Sessions::new(sessions));
        let bodies = MemoryShare::of_one(budget.clone());
        let answers = AnswerMemory::new(budget);
        Self { token: token.map(digest), sessions, load, loads, leaving, ids, bodies, answers }
    }

    /// Claims a share for a request of this principal or session, or of a client without one.
    fn claim(&self, client: Option<&str>, bytes: usize) -> Option<RequestPermit> {
        let session = client.unwrap_or_default();
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

    /// Compares digests, so that timing reveals nothing about the token.
    fn knows(&self, headers: &HeaderMap) -> bool {
        only(headers, &header::AUTHORIZATION).is_ok_and(|value| {
            let token = value.and_then(|value| {
                let (scheme, token) = value.split_once(' ')?;
                scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
            });
            token.is_some_and(|token| Some(digest(token)) == self.token)
        })
    }
}

/// Admits a request, or returns why not.
pub(super) async fn admit(State(guard): State<Arc<RequestGuard>>, request: Request, next: Next) -> Response {
    if !guard.knows(request.headers()) {
        // A request without the token does not keep its connection alive, either.
        let headers =
            [(header::WWW_AUTHENTICATE, "Bearer realm=\"tollgate\""), (header::CONNECTION, "close")];
        let words = "missing or wrong token; send Authorization: Bearer TOKEN";
        return (StatusCode::UNAUTHORIZED, headers, words).into_response();
    }
    let via = request.extensions().get::<ConnectInfo<ClientConnection>>();
    let connection = via.map(|ConnectInfo(connection)| connection.clone());
    if let Some(connection) = &connection {
        connection.authenticated(None);
    }
    // Reject duplicate headers: intermediaries may disagree about which one counts.
    if [header::ORIGIN, header::HOST].iter().any(|name| request.headers().get_all(name).iter().count() > 1) {
        let words = "the request has more than one Origin or Host; send one";
        return (StatusCode::BAD_REQUEST, words).into_response();
    }
    guard.handle(request, None, connection, next).await
}

/// Admits a request of a client that the mounting server has authenticated.
pub(super) async fn admit_mounted(
    State(guard): State<Arc<RequestGuard>>,
    Extension(client): Extension<MountedClient>,
    request: Request,
    next: Next,
) -> Response {
    guard.handle(request, Some(client), None, next).await
}

impl RequestGuard {
    /// Passes on a request within the limits, and watches its answer. There is a client if the
    /// server is mounted.
    async fn handle(
        &self,
        request: Request,
        client: Option<MountedClient>,
        connection: Option<ClientConnection>,
        next: Next,
    ) -> Response {
        let ends_session = request.method() == Method::DELETE;
        let owner = client.as_ref().map(|client| Arc::clone(&client.principal));
        let session = self.session(request.headers(), owner.as_deref()).await;
        // The session of another principal does not exist.
        if session.is_none() && request.headers().contains_key(SESSION) && (owner.is_some() || ends_session) {
            return (StatusCode::NOT_FOUND, NO_SESSION).into_response();
        }
        let in_use = session.as_deref().map(|session| self.sessions.use_now(session));
        match self.taken_in(request, session.as_deref(), client.as_ref()).await {
            Ok((request, attendance)) => {
                let id = request.extensions().get::<Arc<IdInUse>>().cloned();
                let serving = connection.as_ref().map(ClientConnection::serve);
                let answered = next.run(request).await;
                if let Some(begun) = answered.headers().get(SESSION).and_then(|begun| begun.to_str().ok()) {
                    if let Some(owner) = &owner
                        && in_use.is_none()
                    {
                        self.sessions.begin(begun, owner).await;
                    }
                    drop(self.sessions.use_now(begun));
                }
                let mut response = attended(answered, attendance, (serving, in_use, id), &self.answers);
                // The session has ended, not just accepted its end; some clients distinguish the two.
                if ends_session && response.status() == StatusCode::ACCEPTED {
                    *response.status_mut() = StatusCode::NO_CONTENT;
                }
                response
            }
            Err(refused) => *refused,
        }
    }

    /// Reads the whole request and claims its share. Also returns the guard of its response.
    async fn taken_in(
        &self,
        request: Request,
        session: Option<&str>,
        client: Option<&MountedClient>,
    ) -> Result<(Request, Option<ResponseGuard>), Box<Response>> {
        let refused = |status: StatusCode, words: &str| Box::new((status, words.to_owned()).into_response());
        let full = || {
            let words = "too many requests in flight; retry after some have completed";
            refused(StatusCode::SERVICE_UNAVAILABLE, words)
        };
        let begins = request.method() == Method::POST && !request.headers().contains_key(SESSION);
        let (mut parts, body) = request.into_parts();
        let owner = client.map(|client| &*client.principal);
        let claimant = owner.or(session);
        let room = |bytes: usize| self.claim(claimant, bytes);
        let arrived = match tokio::time::timeout(ARRIVAL, read(&parts, body, room)).await {
            Ok(arrived) => arrived,
            Err(_) => {
                let words = "the request took too long to arrive";
                return Err(refused(StatusCode::REQUEST_TIMEOUT, words));
            }
        };
        let (body, slot) = arrived.map_err(|unread| match unread {
            BodyFailure::Full => full(),
            BodyFailure::Broken => {
                let words = format!("the request is longer than {MAX_MESSAGE_BYTES} bytes, or was cut off");
                refused(StatusCode::PAYLOAD_TOO_LARGE, &words)
            }
        })?;
        let mut attendance = None;
        if parts.method == Method::POST
            && let Some((kind, id)) = request_kind(&body)
        {
            if let (Some(session), Some(id)) = (session, &id) {
                let in_use = self.ids.take(session, id).await.ok_or_else(|| Box::new(same_id(id)))?;
                // Held by the call and by the body of its answer.
                parts.extensions.insert(in_use);
            }
            let begins_session = begins && kind == Kind::Initialize;
            if begins_session && !self.sessions.make_room(owner).await {
                let words = "too many sessions, all in use; end one, or retry in some seconds";
                return Err(refused(StatusCode::SERVICE_UNAVAILABLE, words));
            }
            let slot = match slot {
                Some(slot) => Some(slot),
                // A new session has no share of its own yet; only the total limit applies.
                None if begins_session && owner.is_none() => RequestLimiter::claim(&self.load, body.len()),
                None => self.claim(claimant, body.len()),
            };
            let slot = slot.ok_or_else(full)?;
            if let Some(session) = session {
                let (attends, gone) = self.leaving.attend(session, Some(slot.clone()));
                attendance = Some(attends);
                parts.extensions.insert(gone);
            }
            // The call holds it until it has ended.
            parts.extensions.insert(slot);
        }
        // The client asks for the rest of an answer by the id of the last event it read.
        if parts.method == Method::GET
            && let Some(session) = session
            && parts.headers.get("last-event-id").is_some_and(|id| id.as_bytes().contains(&b'/'))
        {
            attendance = Some(self.leaving.reconnect(session));
        }
        let body = self.weighed(&mut parts, body, client).await?;
        Ok((Request::from_parts(parts, Body::from(body)), attendance))
    }

    /// Returns the body without large arguments, if there is memory to parse it and the client may
    /// send it. The findings are added to the request.
    async fn weighed(
        &self,
        parts: &mut Parts,
        body: Bytes,
        client: Option<&MountedClient>,
    ) -> Result<Bytes, Box<Response>> {
        let refused = |status: StatusCode, words: String| Box::new((status, words).into_response());
        let WeighedMessage { message, arguments, parsed_bytes } = weigh(&body).map_err(|heavy| {
            let (TooHeavy::Values(why) | TooHeavy::Number(why)) = heavy;
            refused(StatusCode::BAD_REQUEST, format!("the message was not read: {why}"))
        })?;
        let memory = self.reserved(parsed_bytes, client).await?;
        if parts.method == Method::POST && is_json(&parts.headers) {
            match serde_json::from_slice(&message) {
                // The server requests nothing but answers to questions. Another key of the
                // principal may have begun the session and the call that asks.
                Ok(ClientJsonRpcMessage::Response(_)) => {
                    if let Some(client) = client.filter(|client| !client.access.may_decide()) {
                        let url = &client.decide_url;
                        let words = format!(
                            "this key may not answer questions; send the answer with a key that may, or decide at {url}"
                        );
                        return Err(refused(StatusCode::FORBIDDEN, words));
                    }
                }
                Ok(_) => {}
                Err(_) => return Err(Box::new(no_message(&message))),
            }
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

    /// Reserves the memory of a parsed message from the share of its principal; `None` if it is small.
    async fn reserved(
        &self,
        bytes: u64,
        client: Option<&MountedClient>,
    ) -> Result<Option<Arc<SharedMemory>>, Box<Response>> {
        if bytes == 0 {
            return Ok(None);
        }
        let share = client.map_or(&self.bodies, |client| &client.bodies);
        share.reserve(bytes).await.map(|memory| Some(Arc::new(memory))).map_err(|none| {
            let (status, words) = match none {
                NoSharedMemory::Share => (
                    StatusCode::TOO_MANY_REQUESTS,
                    "too many messages are in memory; retry after some have completed",
                ),
                NoSharedMemory::Budget => (StatusCode::SERVICE_UNAVAILABLE, NO_MEMORY),
            };
            Box::new((status, words).into_response())
        })
    }

    /// Returns the session of a request, for this principal if the server is mounted. An unknown id
    /// counts as none, and has no share.
    async fn session(&self, headers: &HeaderMap, owner: Option<&str>) -> Option<String> {
        let named = headers.get(SESSION)?.to_str().ok()?;
        self.sessions.has(named, owner).await.then(|| named.to_owned())
    }
}

/// The reason why a body was not read completely.
enum BodyFailure {
    /// There is no room for it.
    Full,
    /// It exceeds the limit, or its connection broke.
    Broken,
}

/// Reads a whole body. Once it is known to be more than small, its share of the limit is claimed:
/// with the declared length or, without one, with the maximum. In the end, the share is reduced
/// to the actual length.
async fn read(
    parts: &Parts,
    body: Body,
    claim: impl Fn(usize) -> Option<RequestPermit>,
) -> Result<(Bytes, Option<RequestPermit>), BodyFailure> {
    let declared = declared_bytes(parts);
    let whole = declared.unwrap_or(MAX_MESSAGE_BYTES).min(MAX_MESSAGE_BYTES);
    let mut slot = None;
    if declared.is_some() && whole > SMALL_BYTES {
        slot = Some(claim(whole).ok_or(BodyFailure::Full)?);
    }
    let (mut chunks, mut bytes) = (body.into_data_stream(), BytesMut::new());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| BodyFailure::Broken)?;
        let length = bytes.len() + chunk.len();
        if length > MAX_MESSAGE_BYTES {
            return Err(BodyFailure::Broken);
        }
        if slot.is_none() && length > SMALL_BYTES {
            slot = Some(claim(whole).ok_or(BodyFailure::Full)?);
        }
        bytes.extend_from_slice(&chunk);
    }
    if let Some(slot) = &slot {
        slot.shrink(bytes.len());
    }
    Ok((bytes.freeze(), slot))
}

/// Attaches the response guard to an answer that is a stream; any other answer is already
/// complete.
fn attended(
    response: Response,
    attendance: Option<ResponseGuard>,
    used: (Option<RequestInProgress>, Option<SessionUse>, Option<Arc<IdInUse>>),
    memory: &AnswerMemory,
) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
        attendance.into_iter().for_each(ResponseGuard::refused);
        return response;
    }
    let (parts, body) = response.into_parts();
    let body = AttendedBody::new(body.into_data_stream(), attendance, used, memory.clone());
    Response::from_parts(parts, Body::from_stream(body))
}

/// Returns the declared length of the body; `None` if it has none.
fn declared_bytes(parts: &Parts) -> Option<usize> {
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|length| length.parse().ok())
}

/// Returns whether the service of the protocol reads the body as a message. Media types are case-insensitive.
fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// Returns the answer to a body that is not a message: a JSON-RPC error if the client waits for
/// an answer.
fn no_message(body: &[u8]) -> Response {
    match refusal(body) {
        Some((error, id)) => json_rpc_error(&error, id.as_ref()),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// Returns the answer to a request with the id of another one in progress.
fn same_id(id: &RequestId) -> Response {
    let words =
        "another request of this session has this id and is in progress; use a new id for each request";
    json_rpc_error(&ErrorData::invalid_request(words, None), Some(id))
}

fn json_rpc_error(error: &ErrorData, id: Option<&RequestId>) -> Response {
    let answer = serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error});
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::BAD_REQUEST, headers, answer.to_string()).into_response()
}

/// The kind of request that waits for an answer.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// A request for a new session.
    Initialize,
    /// Any other request.
    Other,
}

/// Returns the kind of request and its id if a message waits, or may wait, for an answer. Input that
/// is not a message is rejected elsewhere, and has no id here.
fn request_kind(body: &Bytes) -> Option<(Kind, Option<RequestId>)> {
    #[derive(Deserialize)]
    struct RequestHead<'a> {
        #[serde(borrow)]
        method: Option<&'a RawValue>,
        #[serde(borrow)]
        id: Option<&'a RawValue>,
    }
    match serde_json::from_slice::<RequestHead<'_>>(body) {
        Ok(RequestHead { method: Some(method), id: Some(id) }) => {
            let kind = if method.get() == "\"initialize\"" { Kind::Initialize } else { Kind::Other };
            Some((kind, serde_json::from_str(id.get()).ok()))
        }
        Ok(_) => None,
        Err(_) => Some((Kind::Other, None)),
    }
}

/// Returns the single value of a header; `None` if it is absent. Fails if there are several
/// values or it is not text.
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
