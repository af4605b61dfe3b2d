//! Tests of providers that misbehave.

use crate::openai::{finish, said, saying};
use crate::server::{Reply, Server};
use crate::{KEY, ask, hello, model};
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tollgate_agent::message::ModelRequest;
use tollgate_models::{Delta, FaultKind, Model as _, ModelConfig, ModelFault, ReplyMemory};

/// Sends a request to a server that misbehaves once and then works. Returns the fault that caused
/// the retry.
async fn recovers_from(bad: Reply, lines: &str) -> String {
    let server = Server::new(vec![bad, saying("fine")]).await;
    let (reply, deltas) = ask(&*model("openai", &server, lines), hello()).await;
    assert_eq!(reply.unwrap().message.text, "fine");
    assert_eq!(server.seen().len(), 2);
    let restart = deltas.iter().position(|delta| matches!(delta, Delta::Restarted { .. }));
    let Some(Delta::Restarted { attempt: 2, reason, .. }) = restart.map(|at| &deltas[at]) else {
        panic!("{deltas:?}");
    };
    reason.clone()
}

/// Sends a request to a server that refuses, and checks that it is not retried.
async fn ends_with(bad: Reply) -> ModelFault {
    let server = Server::new(vec![bad, saying("never")]).await;
    let (reply, deltas) = ask(&*model("openai", &server, ""), hello()).await;
    assert_eq!(server.seen().len(), 1);
    assert!(deltas.iter().all(|delta| !matches!(delta, Delta::Restarted { .. })));
    reply.unwrap_err()
}

