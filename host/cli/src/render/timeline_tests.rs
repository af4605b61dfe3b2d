//! The timeline of a run that contains everything.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::render::timeline::timeline;
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate_agent::child::ChildStatus;
use tollgate_agent::code::Code;
use tollgate_agent::content::ContentPart;
use tollgate_agent::gate::{GateVerdict, Verdict};
use tollgate_agent::hook::{CustomEvent, HookAnswer, HookPoint, ModelHooked};
use tollgate_agent::message::{AssistantMessage, ModelReply, TokenUsage};
use tollgate_agent::outcome::{Fault, Ticket, ToolResult, Usage};
use tollgate_agent::proposal::Arguments;
use tollgate_agent::run::event::{CheckedCall, FinishedCall, SuspendedCall};
use tollgate_agent::run::{CallEnd, Decision, DecisionAnswer, Event, RunStatus, RunUsage, StoredEvent};
use tollgate_agent::state::{KeyUpdate, StateChange};

/// Renders events as a store holds them, each with the milliseconds since the previous one.
fn shown(events: Vec<(u64, Event)>) -> String {
    let mut at_ms = 1_700_000_000_000;
    let record: Vec<Arc<StoredEvent>> = (1..)
        .zip(events)
        .map(|(number, (pause, event))| {
            at_ms += pause;
            Arc::new(StoredEvent { run_id: Arc::from("r"), number, at_ms, event })
        })
        .collect();
    anstream::adapter::strip_str(&timeline(&record)).to_string()
}

fn used(attempts: u32) -> Usage {
    Usage { fuel: 1_250_000, wall_us: 4_100, memory_bytes: 1_572_864, attempts, ..Usage::default() }
}

fn replied(text: &str, tokens: u64) -> Event {
    let message = AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() };
    let usage = TokenUsage { input_tokens: tokens, output_tokens: 12 };
    let model = Some("gpt-5-mini".into());
    Event::ModelReplied {
        step: 1,
        reply: Arc::new(ModelReply { message, usage, model, ..ModelReply::default() }),
    }
}

fn proposed(call_id: &str, tool: &str, arguments: Value) -> Event {
    Event::CallProposed(Arc::new(CheckedCall {
        call_id: call_id.into(),
        tool_name: tool.into(),
        arguments: Some(Arguments::from_value(arguments)),
        ..CheckedCall::default()
    }))
}

fn gated(call_id: &str, verdicts: Vec<(&str, Verdict)>) -> Event {
    let verdicts = verdicts.into_iter().map(|(gate, verdict)| GateVerdict::new(gate, verdict)).collect();
    Event::CallGated { call_id: call_id.into(), verdicts }
}

fn started(call_id: &str, attempt: u32) -> Event {
    Event::CallStarted { call_id: call_id.into(), attempt, not_before_ms: 0, until_ms: 0 }
}

fn finished(call_id: &str, tool: &str, end: CallEnd, changes: &[(&str, Value)]) -> Event {
    let updates: std::sync::Arc<[KeyUpdate]> =
        changes.iter().map(|(key, value)| KeyUpdate::restored(key, value.clone())).collect();
    let change = (!updates.is_empty()).then_some(StateChange { revision: 3, updates });
    Event::CallFinished(Arc::new(FinishedCall {
        change,
        usage: used(1),
        ..FinishedCall::new(call_id, tool, end)
    }))
}

fn done(result: ToolResult) -> CallEnd {
    CallEnd::Result(Arc::new(result))
}

fn asked(call_id: &str, tool: &str) -> Event {
    Event::CallSuspended(Box::new(SuspendedCall {
        call_id: call_id.into(),
        suspension_id: format!("{call_id}/1"),
        tool_name: tool.into(),
        arguments: None,
        ticket: Ticket::confirm("Shall I send it to 12 people?"),
        owner: None,
        gate: Some("careful".into()),
        change: None,
        child: None,
        usage: Usage::default(),
        answer: Default::default(),
    }))
}

fn decided(call_id: &str, answer: DecisionAnswer) -> Event {
    let decision = Decision {
        id: "d".to_owned(),
        target: call_id.to_owned(),
        answer,
        reason: Some("they wait for it".to_owned()),
        by: Some("ada".to_owned()),
        by_key: true,
        at_ms: 1,
    };
    Event::CallDecided { call_id: call_id.into(), decision: Box::new(decision), change: None }
}

