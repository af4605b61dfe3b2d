//! Streams of AG-UI, as golden files, and what does not depend on how they arrive.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::encode::{AgUiEncoder, AgUiVersion, StreamInfo};
use super::state::SharedState;
use crate::agent_runs::ReplyText;
use crate::agent_runs::costs;
use crate::agent_runs::fixture::{self, Recording, encode, golden, joined_at, without};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tollgate::tools::Report;
use tollgate::{LiveContent, RunUpdate};
use tollgate_agent::run::StoredEvent;

fn encoder(recording: &Recording, segment: usize, version: AgUiVersion) -> AgUiEncoder {
    let earlier = recording.segments[..segment].concat();
    let earlier: Vec<Arc<StoredEvent>> = earlier
        .iter()
        .filter_map(|update| match update {
            RunUpdate::Stored(stored) => Some(Arc::clone(stored)),
            _ => None,
        })
        .collect();
    let about = StreamInfo {
        thread: "t".to_owned(),
        client_run: "client-run".to_owned(),
        run_id: recording.run_id.clone(),
        version,
        decide_url: "http://localhost:7300/console/waiting".to_owned(),
        messages: vec![json!({"id": "m1", "role": "user", "content": "Go."})],
        state: SharedState::default(),
        ignored: vec!["context".to_owned()],
    };
    AgUiEncoder::after(about, &earlier, ReplyText::default())
}

/// Checks the order of events as the verifier of `@ag-ui/client` does, and returns the text of
/// each message.
fn checked(events: &[Value]) -> Vec<(String, String)> {
    let (mut open, mut steps, mut children) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut texts: Vec<(String, String)> = Vec::new();
    assert_eq!(events[0]["type"], "RUN_STARTED");
    for (at, event) in events.iter().enumerate() {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let is_last = at + 1 == events.len();
        match text("type").as_str() {
            "TEXT_MESSAGE_START" => {
                assert!(open.insert(text("messageId")), "{event}");
                texts.push((text("messageId"), String::new()));
            }
            "TEXT_MESSAGE_CONTENT" => {
                assert!(open.contains(&text("messageId")), "{event}");
                let at = texts.iter().rposition(|(id, _)| *id == text("messageId")).unwrap();
                texts[at].1.push_str(&text("delta"));
            }
            "TEXT_MESSAGE_END" => assert!(open.remove(&text("messageId")), "{event}"),
            "MESSAGES_SNAPSHOT" => {
                let kept: Vec<&Value> = event["messages"].as_array().unwrap().iter().collect();
                texts.retain(|(id, _)| kept.iter().any(|message| message["id"] == *id));
            }
            "REASONING_START" => assert!(open.insert(format!("span {}", text("messageId")))),
            "REASONING_END" => assert!(open.remove(&format!("span {}", text("messageId")))),
            "REASONING_MESSAGE_START" => assert!(open.insert(format!("reasoning {}", text("messageId")))),
            "REASONING_MESSAGE_END" => assert!(open.remove(&format!("reasoning {}", text("messageId")))),
            "STEP_STARTED" => assert!(steps.insert(text("stepName"))),
            "STEP_FINISHED" => assert!(steps.remove(&text("stepName"))),
            "SUBAGENT_STARTED" => assert!(children.insert(text("subagentRunId"))),
            "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => assert!(children.remove(&text("subagentRunId"))),
            "RUN_FINISHED" | "RUN_ERROR" => {
                assert!(is_last && open.is_empty() && steps.is_empty() && children.is_empty(), "{event}");
            }
            _ => assert!(!is_last, "{event}"),
        }
    }
    texts
}

#[tokio::test]
async fn text_reasoning_calls_and_activities_are_streamed() {
    let recording = fixture::calls().await;
    let events = encode(&mut encoder(&recording, 0, AgUiVersion::V1), &recording.segments[0]);
    checked(&events);
    insta::assert_snapshot!("calls", golden(&recording, &events));
}

#[tokio::test]
async fn every_open_question_is_an_interrupt_and_answers_continue() {
    let recording = fixture::questions().await;
    let streams = (0..recording.segments.len()).map(|at| {
        let events = encode(&mut encoder(&recording, at, AgUiVersion::V1), &recording.segments[at]);
        checked(&events);
        golden(&recording, &events)
    });
    insta::assert_snapshot!("questions", streams.collect::<Vec<_>>().join("\n"));
    let events = encode(&mut encoder(&recording, 0, AgUiVersion::V1), &recording.segments[0]);
    let interrupts = events.last().unwrap()["outcome"]["interrupts"].as_array().unwrap();
    let reasons: Vec<&Value> = interrupts.iter().map(|interrupt| &interrupt["reason"]).collect();
    assert_eq!(reasons, ["tool_call", "input_required"]);
}

#[tokio::test]
async fn children_are_sub_agents_or_activities() {
    let recording = fixture::child().await;
    let events = encode(&mut encoder(&recording, 0, AgUiVersion::V1), &recording.segments[0]);
    checked(&events);
    insta::assert_snapshot!("child", golden(&recording, &events));
    let events = encode(&mut encoder(&recording, 0, AgUiVersion::V0), &recording.segments[0]);
    checked(&events);
    let is_child = |event: &&Value| event["activityType"] == "tollgate.child";
    assert_eq!(events.iter().filter(is_child).count(), 2);
    let text = golden(&recording, &events);
    insta::assert_snapshot!("child_v0", text);
    assert!(!text.contains("SUBAGENT") && !text.contains("subagentRunId") && !text.contains("usage"));
}

