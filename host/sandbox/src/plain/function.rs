//! One exported function: its form as a tool, and a call of it.

use super::docs;
use super::exported_function::ExportedFunction;
use super::lift::{lift, lift_payload};
use super::lower::{Lowering, ShapeMismatch};
use super::preparation::{is_of_javascript, is_of_python};
use super::schema;
use super::shape::{Reader, Shape, separated};
use crate::admission::Slot;
use crate::instance::Instance;
use crate::meter::{Boundary, Stop};
use crate::v0_1_0::ChargedOutcome;
use serde_json::{Map, Value};
use std::fmt;
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::MAX_DESCRIPTION_BYTES;
use tollgate_agent::json::{self, Measure, NodesLeft};
use tollgate_agent::outcome::{Fault, Outcome, ToolOutput, ToolResult, ToolStatus};
use tollgate_agent::run::answer::MAX_ANSWER_BYTES;
use tollgate_agent::schema::Schema;
use tollgate_agent::text::clean;
use wasmtime::Store;
use wasmtime::component::types::ComponentFunc;
use wasmtime::component::{Component as Compiled, ComponentExportIndex, InstancePre, Val};

/// The result of a function, before it is read.
pub(crate) enum PlainReturn {
    /// A value; `None` if the function returns nothing.
    Value(Option<Val>),
    /// It was not called: the arguments do not fit its types.
    Misfit(Fault),
}

/// The maximum length of a signature in a description, in bytes.
const MAX_SIGNATURE_BYTES: usize = 1_000;
/// Separates the author's documentation from the signature.
const SEPARATOR: &str = "\n\n";
/// A set of flags is a few bits in the guest, but in the host it is a string per flag, of which
/// the engine counts only the characters. A guest that can pass lists of flags has its crossing
/// limit divided by this.
const FLAGS_ARE_DEARER: u64 = 16;
/// The same for the names of fields and cases in lists, of which there is one per element or more.
const NAMES_ARE_DEARER: u64 = 2;
/// The same for tuples of one value: the engine makes room for four, and counts one.
const SINGLES_ARE_DEARER: u64 = 8;
/// The same for tuples of two or three values.
const SHORT_TUPLES_ARE_DEARER: u64 = 4;

/// A function that is a tool.
pub(super) struct Function {
    exported: ExportedFunction,
    export: ComponentExportIndex,
    parameters: Vec<(String, Shape)>,
    result: Option<Shape>,
}

impl Function {
    /// Reads the function's type. The error has the reason why it is not a tool.
    pub(super) fn of(
        compiled: &Compiled,
        exported: ExportedFunction,
        of_type: &ComponentFunc,
    ) -> Result<Self, String> {
        if of_type.async_() {
            return Err("it is asynchronous, which this host does not support".to_owned());
        }
        let mut reader = Reader::new();
        let parameter = |(name, of): (&str, _)| Ok((reader.name(name)?, reader.read(&of)?));
        let parameters: Vec<_> = of_type.params().map(parameter).collect::<Result<_, String>>()?;
        let mut results = of_type.results();
        let result = results.next().map(|of| reader.read(&of)).transpose()?;
        if results.next().is_some() {
            return Err("it returns more than one value".to_owned());
        }
        Schema::compile(&schema::of_parameters(&parameters)).map_err(|why| why.to_string())?;
        let interface = match &exported.interface {
            Some(interface) => Some(compiled.get_export_index(None, interface).ok_or_else(lost)?),
            None => None,
        };
        let export = compiled.get_export_index(interface.as_ref(), &exported.function).ok_or_else(lost)?;
        Ok(Self { exported, export, parameters, result })
    }

    /// Returns whether this is not the author's function but the one with which a toolchain
    /// prepared the component.
    pub(super) fn prepares_the_component(&self) -> bool {
        let ExportedFunction { interface, function } = &self.exported;
        match interface {
            None => is_of_javascript(&self.to_string()),
            Some(interface) => is_of_python(interface, function, &self.parameters, self.result.as_ref()),
        }
    }

    /// Returns the JSON Schema of its arguments.
    pub(super) fn parameters(&self) -> Value {
        schema::of_parameters(&self.parameters)
    }

    /// Returns the author's documentation and the signature, which includes the result type.
    pub(super) fn description(&self, docs: &docs::ComponentDocs) -> String {
        let signature = clean(&self.to_string(), MAX_SIGNATURE_BYTES);
        match docs.of_function(self.exported.short_interface(), &self.exported.function) {
            Some(said) => {
                let said = clean(said, MAX_DESCRIPTION_BYTES - MAX_SIGNATURE_BYTES - SEPARATOR.len());
                format!("{said}{SEPARATOR}{signature}")
            }
            None => signature,
        }
    }

