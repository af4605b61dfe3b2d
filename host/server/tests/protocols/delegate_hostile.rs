//! Remote servers that lie, flood, hang or send a delegate elsewhere, by both bindings.

use crate::client::BACKSTOP;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tollgate::a2a::RemoteAgent;
use tollgate::models::ApiKey;
use tollgate::tools::MemoryBudget;
use tollgate::{Agent, Host, RunLimits, RunRequest, RunStatus};

by_both_bindings![
    a_card_leads_nowhere_else,
    a_redirect_of_a_method_is_not_followed,
    cards_and_answers_are_bounded_and_checked,
    answers_of_the_wrong_types_are_refused,
    answers_about_another_task_are_refused,
    answers_of_too_many_values_are_refused,
    answers_for_which_there_is_no_memory_are_not_read,
    errors_are_cut_cleaned_and_named,
    streams_are_bounded_and_checked,
    a_stream_without_an_end_is_bounded,
    a_task_is_looked_at_again_where_streams_fail,
    a_task_that_begins_after_its_run_was_cancelled_is_cancelled,
];

/// The answers of a server: to a request for its card, and to each method.
type Answers = fn(&str, &Request) -> Answer;

/// A request, as far as an answer depends on it.
#[derive(Clone)]
struct Request {
    /// The address of the server, and its binding.
    base: String,
    binding: &'static str,
    /// How many requests of the same method came before.
    earlier: usize,
}

/// An answer, and bytes that are repeated after it, with a pause before each.
struct Answer {
    bytes: Vec<u8>,
    repeated: Option<(Vec<u8>, Duration)>,
}

/// A server that answers as it likes.
struct Liar {
    request: Request,
    /// The methods of the requests, in the order in which they came.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Liar {
    async fn start(binding: &'static str, answers: Answers) -> Self {
        Self::start_slow(binding, answers, Duration::ZERO).await
    }

    /// Starts a server that takes this long to accept a message.
    async fn start_slow(binding: &'static str, answers: Answers, pause: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let request = Request { base, binding, earlier: 0 };
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (heard, first) = (Arc::clone(&requests), request.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (request, heard) = (first.clone(), Arc::clone(&heard));
                tokio::spawn(async move { lie(stream, request, answers, (&heard, pause)).await });
            }
        });
        Self { request, requests }
    }

    fn heard(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until the server gets a request of this method.
    async fn hears(&self, method: &str) {
        let heard = async {
            while !self.heard().iter().any(|heard| heard == method) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(BACKSTOP, heard).await.unwrap();
    }

    fn agent(&self) -> Agent {
        let agent = RemoteAgent::new(&self.request.base).unwrap();
        Agent::remote("far", agent.with_token(ApiKey::new("tok-0123456789").unwrap()))
    }

    fn host(&self) -> Host {
        Host::builder().agent(self.agent()).build().unwrap()
    }

    /// Runs an agent of this server and returns its text, or why it failed.
    async fn run(&self, host: &Host) -> Result<String, String> {
        let handle = host.run(RunRequest::new("far", "Hello?")).await.unwrap();
        let end = tokio::time::timeout(BACKSTOP, handle.wait()).await.unwrap().unwrap();
        match end.status {
            Some(RunStatus::Completed) => Ok(end.text),
            Some(RunStatus::Failed { error }) => Err(error),
            other => panic!("it neither failed nor completed: {other:?}"),
        }
    }

    async fn failure(&self) -> String {
        self.run(&self.host()).await.unwrap_err()
    }
}

/// Reads one request and answers it. The connection closes after each.
async fn lie(
    mut stream: TcpStream,
    mut request: Request,
    answers: Answers,
    (heard, pause): (&Mutex<Vec<String>>, Duration),
) {
    let Some((head, body)) = read(&mut stream).await else { return };
    let method = method_of(&head, &body);
    {
        let mut heard = heard.lock().unwrap();
        request.earlier = heard.iter().filter(|earlier| **earlier == method).count();
        heard.push(method.clone());
    }
    if method == "SendMessage" {
        tokio::time::sleep(pause).await;
    }
    let answer = answers(&method, &request);
    let mut written = stream.write_all(&answer.bytes).await;
    if let Some((bytes, pause)) = &answer.repeated {
        while written.is_ok() {
            tokio::time::sleep(*pause).await;
            written = stream.write_all(bytes).await;
        }
    }
    let _ = stream.shutdown().await;
}

/// Reads the head and the body of a request.
async fn read(stream: &mut TcpStream) -> Option<(String, String)> {
    let (mut request, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut chunk).await.ok().filter(|count| *count > 0)?;
        request.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return Some((head.to_owned(), body.to_owned()));
        }
    }
}

