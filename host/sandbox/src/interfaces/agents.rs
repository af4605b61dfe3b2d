//! `tollgate:tool/agents`: runs other agents within a call. In a sealed instance no agent is
//! granted.
//!
//! A request that is refused at once costs the call its fuel and its time. Once a child is asked
//! for, and until it answers, the call's clock stops and its slot is available to other calls,
//! including those of the child.

use crate::blocking::offload;
use crate::charge::charge;
use crate::grants::Power;
use crate::instance::Instance;
use crate::meter::Stop;
use crate::v0_1_0::{self, ChildRun, agents, child_bytes, lower_child, lower_child_error};
use std::sync::Arc;
use tollgate_agent::child::ChildError;
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

type ChildAnswer = Result<agents::ChildOutcome, agents::ChildError>;

pub(crate) fn add(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    let mut agents = linker.instance(&format!("tollgate:tool/agents@{}", v0_1_0::VERSION))?;
    agents.func_wrap_async("run-child", |store, (request,): (ChildRun,)| {
        Box::new(async move { Ok((run_child(store, request).await?,)) })
    })
}

async fn run_child(
    mut store: StoreContextMut<'_, Instance>,
    given: ChildRun,
) -> wasmtime::Result<ChildAnswer> {
    let agent_id = given.agent_id(&mut store)?;
    let Some(serves) = &store.data().serves else {
        return Ok(Err(lower_child_error(ChildError::not_granted(&agent_id))));
    };
    let (slot, children) = (Arc::clone(&serves.slot), Arc::clone(&serves.children));
    // A child's answers are not in this call's record.
    store.data_mut().world().record_power(Power::Delegates);
    if let Some(refusal) = children.refuse(&agent_id) {
        return Ok(Err(refused(&store, refusal)));
    }
    let bytes = match given.measure(&mut store)? {
        Ok(bytes) => bytes,
        Err(refusal) => return Ok(Err(refused(&store, refusal))),
    };
    let _held = slot.charge_while(bytes).map_err(Stop::from)?;
    let mut request = match given.lift(&mut store, agent_id)? {
        Ok(request) => request,
        Err(refusal) => return Ok(Err(refused(&store, refusal))),
    };
    if let Some(serves) = &store.data().serves {
        serves.reports.redactor.child(&mut request);
    }
    let deadline = store.data().deadline.clone();
    let child = async {
        // The clock resumes once the call has its slot again.
        let _paused = deadline.pause();
        slot.yield_slot(children.run_child(request)).await
    };
    let outcome = match child.await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(refusal)) => return Ok(Err(refused(&store, refusal))),
        Err(_) => {
            let full = "too many calls wait for their children; try again later".to_owned();
            return Ok(Err(lower_child_error(ChildError::ExecutionFailed(full))));
        }
    };
    // The exports of a child may be as large as its state, so they are measured before they are written, and
    // on a thread that blocks no other call.
    let (bytes, outcome) = offload(move || (child_bytes(&outcome), outcome)).await;
    if bytes as u64 > store.data().crossing_bytes() {
        return Err(Stop::Crossing.into());
    }
    store.data().boundary.enter(bytes as u64)?;
    store.data_mut().passed_on = None;
    let held = slot.charge_while(bytes as u64).map_err(Stop::from)?;
    store.data_mut().passed_on = Some(held);
    charge(&mut store, bytes)?;
    Ok(Ok(offload(move || lower_child(outcome)).await))
}

/// Converts the reason why there is no child, and records what was not granted.
fn refused(store: &StoreContextMut<'_, Instance>, refusal: ChildError) -> agents::ChildError {
    if let ChildError::NotGranted(what) = &refusal {
        store.data().deny(Power::Delegates, what);
    }
    lower_child_error(refusal)
}
