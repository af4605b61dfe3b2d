//! One call of a tool, as this version of the contract has it.

use super::ToolPre;
use super::context::Visible;
use super::output::{lift_returned, returned_bytes};
use crate::attempt::Call;
use crate::instance::Instance;
use std::time::Duration;
use tollgate_agent::outcome::Outcome;
use wasmtime::Store;

/// Calls `execute` in a fresh instance, and reads what it returns.
pub(crate) async fn execute(
    tool: &ToolPre<Instance>,
    store: &mut Store<Instance>,
    call: &Call<'_>,
    timeout: Duration,
) -> wasmtime::Result<Outcome> {
    let arguments = call.permit.arguments().text();
    let visible = Visible::of(call);
    store.data().enter(arguments.len() as u64 + visible.bytes())?;
    let entries = visible.entries();
    let delegates: Vec<&str> = call.agent.delegates.iter().map(String::as_str).collect();
    let deadline_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    let context = visible.context(&entries, &delegates, deadline_ms);
    let tool = tool.instantiate_async(&mut *store).await?;
    let returned = tool.tollgate_tool_tool().call_execute(&mut *store, arguments, context).await?;
    store.data().boundary.leave(returned_bytes(&returned))?;
    Ok(lift_returned(&call.permit.tool().descriptor.name, returned))
}