#[tokio::test]
async fn a_restarted_reply_is_taken_back() {
    let recording = fixture::restart().await;
    let events = encode(&mut encoder(&recording, 0, AgUiVersion::V1), &recording.segments[0]);
    let texts: Vec<String> = checked(&events).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["The answer is 42."]);
    insta::assert_snapshot!("restart", golden(&recording, &events));
}

#[tokio::test]
async fn state_activities_of_tools_and_events_of_hooks_are_shown() {
    let recording = fixture::state().await;
    let streams = (0..recording.segments.len()).map(|at| {
        let events = encode(&mut encoder(&recording, at, AgUiVersion::V1), &recording.segments[at]);
        checked(&events);
        golden(&recording, &events)
    });
    insta::assert_snapshot!("state", streams.collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn z14_an_activity_of_a_tool_does_not_take_the_place_of_the_hosts() {
    let recording = fixture::state().await;
    let events_with = |new_kind: &str| {
        let mut updates = recording.segments[0].clone();
        for update in &mut updates {
            if let RunUpdate::Live(live) = update
                && let LiveContent::CallReport { report, .. } = &mut live.piece
                && let Report::Activity { kind, .. } | Report::ActivityDelta { kind, .. } = report
            {
                new_kind.clone_into(kind);
            }
        }
        encode(&mut encoder(&recording, 0, AgUiVersion::V1), &updates)
    };
    let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let is_of_host = |event: &&Value| {
        event["type"] == "TOOL_CALL_RESULT" || text(event, "activityType").starts_with("tollgate.")
    };
    let usual = events_with("page");
    let of_host: BTreeSet<String> =
        usual.iter().filter(is_of_host).map(|event| text(event, "messageId")).collect();
    assert!(of_host.len() > 1 && usual.iter().any(|event| event["activityType"] == "page"));
    for kind in ["call", "result", "child-1"] {
        let events = events_with(kind);
        let taken = events.iter().filter(|event| event["activityType"] == kind);
        assert!(
            taken.clone().count() > 0
                && taken.clone().all(|event| !of_host.contains(&text(event, "messageId")))
        );
    }
    let imitating = events_with("tollgate.call");
    assert_eq!(imitating.iter().filter(is_of_host).count(), usual.iter().filter(is_of_host).count());
}

#[tokio::test]
async fn every_end_is_shown_to_both_versions() {
    let mut shown = String::new();
    for (name, recording) in fixture::ends().await {
        for version in [AgUiVersion::V0, AgUiVersion::V1] {
            let events = encode(&mut encoder(&recording, 0, version), &recording.segments[0]);
            checked(&events);
            shown += &format!("# {name}, {version:?}\n{}", golden(&recording, events.last()));
        }
    }
    insta::assert_snapshot!("ends", shown);
}

#[tokio::test]
async fn runs_without_an_answer_are_errors() {
    for (recording, code) in [(fixture::blocked().await, "blocked"), (fixture::failed().await, "failed")] {
        for version in [AgUiVersion::V0, AgUiVersion::V1] {
            let events = encode(&mut encoder(&recording, 0, version), &recording.segments[0]);
            checked(&events);
            assert_eq!(events.last().unwrap()["code"], code);
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_leads_to_the_same_messages() {
    let mut recordings = fixture::drawn(true).await;
    recordings.extend([fixture::calls().await, fixture::questions().await, fixture::restart().await]);
    recordings.extend([fixture::child().await, fixture::state().await]);
    for recording in recordings {
        for (version, (at, updates)) in [AgUiVersion::V0, AgUiVersion::V1]
            .into_iter()
            .flat_map(|v| recording.segments.iter().enumerate().map(move |s| (v, s)))
        {
            let new = || encoder(&recording, at, version);
            let whole = folded(&encode(&mut new(), updates));
            for cut in 0..=updates.len() {
                assert_eq!(folded(&joined_at(&mut new(), updates, cut)), whole, "joined at {cut}");
                let slow = without(updates, cut..updates.len());
                assert_eq!(folded(&encode(&mut new(), &slow)), whole, "lost from {cut}");
            }
        }
    }
}

/// Returns the conversation, the state and the end as a client folds them from a stream. A reply that
/// started anew has another id.
fn folded(events: &[Value]) -> Value {
    let texts: Vec<String> = checked(events).into_iter().map(|(_, text)| text).collect();
    let of = |event: &&Value| {
        let kind = event["type"].as_str().unwrap_or_default();
        (kind.starts_with("TOOL_CALL") || kind.starts_with("STATE") || kind.starts_with("SUBAGENT"))
            || (kind == "CUSTOM" && event["name"] != "tollgate.reply_restarted")
            || kind == "RUN_FINISHED"
            || kind == "RUN_ERROR"
    };
    let mut rest: Vec<Value> = events.iter().filter(of).cloned().collect();
    for event in &mut rest {
        event.as_object_mut().unwrap().remove("parentMessageId");
    }
    json!([texts, rest])
}

#[tokio::test]
#[ignore = "a measurement"]
async fn encoding_costs() {
    let recording = costs::long().await;
    costs::report(
        "AG-UI",
        &recording.segments[0],
        || encoder(&recording, 0, AgUiVersion::V1),
        |event| event.to_string(),
    );
}
