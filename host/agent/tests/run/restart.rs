//! Tests of a process that ends, and of one that continues from the record.

use crate::children::{calling, ended};
use crate::world::{World, done, faults, pends, reply, sets};
use serde_json::json;
use std::sync::Arc;
use tollgate_agent::catalog::Catalog;
use tollgate_agent::child::ChildStatus;
use tollgate_agent::code::Code;
use tollgate_agent::message::{Finish, Message, TokenUsage};
use tollgate_agent::outcome::Ticket;
use tollgate_agent::run::{
    AgentSpec, CallEnd, DecisionAnswer, Event, Input, Run, RunLimits, RunSpec, RunStatus, Task, Thread,
};
use tollgate_agent::state::{KeyUpdate, StateChange};

/// This program commits the start with what follows from it; another one may not.
#[test]
fn e3_a_record_with_the_start_alone_can_be_ended_and_continued() {
    let catalog = crate::tools::catalog("v1");
    let call = Task::Call { tool_name: "look".into(), arguments: "{}".into() };
    for (task, recorded) in [(Task::Prompt("Do it.".to_owned()), 1), (call, 0)] {
        let agent = AgentSpec { tools: vec!["*".to_owned()], ..AgentSpec::default() };
        let (identity, limits) = (Default::default(), RunLimits::default());
        let spec = RunSpec { identity, agent: agent.into(), limits, task, detached: false };
        let mut run = Run::new(Thread::default());
        run.apply(&Event::RunStarted { spec: Arc::new(spec) }).unwrap();
        let cancelled = Input::Cancel { reason: "Enough.".to_owned() };
        for input in [cancelled, Input::CutShort { reason: None, stopped: Vec::new() }] {
            let events = run.decide(&catalog, 1, &input).unwrap();
            assert!(matches!(events.as_slice(), [Event::RunFinished { .. }]), "{events:?}");
        }
        let events = run.decide(&catalog, 1, &Input::Restarted).unwrap();
        events.iter().for_each(|event| run.apply(event).unwrap());
        assert!(!run.next(&catalog).is_empty(), "{events:?}");
        let messages = run.messages().iter().filter(|message| matches!(message, Message::User(_))).count();
        assert_eq!(messages, recorded);
    }
}

#[test]
fn l5_what_may_have_run_is_interrupted_and_the_idempotent_runs_again() {
    let limits = RunLimits { concurrency: 2, ..RunLimits::default() };
    let mut world = World::asked(limits);
    world.reply(&[("a", "look", "{}"), ("b", "act", "{}"), ("c", "act", "{}")]);
    world.crash();
    assert_eq!(world.execution("a").attempt, 2);
    assert_eq!(world.execution("c").attempt, 1, "what had not begun begins");
    world.end("a", done("A"));
    assert_eq!(world.code("b"), Some(Code::Interrupted));
    world.end("c", done("C"));
    assert_eq!(world.code("c"), None);
}

#[test]
fn t4_a_rerun_after_a_restart_counts_as_an_attempt_and_leaves_the_retries() {
    let mut world = World::calling(&[("a", "look", "{}")]);
    for attempt in 2..=5 {
        world.crash();
        assert_eq!(world.execution("a").attempt, attempt);
    }
    for attempt in 6..=8 {
        world.end("a", faults(Code::TimedOut));
        assert_eq!(world.execution("a").attempt, attempt, "a timeout has its retries");
    }
    world.crash();
    assert_eq!(world.execution("a").attempt, 9);
    world.end("a", faults(Code::TimedOut));
    assert_eq!((world.code("a"), world.run.usage().tools.attempts), (Some(Code::TimedOut), 4));
}

#[test]
fn t4_a_tool_without_retries_runs_again_after_a_restart_and_not_for_ever() {
    let mut world = World::calling(&[("a", "once", "{}")]);
    for attempt in 2..=17 {
        world.crash();
        assert_eq!(world.execution("a").attempt, attempt);
    }
    world.crash();
    assert_eq!(world.code("a"), Some(Code::Interrupted));
}

