//! What the audit says of calls: one record for each that ended, made of the events
//! that are committed together with it.

use crate::store::{AuditKind, AuditRecord, Store};
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::code::Code;
use tollgate_agent::gate::{Permit, Recorded};
use tollgate_agent::run::event::{Finished, ToolVersion};
use tollgate_agent::run::{CallEnd, Event, Numbered, Run, RunSpec};

/// A record for each call that ends in these events. `run` is as it stood before them,
/// or after.
pub(super) fn records_of(run: &Run, run_id: &Arc<str>, events: &[Numbered]) -> Vec<AuditRecord> {
    let ended = events.iter().filter_map(|event| match &event.event {
        Event::CallFinished(finished) => Some((event.at_ms, finished.as_ref())),
        _ => None,
    });
    // A record is large, and most commits have one.
    let mut records = Vec::with_capacity(ended.clone().count());
    records
        .extend(ended.filter_map(|ended| Some(record_of(ended, run, run_id, spec_of(run, events)?, events))));
    records
}

fn record_of(
    (at_ms, finished): (u64, &Finished),
    run: &Run,
    run_id: &Arc<str>,
    spec: &RunSpec,
    events: &[Numbered],
) -> AuditRecord {
    let code = finished.end.code();
    let denied =
        matches!(code, Some(Code::Denied | Code::Blocked | Code::NotRun | Code::Disabled | Code::Overloaded));
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
            if denied { AuditKind::Denial } else { AuditKind::Call },
            who(spec),
            SmolStr::new_static(code.map_or("success", Code::as_str)),
        )
    };
    if let CallEnd::Fault(fault) = &finished.end {
        let by = gate_of(&finished.call_id, events).map(|gate| format!("gate {gate}: ")).unwrap_or_default();
        record = record.because(&format!("{by}{}", fault.message));
    }
    record
}

/// Notes the powers that a call tried and was not granted. A store that cannot take
/// it says so in the log; the call goes on.
pub(super) async fn note_refusals(store: &dyn Store, spec: &RunSpec, permit: &Permit, denied: &[String]) {
    if denied.is_empty() {
        return;
    }
    let tool = permit.tool();
    let records = denied.iter().map(|what| {
        let power = what.split([' ', ':']).next().unwrap_or_default();
        AuditRecord {
            run_id: Some(Arc::from(spec.identity.run_id.as_str())),
            call_id: Some(permit.call_id().to_owned()),
            ..AuditRecord::new(AuditKind::Denial, who(spec), "not_granted")
        }
        .of_component(tool.owner.id.clone(), Some(tool.owner.version.clone()))
        .of_tool(tool.descriptor.name.clone())
        .of_power(power)
        .because(what)
    });
    if let Err(e) = store.note(records.collect()).await {
        tracing::warn!("the audit does not hold what a call was refused: {e}");
    }
}

/// The agent, as the audit names who did something.
fn who(spec: &RunSpec) -> SmolStr {
    SmolStr::from_iter(["agent ", &spec.identity.agent_id])
}

/// Of a direct call all events are committed at once, so that its beginning may be
/// among them.
fn spec_of<'a>(run: &'a Run, events: &'a [Numbered]) -> Option<&'a RunSpec> {
    let started = events.iter().find_map(|event| match &event.event {
        Event::RunStarted { spec } => Some(spec.as_ref()),
        _ => None,
    });
    started.or_else(|| (run.events() > 0).then(|| run.spec().as_ref()))
}

fn owner_of<'a>(call_id: &str, run: &'a Run, events: &'a [Numbered]) -> Option<&'a ToolVersion> {
    let proposed = events.iter().find_map(|event| match &event.event {
        Event::CallProposed(proposed) if proposed.call_id == call_id => Some(proposed.owner.as_ref()),
        _ => None,
    });
    proposed.unwrap_or_else(|| run.calls().iter().find(|call| call.id == call_id)?.version.as_ref())
}

/// The gate whose answer stands, where it is told in these events.
fn gate_of<'a>(call_id: &str, events: &'a [Numbered]) -> Option<&'a str> {
    let verdicts = events.iter().rev().find_map(|event| match &event.event {
        Event::CallGated { call_id: of, verdicts } if of == call_id => Some(verdicts),
        _ => None,
    })?;
    let severest: &Recorded = verdicts.iter().max_by_key(|recorded| recorded.verdict.severity())?;
    (severest.verdict.severity() > 0).then_some(severest.gate.as_str())
}
