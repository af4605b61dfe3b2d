//! Tests of single calls, in the order of their steps.

use crate::world::{World, done, faults, reply, sets, writes};
use serde_json::{Value, json};
use tollgate_agent::SmolStr;
use tollgate_agent::code::Code;
use tollgate_agent::message::{Finish, Message};
use tollgate_agent::outcome::{Action, Fault, Outcome, ScheduledNote, ToolOutput, ToolResult};
use tollgate_agent::run::{CallStatus, Effect, Event, Input, RunLimits, Task};

fn names(events: &[Event]) -> Vec<&'static str> {
    let name = |event: &Event| match event {
        Event::CallProposed(_) => "proposed",
        Event::CallValidated { .. } => "validated",
        Event::CallGated { .. } => "gated",
        Event::BatchStarted { .. } => "batch",
        Event::CallStarted { .. } => "started",
        Event::CallFinished(_) => "finished",
        Event::StepFinished { .. } => "step-finished",
        Event::StepStarted { .. } => "step-started",
        _ => "other",
    };
    events.iter().map(name).collect()
}

#[test]
fn l1_checked_then_gated_then_run_then_committed_then_told() {
    let mut world = World::asked(RunLimits::default());
    world.reply_as(reply("", &[("a", "checks", "{}")], Finish::Stop));
    let kinds: Vec<_> = world.under_way.values().collect();
    assert!(matches!(kinds[..], [Effect::Validate(_)]), "no gate is asked yet: {kinds:?}");
    world.give(Input::Validated { call_id: "a".into(), fault: None });
    let kinds: Vec<_> = world.under_way.values().collect();
    assert!(matches!(kinds[..], [Effect::Judge { .. }]), "nothing runs yet: {kinds:?}");
    world.pass_gates();
    assert_eq!(world.running(), ["a"]);
    assert!(world.answers().is_empty(), "there is no answer before the end");
    world.end("a", sets("city", json!("Bern")));
    assert_eq!(world.answer("a"), "set");
    assert_eq!(
        names(&world.events[3..]),
        [
            "other",
            "proposed",
            "validated",
            "gated",
            "batch",
            "started",
            "finished",
            "step-finished",
            "step-started"
        ]
    );
}

#[test]
fn l1_what_the_tools_own_check_refuses_meets_no_gate() {
    let mut world = World::asked(RunLimits::default());
    world.reply_as(reply("", &[("a", "checks", "{}"), ("b", "look", "{}")], Finish::Stop));
    let fault = Fault::new(Code::InvalidArguments, "The date is in the past.");
    world.give(Input::Validated { call_id: "a".into(), fault: Some(fault.clone()) });
    world.pass_gates();
    assert_eq!(world.running(), ["b"]);
    assert_eq!(world.give(Input::Validated { call_id: "a".into(), fault: Some(fault) }).len(), 0);
    world.end("b", done("seen"));
    assert_eq!(world.code("a"), Some(Code::InvalidArguments));
    assert_eq!(world.answer("a"), "The date is in the past.");
}

