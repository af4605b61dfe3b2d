//! Streams of chat completions, as golden files, and what does not depend on how they arrive.
#![allow(clippy::unwrap_used)]

use super::encode::{ChatEncoder, ChatEvent, ChatSettings, joined};
use crate::agent_runs::Encode;
use crate::agent_runs::costs;
use crate::agent_runs::fixture::{self, Recording, encode, golden, joined_at, without};
use serde_json::{Value, json};

fn encoder(recording: &Recording, holds: bool) -> ChatEncoder {
    ChatEncoder::new(ChatSettings {
        run_id: recording.run_id.clone(),
        thread: "t".to_owned(),
        model: "clerk".to_owned(),
        created: 7,
        include_usage: true,
        progress: true,
        holds,
        decide_url: "http://localhost:7300/console/waiting".to_owned(),
    })
}

fn shown(recording: &Recording, events: &[ChatEvent]) -> String {
    let values: Vec<Value> = events
        .iter()
        .map(|event| match event {
            ChatEvent::Chunk(chunk) => chunk.clone(),
            ChatEvent::Failed(error) => error.to_json(),
            ChatEvent::Done => json!("[DONE]"),
        })
        .collect();
    golden(recording, &values)
}

/// Encodes all segments, as a stream that is held open.
fn held(recording: &Recording) -> Vec<ChatEvent> {
    let mut encoder = encoder(recording, true);
    let mut out = Vec::new();
    for segment in &recording.segments {
        encoder.rejoined();
        segment.iter().for_each(|update| encoder.update(update, &mut out));
    }
    encoder.ended(Recording::end(&recording.all()), &mut out);
    out
}

#[tokio::test]
async fn text_reasoning_and_progress_are_streamed() {
    let recording = fixture::calls().await;
    insta::assert_snapshot!("calls", shown(&recording, &held(&recording)));
}

#[tokio::test]
async fn a_question_holds_the_stream_open() {
    let recording = fixture::questions().await;
    insta::assert_snapshot!("questions", shown(&recording, &held(&recording)));
}

#[tokio::test]
async fn a_question_ends_an_answer_that_is_not_held() {
    let recording = fixture::questions().await;
    let completion = joined(encode(&mut encoder(&recording, false), &recording.segments[0])).unwrap();
    assert_eq!(completion["choices"][0]["finish_reason"], "stop");
    let waiting = completion["tollgate"]["waiting"].as_array().unwrap();
    let ids: Vec<&Value> = waiting.iter().map(|asked| &asked["suspension_id"]).collect();
    assert_eq!(ids, ["d/1", "a/1"]);
}

#[tokio::test]
async fn a_restarted_reply_is_named_and_follows() {
    let recording = fixture::restart().await;
    insta::assert_snapshot!("restart", shown(&recording, &held(&recording)));
}

#[tokio::test]
async fn runs_without_an_answer_are_errors() {
    for (recording, code) in [(fixture::blocked().await, "blocked"), (fixture::failed().await, "failed")] {
        let error = joined(held(&recording)).unwrap_err();
        assert_eq!(error.to_json()["error"]["code"], code);
    }
}

#[tokio::test]
async fn every_end_is_shown() {
    let mut ends = String::new();
    for (name, recording) in fixture::ends().await {
        let events = held(&recording);
        let is_last = |event: &ChatEvent| match event {
            ChatEvent::Chunk(chunk) => chunk["choices"][0]["finish_reason"].is_string(),
            ChatEvent::Failed(_) => true,
            ChatEvent::Done => false,
        };
        let last: Vec<ChatEvent> = events.into_iter().filter(is_last).collect();
        ends += &format!("# {name}\n{}", shown(&recording, &last));
    }
    insta::assert_snapshot!("ends", ends);
}

#[tokio::test]
async fn tools_never_appear_as_tool_calls() {
    for recording in [fixture::calls().await, fixture::questions().await, fixture::child().await] {
        assert!(!shown(&recording, &held(&recording)).contains("tool_calls"));
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_ends_in_the_same_completion() {
    // A restarted reply cannot be taken back, so its text depends on what was sent before.
    for recording in fixture::drawn(false).await {
        // A stream is held open while questions wait, or ends with the first ones.
        for (holds, updates) in [(true, recording.all()), (false, recording.segments[0].clone())] {
            let new = || encoder(&recording, holds);
            let read = |events| {
                let completion = joined(events).unwrap();
                let content = completion["choices"][0]["message"]["content"].clone();
                (content, completion["tollgate"]["waiting"].clone())
            };
            let whole = read(encode(&mut new(), &updates));
            for cut in 0..=updates.len() {
                assert_eq!(read(joined_at(&mut new(), &updates, cut)), whole, "joined at {cut}");
                let slow = without(&updates, cut..updates.len());
                assert_eq!(read(encode(&mut new(), &slow)), whole, "lost from {cut}");
            }
        }
    }
}

#[tokio::test]
async fn a_slow_reader_gets_the_same_completion() {
    let recording = fixture::calls().await;
    let updates = recording.all();
    let whole = joined(encode(&mut encoder(&recording, true), &updates)).unwrap();
    let content = |completion: &Value| completion["choices"][0]["message"]["content"].clone();
    assert_eq!(content(&whole), "Let me count.\n\nThere are 4 words.");
    for from in 0..updates.len() {
        for to in from..=updates.len() {
            let received = without(&updates, from..to);
            let read = joined(encode(&mut encoder(&recording, true), &received)).unwrap();
            assert_eq!(content(&read), content(&whole), "lost {from}..{to}");
            assert_eq!(read["usage"], whole["usage"]);
        }
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn encoding_costs() {
    let recording = costs::long().await;
    costs::report(
        "OpenAI, chat completions",
        &recording.segments[0],
        || encoder(&recording, true),
        |event| match event {
            ChatEvent::Chunk(chunk) => chunk.to_string(),
            ChatEvent::Failed(_) | ChatEvent::Done => String::new(),
        },
    );
}