#[test]
fn t4_s5_reruns_for_conflicts_leave_the_retries_and_are_bounded() {
    let mut world = World::calling(&[("a", "once", "{}")]);
    for attempt in 2..=17 {
        others_write(&mut world);
        world.end("a", sets("city", json!("Bern")));
        assert_eq!(world.execution("a").attempt, attempt);
    }
    others_write(&mut world);
    world.end("a", sets("city", json!("Bern")));
    let answer = world.answer("a");
    assert_eq!(world.code("a"), Some(Code::StateConflict));
    assert!(answer.contains("ran 17 times") && !answer.contains("twice"), "{answer}");
}

fn others_write(world: &mut World) {
    let updates = [KeyUpdate::restored("kit.city", json!("Oslo"))].into();
    world.absorb(&StateChange { revision: world.run.state().revision() + 1, updates });
}

/// The model must not be advised to repeat a call that may have run only because its answer was
/// lost.
#[test]
fn a9_no_answer_of_a_call_that_may_have_run_advises_to_repeat_it() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "act", "{}")]);
    others_write(&mut world);
    world.end("a", sets("city", json!("Bern")));
    world.crash();
    for (call_id, code) in [("a", Code::StateConflict), ("b", Code::Interrupted)] {
        let answer = world.answer(call_id);
        assert_eq!(world.code(call_id), Some(code));
        assert!(!answer.contains("Call it again") && !answer.contains("try again"), "{answer}");
    }
}

#[test]
fn s4_what_was_returned_before_an_upgrade_is_applied_after_it() {
    let mut world = World::calling(&[("a", "look", "{}"), ("b", "act", "{}"), ("c", "act", "{}")]);
    world.end("b", sets("city", json!("Bern")));
    world.catalog = crate::tools::catalog("v2");
    world.crash();
    assert_eq!(world.code("a"), Some(Code::Interrupted), "w9: attempts of one call use one version");
    assert_eq!((world.code("b"), world.run.state().get("kit.city")), (None, Some(&json!("Bern"))));
    assert_eq!(world.code("c"), Some(Code::Interrupted));
}

#[test]
fn s4_what_was_returned_before_its_tool_was_removed_is_answered() {
    let mut world = World::calling(&[("a", "look", "{}"), ("b", "act", "{}"), ("c", "act", "{}")]);
    world.end("b", done("B"));
    world.end("c", sets("city", json!("Bern")));
    world.catalog = Catalog::default();
    world.crash();
    assert_eq!((world.code("b"), world.answer("b").as_str()), (None, "B"));
    assert_eq!(world.code("c"), Some(Code::Interrupted), "nobody knows the key that it changes");
    assert!(world.answer("c").contains("has run"), "{}", world.answer("c"));
}

#[test]
fn s4_what_was_returned_before_the_restart_is_applied_after_it() {
    let mut world = World::calling(&[("a", "look", "{}"), ("b", "act", "{}")]);
    world.end("b", sets("city", json!("Bern")));
    world.crash();
    assert_eq!(world.running(), ["a"]);
    world.end("a", done("A"));
    assert_eq!((world.code("b"), world.run.state().get("kit.city")), (None, Some(&json!("Bern"))));
}

#[test]
fn s5_a_rerun_for_a_conflict_meets_the_gate_after_a_restart_too() {
    let mut world = World::calling(&[("a", "look", "{}"), ("b", "look", "{}"), ("c", "act", "{}")]);
    world.end("a", sets("city", json!("Bern")));
    world.end("b", sets("city", json!("Rome")));
    let events = world.crash();
    assert_eq!(world.running(), Vec::<&str>::new(), "b waits for its judgement: {events:?}");
    world.pass_gates();
    assert_eq!((world.running(), world.code("c")), (vec!["b"], Some(Code::Interrupted)));
}

#[test]
fn l8_ids_stay_unique_over_a_restart() {
    let mut world = World::calling(&[("x", "look", "{}")]);
    world.end("x", done("X"));
    world.crash();
    world.reply(&[("x", "look", "{}")]);
    assert_ne!(world.run.calls()[0].id, "x");
}

