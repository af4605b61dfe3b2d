//! Streams of the AI SDK, as golden files, and what does not depend on how they arrive.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::encode::{AiSdkEncoder, AiSdkVersion, MessageBegin, MessageInfo};
use crate::agent_runs::costs;
use crate::agent_runs::fixture::{self, Recording, encode, golden, joined_at, without};
use crate::agent_runs::{Calls, ReplyText};
use serde_json::{Value, json};
use tollgate::RunUpdate;

fn encoder(recording: &Recording, segment: usize, version: AiSdkVersion) -> AiSdkEncoder {
    let mut calls = Calls::default();
    for update in recording.segments[..segment].concat() {
        if let RunUpdate::Stored(stored) = update {
            calls.apply(&stored.event);
        }
    }
    let about = MessageInfo {
        run_id: recording.run_id.clone(),
        thread: "t".to_owned(),
        message_id: recording.run_id.clone(),
        version,
        decide_url: "http://localhost:7300/console/waiting".to_owned(),
    };
    let begin = if segment == 0 { MessageBegin::Run } else { MessageBegin::Earlier };
    AiSdkEncoder::new(about, begin, calls, ReplyText::default())
}

/// Applies chunks as `readUIMessageStream` does, and returns the parts of the message.
fn applied(mut parts: Vec<Value>, chunks: &[Value]) -> Vec<Value> {
    let mut step = 0;
    for chunk in chunks {
        let id = &chunk["id"];
        let find = |parts: &[Value], kind: &str, id: &Value| {
            parts.iter().rposition(|part| part["type"] == kind && part["id"] == *id)
        };
        let tool = |parts: &[Value]| {
            let at = parts.iter().rposition(|part| part["toolCallId"] == chunk["toolCallId"]);
            at.unwrap_or_else(|| panic!("no part for {chunk}"))
        };
        match chunk["type"].as_str().unwrap() {
            kind @ ("text-start" | "reasoning-start") => {
                let kind = kind.trim_end_matches("-start");
                parts.push(json!({"type": kind, "id": id, "text": "", "open": true}));
            }
            kind @ ("text-delta" | "reasoning-delta") => {
                let at = find(&parts, kind.trim_end_matches("-delta"), id).unwrap();
                assert_eq!(parts[at]["open"], true, "{chunk}");
                let text =
                    format!("{}{}", parts[at]["text"].as_str().unwrap(), chunk["delta"].as_str().unwrap());
                parts[at]["text"] = json!(text);
            }
            kind @ ("text-end" | "reasoning-end") => {
                let at = find(&parts, kind.trim_end_matches("-end"), id).unwrap();
                parts[at]["open"] = json!(false);
            }
            "start-step" => step = parts.len(),
            "reset-step" => parts.truncate(step),
            "tool-input-available" => parts.push(json!({
                "type": "tool", "toolCallId": chunk["toolCallId"], "input": chunk["input"],
            })),
            "tool-approval-request" => {
                let at = tool(&parts);
                parts[at]["approval"] = chunk["approvalId"].clone();
            }
            kind @ ("tool-output-available" | "tool-output-error" | "tool-output-denied") => {
                let at = tool(&parts);
                parts[at]["state"] = json!(kind);
                parts[at]["output"] = chunk["output"].clone();
            }
            kind if kind.starts_with("data-") && chunk["transient"] != true => {
                parts.retain(|part| part["type"] != kind || part["id"] != *id);
                parts.push(json!({"type": kind, "id": id, "data": chunk["data"]}));
            }
            _ => {}
        }
    }
    // The ids of parts count what a client saw, and are not part of the message.
    for part in parts.iter_mut().filter(|part| part["type"] == "text" || part["type"] == "reasoning") {
        assert_eq!(part["open"], false);
        part["id"] = Value::Null;
    }
    parts
}

fn message(recording: &Recording, version: AiSdkVersion) -> Vec<Value> {
    let mut parts = Vec::new();
    for (at, segment) in recording.segments.iter().enumerate() {
        parts = applied(parts, &encode(&mut encoder(recording, at, version), segment));
    }
    parts
}

#[tokio::test]
async fn text_reasoning_and_calls_are_streamed() {
    let recording = fixture::calls().await;
    let chunks = encode(&mut encoder(&recording, 0, AiSdkVersion::V7), &recording.segments[0]);
    insta::assert_snapshot!("calls", golden(&recording, &chunks));
    let tools: Vec<&Value> = chunks.iter().filter(|chunk| chunk["type"] == "tool-input-available").collect();
    assert!(tools.iter().all(|chunk| chunk["providerExecuted"] == true && chunk["dynamic"] == true));
}

