//! Tests of runs with random scripts: the invariants hold whatever happens, and every run ends or
//! waits for a person.

use crate::tools::{NAMES, agents};
use crate::world::{World, allow, block, deny, done, faults, pends, reply, suspend, writes};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate_agent::child::ChildStatus;
use tollgate_agent::code::Code;
use tollgate_agent::context::{AgentView, RunIdentity};
use tollgate_agent::gate::{GateVerdict, PERMISSIONS_ID, Verdict};
use tollgate_agent::hook::HookAnswer;
use tollgate_agent::message::{Finish, TokenUsage};
use tollgate_agent::outcome::{
    Action, Fault, Outcome, ResumeMode, ScheduledNote, Ticket, ToolFilter, ToolResult, Usage,
};
use tollgate_agent::run::event::ChildQuestion;
use tollgate_agent::run::{
    AgentSpec, CallStatus, ChildEnd, Decision, DecisionAnswer, Effect, EffectKey, Execution, Input, Phase,
    RunLimits, RunSpec, Task,
};
use tollgate_agent::state::{KeyUpdate, PendingMutation, StateChange};

/// One action of the world. The numbers choose among the possible actions.
#[derive(Debug, Clone)]
enum Deed {
    /// Answers one of the effects in progress.
    Answer(u8, Vec<u8>),
    Decide {
        target: u8,
        id: u8,
        value: u8,
    },
    Message,
    /// Another run writes to the thread.
    Others(u8, u8),
    Cancel,
    WallTimeUp,
    Crash,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        30 => (any::<u8>(), proptest::collection::vec(any::<u8>(), 4..24)).prop_map(|(n, b)| Deed::Answer(n, b)),
        8 => (any::<u8>(), 0..12u8, any::<u8>()).prop_map(|(target, id, value)| Deed::Decide { target, id, value }),
        1 => Just(Deed::Message),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(key, value)| Deed::Others(key, value)),
        2 => Just(Deed::Cancel),
        2 => (0..16u8).prop_map(|n| if n == 0 { Deed::WallTimeUp } else { Deed::Crash }),
    ]
}

/// Bytes that make choices. When they are used up, the simplest choice is made.
struct Choice(std::vec::IntoIter<u8>);

impl Choice {
    fn of(&mut self, n: u8) -> u8 {
        self.0.next().unwrap_or(0) % n
    }