#[test]
fn e1_a_restart_between_any_two_steps_asks_for_the_same() {
    let mut world = World::asked(RunLimits::default());
    assert_eq!(world.crash().len(), 0);
    assert!(world.is_asking());
    world.reply_as(reply("", &[("a", "checks", "{}"), ("b", "act", "{}")], Finish::Stop));
    world.crash();
    world.pass_gates();
    assert_eq!(world.running(), ["a", "b"]);
    world.end("a", faults(Code::Trapped));
    world.end("b", done("B"));
    world.crash();
    world.say("Done.");
    assert_eq!(world.final_text(), "Done.");
}

/// Lets the child of a call that may not run twice work while its sibling asks a person.
fn works_beside_a_question() -> World {
    let mut world = calling(&[("a", "act", "{}"), ("b", "hand", "{}")]);
    world.child("b");
    world.end("a", pends(Ticket::confirm("Sure?")));
    assert!(!world.is_waiting());
    world
}

#[test]
fn w2_d8_a_run_waits_once_the_children_of_its_ended_calls_have_ended() {
    let mut live = works_beside_a_question();
    live.end("b", faults(Code::Trapped));
    let mut recovered = works_beside_a_question();
    recovered.crash();
    assert_eq!(recovered.ending("b").code(), Some(Code::Interrupted));
    for mut world in [live, recovered] {
        assert_eq!((world.is_waiting(), world.ends_children().len()), (false, 1), "it holds nothing");
        world.child_ends("b", ended(1, 0));
        assert!(world.is_waiting());
        assert!(matches!(world.events.last(), Some(Event::RunWaiting)), "{:?}", world.events.last());
        world.resume("d1", "a", json!(true));
        world.end("a", done("A"));
        assert_eq!(world.answers().len(), 2);
    }
}

/// In records of earlier versions, a child's end follows the event that the run waits.
#[test]
fn w2_a_recovered_run_whose_record_ends_otherwise_says_that_it_waits() {
    let mut world = works_beside_a_question();
    world.crash();
    let child_ended = Event::ChildFinished {
        call_id: "b".into(),
        ordinal: 1,
        status: ChildStatus::Cancelled,
        steps: 1,
        tokens: TokenUsage::default(),
    };
    world.run.apply(&Event::RunWaiting).unwrap();
    world.run.apply(&child_ended).unwrap();
    let events = world.run.decide(&world.catalog, 1, &Input::Restarted).unwrap();
    assert!(matches!(&events[..], [Event::RunWaiting]), "{events:?}");
    world.run.apply(&events[0]).unwrap();
    assert_eq!(world.run.decide(&world.catalog, 1, &Input::Restarted).unwrap().len(), 0);
}

fn called_directly(tool: &str) -> World {
    let mut world = World::new();
    world.start(RunLimits::default(), Task::Call { tool_name: tool.into(), arguments: "{}".into() });
    world.pass_gates();
    world
}

#[test]
fn a9_a_direct_call_whose_caller_is_gone_ends_and_nothing_of_it_runs() {
    for (tool, words) in [("act", "it is not idempotent"), ("look", "its caller is gone")] {
        let mut world = called_directly(tool);
        world.crash_and(Input::Abandoned);
        let CallEnd::Fault(fault) = world.ending("call-1") else { panic!("{tool}") };
        assert_eq!(fault.code, Code::Interrupted);
        assert!(fault.message.contains("It may have taken effect"), "{}", fault.message);
        assert!(fault.message.contains(words), "{}", fault.message);
        assert_eq!((world.status(), world.running().len()), (&RunStatus::Completed, 0));
        assert_eq!(world.run.usage().tools.attempts, 1, "the lost attempt counts");
        assert_eq!(world.crash_and(Input::Abandoned).len(), 0, "it has ended");
    }
}

#[test]
fn w2_a_direct_call_that_waits_for_a_person_goes_on_waiting_without_its_caller() {
    let mut world = called_directly("act");
    world.end("call-1", pends(Ticket::confirm("Sure?")));
    assert_eq!(world.crash_and(Input::Abandoned).len(), 0);
    assert!(world.is_waiting());
    // The caller is gone after a person has decided and before the call continued.
    world.decide("d1", "call-1", DecisionAnswer::Resume(json!(true))).unwrap();
    assert_eq!(world.running(), ["call-1"]);
    world.crash_and(Input::Abandoned);
    assert_eq!(world.code("call-1"), Some(Code::Interrupted));
}
