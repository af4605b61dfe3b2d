//! A call as a model asked for it, checked before anybody is asked about it.

use crate::catalog::{Catalog, Tool};
use crate::code::Code;
use crate::json;
use crate::name;
use crate::outcome::Fault;
use crate::schema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use smol_str::SmolStr;
use std::sync::Arc;

/// The longest text of arguments that is read, in bytes.
pub const MAX_ARGUMENTS_BYTES: usize = 16 * 1024 * 1024;
/// The most arguments that a refusal names.
const MAX_NAMED: usize = 20;

/// Arguments that were parsed, with the host's own serialization of them: the
/// only text that gates, digests, records and guests ever see. A number without a
/// fraction is an integer in it, however it was sent: `2.0` and `2e0` are `2`.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    read: Arc<Read>,
}

#[derive(Debug, PartialEq)]
struct Read {
    value: Value,
    text: String,
}

impl Arguments {
    /// Reads what a model sent. Nothing, blank text and `null` count as `{}`.
    ///
    /// # Errors
    /// `invalid_arguments`: not JSON, a repeated key, a number that does not
    /// survive, too long. The sentence quotes what was sent.
    pub fn read(sent: &str) -> Result<Self, Fault> {
        if sent.len() > MAX_ARGUMENTS_BYTES {
            return Err(Fault::new(
                Code::InvalidArguments,
                format!("The arguments have {} bytes; at most {MAX_ARGUMENTS_BYTES} are read.", sent.len()),
            ));
        }
        if sent.trim().is_empty() {
            return Ok(Self::from_value(Value::Object(Map::new())));
        }
        match json::parse_exact(sent) {
            Ok(Value::Null) => Ok(Self::from_value(Value::Object(Map::new()))),
            // The host's text is seldom longer than what was sent.
            Ok(value) => Ok(Self::written(value, sent.len())),
            Err(e) => {
                let quoted = crate::text::clean(sent, 1_000);
                Err(Fault::new(
                    Code::InvalidArguments,
                    format!("The arguments are not acceptable JSON: {e}. What was sent: {quoted}"),
                ))
            }
        }
    }

    /// Takes a value that is parsed already.
    #[must_use]
    pub fn from_value(value: Value) -> Self {
        Self::written(value, 0)
    }

    /// With the host's serialization, of about so many bytes.
    fn written(mut value: Value, likely_bytes: usize) -> Self {
        json::unify_integers(&mut value);
        let text = json::to_text(&value, likely_bytes);
        Self { read: Arc::new(Read { value, text }) }
    }

    /// The parsed value.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.read.value
    }

    /// The host's serialization.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.read.text
    }
}

impl Serialize for Arguments {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.read.value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from_value)
    }
}

/// A call of a known tool with arguments that fit its schema. Whether it may run
/// is the gate's question.
#[derive(Debug, Clone)]
pub struct Proposal {
    pub(crate) call_id: SmolStr,
    pub(crate) tool: Arc<Tool>,
    pub(crate) arguments: Arguments,
}

impl Proposal {
    /// Checks a call: the tool is known and offered, and the arguments fit its
    /// schema. Runs no guest code.
    ///
    /// # Errors
    /// `not_found`, with the names nearest to it; `invalid_arguments`, with every
    /// violation and its JSON pointer.
    pub fn check(
        catalog: &Catalog,
        offered: impl Fn(&str) -> bool,
        call_id: &str,
        tool_name: &str,
        arguments: &Arguments,
    ) -> Result<Self, Fault> {
        let Some(tool) = catalog.tool(tool_name).filter(|_| offered(tool_name)) else {
            return Err(not_found(catalog, offered, tool_name));
        };
        if catalog.disabled(tool_name).is_some() {
            return Err(Fault::new(
                Code::Disabled,
                format!(
                    "The tool '{tool_name}' is out of use, because it failed too often. Go on without it."
                ),
            ));
        }
        let violations = tool.arguments.violations(arguments.value());
        if !violations.is_empty() {
            return Err(Fault::new(
                Code::InvalidArguments,
                format!(
                    "The arguments of '{tool_name}' do not fit its schema:\n{}{}",
                    schema::describe(&violations),
                    known_arguments(&tool.descriptor.parameters, arguments.value()),
                ),
            ));
        }
        Ok(Self { call_id: call_id.into(), tool: Arc::clone(tool), arguments: arguments.clone() })
    }

    /// A call that was checked before, as its record has it.
    pub(crate) fn recorded(call_id: &str, tool: Arc<Tool>, arguments: Arguments) -> Self {
        Self { call_id: call_id.into(), tool, arguments }
    }

    /// The call's id.
    #[must_use]
    pub fn call_id(&self) -> &SmolStr {
        &self.call_id
    }

    /// The tool that it asks for.
    #[must_use]
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Its arguments.
    #[must_use]
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }
}

/// The arguments that there are, where one was sent that is not among them.
fn known_arguments(parameters: &Value, sent: &Value) -> String {
    let (Some(known), Some(sent)) = (parameters["properties"].as_object(), sent.as_object()) else {
        return String::new();
    };
    if sent.keys().all(|name| known.contains_key(name)) {
        return String::new();
    }
    if known.is_empty() {
        return "\nIt takes no arguments.".to_owned();
    }
    let mut named: Vec<String> =
        known.keys().map(|name| format!("`{}`", crate::text::clean(name, 64))).collect();
    // In an order that does not depend on the language in which the tool was written.
    named.sort_unstable();
    let more = if named.len() > MAX_NAMED { ", ..." } else { "" };
    named.truncate(MAX_NAMED);
    format!("\nIts arguments: {}{more}", named.join(", "))
}

fn not_found(catalog: &Catalog, offered: impl Fn(&str) -> bool, wanted: &str) -> Fault {
    let names = catalog.tools().map(|t| t.descriptor.name.as_str()).filter(|n| offered(n));
    let nearest = name::nearest(wanted, names);
    let hint = if nearest.is_empty() {
        "Call only tools that are listed.".to_owned()
    } else {
        format!("Did you mean {}?", nearest.iter().map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", "))
    };
    let shown = crate::text::clean(wanted, 100);
    Fault::new(Code::NotFound, format!("There is no tool '{shown}'. {hint}"))
}
