#![doc = include_str!("../README.md")]
//!
//! # The parts
//!
//! From the outside in: [`component!`](crate::component!) lists the tools of one
//! component; [`tool`](macro@crate::tool) makes a function a tool; [`Context`] is the
//! call in progress; [`Key`] is a piece of declared state; [`ToolResult`],
//! [`ToolOutput`] and [`ToolError`] end a call.

// The guide shows a whole file, including its test.
#![allow(clippy::test_attr_in_doctest)]

mod agents;
mod arguments;
mod block_on;
mod coded;
mod component;
mod content;
mod context;
mod descriptor;
mod error;
mod host;
pub mod http;
mod identity;
mod key;
mod output;
mod overlay;
mod report;
mod result;
mod returned;
mod schema;
mod ticket;
mod tool;
#[cfg(target_family = "wasm")]
mod wasm;

pub use agents::{ChildError, ChildMessage, ChildOutcome, ChildRun, ChildStatus, Role, Streaming};
pub use arguments::Arguments;
pub use block_on::block_on;
pub use coded::CodedError;
pub use component::Component;
pub use content::Attachment;
pub use context::Context;
pub use descriptor::{ComponentDescriptor, ExecutionPolicy, ToolDescriptor};
pub use error::ToolError;
pub use identity::{AgentView, Resumption, RunIdentity};
pub use key::{Key, List, Number, Reducer, Scope, StateAccess, StateKey, reducer};
pub use output::{Action, Mutation, ToolOutput};
pub use report::{Level, ProgressStatus, Report};
pub use result::{Status, ToolResult};
pub use returned::IntoOutput;
pub use schema::{arguments_schema, value_schema};
pub use ticket::{ResumeMode, Ticket};
pub use tollgate_sdk_macros::{component, data, tool};
pub use tool::Tool;

pub use schemars::{self, JsonSchema};
pub use serde::{self, Deserialize, Serialize};
pub use serde_json::{self, Value, json};

/// Support for the macros' expansions. Not part of the public interface.
#[doc(hidden)]
pub mod private {
    pub use crate::arguments::argument;
    pub use crate::returned::{ReturnedData, ReturnedValue, checked};
    #[cfg(target_family = "wasm")]
    pub use crate::wasm::{Exported, bindings};
}

/// Exports a hand-written [`Component`] from this crate.
/// [`component!`](crate::component!) does so by itself. Does nothing off wasm.
#[macro_export]
macro_rules! export {
    ($component:ident) => {
        #[cfg(target_family = "wasm")]
        #[allow(unsafe_code)]
        const _: () = {
            type Guest = $crate::private::Exported<$component>;
    $crate::private::bindings::export!(Guest with_types_in $crate::private::bindings);
        };
    };
}
