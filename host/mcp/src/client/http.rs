//! HTTP connections to a server. Its output is metered before it is parsed, both single bodies
//! and event streams.

use super::backoff::Backoff;
use super::meter::{End, Meter};
use super::rewrite::rewritten;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tollgate_agent::redact::MIN_SECRET_BYTES;
use tollgate_agent::text::one_line;

const SESSION: &str = "mcp-session-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
/// The number of bytes read of an error response.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// The number of bytes displayed of an error response.
const MAX_SHOWN_BYTES: usize = 300;

pub(super) type HttpError = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// An HTTP client for one server.
#[derive(Clone)]
pub(super) struct MeteredClient {
    client: reqwest::Client,
    meter: Meter,
    /// The token, which is removed from all that the server sends.
    token: Option<Arc<str>>,
    streams: Arc<Mutex<Streams>>,
}

/// The streams that the server opens again and again, one after another.
struct Streams {
    backoff: Backoff,
    /// When the last one was to be opened; `None` if there was none.
    last: Option<Instant>,
}

impl Streams {
    /// Returns how long to wait before the next one. The first is opened at once.
    fn pause(&mut self) -> Duration {
        let pause = self.last.map_or(Duration::ZERO, |last| self.backoff.after(last.elapsed()));
        self.last = Some(Instant::now() + pause);
        pause
    }
}

impl MeteredClient {
    /// Creates a client, which sends this token, if any, with each request.
    pub(super) fn new(client: reqwest::Client, meter: Meter, token: Option<&str>) -> Self {
        let token = token.filter(|token| token.len() >= MIN_SECRET_BYTES).map(Arc::from);
        let streams = Streams { backoff: Backoff::new(), last: None };
        Self { client, meter, token, streams: Arc::new(Mutex::new(streams)) }
    }

    fn events(&self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let bytes = self.meter.body(response.bytes_stream().boxed(), End::EmptyLine);
        let client = self.clone();
        let read = move |mut event: Sse| {
            event.data = event.data.map(|data| client.redacted(data));
            rewritten_event(event)
        };
        SseStream::from_bytes_stream(bytes).map(move |event| event.map(&read)).boxed()
    }

    /// Replaces the token by asterisks, so that the lengths stay the same.
    fn redact(&self, bytes: &mut [u8]) {
        let Some(token) = self.token.as_deref() else { return };
        let mut from = 0;
        while let Some(at) = memchr::memmem::find(&bytes[from..], token.as_bytes()) {
            bytes[from + at..][..token.len()].fill(b'*');
            from += at + token.len();
        }
    }

    fn redacted(&self, text: String) -> String {
        let mut bytes = text.into_bytes();
        self.redact(&mut bytes);
        // Only whole characters are replaced.
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// Reads at most `max_bytes` of a body, which the meter limits as well, and removes the token.
    async fn body(&self, response: Response, max_bytes: usize) -> Result<Vec<u8>, HttpError> {
        let mut stream = self.meter.body(response.bytes_stream().boxed(), End::Stream);
        let mut body = Vec::new();
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            let room = max_bytes.saturating_sub(body.len());
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                break;
            }
        }
        self.redact(&mut body);
        Ok(body)
    }

    fn unexpected_type(&self, response: &Response) -> HttpError {
        let given = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let shown = given.map(|given| self.redacted(String::from_utf8_lossy(given).into_owned()));
        HttpError::UnexpectedContentType(shown.map(|shown| one_line(&shown, MAX_SHOWN_BYTES)))
    }

    /// Returns the error for an unsuccessful response.
    async fn failed(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
        in_session: bool,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let status = response.status();
        let is_json = is(&response, JSON);
        let session = session_of(&response);
        let refused = status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN;
        let body = self.body(response, MAX_ERROR_BYTES).await.unwrap_or_default();
        let parsed = serde_json::from_slice::<ServerJsonRpcMessage>(&body).ok();
        let error = parsed.filter(|parsed| matches!(parsed, ServerJsonRpcMessage::Error(_)));
        let words = format!("HTTP {status}: {}", one_line(&String::from_utf8_lossy(&body), MAX_SHOWN_BYTES));
        if let ClientJsonRpcMessage::Request(request) = message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
            && status.is_client_error()
            && !refused
            && !in_session
        {
            // An older server, or a proxy before it, that does not know the request.
            let error = match error {
                Some(ServerJsonRpcMessage::Error(error)) => error.error,
                _ => ErrorData::invalid_request(words, None),
            };
            let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
            return Ok(StreamableHttpPostResponse::Json(answer, None));
        }
        match error {
            Some(error) if is_json && !refused => Ok(StreamableHttpPostResponse::Json(error, session)),
            _ => Err(HttpError::UnexpectedServerResponse(words.into())),
        }
    }
}