#[tokio::test]
async fn a6_a_rate_limit_is_waited_out_as_long_as_the_provider_asks() {
    let limited = Reply::status(429)
        .header("retry-after-ms", "400")
        .header("content-type", "application/json")
        .bytes(r#"{"error":{"message":"Slow down.","type":"rate_limit_error"}}"#);
    let began = Instant::now();
    let reason = recovers_from(limited, "").await;
    assert_eq!(reason, "The provider answered 429 Too Many Requests: Slow down.");
    assert!(began.elapsed() >= Duration::from_millis(400));
}

#[tokio::test]
async fn a6_a_wait_that_is_too_long_ends_the_reply_at_once() {
    let limited = Reply::status(429).header("retry-after", "3600").bytes("{}");
    let fault = ends_with(limited).await;
    assert!(fault.message().starts_with("The provider asks for a wait of 3600.0s"), "{fault}");
}

#[tokio::test]
async fn a6_a_missing_address_is_named_with_the_path_that_it_may_lack() {
    for (base, lacks) in [("", true), ("/v1/", false)] {
        let body = r#"{"error":"no such model"}"#;
        let missing = Reply::status(404).header("content-type", "application/json").bytes(body);
        let server = Server::new(vec![missing, saying("never")]).await;
        let origin = server.url.trim_end_matches("/v1");
        let text = format!(
            "provider = \"openai\"\nmodel = \"m\"\napi_key_env = \"KEY\"\nbase_url = \"{origin}{base}?token={KEY}\""
        );
        let config: ModelConfig = toml::from_str(&text).unwrap();
        let model = config.build(Path::new("."), |_| Some(KEY.to_owned())).unwrap();
        let (reply, _) = ask(&*model, hello()).await;
        let fault = reply.unwrap_err();
        let url = format!("{origin}{}chat/completions", if lacks { "/" } else { base });
        assert!(fault.message().contains(&format!("no such model. The request went to {url}.")), "{fault}");
        let hint = format!("try `base_url = \"{origin}/v1/\"`");
        assert_eq!(fault.message().contains(&hint), lacks, "{fault}");
        assert!(!fault.message().contains(KEY), "the query is not shown: {fault}");
    }
}

#[tokio::test]
async fn a6_a_cut_stream_is_asked_for_anew() {
    let reason = recovers_from(Reply::ok().event(said("Half a sen")).cut(), "").await;
    assert!(reason.contains("stream broke"), "{reason}");
    let ended_early = Reply::ok().event(said("Half a sen"));
    assert_eq!(
        recovers_from(ended_early, "").await,
        "The provider's stream broke: it ended before the reply did."
    );
}

#[tokio::test]
async fn a6_what_was_told_of_a_broken_attempt_is_declared_void() {
    let server = Server::new(vec![Reply::ok().event(said("Half")).cut(), saying("Whole")]).await;
    let (_, deltas) = ask(&*model("openai", &server, ""), hello()).await;
    let [Delta::Text(half), Delta::Restarted { .. }, Delta::Text(whole)] = deltas.as_slice() else {
        panic!("{deltas:?}");
    };
    assert_eq!((half.as_str(), whole.as_str()), ("Half", "Whole"));
}

#[tokio::test]
async fn a6_a_chunk_that_is_not_json_is_a_broken_stream() {
    let reason = recovers_from(Reply::ok().event("{\"choices\": [").event(finish("stop")), "").await;
    assert!(reason.contains("a chunk is not JSON") || reason.contains("cannot be read"), "{reason}");
    let odd = Reply::ok()
        .event(r#"{"choices":[{"delta":{"tool_calls":[{"index":"first"}]}}]}"#)
        .event(finish("stop"));
    assert!(recovers_from(odd, "").await.contains("cannot be read"));
}

#[tokio::test]
async fn a6_server_errors_are_asked_again() {
    for status in [500, 502, 503, 529] {
        let reason = recovers_from(Reply::status(status).bytes("<h1>Oops</h1>"), "").await;
        assert!(reason.contains(&status.to_string()) && reason.contains("Oops"), "{reason}");
    }
}

#[tokio::test]
async fn a6_an_error_in_mid_stream_is_asked_again_unless_it_is_a_refusal() {
    let overloaded = r#"{"error":{"message":"Overloaded","type":"server_error"}}"#;
    assert_eq!(
        recovers_from(Reply::ok().event(said("Ha")).event(overloaded), "").await,
        "The provider aborted the reply: Overloaded"
    );
    let refused = r#"{"error":{"message":"Too long","type":"invalid_request_error"}}"#;
    assert_eq!(ends_with(Reply::ok().event(refused)).await.kind(), FaultKind::Permanent);
}

#[tokio::test]
async fn a6_a_slow_first_byte_is_a_timeout() {
    let reason = recovers_from(Reply::ok().after(60_000), "first_byte_timeout_ms = 150").await;
    assert!(reason.contains("first_byte_timeout_ms"), "{reason}");
}

#[tokio::test]
async fn a6_a_stream_that_falls_silent_is_a_timeout() {
    let silent = Reply::ok().event(said("Well")).pause(60_000);
    let reason = recovers_from(silent, "idle_timeout_ms = 150").await;
    assert!(reason.contains("idle_timeout_ms"), "{reason}");
}

#[tokio::test]
async fn a6_a_reply_that_only_trickles_is_a_timeout() {
    let trickle = (0..1000).fold(Reply::ok(), |reply, _| reply.event(said(".")).pause(20));
    let reason = recovers_from(trickle, "reply_timeout_ms = 200").await;
    assert!(reason.contains("reply_timeout_ms"), "{reason}");
}

/// The library scans a line again whenever more of it arrives.
#[tokio::test]
async fn a_line_without_an_end_is_given_up() {
    let piece = axum::body::Bytes::from(vec![b'x'; 256 * 1024]);
    let endless =
        (0..4_000).fold(Reply::ok().bytes(b"data: ".to_vec()), |reply, _| reply.bytes(piece.clone()));
    let fault = ends_with(endless).await;
    assert!(fault.to_string().contains("has no end"), "{fault}");
    assert!(fault.to_string().contains("the limit of 4194304 bytes for one event"), "{fault}");
    assert_eq!(fault.kind(), FaultKind::Permanent);
}

/// The library skips comments and blank lines, so they count separately.
#[tokio::test]
async fn comments_and_blank_lines_without_an_end_are_given_up() {
    let comments = axum::body::Bytes::from(": still here\n\n".repeat(1_000));
    let blank = axum::body::Bytes::from_static(b"\n");
    // The server sends each piece by itself.
    for (piece, few, many) in [(comments, 10, 20), (blank, 5_000, 30_000)] {
        let some = (0..few).fold(Reply::ok(), |reply, _| reply.bytes(piece.clone()));
        let server = Server::new(vec![some.event(said("fine")).event(finish("stop"))]).await;
        let (reply, _) = ask(&*model("openai", &server, ""), hello()).await;
        assert_eq!(reply.unwrap().message.text, "fine");
        let endless = (0..many).fold(Reply::ok(), |reply, _| reply.bytes(piece.clone()));
        let fault = ends_with(endless.event(said("fine")).event(finish("stop"))).await;
        assert!(fault.to_string().contains("more than 16384 comments, blank lines and pieces"), "{fault}");
        assert_eq!(fault.kind(), FaultKind::Permanent);
    }
}

/// The library would report the text as soon as it has parsed the event.
#[tokio::test]
async fn z3_an_event_that_is_small_as_text_and_huge_in_memory_is_never_parsed() {
    let pad = "{},".repeat(500_000);
    let event = format!(r#"{{"choices":[{{"delta":{{"content":"told","pad":[{pad}{{}}]}}}}]}}"#);
    let server = Server::new(vec![Reply::ok().event(event), saying("never")]).await;
    let (reply, deltas) = ask(&*model("openai", &server, ""), hello()).await;
    let fault = reply.unwrap_err();
    assert!(fault.to_string().contains("bytes of memory; the limit for one event is 33554432"), "{fault}");
    assert_eq!((fault.kind(), server.seen().len()), (FaultKind::Permanent, 1));
    assert!(deltas.is_empty(), "{deltas:?}");
}

/// Memory for one MiB.
#[derive(Debug)]
struct Little;

impl ReplyMemory for Little {
    fn reserve(&self, bytes: u64) -> Result<(), String> {
        if bytes <= 1 << 20 { Ok(()) } else { Err("there is no memory".to_owned()) }
    }
}

fn within_little() -> ModelRequest {
    ModelRequest { memory: Some(Arc::new(Little)), ..hello() }
}

#[tokio::test]
async fn z3_a_reply_ends_where_its_memory_does() {
    let part = "x".repeat(64 << 10);
    let arguments = json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "a", "function": {"name": "one", "arguments": part}}
    ]}}]});
    for event in [said(&part), arguments] {
        let long = || (0..100).fold(Reply::ok(), |reply, _| reply.event(&event)).event(finish("stop"));
        let server = Server::new(vec![long(), long()]).await;
        let (model, mut text_bytes) = (model("openai", &server, ""), 0);
        let mut tell = |delta| match delta {
            Delta::Text(text) => text_bytes += text.len(),
            Delta::Restarted { .. } => text_bytes = 0,
            Delta::Reasoning(_) => {}
        };
        let reply = model.reply(within_little(), &mut tell).await;
        assert_eq!(reply.unwrap_err().message(), "After 2 attempts: there is no memory");
        assert!(text_bytes <= 1 << 20, "{text_bytes} bytes");
        assert_eq!(server.seen().len(), 2, "the host may have memory soon");
    }
    let short = Server::new(vec![saying("fine")]).await;
    let reply = model("openai", &short, "").reply(within_little(), &mut |_| {}).await;
    assert_eq!(reply.unwrap().message.text, "fine");
}