fn first_turn() -> Vec<(u64, Event)> {
    let allow = || vec![("careful", Verdict::Allow), ("tool-list", Verdict::Allow)];
    let late = Fault::new(Code::TimedOut, "Tool 'fetch' timed out after 5.0s");
    let fetched = ToolResult::success("text")
        .with_content(ContentPart::Image { mime_type: "image/png".to_owned(), data: "iVBORw==".into() });
    vec![
        (0, Event::MessageAdded { text: "Add up what is left,\nand tell the others.".to_owned() }),
        (0, Event::StepStarted { step: 1 }),
        (1_240, replied("Let me count first.", 812)),
        (0, proposed("call-1-1", "count", json!({"what": "boxes"}))),
        (0, proposed("call-1-2", "count", json!({"what": "bags"}))),
        (0, proposed("call-1-3", "fetch", json!({"path": "/a"}))),
        (1, gated("call-1-1", allow())),
        (0, gated("call-1-2", allow())),
        (0, gated("call-1-3", allow())),
        (0, Event::BatchStarted { call_ids: vec!["".into(); 3], revision: 2 }),
        (0, started("call-1-1", 1)),
        (6, finished("call-1-1", "count", done(ToolResult::success(12)), &[("count.total", json!(12))])),
        (1, finished("call-1-2", "count", done(ToolResult::error("There are no bags.")), &[])),
        (4_990, Event::CallRetried { call_id: "call-1-3".into(), attempt: 1, fault: late, usage: used(1) }),
        (0, started("call-1-3", 2)),
        (511, finished("call-1-3", "fetch", done(fetched), &[])),
        (0, Event::StepFinished { step: 1 }),
    ]
}

fn second_turn() -> Vec<(u64, Event)> {
    let blocked = Fault::new(Code::Denied, "The call of 'erase' was denied: not on a Friday");
    vec![
        (0, Event::StepStarted { step: 2 }),
        (900, replied("", 0)),
        (0, proposed("call-2-1", "send", json!({"to": ["a", "b"]}))),
        (0, proposed("call-2-2", "erase", json!({}))),
        (0, gated("call-2-1", vec![("careful", Verdict::Suspend(Box::new(Ticket::confirm("Send?"))))])),
        (0, asked("call-2-1", "send")),
        (0, gated("call-2-2", vec![("week", Verdict::Deny("not on a Friday".to_owned()))])),
        (0, finished("call-2-2", "erase", CallEnd::Fault(blocked), &[])),
        (0, Event::RunWaiting),
        (3_600_000, decided("call-2-1", DecisionAnswer::Resume(json!(true)))),
        (2, started("call-2-1", 1)),
        (40, finished("call-2-1", "send", done(ToolResult::success_with_message(Value::Null, "Sent.")), &[])),
        (0, Event::StepFinished { step: 2 }),
        (0, Event::StepStarted { step: 3 }),
        (700, replied("12 boxes are left; the others know.", 1_300)),
        (
            0,
            Event::RunFinished {
                status: RunStatus::Completed,
                text: "12 boxes are left; the others know.".to_owned(),
                usage: Box::new(RunUsage { steps: 3, calls: 5, tools: used(6), ..RunUsage::default() }),
            },
        ),
    ]
}

#[test]
fn a_run_is_shown_with_its_turns_calls_gates_attempts_state_and_usage() {
    let events = first_turn().into_iter().chain(second_turn()).collect();
    insta::assert_snapshot!("timeline", shown(events));
}

#[test]
fn what_a_stranger_says_cannot_write_to_the_terminal() {
    let said = Event::MessageAdded { text: "a\u{1b}[2Jb\nc".to_owned() };
    let text = shown(vec![(0, said)]);
    assert!(text.contains("> a[2Jb\n") && text.ends_with("  c\n"), "{text:?}");
}

#[test]
fn what_hooks_did_is_told() {
    let events = vec![CustomEvent { name: "spent".to_owned(), data: json!(3) }];
    let answers =
        vec![HookAnswer { events, ..HookAnswer::new("keeper") }, HookAnswer::failed("other", "on purpose")];
    let hooked = ModelHooked {
        hidden: ["erase".to_owned()].into(),
        answered_by: Some("keeper".to_owned()),
        ..ModelHooked::default()
    };
    let mut end = finished("c", "count", done(ToolResult::success("better")), &[]);
    if let Event::CallFinished(finished) = &mut end {
        Arc::make_mut(finished).replaced = Some(Box::new(done(ToolResult::success("good"))));
    }
    let text = shown(vec![
        (0, Event::ModelHooked { step: 1, hooked: Box::new(hooked) }),
        (0, proposed("c", "count", json!({}))),
        (0, Event::CallHooked { call_id: "c".into(), point: HookPoint::After, answers }),
        (0, end),
    ]);
    for told in [
        "hooks: keeper answers in the model's place",
        "hooks: hidden: erase",
        "count hook keeper emits spent 3",
        "count hook other after it failed: on purpose",
        "changed by hooks; the call itself ended as success",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[test]
fn what_children_answered_is_told() {
    let call_id = || "c".into();
    let text = shown(vec![
        (0, proposed("c", "research", json!({}))),
        (
            0,
            Event::ChildStarted {
                call_id: call_id(),
                ordinal: 1,
                child_run_id: "r-1".to_owned(),
                agent_id: "reader".to_owned(),
                digest: String::new(),
            },
        ),
        (
            0,
            Event::ChildFinished {
                call_id: call_id(),
                ordinal: 1,
                status: ChildStatus::Completed,
                steps: 2,
                tokens: TokenUsage::default(),
            },
        ),
    ]);
    assert!(text.contains("research ⇣ agent reader run r-1"), "{text}");
    assert!(text.contains("research ⇡ the agent answered (2 turns)"), "{text}");
}
