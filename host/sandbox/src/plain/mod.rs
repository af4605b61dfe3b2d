//! Plain components, which do not implement the contract and export ordinary typed functions:
//! each function becomes a tool.
//!
//! The information that a contract component gives about itself is read here from the type:
//! names, arguments and their schema ([`surface`]). Arguments and results cross as component
//! model values ([`lower`], [`lift`]) instead of text. Otherwise calls work the same: a fresh
//! instance under the same limits and with the same grants. A plain component has no access to
//! the contract's other features (context, state, reports, suspension).
//!
//! None of its code runs before its first call, because it has no description to return.

mod docs;
mod exported_function;
mod function;
mod lift;
mod lower;
mod preparation;
mod schema;
mod shape;
mod surface;

pub(crate) use docs::Docs;
pub(crate) use surface::id_of;

use crate::admission::Slot;
use crate::description::{DescriptionSize, OmittedFunction};
use crate::error::Refusal;
use crate::instance::Instance;
use crate::meter::Boundary;
use crate::v0_1_0::ChargedOutcome;
use function::Function;
pub(crate) use function::PlainReturn;
use lift::measure;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tollgate_agent::descriptor::{ComponentDescriptor, ToolDescriptor};
use tollgate_agent::outcome::Outcome;
use wasmtime::component::{Component as Compiled, InstancePre};
use wasmtime::{Engine, Store};

/// A pending conversion to an outcome.
pub(crate) struct PendingOutcome {
    /// Bytes of the parsed form.
    pub(crate) bytes: u64,
    /// Converts the result if the call and the host have room for it and it is not too long.
    pub(crate) work: Box<dyn FnOnce() -> wasmtime::Result<ChargedOutcome> + Send>,
}

/// A linked plain component.
pub(crate) struct Plain {
    pre: InstancePre<Instance>,
    version: String,
    /// Functions by tool name.
    functions: BTreeMap<String, Arc<Function>>,
    left_out: Vec<OmittedFunction>,
}

impl Plain {
    /// Reads its exports.
    ///
    /// # Errors
    /// Fails if it has no callable function, or if its functions are ambiguous.
    pub(crate) fn link(
        engine: &Engine,
        name: &str,
        compiled: &Compiled,
        pre: InstancePre<Instance>,
    ) -> Result<Self, Refusal> {
        let surface::PlainSurface { version, functions, left_out } =
            surface::read(engine, compiled).map_err(|why| Refusal::new(format!("{name} {why}")))?;
        let functions = functions.into_iter().map(|(name, function)| (name, Arc::new(function))).collect();
        Ok(Self { pre, version, functions, left_out })
    }

    /// Returns its functions that are not tools.
    pub(crate) fn left_out(&self) -> &[OmittedFunction] {
        &self.left_out
    }

    /// Returns a descriptor with this id, and the bytes that it takes.
    ///
    /// # Errors
    /// It takes too much memory.
    pub(crate) fn descriptor(&self, id: String, docs: &Docs) -> Result<(ComponentDescriptor, u64), String> {
        let (docs, mut size) = (docs.parse(), DescriptionSize::default());
        let mut tools = Vec::with_capacity(self.functions.len());
        for (name, function) in &self.functions {
            let parameters = function.parameters();
            size.add_value(&parameters);
            size.checked()?;
            let tool = ToolDescriptor::new(name.to_ascii_lowercase(), name, function.description(&docs));
            tools.push(tool.with_parameters(parameters));
        }
        let descriptor = ComponentDescriptor { id, version: self.version.clone(), tools, state: Vec::new() };
        Ok((descriptor, size.checked()?))
    }

    /// Calls the function behind the tool of this name.
    pub(crate) async fn call(
        &self,
        store: &mut Store<Instance>,
        tool_name: &str,
        arguments: &Value,
    ) -> wasmtime::Result<PlainReturn> {
        self.function(tool_name)?.call(&self.pre, store, tool_name, arguments).await
    }

    /// Prepares the conversion of the function's result to an outcome, to be charged to the
    /// call's slot. `most` are the maximum bytes and values of its JSON. In a measurement,
    /// creating 500,000 values took about 150 ms, and measuring them 3 ms.
    ///
    /// # Errors
    /// Fails if there is no such function.
    pub(crate) fn lift(
        &self,
        tool_name: &str,
        returned: PlainReturn,
        boundary: &Boundary,
        most: (u64, u32),
        slot: &Arc<Slot>,
    ) -> wasmtime::Result<PendingOutcome> {
        let value = match returned {
            PlainReturn::Misfit(fault) => {
                let lifted = ChargedOutcome { outcome: Outcome::Faulted(fault), bytes: 0 };
                return Ok(PendingOutcome { bytes: 0, work: Box::new(|| Ok(lifted)) });
            }
            PlainReturn::Value(value) => value,
        };
        let function = Arc::clone(self.function(tool_name)?);
        let measure = value.as_ref().map(measure).unwrap_or_default();
        let (tool_name, boundary, slot) = (tool_name.to_owned(), boundary.clone(), Arc::clone(slot));
        let work = move || function.lift_returned(&tool_name, (value, measure), &boundary, most, &slot);
        Ok(PendingOutcome { bytes: measure.parsed_bytes, work: Box::new(work) })
    }

    fn function(&self, tool_name: &str) -> wasmtime::Result<&Arc<Function>> {
        let function = self.functions.get(tool_name);
        function.ok_or_else(|| wasmtime::Error::msg("the component has no such function"))
    }
}