#[tokio::test]
async fn questions_are_requests_for_approval_and_answers_continue_the_message() {
    let recording = fixture::questions().await;
    let streams = (0..recording.segments.len()).map(|at| {
        let chunks = encode(&mut encoder(&recording, at, AiSdkVersion::V7), &recording.segments[at]);
        golden(&recording, &chunks)
    });
    insta::assert_snapshot!("questions", streams.collect::<Vec<_>>().join("\n"));
    let parts = message(&recording, AiSdkVersion::V7);
    let of = |call: &str| parts.iter().find(|part| part["toolCallId"] == call).unwrap();
    assert_eq!(of("d")["output"], "deleted");
    assert_eq!(of("a")["output"], json!({"approved": true}));
}

#[tokio::test]
async fn children_are_data_beside_their_call() {
    let recording = fixture::child().await;
    let chunks = encode(&mut encoder(&recording, 0, AiSdkVersion::V7), &recording.segments[0]);
    insta::assert_snapshot!("child", golden(&recording, &chunks));
}

#[tokio::test]
async fn a_refused_call_is_denied() {
    let recording = fixture::refusal().await;
    let streams = (0..recording.segments.len()).map(|at| {
        let chunks = encode(&mut encoder(&recording, at, AiSdkVersion::V7), &recording.segments[at]);
        golden(&recording, &chunks)
    });
    insta::assert_snapshot!("refusal", streams.collect::<Vec<_>>().join("\n"));
    let parts = message(&recording, AiSdkVersion::V7);
    let tool = parts.iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(tool["state"], "tool-output-denied");
}

#[tokio::test]
async fn a_restarted_reply_is_taken_back_where_the_client_can() {
    let recording = fixture::restart().await;
    let texts = |version| {
        let parts = message(&recording, version);
        let texts = parts.iter().filter(|part| part["type"] == "text").map(|part| part["text"].clone());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(texts(AiSdkVersion::V7), ["The answer is 42."]);
    assert_eq!(texts(AiSdkVersion::V6), ["The answer is 41", "The answer is 42."]);
    let chunks = encode(&mut encoder(&recording, 0, AiSdkVersion::V7), &recording.segments[0]);
    let restart = golden(&recording, &chunks);
    let chunks = encode(&mut encoder(&recording, 0, AiSdkVersion::V6), &recording.segments[0]);
    insta::assert_snapshot!("restart", format!("# 7\n{restart}# 6\n{}", golden(&recording, &chunks)));
    let is_new = |chunk: &&Value| chunk["type"] == "reset-step" || chunk["type"] == "tool-approval-response";
    assert_eq!(chunks.iter().filter(is_new).count(), 0, "version 6 rejects them");
}

#[tokio::test]
async fn every_end_is_shown() {
    let mut shown = String::new();
    for (name, recording) in fixture::ends().await {
        let chunks = encode(&mut encoder(&recording, 0, AiSdkVersion::V7), &recording.segments[0]);
        let from = chunks.iter().rposition(|chunk| chunk["type"] == "finish-step").map_or(0, |at| at + 1);
        shown += &format!("# {name}\n{}", golden(&recording, &chunks[from..]));
        let earlier = encode(&mut encoder(&recording, 0, AiSdkVersion::V6), &recording.segments[0]);
        assert_eq!(earlier, chunks, "{name}: version 6 has the same ends");
    }
    insta::assert_snapshot!("ends", shown);
}

#[tokio::test]
async fn runs_without_an_answer_are_errors() {
    for recording in [fixture::blocked().await, fixture::failed().await] {
        let chunks = encode(&mut encoder(&recording, 0, AiSdkVersion::V7), &recording.segments[0]);
        assert!(chunks.iter().any(|chunk| chunk["type"] == "error"));
        assert_eq!(chunks.last().unwrap()["finishReason"], "error");
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_ends_in_the_same_message() {
    let mut recordings = fixture::drawn(true).await;
    recordings.extend([fixture::calls().await, fixture::questions().await, fixture::refusal().await]);
    recordings.extend([fixture::restart().await, fixture::child().await]);
    for recording in recordings {
        let (mut before, mut earlier) = (Vec::new(), Vec::new());
        for (at, updates) in recording.segments.iter().enumerate() {
            let new = || encoder(&recording, at, AiSdkVersion::V7);
            let read = |chunks: &[Value]| applied(before.clone(), chunks);
            let whole = read(&encode(&mut new(), updates));
            for cut in 0..=updates.len() {
                assert_eq!(read(&joined_at(&mut new(), updates, cut)), whole, "joined at {cut}");
                let slow = without(updates, cut..updates.len());
                assert_eq!(read(&encode(&mut new(), &slow)), whole, "lost from {cut}");
            }
            // A client that reconnects gets the message from its start.
            let first = earlier.len();
            earlier.extend(updates.iter().cloned());
            for cut in first..=earlier.len() {
                let chunks = joined_at(&mut encoder(&recording, 0, AiSdkVersion::V7), &earlier, cut);
                assert_eq!(applied(Vec::new(), &chunks), whole, "replayed at {cut}");
            }
            before = whole;
        }
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn encoding_costs() {
    let recording = costs::long().await;
    costs::report(
        "AI SDK",
        &recording.segments[0],
        || encoder(&recording, 0, AiSdkVersion::V7),
        |chunk| chunk.to_string(),
    );
}