#[tokio::test]
async fn an_error_without_an_end_is_given_up() {
    let piece = axum::body::Bytes::from(vec![b'x'; 256 * 1024]);
    let endless = (0..4_000).fold(Reply::status(400), |reply, _| reply.bytes(piece.clone()));
    let fault = ends_with(endless).await;
    assert_eq!(
        fault.message(),
        "The provider answered 400 Bad Request: its explanation is too long to be read"
    );
}

/// A few bytes can expand to gigabytes.
#[tokio::test]
async fn no_compressed_answer_is_asked_for() {
    let server = Server::new(vec![saying("fine")]).await;
    ask(&*model("openai", &server, ""), hello()).await.0.unwrap();
    assert_eq!(server.seen()[0].headers.get("accept-encoding"), None);
}

#[tokio::test]
async fn a6_an_empty_body_is_a_broken_stream() {
    let reason = recovers_from(Reply::ok(), "").await;
    assert!(reason.contains("without a single event") && reason.contains("base_url"), "{reason}");
}

#[tokio::test]
async fn a6_refusals_end_with_the_providers_words() {
    let body =
        format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}.","code":"invalid_api_key"}}}}"#);
    let fault = ends_with(Reply::status(401).bytes(body)).await;
    assert_eq!(fault.kind(), FaultKind::Permanent);
    assert_eq!(
        fault.message(),
        "The provider answered 401 Unauthorized: Incorrect API key provided: [api key]. The key is read from \
         the environment variable KEY."
    );
}

