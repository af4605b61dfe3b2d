//! The audit records of calls. Each ended call has one, built from the events that are committed
//! with it.

use crate::store::{AuditKind, AuditRecord};
use std::sync::{Arc, Mutex, PoisonError};
use tollgate_agent::SmolStr;
use tollgate_agent::code::Code;
use tollgate_agent::gate::{Permit, Resolution, resolve};
use tollgate_agent::message::ModelReply;
use tollgate_agent::outcome::Usage;
use tollgate_agent::run::event::{FinishedCall, ToolVersion};
use tollgate_agent::run::{Call, CallEnd, Decision, DecisionAnswer, Event, Run, RunSpec, StoredEvent};

/// Returns these records of refused powers, and a record for each call that ends in these events, with the
/// models that asked for the calls. `run` is the state before or after the events.
pub(super) fn records_of(
    refusals: Vec<AuditRecord>,
    run: &Run,
    run_id: &Arc<str>,
    events: &[StoredEvent],
) -> Vec<AuditRecord> {
    let mut records = refusals;
    records.extend(decisions_of(run, run_id, events));
    let ended = events.iter().filter_map(|event| match &event.event {
        Event::CallFinished(finished) => Some((event.at_ms, finished.as_ref())),
        _ => None,
    });
    // Exact capacity: a record is large, and most commits have exactly one.
    records.reserve_exact(ended.clone().count());
    records
        .extend(ended.filter_map(|ended| Some(record_of(ended, run, run_id, spec_of(run, events)?, events))));
    for record in &mut records {
        record.model = record.call_id.as_deref().and_then(|call_id| model_of(call_id, run, events)).cloned();
    }
    records
}

fn record_of(
    (at_ms, finished): (u64, &FinishedCall),
    run: &Run,
    run_id: &Arc<str>,
    spec: &RunSpec,
    events: &[StoredEvent],
) -> AuditRecord {
    let code = finished.end.code();
    let owner = owner_of(&finished.call_id, run, events);
    let mut record = AuditRecord {
        component_id: owner.map(|owner| owner.id.clone()),
        digest: owner.map(|owner| owner.version.clone()),
        run_id: Some(Arc::clone(run_id)),
        call_id: Some(finished.call_id.clone()),
        tool_name: Some(tollgate_agent::text::cleaned(&finished.tool_name, 100).into()),
        usage: (finished.usage.attempts > 0).then_some(finished.usage),
        ..AuditRecord::at(
            at_ms,
            if was_refused(code, &finished.usage) { AuditKind::Denial } else { AuditKind::Call },
            who(spec),
            SmolStr::new_static(code.map_or("success", Code::as_str)),
        )
    };
    if let CallEnd::Fault(fault) = &finished.end {
        let call = run.calls().iter().find(|call| call.id == finished.call_id);
        let approved = call.map(Call::approved_gates).unwrap_or_default();
        let by = gate_of(&finished.call_id, events, approved)
            .map(|gate| format!("gate {gate}: "))
            .unwrap_or_default();
        record = record.because(&format!("{by}{}", fault.message));
    }
    record
}

/// Returns whether the call did not run. One that is overloaded may have run: there was no memory for its
/// result.
fn was_refused(code: Option<Code>, usage: &Usage) -> bool {
    match code {
        Some(Code::Denied | Code::Blocked | Code::NotRun | Code::Disabled) => true,
        Some(Code::Overloaded) => usage.attempts == 0,
        _ => false,
    }
}

