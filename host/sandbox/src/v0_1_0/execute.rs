//! One call of a tool, in this version of the contract.

use super::ToolPre;
use super::context::MeasuredContext;
use super::output::{ContractReturn, returned_bytes};
use super::types::ToolCallContext;
use crate::attempt::CallContext;
use crate::instance::Instance;
use crate::meter::Stop;
use std::time::Duration;
use wasmtime::Store;
use wasmtime::component::ComponentExportIndex;

/// A linked tool and the index of its `execute`. A call needs nothing else of it, so nothing else
/// is looked up and type-checked in each of its instances.
pub(crate) struct Tool {
    linked: ToolPre<Instance>,
    execute: ComponentExportIndex,
}

impl Tool {
    /// Finds `execute`.
    ///
    /// # Errors
    /// Fails if there is none.
    pub(crate) fn new(linked: ToolPre<Instance>) -> wasmtime::Result<Self> {
        let component = linked.instance_pre().component();
        let interface = format!("{}@{}", super::TOOL, super::VERSION);
        let missing = || wasmtime::Error::msg(format!("there is no {interface}/execute"));
        let tool = component.get_export_index(None, &interface).ok_or_else(missing)?;
        let execute = component.get_export_index(Some(&tool), "execute").ok_or_else(missing)?;
        Ok(Self { linked, execute })
    }

    /// Calls `execute` in a fresh instance. The time in which the host measures and writes the state that the tool
    /// is shown, at most 64 KiB for each key, counts towards the deadline of the attempt.
    pub(crate) async fn execute(
        &self,
        store: &mut Store<Instance>,
        call: &CallContext<'_>,
        timeout: Duration,
    ) -> wasmtime::Result<ContractReturn> {
        let arguments = call.permit.arguments().text();
        let measured = MeasuredContext::of(call);
        store.data().enter((arguments.len() as u64).saturating_add(measured.bytes()))?;
        let held = store.data().serves.as_ref().map(|serves| serves.slot.charge_while(measured.bytes()));
        let _held = held.transpose().map_err(Stop::from)?;
        let visible = measured.written();
        let entries = visible.entries();
        let delegates: Vec<&str> = call.agent.delegates.iter().map(String::as_str).collect();
        let deadline_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        let context = visible.context(&entries, &delegates, deadline_ms);
        let instance = self.linked.instance_pre().instantiate_async(&mut *store).await?;
        let execute = instance
            .get_typed_func::<(&str, ToolCallContext<'_>), (ContractReturn,)>(&mut *store, &self.execute)?;
        let (returned,) = execute.call_async(&mut *store, (arguments, context)).await?;
        store.data().boundary.leave(returned_bytes(&returned))?;
        Ok(returned)
    }
}