/// Returns the name of a request's method in JSON-RPC, or `card`.
fn method_of(head: &str, body: &str) -> String {
    let line = head.lines().next().unwrap();
    let (path, _) = line.rsplit_once(' ').unwrap();
    let method = match path {
        "GET /.well-known/agent-card.json" => "card",
        "GET /http/tasks/t?historyLength=0" => "GetTask",
        "POST /http/message:send" => "SendMessage",
        "POST /http/message:stream" => "SendStreamingMessage",
        "POST /http/tasks/t:subscribe" => "SubscribeToTask",
        "POST /http/tasks/t:cancel" => "CancelTask",
        "POST /rpc" => body.split_once("\"method\":\"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0,
        other => panic!("{other}"),
    };
    method.to_owned()
}

fn http(status: &str, kind: &str, body: &str) -> Answer {
    let length = body.len();
    let bytes = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    Answer { bytes: bytes.into_bytes(), repeated: None }
}

fn json(body: &str) -> Answer {
    http("200 OK", "application/json", body)
}

fn redirect() -> Answer {
    let head = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/card\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    Answer { bytes: head.as_bytes().to_vec(), repeated: None }
}

fn stream(body: &str) -> Answer {
    http("200 OK", "text/event-stream", body)
}

/// A stream of these bytes, again and again, with a pause before each.
fn endless(bytes: Vec<u8>, pause: Duration) -> Answer {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    Answer { bytes: head.as_bytes().to_vec(), repeated: Some((bytes, pause)) }
}

impl Request {
    fn is_rpc(&self) -> bool {
        self.binding == "JSONRPC"
    }

    /// A card that names an address on this server.
    fn card(&self, base: &str) -> Answer {
        let (path, binding) = (if self.is_rpc() { "rpc" } else { "http" }, self.binding);
        json(&format!(
            r#"{{"supportedInterfaces":[{{"url":"{base}/{path}","protocolBinding":"{binding}","protocolVersion":"1.0"}}],"capabilities":{{"streaming":true}}}}"#
        ))
    }

    /// A result, as this binding writes it.
    fn written(&self, result: &str) -> String {
        match self.is_rpc() {
            true => format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#),
            false => result.to_owned(),
        }
    }

    fn result(&self, result: &str) -> Answer {
        json(&self.written(result))
    }

    /// An error, as this binding writes it.
    fn error(&self, code: i32, (status, reason): (&str, &str), words: &str) -> Answer {
        if self.is_rpc() {
            return json(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"{words}"}}}}"#
            ));
        }
        let number = status.split(' ').next().unwrap();
        let details = format!(
            r#"[{{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"{reason}","domain":"a2a-protocol.org"}}]"#
        );
        let error =
            format!(r#"{{"code":{number},"status":"INTERNAL","message":"{words}","details":{details}}}"#);
        http(status, "application/json", &format!(r#"{{"error":{error}}}"#))
    }

    /// Answers as a good server up to the stream; the task goes on working.
    fn begun(&self, method: &str) -> Option<Answer> {
        match method {
            "card" => Some(self.card(&self.base)),
            "SendMessage" => Some(self.result(&format!(r#"{{"task":{WORKING}}}"#))),
            "GetTask" | "CancelTask" => Some(self.result(WORKING)),
            _ => None,
        }
    }

    /// Answers as a good server up to the stream; the second look finds that the task is complete.
    fn completes(&self, method: &str) -> Option<Answer> {
        match method {
            "GetTask" if self.earlier > 0 => Some(self.result(COMPLETED)),
            _ => self.begun(method),
        }
    }
}

const WORKING: &str = r#"{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}"#;
const COMPLETED: &str = r#"{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"Here."}]}]}"#;

/// Checks that each of these answers to a message makes the run fail with one of the texts.
async fn refused(binding: &'static str, cases: &[(Answers, &str)]) {
    for (number, (answers, why)) in cases.iter().enumerate() {
        let error = Liar::start(binding, *answers).await.failure().await;
        assert!(error.contains(why), "{number}: {error}");
        assert!(!error.contains("0123456789") && !error.contains('\u{1b}'), "{number}: {error}");
        assert!(error.len() < 1_000, "{number}: {} bytes", error.len());
    }
}

async fn a_card_leads_nowhere_else(binding: &'static str) {
    // A redirect, and a card that names another port, are not followed, and the token is not sent.
    let elsewhere: Answers = |_, request| request.card("http://127.0.0.1:9");
    let redirected: Answers = |_, _| redirect();
    refused(binding, &[(redirected, "302"), (elsewhere, "not on the configured host")]).await;
}

async fn a_redirect_of_a_method_is_not_followed(binding: &'static str) {
    let liar = Liar::start(binding, |method, request| match method {
        "card" => request.card(&request.base),
        _ => redirect(),
    });
    let liar = liar.await;
    let error = liar.failure().await;
    assert!(error.contains("302"), "{error}");
    assert_eq!(liar.heard(), ["card", "SendMessage"]);
}

async fn cards_and_answers_are_bounded_and_checked(binding: &'static str) {
    let huge: Answers = |_, _| json(&format!("\"{}\"", "x".repeat(300 * 1024)));
    let words: Answers = |_, _| http("500 Oops", "text/html", "<b>tok-0123456789</b>\u{1b}[31m");
    let old: Answers =
        |_, _| json(r#"{"url":"http://x","protocolVersion":"0.3.0","preferredTransport":"JSONRPC"}"#);
    let grpc: Answers = |_, _| {
        json(r#"{"supportedInterfaces":[{"url":"/","protocolBinding":"GRPC","protocolVersion":"1.0"}]}"#)
    };
    let unnamed: Answers = |method, request| match method {
        "card" => request.card(&request.base),
        _ => request.result(r#"{"task":{"id":""}}"#),
    };
    let long: Answers = |method, request| match method {
        "card" => request.card(&request.base),
        _ => request.result(&format!(r#"{{"task":{{"id":"{}"}}}}"#, "x".repeat(300))),
    };
    let large: Answers = |method, request| match method {
        "card" => request.card(&request.base),
        _ => request.result(&format!("\"{}\"", "x".repeat(5 * 1024 * 1024))),
    };
    let cut: Answers = |method, request| match method {
        "card" => request.card(&request.base),
        _ => json(r#"{"task":{"id""#),
    };
    refused(
        binding,
        &[
            (huge, "larger than"),
            (words, "HTTP 500"),
            (old, "no interface for A2A 1.0 by JSONRPC or HTTP+JSON; it offers JSONRPC of A2A 0.3.0"),
            (grpc, "it offers GRPC of A2A 1.0"),
            (unnamed, "the id of its task"),
            (long, "the id of its task"),
            (large, "larger than"),
            (cut, "its answer is not JSON"),
        ],
    )
    .await;
}

async fn answers_of_the_wrong_types_are_refused(binding: &'static str) {
    macro_rules! result {
        ($body:literal) => {
            |method, request| match method {
                "card" => request.card(&request.base),
                _ => request.result($body),
            }
        };
    }
    refused(
        binding,
        &[
            (result!("[]"), "has no result"),
            (result!("null"), "has no result"),
            (result!("\"done\""), "has no result"),
            (result!(r#"{"nothing":1}"#), "neither a task nor a message"),
            (result!(r#"{"task":[]}"#), "neither a task nor a message"),
            (result!(r#"{"error":"no"}"#), "neither a task nor a message"),
            (result!(r#"{"message":"Hello."}"#), "neither a task nor a message"),
            (result!(r#"{"task":{"id":7,"status":"working"}}"#), "the id of its task"),
        ],
    )
    .await;
}

async fn answers_about_another_task_are_refused(binding: &'static str) {
    let looked: Answers = |method, request| match method {
        "GetTask" => request.result(&COMPLETED.replace(r#""id":"t""#, r#""id":"other""#)),
        _ => request.begun(method).unwrap(),
    };
    let streamed: Answers = |method, request| {
        let update = r#"{"statusUpdate":{"taskId":"other","status":{"state":"TASK_STATE_COMPLETED"}}}"#;
        let event = || stream(&format!("data: {}\n\n", request.written(update)));
        request.begun(method).unwrap_or_else(event)
    };
    let why = "its answer is about another task: other";
    refused(binding, &[(looked, why), (streamed, why)]).await;
}

async fn answers_of_too_many_values_are_refused(binding: &'static str) {
    const LIST: &str = "0,0,0,0,0,0,0,0,0,0,";
    let sent: Answers = |method, request| match method {
        "card" => request.card(&request.base),
        _ => request.result(&format!(r#"{{"task":{WORKING},"x":[{}0]}}"#, LIST.repeat(10_000))),
    };
    let streamed: Answers = |method, request| {
        let update = format!(r#"{{"statusUpdate":{{}},"x":[{}0]}}"#, LIST.repeat(10_000));
        let event = || stream(&format!("data: {}\n\n", request.written(&update)));
        request.begun(method).unwrap_or_else(event)
    };
    let why = "more than 100000 JSON values";
    refused(binding, &[(sent, why), (streamed, why)]).await;
}

async fn answers_for_which_there_is_no_memory_are_not_read(binding: &'static str) {
    let liar = Liar::start(binding, |method, request| match method {
        "card" => request.card(&request.base),
        _ => request.result(&format!(r#"{{"task":{WORKING},"x":[{}0]}}"#, r#"{"":0},"#.repeat(40_000))),
    });
    let liar = liar.await;
    let host = Host::builder().agent(liar.agent()).memory_budget(MemoryBudget::new(8 << 20)).build().unwrap();
    let error = liar.run(&host).await.unwrap_err();
    assert!(error.contains("there is no memory to read its answer"), "{error}");
    // An answer takes memory while it arrives, also one that never arrives as a whole.
    let begun = Liar::start(binding, |method, request| match method {
        "card" => request.card(&request.base),
        _ => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n";
            Answer { bytes: format!("{head}\"{}", "x".repeat(3_900_000)).into_bytes(), repeated: None }
        }
    });
    let begun = begun.await;
    let host =
        Host::builder().agent(begun.agent()).memory_budget(MemoryBudget::new(6 << 20)).build().unwrap();
    let error = begun.run(&host).await.unwrap_err();
    assert!(error.contains("there is no memory to read its answer"), "{error}");
}

async fn errors_are_cut_cleaned_and_named(binding: &'static str) {
    let refusing: Answers = |method, request| match method {
        "card" => request.card(&request.base),
        _ => request.error(-32603, ("500 Oops", "INTERNAL_ERROR"), r"No room\n\u001b[1m for tok-0123456789."),
    };
    let long: Answers = |method, request| match method {
        "card" => request.card(&request.base),
        _ => request.error(-32603, ("400 Bad", &"R".repeat(5_000)), &"No. ".repeat(5_000)),
    };
    let problem: Answers = |method, request| match method {
        "card" => request.card(&request.base),
        _ => http("403 No", "application/problem+json", r#"{"status":403,"detail":"Not\u001b you."}"#),
    };
    let busy: Answers = |method, request| match method {
        "card" => request.card(&request.base),
        _ => http("429 Slow", "application/json", r#"{"error":{"code":429,"message":"Later.","details":5}}"#),
    };
    let unlike: Answers = |method, request| match method {
        "card" => request.card(&request.base),
        _ => http("400 Bad", "application/json", r#"[{"error":7},"tok-0123456789"]"#),
    };
    refused(
        binding,
        &[
            (refusing, "it refused: No room"),
            (long, "it refused: No."),
            (problem, "it refused: Not you. (HTTP 403 Forbidden)"),
            (busy, "could not be reached: Later. (HTTP 429"),
            (unlike, "HTTP 400"),
        ],
    )
    .await;
    let error = Liar::start(binding, refusing).await.failure().await;
    let code = if binding == "JSONRPC" {
        "(error -32603)"
    } else {
        "(HTTP 500 Internal Server Error, INTERNAL_ERROR)"
    };
    assert!(error.contains(code), "{error}");
}

async fn streams_are_bounded_and_checked(binding: &'static str) {
    let long: Answers = |method, request| {
        let event = || stream(&format!("data: {}", "x".repeat(2 * 1024 * 1024)));
        request.begun(method).unwrap_or_else(event)
    };
    let garbage: Answers = |method, request| request.begun(method).unwrap_or_else(|| stream("data: {\n\n"));
    let list: Answers = |method, request| {
        request.begun(method).unwrap_or_else(|| stream(&format!("data: {}\n\n", request.written("[1]"))))
    };
    let refusing: Answers = |method, request| {
        request.begun(method).unwrap_or_else(|| {
            stream("event: error\ndata: {\"error\":{\"code\":1,\"message\":\"Gone.\"}}\n\n")
        })
    };
    let no_stream: Answers =
        |method, request| request.begun(method).unwrap_or_else(|| request.result(WORKING));
    // A server that is gone after it took the message.
    let gone: Answers = |method, request| match method {
        "card" | "SendMessage" => request.begun(method).unwrap(),
        _ => Answer { bytes: Vec::new(), repeated: None },
    };
    refused(
        binding,
        &[
            (long, "an event is larger than"),
            (garbage, "not JSON"),
            (list, "has no result"),
            (refusing, "it refused: Gone. (error 1)"),
            (no_stream, "not a stream"),
            (gone, "could not be reached"),
        ],
    )
    .await;
}

async fn a_stream_without_an_end_is_bounded(binding: &'static str) {
    // In bytes, also if it consists of comments.
    let flood: Answers = |method, request| {
        let comment = || format!(": {}\n", "x".repeat(256 * 1024)).into_bytes();
        request.begun(method).unwrap_or_else(|| endless(comment(), Duration::ZERO))
    };
    refused(binding, &[(flood, "its stream is larger than")]).await;

    // And in time: the call ends at its limit, and the task is cancelled.
    let quiet: Answers = |method, request| {
        let comment = || b": still here\n\n".to_vec();
        request.begun(method).unwrap_or_else(|| endless(comment(), Duration::from_millis(50)))
    };
    let liar = Liar::start(binding, quiet).await;
    let limits = RunLimits { timeout_ceiling_ms: 2_000, ..RunLimits::default() };
    let host = Host::builder().agent(liar.agent().with_limits(limits)).build().unwrap();
    liar.run(&host).await.unwrap_err();
    liar.hears("CancelTask").await;
}

async fn a_task_is_looked_at_again_where_streams_fail(binding: &'static str) {
    let unsupported: Answers = |method, request| {
        let error = || request.error(-32004, ("400 Bad", "UNSUPPORTED_OPERATION"), "It has ended.");
        request.completes(method).unwrap_or_else(error)
    };
    let missing: Answers = |method, request| {
        request.completes(method).unwrap_or_else(|| http("404 Not Found", "text/plain", "Not Found"))
    };
    let wrong_method: Answers = |method, request| {
        let error = || http("405 Not Allowed", "application/json", r#"{"detail":"Method Not Allowed"}"#);
        request.completes(method).unwrap_or_else(error)
    };
    let broken: Answers = |method, request| {
        let cut =
            || Answer { bytes: b"HTTP/1.1 200 OK\r\ncontent-type: text/event".to_vec(), repeated: None };
        request.completes(method).unwrap_or_else(cut)
    };
    let odd: Answers = |method, request| {
        let events =
            [r#"{"statusUpdate":5}"#, r#"{"task":"t"}"#, r#"{"artifactUpdate":{"artifact":[]}}"#, "{}"];
        let events = events.map(|event| format!("data: {}\n\n", request.written(event)));
        request.completes(method).unwrap_or_else(|| stream(&events.concat()))
    };
    let overloaded: Answers = |method, request| match method {
        "GetTask" if request.earlier == 0 => request.error(-32603, ("503 Busy", "OVERLOADED"), "Busy."),
        "GetTask" => request.result(COMPLETED),
        _ => request.begun(method).unwrap(),
    };
    for answers in [unsupported, missing, wrong_method, broken, odd] {
        let liar = Liar::start(binding, answers).await;
        assert_eq!(liar.run(&liar.host()).await.as_deref(), Ok("Here."));
        assert_eq!(liar.heard(), ["card", "SendMessage", "GetTask", "SubscribeToTask", "GetTask"]);
    }
    // A status of HTTP says that another attempt may succeed; JSON-RPC has none.
    if binding == "HTTP+JSON" {
        let liar = Liar::start(binding, overloaded).await;
        assert_eq!(liar.run(&liar.host()).await.as_deref(), Ok("Here."));
    }
    // A task that is not there is not looked for again.
    let unknown: Answers = |method, request| match method {
        "GetTask" => request.error(-32001, ("404 Not Found", "TASK_NOT_FOUND"), "There is no such task."),
        _ => request.begun(method).unwrap(),
    };
    refused(binding, &[(unknown, "There is no such task.")]).await;
}

async fn a_task_that_begins_after_its_run_was_cancelled_is_cancelled(binding: &'static str) {
    let answers: Answers = |method, request| request.begun(method).unwrap();
    let slow = Liar::start_slow(binding, answers, Duration::from_secs(1)).await;
    let host = slow.host();
    let handle = host.run(RunRequest::new("far", "Hello?")).await.unwrap();
    slow.hears("SendMessage").await;
    handle.cancel();
    let end = tokio::time::timeout(BACKSTOP, handle.wait()).await.unwrap().unwrap();
    assert!(matches!(end.status, Some(RunStatus::Cancelled { .. })), "{:?}", end.status);
    slow.hears("CancelTask").await;
    assert!(!slow.heard().iter().any(|method| method == "GetTask"));
}
