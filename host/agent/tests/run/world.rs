//! A scripted world that acts as a host does and checks the invariants.

use crate::invariants::{Watch, same};
use crate::tools;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tollgate_agent::catalog::Catalog;
use tollgate_agent::code::Code;
use tollgate_agent::gate::{GateVerdict, Verdict, resolve};
use tollgate_agent::hook::HookAnswer;
use tollgate_agent::message::{AssistantMessage, Finish, Message, ModelCall, ModelReply};
use tollgate_agent::outcome::{Fault, Mutation, Outcome, Ticket, ToolOutput, ToolResult, Usage};
use tollgate_agent::recorded_inputs::RecordedInputs;
use tollgate_agent::run::{
    AgentSpec, Call, CallEnd, Decision, DecisionAnswer, Effect, EffectKey, EndedCall, Event, Execution,
    Input, InputRefusal, Phase, Question, Run, RunLimits, RunSpec, RunStatus, StoredEvent, Task, Thread,
};
use tollgate_agent::state::StateChange;

type Gates = Box<dyn Fn(&Question, &Run) -> Vec<GateVerdict>>;
type BeforeHook = Box<dyn Fn(&Question) -> HookAnswer>;
type After = Box<dyn Fn(&EndedCall) -> HookAnswer>;

/// An entry of a thread's record as a store keeps it.
enum Kept {
    /// An event of this run, as text.
    Own(String),
    /// A change that another run made.
    Others(StateChange),
}