fn rewritten_event(mut event: Sse) -> Sse {
    if let Some(data) = &event.data
        && let Cow::Owned(data) = rewritten(data.as_bytes())
    {
        event.data = String::from_utf8(data).ok().or(event.data);
    }
    event
}

/// Returns whether the response has this content type.
fn is(response: &Response, kind: &str) -> bool {
    let given = response.headers().get(CONTENT_TYPE);
    given.is_some_and(|given| given.as_bytes().starts_with(kind.as_bytes()))
}

fn session_of(response: &Response) -> Option<String> {
    response.headers().get(SESSION)?.to_str().ok().map(str::to_owned)
}

fn with(
    request: RequestBuilder,
    session: Option<&str>,
    auth: Option<String>,
    headers: Headers,
) -> RequestBuilder {
    let mut request = request.header(ACCEPT, format!("{EVENTS}, {JSON}"));
    if let Some(session) = session {
        request = request.header(SESSION, session);
    }
    if let Some(auth) = auth {
        request = request.bearer_auth(auth);
    }
    headers.into_iter().fold(request, |request, (name, value)| request.header(name, value))
}

impl StreamableHttpClient for MeteredClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let request = with(self.client.post(&*uri), session_id.as_deref(), auth_header, custom_headers);
        let response = request.json(&message).send().await?;
        let status = response.status();
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(HttpError::SessionExpired);
        }
        if !status.is_success() {
            return self.failed(response, &message, session_id.is_some()).await;
        }
        if !is_request && response.content_length() == Some(0) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session = session_of(&response);
        if is(&response, EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        if !is(&response, JSON) {
            return Err(self.unexpected_type(&response));
        }
        let body = self.body(response, usize::MAX).await?;
        match serde_json::from_slice(&rewritten(&body)) {
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            // Other messages expect no answer.
            Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Err(why) => {
                let shown =
                    one_line(&String::from_utf8_lossy(&body[..body.len().min(4_096)]), MAX_SHOWN_BYTES);
                Err(HttpError::UnexpectedServerResponse(
                    format!("it is not a message ({why}): {shown}").into(),
                ))
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), HttpError> {
        let request = with(self.client.delete(&*uri), Some(&session_id), auth_header, custom_headers);
        let response = request.send().await?;
        // A server need not support ending sessions.
        if response.status() != StatusCode::METHOD_NOT_ALLOWED {
            response.error_for_status()?;
        }
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let mut request = with(self.client.get(&*uri), session_id.as_deref(), auth_header, custom_headers);
        if let Some(last) = last_event_id {
            request = request.header("last-event-id", last);
        }
        // The library asks again at once after an error, or as soon as the server wants.
        let pause = self.streams.lock().unwrap_or_else(PoisonError::into_inner).pause();
        tokio::time::sleep(pause).await;
        let response = request.send().await?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return Err(HttpError::ServerDoesNotSupportSse);
        }
        let response = response.error_for_status()?;
        match is(&response, EVENTS) || is(&response, JSON) {
            true => Ok(self.events(response)),
            false => Err(self.unexpected_type(&response)),
        }
    }
}
