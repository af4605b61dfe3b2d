//! Tests of questions to a person and of the effects of the answers.

use crate::tools;
use crate::world::{World, allow, done, pends, suspend, writes};
use serde_json::json;
use tollgate_agent::code::Code;
use tollgate_agent::gate::{GateVerdict, Verdict};
use tollgate_agent::outcome::{ResumeMode, Ticket, ToolResult};
use tollgate_agent::run::{CallEnd, CallStatus, DecisionAnswer, Event, Input, RunLimits, RunStatus};

fn ticket(mode: ResumeMode) -> Ticket {
    Ticket {
        action: "approve".to_owned(),
        message: "Delete it?".to_owned(),
        parameters: json!({"path": "/a"}),
        response_schema: Some(json!({"type": "object", "required": ["n"]})),
        resume_mode: mode,
    }
}

/// Returns a run that waits for the answer to the question of `a`, a call of `typed`.
fn waiting(mode: ResumeMode) -> World {
    let mut world = World::calling(&[("a", "typed", r#"{"n":1}"#)]);
    world.end("a", pends(ticket(mode)));
    assert!(world.is_waiting());
    world
}

fn parked() -> World {
    let mut world =
        World::asked(RunLimits::default()).with_gates(|q, _| match q.proposal.call_id().as_str() {
            "c" => vec![allow("x")],
            _ => vec![suspend("x")],
        });
    world.reply(&[("a", "act", r#"{"of":"a"}"#), ("b", "act", r#"{"of":"b"}"#)]);
    world
}

#[test]
fn w1_the_whole_ticket_is_recorded() {
    let world = waiting(ResumeMode::ReplayToolCall);
    let asked = world.call("a").question().unwrap().clone();
    assert_eq!(asked.ticket, ticket(ResumeMode::ReplayToolCall));
    assert_eq!((asked.suspension_id.as_str(), asked.tool_name.as_str()), ("a/1", "typed"));
}

#[test]
fn w1_without_a_ticket_there_is_a_plain_one() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    world.end("a", writes(ToolResult::suspended("Go on?"), &[("count", json!(1))]));
    let asked = world.call("a").question().unwrap().clone();
    assert_eq!(asked.ticket, Ticket::confirm("Go on?"));
    assert_eq!(world.run.state().get("kit.count"), Some(&json!(1)), "what it left is there when it goes on");
}

#[test]
fn w1_a_question_that_cannot_be_asked_fails_its_call_and_commits_nothing() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    let bad = Ticket { response_schema: Some(json!({"$ref": "http://x/y"})), ..Ticket::confirm("?") };
    world.end("a", writes(ToolResult::suspended_with(bad), &[("count", json!(1))]));
    assert_eq!(world.code("a"), Some(Code::MalformedOutput));
    assert_eq!(world.run.state().get("kit.count"), None);
}

#[test]
fn z2_a_question_whose_patterns_are_too_large_fails_its_call() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    let bomb = json!({"pattern": r"((\p{L}|\p{N}){100}){1000}"});
    world.end("a", pends(Ticket { response_schema: Some(bomb), ..Ticket::confirm("?") }));
    assert_eq!(world.code("a"), Some(Code::MalformedOutput));
}

#[test]
fn z1_an_answer_that_costs_too_much_to_check_is_refused() {
    let mut world = World::calling(&[("a", "typed", r#"{"n":1}"#)]);
    let schema = Some(json!({"anyOf": vec![json!({"items": {"maximum": 5}}); 900]}));
    world.end("a", pends(Ticket { response_schema: schema, ..ticket(ResumeMode::ReplayToolCall) }));
    let list: Vec<u32> = std::iter::repeat_n(1, 4_000).chain([9]).collect();
    let refused = world.decide("1", "a", DecisionAnswer::Resume(json!(list))).unwrap_err();
    assert!(refused.to_string().contains("too much work"), "{refused}");
    assert!(world.is_waiting());
    world.resume("2", "a", json!([1]));
    assert_eq!(world.running(), ["a"]);
}

/// A record with such an answer could not be read.
#[test]
fn z1_an_answer_that_cannot_be_recorded_is_refused() {
    let mut world = World::calling(&[("a", "typed", r#"{"n":1}"#)]);
    world.end("a", pends(Ticket { response_schema: None, ..ticket(ResumeMode::ReplayToolCall) }));
    let nested = |levels: usize| (0..levels).fold(json!(1), |value, _| json!([value]));
    let reserved = json!([{"$serde_json::private::RawValue": "1"}]);
    for (answer, why) in [(nested(129), "deeper than 128 levels"), (reserved, "is reserved")] {
        let refused = world.decide("1", "a", DecisionAnswer::Resume(answer)).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
        assert!(world.is_waiting());
    }
    world.resume("2", "a", nested(100));
    assert_eq!(world.running(), ["a"]);
}

#[test]
fn w2_a_waiting_run_asks_for_nothing_and_outlives_the_process() {
    let mut world = waiting(ResumeMode::ReplayToolCall);
    assert!(world.under_way.is_empty());
    assert_eq!(world.crash().len(), 0);
    assert!(world.is_waiting());
    world.resume("1", "a", json!({"n": 2}));
    assert_eq!(world.running(), ["a"]);
}

#[test]
fn w3_an_answer_must_fit_and_the_call_stays_suspended() {
    let mut world = waiting(ResumeMode::ReplayToolCall);
    let refused = world.decide("1", "a", DecisionAnswer::Resume(json!({}))).unwrap_err();
    assert!(refused.to_string().contains("does not fit"), "{refused}");
    assert!(world.is_waiting());
    assert!(world.decide("1", "b", DecisionAnswer::Cancel).is_err(), "no such call");
    world.resume("1", "a/1", json!({"n": 2}));
    assert_eq!(world.running(), ["a"]);
}

#[test]
fn w3_a_call_that_does_not_wait_takes_no_decision() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    assert!(world.decide("1", "a", DecisionAnswer::Resume(json!(1))).is_err());
    assert!(world.decide("1", "a", DecisionAnswer::Cancel).is_err());
    assert_eq!(world.call("a").status(), CallStatus::Running);
}

#[test]
fn w4_replay_runs_the_first_arguments_with_the_decision_in_view() {
    let mut world = waiting(ResumeMode::ReplayToolCall);
    world.resume("1", "a", json!({"n": 2}));
    let execution = world.execution("a");
    assert_eq!((execution.permit.arguments().text(), execution.attempt), (r#"{"n":1}"#, 2));
    let resumed = execution.resume.clone().unwrap();
    assert_eq!((&resumed.value, resumed.suspension_id.as_str()), (&json!({"n": 2}), "a/1"));
}

#[test]
fn w4_use_decision_runs_nothing() {
    let mut world = waiting(ResumeMode::UseDecisionAsToolResult);
    world.resume("1", "a", json!({"n": 2}));
    assert_eq!(world.answer("a"), r#"{"n":2}"#);
    assert_eq!(world.run.usage().tools.attempts, 1);
}

#[test]
fn w4_pass_decision_runs_the_value_validated_anew() {
    let mut world = waiting(ResumeMode::PassDecisionToTool);
    world.resume("1", "a", json!({"n": 2}));
    assert_eq!(world.execution("a").permit.arguments().text(), r#"{"n":2}"#);
    let mut world = waiting(ResumeMode::PassDecisionToTool);
    world.resume("1", "a", json!({"n": "two"}));
    assert_eq!(world.code("a"), Some(Code::InvalidArguments));
}

#[test]
fn w4_other_arguments_are_not_what_a_gate_approved() {
    let mut world = World::asked(RunLimits::default()).with_gates(|_, _| vec![suspend("x")]);
    world.reply(&[("a", "act", "{}")]);
    world.resume("1", "a", json!(true));
    world.end("a", pends(Ticket { response_schema: None, ..ticket(ResumeMode::PassDecisionToTool) }));
    world.resume("2", "a", json!({"other": 1}));
    assert!(world.is_waiting(), "the gate asks about the new arguments");
    world.resume("3", "a", json!(true));
    assert_eq!(world.execution("a").permit.arguments().text(), r#"{"other":1}"#);
}

#[test]
fn w4_a_cancelled_call_never_runs() {
    let mut world = waiting(ResumeMode::ReplayToolCall);
    world.decide("1", "a", DecisionAnswer::Cancel).unwrap();
    assert_eq!(world.code("a"), Some(Code::Cancelled));
    assert!(world.answer("a").contains("no reason was given."));
    assert!(world.is_asking());
    for (reason, end) in
        [("too risky", ": too risky."), ("Too risky. ", ": Too risky."), (" ", "no reason was given.")]
    {
        let mut world = waiting(ResumeMode::ReplayToolCall);
        world.decide_because("1", "a", DecisionAnswer::Cancel, Some(reason)).unwrap();
        assert!(world.answer("a").ends_with(end), "{}", world.answer("a"));
    }
}

#[test]
fn w5_the_same_decision_twice_changes_nothing_and_another_is_refused() {
    let mut world = parked();
    world.resume("1", "a", json!(1));
    assert_eq!(world.resume("1", "a", json!(1)).len(), 0);
    assert!(world.decide("1", "a", DecisionAnswer::Resume(json!(2))).is_err(), "the id is taken");
    assert!(world.decide("1", "b", DecisionAnswer::Resume(json!(1))).is_err(), "the id is taken");
    assert!(world.decide("2", "a", DecisionAnswer::Cancel).is_err(), "it was decided");
    world.end("a", done("A"));
    world.resume("3", "b", json!(1));
    world.end("b", done("B"));
    assert_eq!(world.resume("1", "a", json!(1)).len(), 0, "in a later turn too");
}

#[test]
fn w6_what_can_run_runs_and_the_rest_waits() {
    let mut world = parked();
    world.resume("1", "b", json!(1));
    assert_eq!(world.running(), ["b"]);
    world.end("b", done("B"));
    assert!(world.is_waiting());
    assert!(world.answers().is_empty(), "the turn is not over");
    world.resume("2", "a", json!(1));
    world.end("a", done("A"));
    assert_eq!(world.answers().iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn w6_calls_that_are_resumed_while_others_run_keep_their_order() {
    let mut world =
        World::asked(RunLimits::default()).with_gates(|q, _| match q.proposal.call_id().as_str() {
            "c" => vec![allow("x")],
            _ => vec![suspend("x")],
        });
    world.reply(&[("a", "act", "{}"), ("b", "act", "{}"), ("c", "act", "{}")]);
    world.resume("1", "b", json!(1));
    world.resume("2", "a", json!(1));
    assert_eq!(world.running(), ["c"], "the batch goes on alone");
    world.end("c", done("C"));
    assert_eq!(world.running(), ["a", "b"]);
}

#[test]
fn w7_a_message_supersedes_the_open_calls() {
    let mut world = parked();
    world.give(Input::Message("Never mind.".to_owned()));
    assert_eq!((world.code("a"), world.code("b")), (Some(Code::Superseded), Some(Code::Superseded)));
    assert!(world.is_asking());
    assert_eq!(world.call_count(), 0);
    world.say("Fine.");
    assert_eq!(world.status(), &RunStatus::Completed);
    let mut busy = World::calling(&[("a", "act", "{}")]);
    assert!(busy.try_give(Input::Message("Hello?".to_owned())).is_err());
}

#[test]
fn w8_a_decision_approves_that_call_with_those_arguments_and_nothing_else() {
    let mut world = parked();
    world.resume("1", "b", json!(1));
    assert_eq!(world.running(), ["b"]);
    assert_eq!(world.execution("b").permit.arguments().text(), r#"{"of":"b"}"#);
}

#[test]
fn w8_a_tool_sees_no_answer_that_was_for_other_arguments() {
    let asks_anew = || Ticket { response_schema: None, ..ticket(ResumeMode::PassDecisionToTool) };
    // The gate asks about the call once the tool's own question is answered.
    let mut world = World::asked(RunLimits::default()).with_gates(move |q, _| match &q.resumption {
        None => vec![allow("x")],
        Some(_) => vec![GateVerdict::new("x", Verdict::Suspend(Box::new(asks_anew())))],
    });
    world.reply(&[("a", "act", "{}")]);
    world.end("a", pends(Ticket::confirm("Overwrite?")));
    world.resume("1", "a", json!(true));
    world.resume("2", "a", json!({"other": 1}));
    let execution = world.execution("a");
    assert_eq!((execution.permit.arguments().text(), &execution.resume), (r#"{"other":1}"#, &None));
}

#[test]
fn w9_another_version_asks_again_and_the_old_answer_does_not_count_for_it() {
    for crashed in [false, true] {
        let mut world = parked();
        world.catalog = tools::catalog("v2");
        if crashed {
            world.crash();
        }
        world.resume("1", "a", json!(1));
        assert!(world.is_waiting());
        let asked = world.call("a").question().unwrap().clone();
        assert_eq!(
            (asked.suspension_id.as_str(), asked.owner.as_ref().unwrap().version.as_str()),
            ("a/2", "v2")
        );
        assert_eq!(world.resume("1", "a", json!(1)).len(), 0, "a repeat approves nothing");
        assert!(world.is_waiting());
        world.resume("2", "a", json!(1));
        assert_eq!(world.execution("a").permit.tool().owner.version, "v2");
    }
}

#[test]
fn w9_attempts_stay_on_one_version() {
    let mut world = World::calling(&[("a", "look", "{}"), ("b", "look", "{}")]);
    world.catalog = tools::catalog("v2");
    world.crash();
    assert_eq!((world.code("a"), world.code("b")), (Some(Code::Interrupted), Some(Code::Interrupted)));
}

#[test]
fn w9_a_call_that_was_not_let_through_yet_is_answered_where_its_tool_is_gone() {
    let mut world = World::asked(RunLimits::default());
    world.reply_as(crate::world::reply("", &[("a", "act", "{}")], Default::default()));
    world.catalog = tools::catalog("v2");
    world.crash();
    world.pass_gates();
    assert_eq!(world.code("a"), Some(Code::NotFound));
}

#[test]
fn w9_where_the_tool_is_not_loaded_the_decision_waits() {
    let mut world = parked();
    let loaded = std::mem::take(&mut world.catalog);
    assert!(world.decide("1", "a", DecisionAnswer::Resume(json!(1))).is_err());
    world.catalog = loaded;
    world.resume("1", "a", json!(1));
    assert_eq!(world.running(), ["a"]);
}

#[test]
fn w10_suspending_again_is_bounded() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    for n in 1..=16 {
        world.end("a", pends(Ticket::confirm("Sure?")));
        assert!(world.is_waiting(), "{n}");
        world.resume(&n.to_string(), "a", json!(n));
    }
    world.end("a", pends(Ticket::confirm("Sure?")));
    assert_eq!(world.code("a"), Some(Code::MalformedOutput));
    let questions = world.events.iter().filter(|e| matches!(e, Event::CallSuspended(_))).count();
    assert_eq!(questions, 16);
    assert!(matches!(world.ending("a"), CallEnd::Fault(_)));
}
