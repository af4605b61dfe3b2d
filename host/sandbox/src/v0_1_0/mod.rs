//! Version 0.1.0 of the contract: generated wasmtime bindings, and the conversion from and to the
//! host's own types.
//!
//! Every value from a guest passes through here once, and becomes either a value of
//! `tollgate-agent` that was parsed, bounded and sanitized, or a fault.

mod child;
mod context;
mod descriptor;
mod execute;
mod gate;
mod output;

pub(crate) use child::{ChildRun, child_bytes, lower_child, lower_child_error};
pub(crate) use descriptor::read_descriptor;
pub(crate) use execute::Tool;
pub(crate) use gate::{GateCallView, GatePre, lift_gate_descriptor, read_verdict, shown_bytes};
pub(crate) use output::{ChargedOutcome, ContractReturn, lift_rejection, lift_returned, returned_bytes};

mod generated {
    #![allow(missing_docs, clippy::all, unreachable_pub)]
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "tollgate:tool/full-tool-component",
        // Inputs are borrowed: arguments and state are copied only once, into the guest.
        ownership: Borrowing { duplicate_if_necessary: true },
        exports: { default: async },
    });

    /// The bindings for gates, with the same types.
    pub(super) mod of_gates {
        wasmtime::component::bindgen!({
            path: "../../wit",
            world: "tollgate:tool/gate-component",
            ownership: Borrowing { duplicate_if_necessary: true },
            exports: { default: async },
            with: { "tollgate:tool/types@0.1.0": super::tollgate::tool::types },
        });
    }
}

pub(crate) use generated::FullToolComponentPre as ToolPre;
pub(crate) use generated::tollgate::tool::{agents, call, http_client, types};

/// The interface that makes a component a tool, without its version.
pub(crate) const TOOL: &str = "tollgate:tool/tool";
/// The interface that makes a component a gate, without its version.
pub(crate) const GATE: &str = "tollgate:tool/gate";
/// The interface with the types of the others, which has no functions.
pub(crate) const TYPES: &str = "tollgate:tool/types";
/// The version of the contract that this module implements.
pub(crate) const VERSION: &str = "0.1.0";