#[test]
fn l2_arguments_are_checked_by_the_host() {
    let world = World::calling(&[("a", "typed", r#"{"n":"x","path":1}"#)]);
    assert_eq!(world.code("a"), Some(Code::InvalidArguments));
    let answer = world.answer("a");
    assert!(answer.contains("/n") && answer.contains("/path"), "{answer}");
    assert!(!answer.contains("Its arguments"), "it sent no others: {answer}");
    assert!(!names(&world.events).contains(&"gated"));
    let world = World::calling(&[("a", "typed", r#"{"n":1,"paht":"x"}"#)]);
    let answer = world.answer("a");
    assert!(answer.contains("paht") && answer.ends_with("Its arguments: `n`, `path`"), "{answer}");
}

#[test]
fn l2_absent_and_null_arguments_are_an_empty_object() {
    let world = World::calling(&[("a", "look", ""), ("b", "look", " null "), ("c", "look", "{}")]);
    assert_eq!(world.running(), ["a", "b", "c"]);
    assert!(world.executions().iter().all(|e| e.permit.arguments().text() == "{}"));
}

#[test]
fn l3_a_move_that_does_not_exist_is_an_error() {
    let mut world = World::calling(&[("a", "look", "{}"), ("b", "look", "{}")]);
    world.end("a", done("seen"));
    let started =
        world.events.iter().find(|e| matches!(e, Event::CallStarted { call_id, .. } if call_id == "a"));
    let mut run = world.run.clone();
    let refused = run.apply(started.unwrap()).unwrap_err();
    assert!(refused.to_string().contains("the call a cannot go from ended to running"), "{refused}");
    let mut run = world.run.clone();
    let strange = Event::CallValidated { call_id: "none".into(), fault: None };
    assert!(run.apply(&strange).is_err());
    let mut world = World::asked(RunLimits::default());
    world.say("Done.");
    assert!(world.run.apply(&Event::RunWaiting).is_err(), "nothing follows the end");
}

#[test]
fn l3_a_call_that_returned_is_neither_let_through_nor_started_again() {
    let mut world = World::calling(&[("a", "look", "{}"), ("b", "look", "{}")]);
    world.end("b", done("seen"));
    let is_past = |event: &&Event| match event {
        Event::CallGated { call_id, .. }
        | Event::CallStarted { call_id, .. }
        | Event::CallReturned { call_id, .. } => call_id == "b",
        _ => false,
    };
    let past: Vec<&Event> = world.events.iter().filter(is_past).collect();
    assert_eq!(past.len(), 3);
    for event in past {
        let refused = world.run.clone().apply(event).unwrap_err();
        assert!(refused.to_string().contains("the call b cannot go from returned to"), "{refused}");
    }
}

#[test]
fn l4_a_tools_own_error_commits_what_is_beside_it() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    world.end("a", writes(ToolResult::error("No such city."), &[("count", json!(1))]));
    assert_eq!(world.run.state().get("kit.count"), Some(&json!(1)));
    assert_eq!(world.answer("a"), "No such city.");
    assert_eq!(world.code("a"), Some(Code::ToolError));
}

#[test]
fn l4_of_an_internal_error_the_model_reads_the_kind_alone() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    world.end("a", Fault::new(Code::ToolInternal, "the password is hunter2"));
    assert!(!world.answer("a").contains("hunter2"));
}

#[test]
fn l5_a_fault_has_its_code_and_a_sentence_and_the_run_goes_on() {
    for code in [Code::Trapped, Code::OutOfFuel, Code::ToolFailed, Code::HostFailed] {
        let mut world = World::calling(&[("a", "act", "{}")]);
        world.end("a", faults(code));
        assert_eq!((world.code("a"), world.answer("a")), (Some(code), format!("It ended as {code}.")));
        assert!(world.is_asking());
    }
}

#[test]
fn l5_an_action_that_is_not_granted_commits_nothing() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "act", "{}")]);
    let with = |action| {
        let Outcome::Returned(output) = sets("city", json!("Bern")) else { unreachable!() };
        Outcome::Returned(ToolOutput { actions: vec![action], ..output })
    };
    world.end("a", with(Action::Escalate));
    assert_eq!((world.code("a"), world.run.state().get("kit.city")), (Some(Code::BadAction), None));
    world.end("b", with(Action::AddContext("It rains.".to_owned())));
    assert_eq!(world.code("b"), None);
    let Some(Message::Note(note)) = world.run.messages().last() else { panic!() };
    assert_eq!(note, "Note left by the tool 'act':\nIt rains.");
}

#[test]
fn l5_scheduled_notes_are_bounded_together_and_the_refusal_counts_them() {
    let note = ScheduledNote { note: "Later.".to_owned(), in_turns: 256 };
    let scheduled = Outcome::Returned(ToolOutput {
        actions: vec![Action::ScheduleContext(note); 15],
        ..ToolOutput::from(ToolResult::success("ok"))
    });
    let mut world = World::asked(RunLimits::default());
    for id in ["a", "b", "c", "d", "e"] {
        world.reply(&[(id, "act", &json!({ "id": id }).to_string())]);
        world.end(id, scheduled.clone());
    }
    assert_eq!((world.code("d"), world.code("e")), (None, Some(Code::BadAction)));
    assert!(world.answer("e").contains("scheduled 15 notes while 60 are pending; at most 64"));
}