    fn replies(&mut self) -> (String, Vec<(String, String, String)>, Finish) {
        let finish = if self.of(8) == 7 { Finish::Length } else { Finish::Stop };
        let calls = (0..self.of(7)).map(|_| {
            let id = ["", "a", "b", "call-1-1", "a/1"][usize::from(self.of(5))].to_owned();
            let name = match self.of(8) {
                7 => "nowhere".to_owned(),
                6 => "hand".to_owned(),
                n => NAMES[usize::from(n) % NAMES.len()].to_owned(),
            };
            let arguments = ["{}", r#"{"n":1}"#, r#"{"n":"#, "", r#"{"a":1,"a":2}"#][usize::from(self.of(5))];
            (id, name, arguments.to_owned())
        });
        ("Text.".to_owned(), calls.collect(), finish)
    }

    fn verdicts(&mut self) -> Vec<GateVerdict> {
        (0..1 + self.of(3))
            .map(|gate| {
                let gate = ["first", PERMISSIONS_ID, "second"][usize::from(gate)];
                match self.of(16) {
                    0 => deny(gate),
                    1 | 2 => suspend(gate),
                    3 => GateVerdict::new(gate, Verdict::SetResult(Box::new(ToolResult::success("cached")))),
                    4 => GateVerdict::new(gate, Verdict::SetResult(Box::new(ToolResult::suspended("?")))),
                    5 if self.of(8) == 0 => block(gate),
                    _ => allow(gate),
                }
            })
            .collect()
    }

    fn outcome(&mut self) -> Outcome {
        let mode =
            [ResumeMode::ReplayToolCall, ResumeMode::UseDecisionAsToolResult, ResumeMode::PassDecisionToTool]
                [usize::from(self.of(3))];
        let ticket = Ticket {
            resume_mode: mode,
            response_schema: (self.of(2) == 0).then(|| json!({"type": "object"})),
            ..Ticket::confirm("Sure?")
        };
        match self.of(12) {
            10 => self.transfers(),
            0 => faults(Code::TimedOut),
            1 => faults(Code::Trapped),
            2 => pends(ticket),
            3 => writes(ToolResult::suspended_with(ticket), &self.mutations()),
            4 => writes(ToolResult::error("No."), &self.mutations()),
            5 => done("seen"),
            _ => writes(ToolResult::success("set"), &self.mutations()),
        }
    }

    /// Hands the conversation on and changes state; the agent may exist or not.
    fn transfers(&mut self) -> Outcome {
        let mut outcome = writes(ToolResult::success("over to you"), &self.mutations());
        let target = ["scout", "front", "gone", "nobody"][usize::from(self.of(4))];
        if let Outcome::Returned(output) = &mut outcome {
            output.actions.push(Action::TransferToAgent(target.to_owned()));
        }
        outcome
    }

    fn hook_answer(&mut self) -> HookAnswer {
        let mut answer = HookAnswer::new(["keeper", "nobody"][usize::from(self.of(16) == 15)]);
        match self.of(8) {
            0 => answer.failed = Some("on purpose".to_owned()),
            1 => answer.result = Some(Box::new(ToolResult::success("replaced"))),
            2 => answer.result = Some(Box::new(ToolResult::suspended("?"))),
            3 => answer.actions.push(Action::FilterTools(ToolFilter::only(["look"]))),
            4 => {
                let note = ScheduledNote { note: "Later.".to_owned(), in_turns: self.of(3).into() };
                answer.actions.push(Action::ScheduleContext(note));
            }
            5 => answer.actions.push(Action::Escalate),
            _ => {}
        }
        let write = |choice: &mut Self| {
            let key = ["keeper.log", "keeper.log", "keeper.fleeting", "kit.city"][usize::from(choice.of(4))];
            PendingMutation { key: key.to_owned(), persistent: true, update: Some(json!(choice.of(9))) }
        };
        answer.mutations.extend((0..self.of(3)).map(|_| write(self)));
        answer
    }

    fn mutations(&mut self) -> Vec<(&'static str, Value)> {
        (0..1 + self.of(2))
            .map(|_| match self.of(9) {
                0 => ("city", json!(self.of(9))),
                1 => ("doc", json!({ "m": self.of(3) })),
                2 => ("doc", json!({ "n": null })),
                3 => ("count", json!(self.of(9))),
                4 => ("items", json!(self.of(9))),
                5 => ("fleeting", Value::Null),
                6 => ("tally", json!(1)),
                7 => ("city", Value::Null),
                _ => ("locked", json!(1)),
            })
            .collect()
    }
}

fn perform(world: &mut World, key: &EffectKey, mut choice: Choice) {
    let Some(effect) = world.under_way.remove(key) else { return };
    let input = match effect {
        Effect::AskModel { ask } if choice.of(16) == 15 => {
            Input::ModelFailed { ask, error: "on purpose".to_owned() }
        }
        Effect::AskModel { ask } => {
            let (text, calls, finish) = choice.replies();
            let calls: Vec<_> = calls.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
            Input::Replied { ask, reply: reply(&text, &calls, finish), hooked: None }
        }
        Effect::Validate(proposal) => {
            let fault = (choice.of(6) == 5).then(|| Fault::new(Code::InvalidArguments, "Not so."));
            Input::Validated { call_id: proposal.call_id().clone(), fault }
        }
        Effect::Judge { round, questions } => {
            // Some hosts continue to ask after a call that is held back, which is harmless.
            let ask = |question: &tollgate_agent::run::Question| {
                (question.proposal.call_id().clone(), choice.verdicts().into())
            };
            let answers = questions.iter().map(ask).collect();
            let asked = questions.iter().filter(|question| question.asks_hooks);
            let hooked =
                asked.map(|question| (question.proposal.call_id().clone(), vec![choice.hook_answer()]));
            Input::Judged { round, answers, hooked: hooked.collect() }
        }
        Effect::After(ended) => Input::Hooked { call_id: ended.call_id, answers: vec![choice.hook_answer()] },
        Effect::EndChild { call_id, ordinal, .. } => Input::ChildChanged { call_id, ordinal, end: ended() },
        // Some tools run children before they end, and some do not wait for them.
        Effect::Execute(execution) if choice.of(4) == 3 && may_ask(world, &execution) => {
            world.under_way.insert(key.clone(), Effect::Execute(execution.clone()));
            asks(&execution, &mut choice)
        }
        Effect::Execute(execution) => {
            let call = world.call(execution.permit.call_id());
            assert_eq!(Some(execution.permit.arguments()), call.arguments.as_ref(), "what was judged runs");
            Input::Attempted {
                call_id: call.id.clone(),
                attempt: execution.attempt,
                outcome: std::sync::Arc::new(choice.outcome()),
                usage: Usage { attempts: 1, ..Usage::default() },
                taken: None,
            }
        }
    };
    world.give(input);
}

/// Returns the effects in progress. The children of a finished run are ended outside its record.
fn still_to_do(world: &World) -> impl Iterator<Item = &EffectKey> {
    let over = world.run.is_finished();
    world.under_way.keys().filter(move |key| !over || !matches!(key, EffectKey::Child(..)))
}

/// Returns whether the call may request another child.
fn may_ask(world: &World, execution: &Execution) -> bool {
    world.run.open_children().filter(|((call_id, _), _)| call_id == execution.permit.call_id()).count() < 3
}

/// Requests a child, or ends one of the call's children or lets it wait.
fn asks(execution: &Execution, choice: &mut Choice) -> Input {
    let (call_id, ordinal) = (execution.permit.call_id().to_owned(), 1 + u32::from(choice.of(3)));
    let run_id = format!("{call_id}/{ordinal}");
    match choice.of(3) {
        0 => Input::ChildChanged { call_id, ordinal, end: ended() },
        1 => {
            let question = ChildQuestion {
                run_id,
                agent_id: "scout".to_owned(),
                call_id: "call-1-1".into(),
                suspension_id: "call-1-1/1".to_owned(),
                gate: None,
                tool_name: "look".into(),
                arguments: None,
                ticket: Ticket::confirm("Sure?"),
            };
            Input::ChildChanged { call_id, ordinal, end: ChildEnd::Waiting(Box::new(question)) }
        }
        _ => Input::ChildAsked {
            call_id,
            attempt: execution.attempt,
            ordinal,
            agent_id: "scout".to_owned(),
            digest: "d".to_owned(),
            run_id,
        },
    }
}

fn ended() -> ChildEnd {
    ChildEnd::Ended { status: ChildStatus::Completed, steps: 1, tokens: TokenUsage::default() }
}

/// Applies a change that another run commits to the thread in the meantime.
fn others_write(world: &mut World, key: u8, value: u8) {
    if world.run.is_finished() {
        return;
    }
    let (key, value) = match key % 3 {
        0 => ("kit.city", json!(format!("theirs {value}"))),
        1 => ("kit.doc", json!({"n": value})),
        _ => ("kit.count", json!(value)),
    };
    let updates = [KeyUpdate::restored(key, value)].into();
    world.absorb(&StateChange { revision: world.run.state().revision() + 1, updates });
}

/// Starts an agent that lists every tool and may hand over to `scout`, which may hand back.
fn begin(world: &mut World, limits: RunLimits, task: Task) {
    let delegates = vec!["scout".to_owned(), "gone".to_owned()];
    world.catalog.set_agents(agents(|scout| {
        scout.view.delegates = vec!["front".to_owned()];
        scout.tools = vec!["*".to_owned()];
    }));
    let view = AgentView { id: "front".to_owned(), delegates, ..AgentView::default() };
    let agent = AgentSpec { view, tools: vec!["*".to_owned()], ..AgentSpec::default() };
    let identity = RunIdentity { agent_id: "front".into(), ..RunIdentity::default() };
    world.give(Input::Start(Arc::new(RunSpec {
        identity,
        agent: agent.into(),
        limits,
        task,
        detached: false,
    })));
}

fn happen(world: &mut World, deed: Deed) {
    world.now_ms += 1;
    match deed {
        Deed::Answer(at, bytes) => {
            let keys: Vec<EffectKey> = world.under_way.keys().cloned().collect();
            if !keys.is_empty() {
                perform(world, &keys[usize::from(at) % keys.len()], Choice(bytes.into_iter()));
            }
        }
        Deed::Decide { target, id, value } => {
            let calls = world.run.calls();
            let Some(call) = calls.get(usize::from(target) % calls.len().max(1)) else { return };
            let waits = call.status() == CallStatus::Suspended;
            let known = world.run.events();
            let answer = match value % 8 {
                0 => DecisionAnswer::Cancel,
                1 => DecisionAnswer::Resume(Value::Null),
                2 => DecisionAnswer::Resume(json!({"remember": "run"})),
                3 => DecisionAnswer::Resume(json!({"remember": "thread", "for": "tool"})),
                _ => DecisionAnswer::Resume(json!({"n": value})),
            };
            let (id, target) = (id.to_string(), call.id.clone());
            let decision = Decision {
                id,
                target: target.to_string(),
                answer,
                reason: None,
                by: None,
                by_key: false,
                at_ms: world.now_ms,
            };
            let taken = world.try_give(Input::Decided(vec![decision.clone()]));
            if taken.is_err() || !waits {
                assert_eq!(world.run.events(), known, "what is refused changes nothing");
            } else {
                assert_eq!(
                    world.give(Input::Decided(vec![decision])).len(),
                    0,
                    "the same twice changes nothing"
                );
            }
        }
        Deed::Message => drop(world.try_give(Input::Message("And now?".to_owned()))),
        Deed::Others(key, value) => others_write(world, key, value),
        Deed::Cancel => drop(world.give(Input::Cancel { reason: "enough".to_owned() })),
        Deed::WallTimeUp => drop(world.give(Input::WallTimeUp)),
        Deed::Crash => drop(world.crash()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn l6_e3_whatever_happens_runs_keep_their_promises(
        direct in (0..8u8).prop_map(|n| n == 0),
        concurrency in 1..6u32,
        hooked in any::<bool>(),
        deeds in proptest::collection::vec(deed(), 0..120),
    ) {
        let limits = RunLimits { concurrency, model_turns: 8, ..RunLimits::default() };
        let mut world = World::new();
        if hooked {
            crate::tools::add_keeper(&mut world.catalog);
        }
        begin(&mut world, limits, match direct {
            true => Task::Call { tool_name: "look".into(), arguments: "".into() },
            false => Task::Prompt("Do it.".to_owned()),
        });
        for deed in deeds {
            happen(&mut world, deed);
        }
        // With every effect answered, a run ends or waits.
        for _ in 0..4_000 {
            let Some(key) = still_to_do(&world).next().cloned() else { break };
            world.now_ms += 1_000;
            perform(&mut world, &key, Choice(vec![9; 24].into_iter()));
        }
        prop_assert!(matches!(world.run.phase(), Phase::Finished(_) | Phase::Waiting), "{:?}", world.run.phase());
        prop_assert_eq!(still_to_do(&world).count(), 0);
    }
}