/// Returns a record for each question that was answered in these events.
fn decisions_of(run: &Run, run_id: &Arc<str>, events: &[StoredEvent]) -> Vec<AuditRecord> {
    let decided = events.iter().filter_map(|event| match &event.event {
        Event::CallDecided { call_id, decision, .. } => Some((event.at_ms, call_id, &**decision)),
        _ => None,
    });
    let record = |(at_ms, call_id, decision): (u64, &SmolStr, &Decision)| {
        let who = match &decision.by {
            Some(by) if decision.by_key => SmolStr::from_iter(["key ", by]),
            Some(by) => SmolStr::from_iter(["person ", by]),
            None => SmolStr::new_static("person"),
        };
        let answer = match decision.answer {
            DecisionAnswer::Resume(_) => "resumed",
            DecisionAnswer::Cancel => "cancelled",
        };
        let call = run.calls().iter().find(|call| call.id == *call_id);
        let record = AuditRecord {
            run_id: Some(Arc::clone(run_id)),
            call_id: Some(call_id.clone()),
            ..AuditRecord::at(at_ms, AuditKind::Decision, who, answer)
        };
        let record = match call {
            Some(call) => record.of_tool(tollgate_agent::text::cleaned(&call.tool_name, 100)),
            None => record,
        };
        match &decision.reason {
            Some(reason) => record.because(reason),
            None => record,
        }
    };
    decided.map(record).collect()
}

/// Records of powers that calls tried to use without a grant, until the next commit of their run.
#[derive(Clone, Default)]
pub(super) struct Refusals(Arc<Mutex<Vec<AuditRecord>>>);

impl Refusals {
    /// Adds a record for each power that a call was refused at this time, in milliseconds since the Unix
    /// epoch.
    pub(super) fn add(&self, at_ms: u64, spec: &RunSpec, permit: &Permit, denied: &[String]) {
        let tool = permit.tool();
        let records = denied.iter().map(|what| {
            let power = what.split([' ', ':']).next().unwrap_or_default();
            AuditRecord {
                run_id: Some(Arc::from(spec.identity.run_id.as_str())),
                call_id: Some(permit.call_id().to_owned()),
                ..AuditRecord::at(at_ms, AuditKind::Denial, who(spec), "not_granted")
            }
            .of_component(tool.owner.id.clone(), Some(tool.owner.version.clone()))
            .of_tool(tool.descriptor.name.clone())
            .of_power(power)
            .because(what)
        });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(records);
    }

    /// Returns the records for a commit. They stay here until it is [stored](Self::stored).
    pub(super) fn for_commit(&self) -> Vec<AuditRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Drops the first records, which were stored with a commit.
    pub(super) fn stored(&self, count: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..count);
    }
}

/// Returns the agent as the audit's actor, with the principal on whose behalf it works.
fn who(spec: &RunSpec) -> SmolStr {
    match &spec.identity.principal {
        None => SmolStr::from_iter(["agent ", &spec.identity.agent_id]),
        Some(name) => SmolStr::from_iter(["agent ", &spec.identity.agent_id, " for ", name]),
    }
}

/// Returns the spec of the run. All events of a direct call are committed at once, so its start
/// may be among these events.
fn spec_of<'a>(run: &'a Run, events: &'a [StoredEvent]) -> Option<&'a RunSpec> {
    let started = events.iter().find_map(|event| match &event.event {
        Event::RunStarted { spec } => Some(spec.as_ref()),
        _ => None,
    });
    started.or_else(|| (run.events() > 0).then(|| run.spec().as_ref()))
}

/// Returns the model whose reply asked for the call. `None` if no model asked for it, or if its reply is
/// neither of the current turn nor among these events.
fn model_of<'a>(call_id: &str, run: &'a Run, events: &'a [StoredEvent]) -> Option<&'a SmolStr> {
    let replies = events.iter().filter_map(|event| match &event.event {
        Event::ModelReplied { reply, .. } => Some(reply),
        _ => None,
    });
    let asks = |reply: &&Arc<ModelReply>| reply.message.calls.iter().any(|call| call.id == call_id);
    replies.chain(run.reply()).find(asks)?.model.as_ref()
}

fn owner_of<'a>(call_id: &str, run: &'a Run, events: &'a [StoredEvent]) -> Option<&'a ToolVersion> {
    let proposed = events.iter().find_map(|event| match &event.event {
        Event::CallProposed(proposed) if proposed.call_id == call_id => Some(proposed.owner.as_ref()),
        _ => None,
    });
    proposed.unwrap_or_else(|| run.calls().iter().find(|call| call.id == call_id)?.version.as_ref())
}