pub(crate) struct World {
    pub(crate) catalog: Catalog,
    pub(crate) run: Run,
    pub(crate) now_ms: u64,
    pub(crate) gates: Gates,
    pub(crate) before: BeforeHook,
    /// The answer of the hooks after calls; `None` if they have not answered yet.
    pub(crate) after: Option<After>,
    /// Every event so far.
    pub(crate) events: Vec<Event>,
    /// The record as a store keeps it, with the changes that others made to the thread.
    record: Vec<Kept>,
    /// The run folded from its record alone.
    folded: Run,
    pub(crate) under_way: BTreeMap<EffectKey, Effect>,
    watch: Watch,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            catalog: tools::catalog("v1"),
            run: Run::new(Thread::default()),
            now_ms: 1_000,
            gates: Box::new(|_, _| vec![allow("list")]),
            before: Box::new(|_| HookAnswer::new("keeper")),
            after: None,
            events: Vec::new(),
            record: Vec::new(),
            folded: Run::new(Thread::default()),
            under_way: BTreeMap::new(),
            watch: Watch::default(),
        }
    }

    /// Creates a run with a user's message, within these limits.
    pub(crate) fn asked(limits: RunLimits) -> Self {
        let mut world = Self::new();
        world.start(limits, Task::Prompt("Do it.".to_owned()));
        world
    }

    /// Creates a run whose model requested these calls (id, tool, arguments).
    pub(crate) fn calling(calls: &[(&str, &str, &str)]) -> Self {
        let mut world = Self::asked(RunLimits::default());
        world.reply(calls);
        world
    }

    pub(crate) fn start(&mut self, limits: RunLimits, task: Task) {
        let agent = AgentSpec { tools: vec!["*".to_owned()], ..AgentSpec::default() };
        let spec =
            RunSpec { identity: Default::default(), agent: agent.into(), limits, task, detached: false };
        self.give(Input::Start(Arc::new(spec)));
    }

    pub(crate) fn with_gates(
        mut self,
        gates: impl Fn(&Question, &Run) -> Vec<GateVerdict> + 'static,
    ) -> Self {
        self.gates = Box::new(gates);
        self
    }

    /// Decides, commits and applies, then derives the next effects, as a host does.
    pub(crate) fn try_give(&mut self, input: Input) -> Result<Vec<Event>, InputRefusal> {
        let events = self.run.decide(&self.catalog, self.now_ms, &input)?;
        for event in &events {
            let number = self.run.events() + 1;
            let stored =
                StoredEvent { run_id: Arc::from("r"), number, at_ms: self.now_ms, event: event.clone() };
            let line = serde_json::to_string(&stored).unwrap();
            let read: StoredEvent = serde_json::from_str(&line).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), line, "a record is read as it was written");
            let revision = self.run.state().revision();
            self.run.apply(event).unwrap();
            self.folded.apply(&read.event).unwrap();
            self.watch.applied(event, revision, &self.run);
            self.record.push(Kept::Own(line));
        }
        same(&self.run, &self.folded);
        self.events.extend(events.iter().cloned());
        self.begin_effects();
        Ok(events)
    }

    pub(crate) fn give(&mut self, input: Input) -> Vec<Event> {
        self.try_give(input).unwrap()
    }

    fn begin_effects(&mut self) {
        let next = self.run.next(&self.catalog);
        let keys = |effects: &[Effect]| effects.iter().map(Effect::key).collect::<Vec<_>>();
        assert_eq!(keys(&next), keys(&self.folded.next(&self.catalog)), "what follows is in the record");
        self.under_way.retain(|key, _| keys(&next).contains(key));
        for effect in next {
            self.under_way.entry(effect.key()).or_insert(effect);
        }
        if *self.run.phase() == Phase::Waiting {
            assert!(self.under_way.is_empty(), "a waiting run holds nothing: {:?}", self.under_way);
            assert!(matches!(self.events.last(), Some(Event::RunWaiting)), "a waiting run says so last");
        }
        let most = self.run.spec().limits.concurrency.max(1) as usize;
        assert!(self.executions().len() <= most, "at most {most} calls run at once");
    }

    /// Ends the process and continues the run in another.
    pub(crate) fn crash(&mut self) -> Vec<Event> {
        self.crash_and(Input::Restarted)
    }

    /// Ends the process and continues the record in another with this input.
    pub(crate) fn crash_and(&mut self, input: Input) -> Vec<Event> {
        self.run = Run::new(Thread::default());
        for kept in &self.record {
            match kept {
                Kept::Own(line) => {
                    let event = serde_json::from_str::<StoredEvent>(line).unwrap().event;
                    assert_eq!(self.run.base_revision(&event), None, "{line}");
                    self.run.apply(&event).unwrap();
                }
                Kept::Others(change) => self.run.absorb(change),
            }
        }
        self.under_way.clear();
        self.give(input)
    }

    /// Replies with these calls; the checks and gates answer.
    pub(crate) fn reply(&mut self, calls: &[(&str, &str, &str)]) -> Vec<Event> {
        let events = self.reply_as(reply("", calls, Finish::Stop));
        self.pass_gates();
        events
    }

    pub(crate) fn say(&mut self, text: &str) -> Vec<Event> {
        self.reply_as(reply(text, &[], Finish::Stop))
    }

    pub(crate) fn reply_as(&mut self, reply: ModelReply) -> Vec<Event> {
        let ask = self.under_way.keys().find_map(|key| match key {
            EffectKey::Model(ask) => Some(*ask),
            _ => None,
        });
        self.give(Input::Replied { ask: ask.expect("the model is asked"), reply, hooked: None })
    }

    /// Answers checks and gates until none is pending.
    pub(crate) fn pass_gates(&mut self) {
        for _ in 0..1_000 {
            let found = self.under_way.values().find_map(|effect| match effect {
                Effect::Validate(proposal) => {
                    Some(Input::Validated { call_id: proposal.call_id().to_owned(), fault: None })
                }
                Effect::Judge { round, questions } => Some(self.judge(*round, questions)),
                Effect::After(ended) => self.after.as_ref().map(|after| Input::Hooked {
                    call_id: ended.call_id.clone(),
                    answers: vec![after(ended)],
                }),
                _ => None,
            });
            let Some(input) = found else { return };
            self.under_way.retain(|_, e| !matches!(e, Effect::Validate(_) | Effect::Judge { .. }));
            self.give(input);
        }
        panic!("the gates are asked for ever");
    }

    pub(crate) fn judge(&self, round: u32, questions: &[Question]) -> Input {
        let (mut answers, mut hooked) = (Vec::new(), Vec::new());
        for question in questions {
            let verdicts = (self.gates)(question, &self.run);
            let goes_on = resolve(&verdicts, &question.approved_gates).is_allowed();
            answers.push((question.proposal.call_id().clone(), verdicts.into()));
            if !goes_on {
                break;
            }
            if question.asks_hooks {
                hooked.push((question.proposal.call_id().clone(), vec![(self.before)(question)]));
            }
        }
        Input::Judged { round, answers, hooked }
    }

    /// Ends the running attempt of a call with this outcome. Gates are asked if needed.
    pub(crate) fn end(&mut self, call_id: &str, outcome: impl Into<Outcome>) -> Vec<Event> {
        self.end_after_taking(call_id, outcome, RecordedInputs::default())
    }

    /// Ends the running attempt of a call with this outcome and these inputs.
    pub(crate) fn end_after_taking(
        &mut self,
        call_id: &str,
        outcome: impl Into<Outcome>,
        taken: RecordedInputs,
    ) -> Vec<Event> {
        let taken = Some(Arc::new(taken)).filter(|taken| !taken.is_nothing());
        let attempt = self.execution(call_id).attempt;
        self.under_way.remove(&EffectKey::Execute(call_id.into(), attempt));
        let usage = Usage { attempts: 1, ..Usage::default() };
        let outcome = Arc::new(outcome.into());
        let call_id = call_id.to_owned();
        let events = self.give(Input::Attempted { call_id: call_id.into(), attempt, outcome, usage, taken });
        self.pass_gates();
        events
    }

    pub(crate) fn execution(&self, call_id: &str) -> &Execution {
        let found = self.executions().into_iter().find(|e| e.permit.call_id() == call_id);
        found.unwrap_or_else(|| panic!("{call_id} does not run"))
    }

    pub(crate) fn executions(&self) -> Vec<&Execution> {
        let mut running: Vec<&Execution> = self
            .under_way
            .values()
            .filter_map(|effect| match effect {
                Effect::Execute(execution) => Some(execution),
                _ => None,
            })
            .collect();
        running.sort_by_key(|e| self.run.calls().iter().position(|c| c.id == *e.permit.call_id()));
        running
    }

    pub(crate) fn running(&self) -> Vec<&str> {
        self.executions().into_iter().map(|e| e.permit.call_id().as_str()).collect()
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.under_way.keys().any(|key| matches!(key, EffectKey::Model(_)))
    }

    pub(crate) fn call(&self, call_id: &str) -> &Call {
        self.run.calls().iter().find(|call| call.id == call_id).unwrap()
    }

    /// Returns how a call ended, in this turn or an earlier one.
    pub(crate) fn ending(&self, call_id: &str) -> &CallEnd {
        let found = self.events.iter().find_map(|event| match event {
            Event::CallFinished(f) if f.call_id == call_id => Some(&f.end),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("{call_id} has not ended"))
    }

    pub(crate) fn code(&self, call_id: &str) -> Option<Code> {
        self.ending(call_id).code()
    }

    /// Returns the ids and texts of the answers that the model reads.
    pub(crate) fn answers(&self) -> Vec<(String, String)> {
        let answers = self.run.messages().iter().filter_map(|message| match message {
            Message::Answer(a) => Some((a.call_id.to_string(), a.content.to_string())),
            _ => None,
        });
        answers.collect()
    }

    pub(crate) fn answer(&self, call_id: &str) -> String {
        let found = self.answers().into_iter().find(|(id, _)| id == call_id);
        found.unwrap_or_else(|| panic!("{call_id} has no answer")).1
    }

    pub(crate) fn status(&self) -> &RunStatus {
        match self.run.phase() {
            Phase::Finished(status) => status,
            phase => panic!("the run stands at {phase:?}"),
        }
    }

    pub(crate) fn final_text(&self) -> &str {
        match self.events.last() {
            Some(Event::RunFinished { text, .. }) => text,
            other => panic!("the run goes on after {other:?}"),
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        *self.run.phase() == Phase::Waiting
    }

    pub(crate) fn decide(
        &mut self,
        id: &str,
        target: &str,
        answer: DecisionAnswer,
    ) -> Result<Vec<Event>, InputRefusal> {
        self.decide_because(id, target, answer, None)
    }

    pub(crate) fn decide_because(
        &mut self,
        id: &str,
        target: &str,
        answer: DecisionAnswer,
        reason: Option<&str>,
    ) -> Result<Vec<Event>, InputRefusal> {
        let decision = Decision {
            id: id.to_owned(),
            target: target.to_owned(),
            answer,
            reason: reason.map(str::to_owned),
            by: None,
            by_key: false,
            at_ms: self.now_ms,
        };
        let events = self.try_give(Input::Decided(vec![decision]))?;
        self.pass_gates();
        Ok(events)
    }

    pub(crate) fn resume(&mut self, id: &str, target: &str, value: Value) -> Vec<Event> {
        self.decide(id, target, DecisionAnswer::Resume(value)).unwrap()
    }
}

pub(crate) fn reply(text: &str, calls: &[(&str, &str, &str)], finish: Finish) -> ModelReply {
    let calls = calls.iter().map(|(id, name, arguments)| ModelCall {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
        provider_data: None,
    });
    let message =
        AssistantMessage { text: text.to_owned(), calls: Arc::new(calls.collect()), ..Default::default() };
    ModelReply { message, finish, ..ModelReply::default() }
}

pub(crate) fn stopped(limit: &str) -> RunStatus {
    RunStatus::Stopped { limit: limit.to_owned() }
}

pub(crate) fn allow(gate: &str) -> GateVerdict {
    GateVerdict::new(gate, Verdict::Allow)
}

pub(crate) fn deny(gate: &str) -> GateVerdict {
    GateVerdict::new(gate, Verdict::Deny("no".to_owned()))
}

pub(crate) fn block(gate: &str) -> GateVerdict {
    GateVerdict::new(gate, Verdict::Block("stop".to_owned()))
}

pub(crate) fn suspend(gate: &str) -> GateVerdict {
    GateVerdict::new(gate, Verdict::Suspend(Box::new(Ticket::confirm("Sure?"))))
}

/// Returns a success with this answer.
pub(crate) fn done(answer: &str) -> Outcome {
    Outcome::Returned(ToolResult::success(answer).into())
}

/// Returns a result with these mutations.
pub(crate) fn writes(result: ToolResult, mutations: &[(&str, Value)]) -> Outcome {
    let mutations = mutations
        .iter()
        .map(|(key, update)| Mutation { key: format!("kit.{key}"), update: update.clone() })
        .collect();
    Outcome::Returned(ToolOutput { result: result.into(), mutations, actions: Vec::new() })
}

/// Returns a success that sets a key.
pub(crate) fn sets(key: &str, update: Value) -> Outcome {
    writes(ToolResult::success("set"), &[(key, update)])
}

pub(crate) fn pends(ticket: Ticket) -> Outcome {
    Outcome::Returned(ToolResult::suspended_with(ticket).into())
}

pub(crate) fn faults(code: Code) -> Outcome {
    Outcome::Faulted(Fault::new(code, format!("It ended as {code}.")))
}

impl World {
    /// Applies a change that another run made to the thread.
    pub(crate) fn absorb(&mut self, change: &StateChange) {
        self.run.absorb(change);
        self.folded.absorb(change);
        self.watch.absorbed(change);
        self.record.push(Kept::Others(change.clone()));
    }

    pub(crate) fn call_count(&self) -> usize {
        self.run.calls().len()
    }
}