#[tokio::test]
async fn a6_the_providers_words_are_bounded_and_no_key_is_cut_in_half() {
    for pad in [1_900, 1_993, 3_000] {
        let body = format!("{}{KEY}{}", "x".repeat(pad), "y".repeat(5_000));
        let fault = ends_with(Reply::status(400).bytes(body)).await;
        assert!(fault.message().len() <= 2_000, "{}", fault.message().len());
        assert!(!fault.message().contains("sk-"), "{fault}");
    }
}

#[tokio::test]
async fn no_log_holds_a_key_that_a_provider_answered_with() {
    let log = Log::default();
    let writer = log.clone();
    let everything = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(everything);
    tracing::info!("the log is heard");
    let body = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}."}}}}"#);
    ends_with(Reply::status(401).bytes(body)).await;
    recovers_from(Reply::ok().event(format!(r#"{{"error":"{KEY}"}}"#)), "").await;
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("the log is heard") && log.contains("asking again"), "{log}");
    assert!(!log.contains(KEY), "{log}");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let elsewhere = Server::new(vec![saying("never")]).await;
    let fault = ends_with(Reply::status(307).header("location", elsewhere.url.clone())).await;
    assert!(fault.message().contains("307"), "{fault}");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a6_a_server_that_is_not_there_is_named_without_its_path() {
    let server = Server::new(Vec::new()).await;
    let model = model("openai", &server, "");
    let origin = server.url.trim_end_matches("/v1").to_owned();
    drop(server);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (reply, deltas) = ask(&*model, hello()).await;
    let fault = reply.unwrap_err();
    let start =
        format!("After 2 attempts: The provider cannot be reached at {origin} (`base_url` in [model]): ");
    assert!(fault.message().starts_with(&start), "{fault}");
    assert!(!fault.message().contains("/v1"), "{fault}");
    assert_eq!(deltas.len(), 1);
}

#[tokio::test]
async fn x1_dropping_a_reply_closes_its_connection() {
    let (hangs, gone) = Reply::ok().event(said("Well")).hang();
    let server = Server::new(vec![hangs]).await;
    let model = model("openai", &server, "");
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let reply =
        tokio::spawn(async move { model.reply(hello(), &mut |delta| told.send(delta).unwrap()).await });
    assert_eq!(heard.recv().await, Some(Delta::Text("Well".into())));
    reply.abort();
    let closed = tokio::time::timeout(Duration::from_secs(10), gone).await;
    assert!(closed.is_ok(), "the server still holds the connection");
}
