//! Streams of tasks, as golden files, and what does not depend on how they arrive.
#![allow(clippy::unwrap_used)]

use super::encode::{TaskEncoder, assembled};
use super::task::TaskView;
use crate::agent_runs::costs;
use crate::agent_runs::fixture::{self, Recording, encode, golden, joined_at, without};
use crate::agent_runs::{Encode, ReplyText};
use serde_json::{Value, json};
use tollgate::RunUpdate;

fn view(recording: &Recording) -> TaskView {
    TaskView::new(&recording.run_id, "t", "http://localhost:7300/console/waiting")
}

fn encoder(recording: &Recording) -> TaskEncoder {
    TaskEncoder::new(view(recording), ReplyText::default(), None)
}

/// Returns the task as the record has it after these updates.
fn recorded(recording: &Recording, updates: &[RunUpdate]) -> TaskView {
    let mut view = view(recording);
    for update in updates {
        if let RunUpdate::Stored(stored) = update {
            view.apply(stored);
        }
    }
    view
}

fn last_state(events: &[Value]) -> &Value {
    &events.iter().rev().find(|event| event["statusUpdate"].is_object()).unwrap()["statusUpdate"]["status"]["state"]
}

#[tokio::test]
async fn a_task_comes_first_and_its_updates_follow() {
    let recording = fixture::calls().await;
    let events = encode(&mut encoder(&recording), &recording.segments[0]);
    insta::assert_snapshot!("calls", golden(&recording, &events));
    assert!(events[0]["task"].is_object());
    assert_eq!(last_state(&events), "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn a_gates_question_needs_a_person_and_a_tools_question_input() {
    let recording = fixture::questions().await;
    let first = &recording.segments[0];
    let mut encoder = encoder(&recording);
    let events = encode(&mut encoder, first);
    insta::assert_snapshot!("questions", golden(&recording, &events));
    assert_eq!(last_state(&events), "TASK_STATE_AUTH_REQUIRED");
    assert!(!encoder.is_over(), "the stream stays open for the gate's answer");
    let both = recording.segments[..2].concat();
    assert_eq!(recorded(&recording, &both).state(), "TASK_STATE_INPUT_REQUIRED");
}

#[tokio::test]
async fn every_end_is_shown() {
    let mut shown = String::new();
    for (name, recording) in fixture::ends().await {
        let events = encode(&mut encoder(&recording), &recording.segments[0]);
        let last = recorded(&recording, &recording.all()).status();
        assert_eq!(last["state"], *last_state(&events), "{name}");
        shown += &format!("# {name}\n{}", golden(&recording, events.last()));
    }
    let restart = fixture::restart().await;
    let events = encode(&mut encoder(&restart), &restart.segments[0]);
    shown += &format!("# restart\n{}", golden(&restart, &events));
    insta::assert_snapshot!("ends", shown);
}

#[tokio::test]
async fn every_end_has_its_state() {
    for (recording, state) in [
        (fixture::blocked().await, "TASK_STATE_REJECTED"),
        (fixture::failed().await, "TASK_STATE_FAILED"),
        (fixture::refusal().await, "TASK_STATE_COMPLETED"),
    ] {
        assert_eq!(recorded(&recording, &recording.all()).state(), state);
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_leads_to_the_same_task() {
    let mut recordings = fixture::drawn(true).await;
    recordings.extend([fixture::calls().await, fixture::questions().await, fixture::restart().await]);
    for recording in recordings {
        for (at, updates) in recording.segments.iter().enumerate() {
            let earlier = recording.segments[..at].concat();
            let known = |more: &[RunUpdate]| recorded(&recording, &[earlier.as_slice(), more].concat());
            // The answer to a question continues the task that the client has.
            let new = || TaskEncoder::new(known(&[]), ReplyText::default(), None);
            let whole = (known(updates).text.clone(), json!(known(updates).state()));
            let read = |events: &[Value]| (assembled(events), last_state(events).clone());
            for cut in 0..=updates.len() {
                assert_eq!(read(&joined_at(&mut new(), updates, cut)), whole, "joined at {cut}");
                let slow = without(updates, cut..updates.len());
                assert_eq!(read(&encode(&mut new(), &slow)), whole, "lost from {cut}");
                // A subscription begins with the task as it is recorded.
                let mut subscribed = TaskEncoder::new(known(&updates[..cut]), ReplyText::default(), None);
                let mut events = Vec::new();
                updates[cut..].iter().for_each(|update| subscribed.update(update, &mut events));
                if cut < updates.len() {
                    assert_eq!(read(&events), whole, "subscribed at {cut}");
                }
            }
        }
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn encoding_costs() {
    let recording = costs::long().await;
    costs::report("A2A", &recording.segments[0], || encoder(&recording), |event| event.to_string());
}
