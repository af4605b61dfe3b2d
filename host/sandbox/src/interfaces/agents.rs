//! `tollgate:tool/agents`: runs other agents within a call. In a sealed instance no agent is
//! granted.
//!
//! While a call waits for its child, its clock stops and its slot is available to other calls,
//! including those of the child.

use super::call::charge;
use crate::grants::Power;
use crate::instance::Instance;
use crate::meter::Stop;
use crate::v0_1_0::{self, agents, child_bytes, lift_child, lower_child, lower_child_error, measure_seeds};
use std::sync::Arc;
use tollgate_agent::child::ChildError;
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

type Answer = Result<agents::ChildOutcome, agents::ChildError>;

pub(crate) fn add(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    let mut agents = linker.instance(&format!("tollgate:tool/agents@{}", v0_1_0::VERSION))?;
    agents.func_wrap_async("run-child", |store, (request,): (agents::ChildRun,)| {
        Box::new(async move { Ok((run_child(store, request).await?,)) })
    })
}

async fn run_child(
    mut store: StoreContextMut<'_, Instance>,
    request: agents::ChildRun,
) -> wasmtime::Result<Answer> {
    let seeded = match measure_seeds(&request) {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(lower_child_error(error))),
    };
    let turn = store.data().serves.as_ref().map(|serves| Arc::clone(&serves.turn));
    let _seeds = turn.map(|turn| turn.charge_while(seeded)).transpose().map_err(Stop::from)?;
    let (mut request, bytes) = match lift_child(request) {
        Ok(lifted) => lifted,
        Err(error) => return Ok(Err(lower_child_error(error))),
    };
    charge(&mut store, bytes)?;
    store.data().boundary.leave(bytes as u64)?;
    let Some(serves) = &store.data().serves else {
        return Ok(Err(lower_child_error(ChildError::NotGranted(request.agent_id))));
    };
    serves.reports.blanked.child(&mut request);
    let (turn, children) = (Arc::clone(&serves.turn), Arc::clone(&serves.children));
    let deadline = store.data().deadline.clone();
    // A child's answers are not in this call's record.
    store.data_mut().world().used(Power::Delegates);
    let child = async {
        // The clock resumes once the call has its slot again.
        let _paused = deadline.pause();
        turn.yield_slot(children.run_child(request)).await
    };
    let outcome = match child.await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => {
            if let ChildError::NotGranted(what) = &error {
                store.data().deny(Power::Delegates, what);
            }
            return Ok(Err(lower_child_error(error)));
        }
        Err(_) => {
            let full = "too many calls wait for their children; try again later".to_owned();
            return Ok(Err(lower_child_error(ChildError::ExecutionFailed(full))));
        }
    };
    // The exports of a child may be as large as its state, so they are measured before they are written.
    let bytes = child_bytes(&outcome);
    if bytes as u64 > store.data().crossing_bytes() {
        return Err(Stop::Crossing.into());
    }
    store.data().boundary.enter(bytes as u64)?;
    store.data_mut().passed_on = None;
    let held = turn.charge_while(bytes as u64).map_err(Stop::from)?;
    store.data_mut().passed_on = Some(held);
    charge(&mut store, bytes)?;
    Ok(Ok(lower_child(outcome)))
}
