//! Tests of spans, as the program sends them to an OpenTelemetry collector.

#![cfg(feature = "otel")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[allow(dead_code, reason = "what this test does not need of it, others do")]
#[path = "cli/place.rs"]
mod place;

use place::Place;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use tollgate_artifacts::{good, hostile};

/// The data sent to the collector.
struct Sent {
    head: String,
    body: Vec<u8>,
}

impl Sent {
    /// Returns whether the data contains the words, which this encoding does not change.
    fn holds(&self, words: &str) -> bool {
        self.body.windows(words.len()).any(|window| window == words.as_bytes())
    }
}

/// Starts a collector that accepts everything and sends empty answers.
fn collector() -> (String, mpsc::Receiver<Sent>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let tell = tell.clone();
            std::thread::spawn(move || {
                while let Some(sent) = take(&mut client.as_ref().unwrap()) {
                    tell.send(sent).unwrap();
                }
            });
        }
    });
    (url, told)
}

fn take(client: &mut &TcpStream) -> Option<Sent> {
    let mut reader = BufReader::new(*client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        (reader.read_line(&mut head).ok()? > 0).then_some(())?;
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    Some(Sent { head, body })
}

fn tollgate(place: &Place, typed: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(typed).current_dir(place.path()).env("TOLLGATE_DATA", place.path().join("data"));
    command
}

#[test]
fn spans_of_a_call_reach_the_collector_and_say_nothing_of_its_content() {
    let place = Place::new().with_tools(&[good::ECHO, hostile::UNREACHABLE]);
    let (url, sent) = collector();
    for (tool, code) in [("echo", "success"), ("unreachable", "trapped")] {
        let mut command = tollgate(&place, &["call", tool, r#"{"confidential":"swordfish"}"#]);
        let output = command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &url).output().unwrap();
        assert_eq!(output.status.success(), code == "success", "{output:?}");
        let sent = sent.recv().unwrap();
        assert!(sent.head.starts_with("POST /v1/traces HTTP/1.1"), "{}", sent.head);
        assert!(sent.head.contains("content-type: application/x-protobuf"), "{}", sent.head);
        for words in ["service.name", "tollgate", "run_id", "load", "call", "commit", "fuel", tool, code] {
            assert!(sent.holds(words), "{words} is not there");
        }
        assert!(!sent.holds("swordfish") && !sent.holds("confidential"));
    }
}

#[test]
fn without_a_collector_nothing_is_sent_and_one_that_is_gone_fails_nothing() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let silent = tollgate(&place, &["call", "echo", "{}"]).output().unwrap();
    assert!(silent.status.success(), "{silent:?}");
    // The output contains only the cost of the call.
    let said = String::from_utf8_lossy(&silent.stderr);
    assert!(said.lines().count() == 1 && said.contains(" fuel, "), "{said}");
    let mut command = tollgate(&place, &["call", "echo", "{}"]);
    // Nothing listens at this port.
    let gone = command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9").output().unwrap();
    assert!(gone.status.success(), "{gone:?}");
    let mut command = tollgate(&place, &["call", "echo", "{}"]);
    let wrong = command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{wrong:?}");
}