/// Returns the gate that held the call back, according to these events. A gate whose question a
/// person approved does not count.
fn gate_of<'a>(call_id: &str, events: &'a [StoredEvent], approved_gates: &[SmolStr]) -> Option<&'a str> {
    let verdicts = events.iter().rev().find_map(|event| match &event.event {
        Event::CallGated { call_id: of, verdicts } if of == call_id => Some(verdicts),
        _ => None,
    })?;
    match resolve(verdicts, approved_gates) {
        Resolution::Held(held) => Some(held.gate.as_str()),
        Resolution::Allowed(_) | Resolution::Unasked => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_agent::gate::{GateVerdict, Verdict};
    use tollgate_agent::message::{AssistantMessage, ModelCall};
    use tollgate_agent::outcome::Ticket;
    use tollgate_agent::run::Thread;

    fn gated(verdicts: Vec<GateVerdict>) -> [StoredEvent; 1] {
        let event = Event::CallGated { call_id: "c".into(), verdicts: verdicts.into() };
        [StoredEvent { run_id: "r".into(), number: 1, at_ms: 0, event }]
    }

    #[test]
    fn g2_of_equally_severe_gates_the_audit_names_the_first_by_id() {
        let deny = |gate: &str| GateVerdict::new(gate, Verdict::Deny("No.".to_owned()));
        for order in [["b", "a", "c"], ["a", "b", "c"], ["c", "b", "a"]] {
            let events = gated(order.map(deny).to_vec());
            assert_eq!(gate_of("c", &events, &[]), Some("a"), "{order:?}");
        }
    }

    #[test]
    fn a_record_names_the_model_whose_reply_asked_for_the_call() {
        let replied = |call_id: &str, model: &str| {
            let call = ModelCall { id: call_id.to_owned(), ..ModelCall::default() };
            let message = AssistantMessage { calls: Arc::new(vec![call]), ..AssistantMessage::default() };
            let reply = ModelReply { message, model: Some(model.into()), ..ModelReply::default() };
            let event = Event::ModelReplied { step: 1, reply: Arc::new(reply) };
            StoredEvent { run_id: "r".into(), number: 1, at_ms: 0, event }
        };
        let refused = |call_id: &str| AuditRecord {
            call_id: Some(call_id.into()),
            ..AuditRecord::new(AuditKind::Denial, "agent a", "not_granted")
        };
        let refusals = ["a", "b", "direct"].map(refused).to_vec();
        let events = [replied("a", "small"), replied("b", "large")];
        let records = records_of(refusals, &Run::new(Thread::default()), &Arc::from("r"), &events);
        let models: Vec<_> = records.iter().map(|record| record.model.as_deref()).collect();
        assert_eq!(models, [Some("small"), Some("large"), None]);
    }

    #[test]
    fn refusals_stay_until_they_are_stored() {
        let refusals = Refusals::default();
        let add = |power: &str| {
            let record = AuditRecord::new(AuditKind::Denial, "agent direct", "not_granted").of_power(power);
            refusals.0.lock().unwrap_or_else(PoisonError::into_inner).push(record);
        };
        let powers = || -> Vec<_> { refusals.for_commit().into_iter().filter_map(|it| it.power).collect() };
        ["http", "files"].iter().for_each(|power| add(power));
        assert_eq!(powers(), ["http", "files"]);
        // Another call is refused during a commit, which first fails.
        add("sockets");
        assert_eq!(powers(), ["http", "files", "sockets"]);
        refusals.stored(2);
        assert_eq!(powers(), ["sockets"]);
    }

    #[test]
    fn a_call_without_memory_for_its_result_was_not_refused() {
        let refused = |attempts| was_refused(Some(Code::Overloaded), &Usage { attempts, ..Usage::default() });
        assert!(refused(0));
        assert!(!refused(1));
    }

    #[test]
    fn g8_the_audit_does_not_blame_a_gate_whose_question_was_answered() {
        let asks = GateVerdict::new("a", Verdict::Suspend(Box::new(Ticket::confirm("Sure?"))));
        let events = gated(vec![asks, GateVerdict::new("b", Verdict::Allow)]);
        assert_eq!(gate_of("c", &events, &[]), Some("a"));
        assert_eq!(gate_of("c", &events, &["a".into()]), None);
        assert_eq!(gate_of("other", &events, &[]), None);
    }
}