    /// Calls it once, in a fresh instance.
    pub(super) async fn call(
        &self,
        pre: &InstancePre<Instance>,
        store: &mut Store<Instance>,
        tool_name: &str,
        arguments: &Value,
    ) -> wasmtime::Result<PlainReturn> {
        let values = match self.lower(store, arguments)? {
            Ok(values) => values,
            Err(problem) => return Ok(PlainReturn::Misfit(misfit(tool_name, &problem))),
        };
        let dearness = self.result.as_ref().map_or(1, dearness);
        if dearness > 1 {
            let bytes = store.data().crossing_bytes() / dearness;
            store.set_hostcall_fuel(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        let instance = pre.instantiate_async(&mut *store).await?;
        let function = instance.get_func(&mut *store, self.export).ok_or_else(unknown)?;
        // A placeholder that is overwritten.
        let mut results = vec![Val::Bool(false); usize::from(self.result.is_some())];
        function.call_async(&mut *store, &values, &mut results).await?;
        Ok(PlainReturn::Value(results.pop()))
    }

    /// Converts the returned value to an outcome.
    pub(super) fn lift_returned(
        &self,
        tool_name: &str,
        (value, measure): (Option<Val>, Measure),
        boundary: &Boundary,
        (crossing_bytes, json_nodes): (u64, u32),
        slot: &Slot,
    ) -> wasmtime::Result<ChargedOutcome> {
        if let Err(why) = NodesLeft::up_to(json_nodes as usize).take(&measure) {
            let message = format!("Tool '{tool_name}' returned a value that is too large: {why}.");
            let outcome = Outcome::Faulted(Fault::new(Code::MalformedOutput, message));
            return Ok(ChargedOutcome { outcome, bytes: 0 });
        }
        slot.charge(measure.parsed_bytes).map_err(Stop::from)?;
        let result = self.lift(value).ok_or_else(unknown)?;
        let bytes = json::written_bytes(&result.data) as u64;
        if bytes > crossing_bytes {
            return Err(Stop::Crossing.into());
        }
        boundary.leave(bytes)?;
        let outcome = Outcome::Returned(ToolOutput::from(result));
        Ok(ChargedOutcome { outcome, bytes: measure.parsed_bytes })
    }

    /// Converts the arguments to values, in the order of the parameters.
    fn lower(&self, store: &Store<Instance>, arguments: &Value) -> Result<Result<Vec<Val>, String>, Stop> {
        let limit = store.data().crossing_bytes();
        let none = Map::new();
        let mut lowering = Lowering::new(limit);
        match lowering.fields(&self.parameters, arguments.as_object().unwrap_or(&none)) {
            Ok(fields) => {
                store.data().enter(limit - lowering.left())?;
                Ok(Ok(fields.into_iter().map(|(_, value)| value).collect()))
            }
            Err(ShapeMismatch::TooLarge) => Err(Stop::Crossing),
            Err(ShapeMismatch::At(pointer, problem)) => {
                let place = if pointer.is_empty() { "(whole value)" } else { &pointer };
                Ok(Err(format!("- {place}: {problem}")))
            }
        }
    }

    /// Returns the answer for the model. A `result` is a success or the tool's own error; any
    /// other value is a success.
    fn lift(&self, returned: Option<Val>) -> Option<ToolResult> {
        match (&self.result, returned) {
            (None, None) => Some(ToolResult::success(Value::Null)),
            (Some(Shape::Result(ok, _)), Some(Val::Result(Ok(payload)))) => {
                Some(ToolResult::success(lift_payload(ok.as_deref(), payload)?))
            }
            (Some(Shape::Result(_, err)), Some(Val::Result(Err(payload)))) => {
                Some(error(lift_payload(err.as_deref(), payload)?))
            }
            (Some(shape), Some(value)) => Some(ToolResult::success(lift(shape, value)?)),
            _ => None,
        }
    }
}

/// Writes WIT syntax: `add: func(a: u32, b: u32) -> u32`.
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: func(", self.exported.function)?;
        separated(f, &self.parameters, |f, (name, shape)| write!(f, "{name}: {shape}"))?;
        f.write_str(")")?;
        match &self.result {
            Some(shape) => write!(f, " -> {shape}"),
            None => Ok(()),
        }
    }
}

/// Returns by what the crossing limit is divided for results of this shape.
fn dearness(result: &Shape) -> u64 {
    match result {
        _ if result.lists(Shape::is_flags) => FLAGS_ARE_DEARER,
        _ if result.lists(Shape::is_single) => SINGLES_ARE_DEARER,
        _ if result.lists(Shape::is_short_tuple) => SHORT_TUPLES_ARE_DEARER,
        _ if result.lists(Shape::is_named) => NAMES_ARE_DEARER,
        _ => 1,
    }
}

/// Returns the tool's own error, with the text that it carries.
fn error(data: Value) -> ToolResult {
    let message = match &data {
        Value::Null => "The function failed without a message.".to_owned(),
        Value::String(text) => clean(text, MAX_ANSWER_BYTES),
        other => clean(&other.to_string(), MAX_ANSWER_BYTES),
    };
    ToolResult { status: ToolStatus::Error, data: data.into(), message: Some(message), content: Vec::new() }
}

fn misfit(tool_name: &str, problem: &str) -> Fault {
    let problem = clean(problem, MAX_SIGNATURE_BYTES);
    Fault::new(
        Code::InvalidArguments,
        format!("The arguments of '{tool_name}' are not values of its types:\n{problem}"),
    )
}

fn lost() -> String {
    "the engine cannot find it".to_owned()
}

fn unknown() -> wasmtime::Error {
    wasmtime::Error::msg("the function or its value is not of the type that was read")
}
