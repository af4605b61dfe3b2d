//! Streams of responses, as golden files, and what does not depend on how they arrive.
#![allow(clippy::unwrap_used)]

use super::encode::{ResponseEncoder, ResponseEvent};
use super::output::Output;
use super::segment::{ResponseId, ResponseInfo};
use crate::agent_runs::costs;
use crate::agent_runs::fixture::{self, Recording, encode, golden, joined_at, without};
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate::RunUpdate;
use tollgate_agent::run::StoredEvent;

fn stored(updates: &[RunUpdate]) -> Vec<Arc<StoredEvent>> {
    let stored = updates.iter().filter_map(|update| match update {
        RunUpdate::Stored(stored) => Some(Arc::clone(stored)),
        _ => None,
    });
    stored.collect()
}

/// Returns the encoder of one segment.
fn encoder(recording: &Recording, segment: usize) -> ResponseEncoder {
    let earlier = stored(&recording.segments[..segment].concat());
    let output = Output::after(&recording.run_id, "http://localhost:7300/console/waiting", &earlier);
    let about = ResponseInfo {
        id: ResponseId { run_id: recording.run_id.clone(), first: earlier.len() as u64 + 1 },
        model: "clerk".to_owned(),
        thread: "t".to_owned(),
        previous: None,
        next: None,
        background: false,
    };
    ResponseEncoder::new(about, output)
}

fn shown(recording: &Recording, events: &[ResponseEvent]) -> String {
    golden(recording, events.iter().map(|event| &event.data))
}

fn last(events: &[ResponseEvent]) -> Value {
    events.last().unwrap().data["response"].clone()
}

#[tokio::test]
async fn items_are_streamed() {
    let recording = fixture::calls().await;
    let events = encode(&mut encoder(&recording, 0), &recording.segments[0]);
    insta::assert_snapshot!("calls", shown(&recording, &events));
}

#[tokio::test]
async fn questions_are_requests_for_approval_and_answers_continue() {
    let recording = fixture::questions().await;
    let streams = (0..recording.segments.len())
        .map(|at| shown(&recording, &encode(&mut encoder(&recording, at), &recording.segments[at])));
    insta::assert_snapshot!("questions", streams.collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn a_restarted_reply_is_a_new_item() {
    let recording = fixture::restart().await;
    let events = encode(&mut encoder(&recording, 0), &recording.segments[0]);
    insta::assert_snapshot!("restart", shown(&recording, &events));
}

#[tokio::test]
async fn runs_without_an_answer_fail() {
    for recording in [fixture::blocked().await, fixture::failed().await] {
        let response = last(&encode(&mut encoder(&recording, 0), &recording.segments[0]));
        assert_eq!(response["status"], "failed");
        assert!(response["error"]["message"].is_string());
    }
}

#[tokio::test]
async fn every_end_is_shown() {
    let mut ends = String::new();
    for (name, recording) in fixture::ends().await {
        let mut encoder = encoder(&recording, 0);
        let response = last(&encode(&mut encoder, &recording.segments[0]));
        let response = json!({
            "status": response["status"], "error": response["error"], "output": response["output"],
            "incomplete_details": response["incomplete_details"], "failed": response["tollgate"]["failed"],
        });
        ends += &format!("# {name}\n{}", golden(&recording, [&response]));
    }
    insta::assert_snapshot!("ends", ends);
}

#[tokio::test]
async fn tools_never_appear_as_function_calls() {
    for recording in [fixture::calls().await, fixture::questions().await, fixture::child().await] {
        let events = encode(&mut encoder(&recording, 0), &recording.segments[0]);
        assert!(!shown(&recording, &events).contains("function_call"));
    }
}

#[tokio::test]
async fn sequence_numbers_increase_and_deltas_add_up() {
    for recording in [fixture::calls().await, fixture::questions().await, fixture::restart().await] {
        for (at, segment) in recording.segments.iter().enumerate() {
            let events = encode(&mut encoder(&recording, at), segment);
            let numbers: Vec<u64> =
                events.iter().map(|event| event.data["sequence_number"].as_u64().unwrap()).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
            assert!(numbers.iter().all(|number| *number < 1 << 53));
            for done in events.iter().filter(|event| event.name == "response.output_text.done") {
                let of_item = |event: &&ResponseEvent| {
                    event.name == "response.output_text.delta"
                        && event.data["item_id"] == done.data["item_id"]
                };
                let text: String = events
                    .iter()
                    .filter(of_item)
                    .map(|event| event.data["delta"].as_str().unwrap())
                    .collect();
                assert_eq!(text, done.data["text"]);
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_ends_in_the_same_response() {
    let mut recordings = fixture::drawn(true).await;
    recordings.extend([fixture::calls().await, fixture::questions().await, fixture::restart().await]);
    for recording in recordings {
        for (at, updates) in recording.segments.iter().enumerate() {
            let whole = last(&encode(&mut encoder(&recording, at), updates));
            for cut in 0..=updates.len() {
                let joined = last(&joined_at(&mut encoder(&recording, at), updates, cut));
                assert_eq!(joined, whole, "joined at {cut}");
                let slow = without(updates, cut..updates.len());
                assert_eq!(last(&encode(&mut encoder(&recording, at), &slow)), whole, "lost from {cut}");
            }
        }
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn encoding_costs() {
    let recording = costs::long().await;
    costs::report(
        "OpenAI, responses",
        &recording.segments[0],
        || encoder(&recording, 0),
        |event| event.data.to_string(),
    );
}
