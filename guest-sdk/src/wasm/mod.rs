//! The component's side of the contract: what the host calls, and what it offers.

mod agents;
mod from_host;
mod to_host;

use crate::component::Component;
use crate::context::Context;
use crate::host::Host;
use crate::report::Report;
use bindings::exports::tollgate::tool::tool as wit;
use bindings::tollgate::tool::call;
use std::marker::PhantomData;

/// The contract as wit-bindgen writes it. An import that a tool does not use is
/// not in its component: only one that runs a child imports `agents`.
#[allow(missing_docs, unsafe_code, unreachable_pub, clippy::all)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../wit",
        world: "agent-tool-component",
        pub_export_macro: true,
        default_bindings_module: "tollgate_sdk::private::bindings",
    });
}

/// A component as the host sees it.
pub struct Exported<C>(PhantomData<C>);

impl<C: Component> wit::Guest for Exported<C> {
    fn describe() -> wit::ComponentDescriptor {
        C::describe().into()
    }

    fn validate_args(tool_name: String, args: String) -> Result<(), wit::ToolError> {
        C::validate_args(&tool_name, &args).map_err(Into::into)
    }

    fn execute(args: String, ctx: wit::ToolCallContext) -> Result<wit::ToolOutput, wit::ToolError> {
        let mut ctx = Context::of_call(ctx.into());
        C::execute(&args, &mut ctx).map(Into::into).map_err(Into::into)
    }
}

pub(crate) use agents::run_child;

/// The host that makes the call.
pub(crate) struct CallHost;

impl Host for CallHost {
    fn report(&self, report: Report) {
        match report {
            Report::Activity { kind, content } => call::report_activity(&kind, &content),
            Report::ActivityDelta { kind, patch } => {
                call::report_activity_delta(&kind, &patch.to_string());
            }
            Report::Progress { status, message, progress } => {
                call::report_progress(status.into(), message.as_deref(), progress);
            }
            Report::Output(delta) => call::stream_output(&delta),
            Report::Log(level, message) => call::log(level.into(), &message),
        }
    }

    fn read_state(&self, key: &str) -> Option<String> {
        call::read_state(key)
    }

    fn is_cancelled(&self) -> bool {
        call::is_cancelled()
    }
}