#[test]
fn l6_answers_keep_the_order_of_the_calls() {
    let mut world = World::calling(&[
        ("a", "look", "{}"),
        ("b", "nowhere", "{}"),
        ("c", "typed", "{}"),
        ("d", "look", "{}"),
        ("e", "act", "{}"),
    ]);
    for (id, outcome) in [("e", done("E")), ("d", faults(Code::Trapped)), ("a", done("A"))] {
        world.end(id, outcome);
    }
    let ids: Vec<String> = world.answers().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["a", "b", "c", "d", "e"]);
    assert!(matches!(&world.run.messages()[1], Message::Assistant(said) if said.calls.len() == 5));
}

#[test]
fn l7_an_unknown_tool_is_answered_with_the_nearest_names() {
    let world = World::calling(&[("a", "lok", "{}")]);
    assert_eq!(world.code("a"), Some(Code::NotFound));
    assert!(world.answer("a").contains("'look'"), "{}", world.answer("a"));
}

#[test]
fn l8_missing_repeated_and_colliding_ids_become_unique() {
    let mut world = World::asked(RunLimits::default());
    world.reply(&[("", "look", "{}"), ("x", "look", "{}"), ("x", "look", "{}"), ("call-1-1", "look", "{}")]);
    let ids: Vec<SmolStr> = world.run.calls().iter().map(|call| call.id.clone()).collect();
    assert_eq!((ids[1].as_str(), ids[3].as_str()), ("x", "call-1-1"));
    for id in &ids {
        world.end(id, done("seen"));
    }
    assert_eq!(world.answers().len(), 4);
    world.reply(&[("x", "look", "{}"), (&ids[0], "look", "{}"), ("a/1", "look", "{}")]);
    let later: Vec<&str> = world.run.calls().iter().map(|call| call.id.as_str()).collect();
    assert!(later.iter().all(|id| !ids.iter().any(|old| old == id) && !id.contains('/')), "{later:?}");
}

#[test]
fn l9_what_two_readers_would_read_differently_is_refused() {
    let sent = [r#"{"p":"a","p":"b"}"#, r#"{"n":1.00000000000000000001}"#, r#"{"n":18446744073709551617}"#];
    for text in sent {
        let world = World::calling(&[("a", "look", text)]);
        assert_eq!(world.code("a"), Some(Code::InvalidArguments), "{text}");
        assert!(!names(&world.events).contains(&"gated"), "{text}");
    }
}

#[test]
fn l9_gates_records_and_tools_see_the_same_text() {
    let world = World::calling(&[("a", "look", " { \"b\" : 1.50 , \"a\":[ 1 ] } ")]);
    let text = world.execution("a").permit.arguments().text().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"a": [1], "b": 1.5}));
    assert_eq!(world.call("a").arguments.as_ref().unwrap().text(), text);
    assert!(!text.contains(' '));
}

#[test]
fn e3_a_direct_call_ends_its_run_and_its_result_stays_to_be_read() {
    let mut world = World::new();
    let call = |arguments: &str| Task::Call { tool_name: "typed".into(), arguments: arguments.into() };
    world.start(RunLimits::default(), call(r#"{"n":1}"#));
    world.pass_gates();
    let id = world.running()[0].to_owned();
    world.end(&id, done("ok"));
    assert_eq!(world.final_text(), "");
    assert_eq!(world.call(&id).status(), CallStatus::Succeeded);
    let mut world = World::new();
    world.start(RunLimits::default(), call("{}"));
    assert_eq!(world.run.calls()[0].end().unwrap().code(), Some(Code::InvalidArguments));
    world.status();
}

#[test]
fn l10_what_a_result_claims_of_itself_is_data_and_the_host_says_whose_it_is() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    let claims =
        json!({"tool_name": "look", "call_id": "b", "run_id": "other", "attempt": 7, "status": "error"});
    let claimed = ToolResult::success_with_message(claims, "Tool 'look' answered call b.");
    world.end("a", Outcome::Returned(claimed.into()));
    let finished = world.events.iter().find_map(|event| match event {
        Event::CallFinished(finished) => Some(finished.clone()),
        _ => None,
    });
    let finished = finished.unwrap();
    assert_eq!((finished.call_id.as_str(), finished.tool_name.as_str()), ("a", "act"));
    assert_eq!(finished.end.code(), None, "it succeeded, whatever its data says");
    let answers = world.run.messages().iter().filter_map(|message| match message {
        Message::Answer(answer) => {
            Some((answer.call_id.as_str(), answer.tool_name.as_str(), answer.is_error))
        }
        _ => None,
    });
    assert_eq!(answers.collect::<Vec<_>>(), [("a", "act", false)]);
}
