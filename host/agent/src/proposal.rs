//! A call as a model requested it, checked before a gate or a person sees it.

use crate::catalog::{Catalog, Tool};
use crate::code::Code;
use crate::json::{self, WrittenJson};
use crate::name;
use crate::outcome::Fault;
use crate::schema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use smol_str::SmolStr;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The most bytes of arguments that are read.
pub const MAX_ARGUMENTS_BYTES: usize = 16 * 1024 * 1024;
/// The most arguments that an error message lists.
const MAX_NAMED: usize = 20;

/// Arguments that were checked to be JSON, in the host's own serialization. Gates, digests, records
/// and guests only ever see this text. A number without a fraction is written as an integer,
/// however it was sent: `2.0` and `2e0` become `2`.
#[derive(Clone, PartialEq)]
pub struct Arguments {
    written: Arc<WrittenJson>,
}

impl Arguments {
    /// Reads the arguments that a model sent. Empty text, blank text and `null` count as `{}`.
    ///
    /// # Errors
    /// `invalid_arguments` if the text is too long, is not JSON, repeats a key, or contains a
    /// number that does not survive a round trip. The message quotes the text.
    pub fn read(sent: impl AsRef<str>) -> Result<Self, Fault> {
        let text = sent.as_ref();
        if text.len() > MAX_ARGUMENTS_BYTES {
            return Err(Fault::new(
                Code::InvalidArguments,
                format!("The arguments have {} bytes; at most {MAX_ARGUMENTS_BYTES} are read.", text.len()),
            ));
        }
        let refused = |why: &dyn fmt::Display| {
            let quoted = crate::text::clean(text, 1_000);
            let message = format!("The arguments are not acceptable JSON: {why}. Sent: {quoted}");
            Fault::new(Code::InvalidArguments, message)
        };
        if text.trim().is_empty() {
            return Ok(Self::from_value(Value::Object(Map::new())));
        }
        match json::parse_exact(text) {
            Ok(Value::Null) => Ok(Self::from_value(Value::Object(Map::new()))),
            Ok(value) => Ok(Self::from_value(value)),
            Err(why) => Err(refused(&why)),
        }
    }

    /// Creates arguments from a parsed value.
    #[must_use]
    pub fn from_value(mut value: Value) -> Self {
        json::unify_integers(&mut value);
        Self { written: Arc::new(WrittenJson::with_value(json::raw(&value), value)) }
    }

    /// Returns the parsed value. It is parsed from the text on first access.
    #[must_use]
    pub fn value(&self) -> &Value {
        self.written.value()
    }

    /// Returns the parsed value without keeping it if it has to be parsed, for code that only shows it.
    #[must_use]
    pub fn to_value(&self) -> Cow<'_, Value> {
        self.written.value_uncached()
    }

    /// Returns the host's serialization.
    #[must_use]
    pub fn text(&self) -> &str {
        self.written.text()
    }

    /// Drops the value of arguments that were [`read`](Self::read) and checked. Most tools take the
    /// text, and a record need not hold both.
    pub(crate) fn forget_value(&mut self) {
        if let Some(written) = Arc::get_mut(&mut self.written) {
            written.forget();
        }
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Arguments").field(&self.text()).finish()
    }
}

impl Serialize for Arguments {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written.serialize(serializer)
    }
}

/// Arguments of a record are kept as text: their value may take a hundred times the memory that is reserved
/// for the record.
impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        WrittenJson::deserialize(deserializer).map(|written| Self { written: Arc::new(written) })
    }
}

/// A call of a known tool with arguments that fit its schema. The gates decide whether it may run.
#[derive(Debug, Clone)]
pub struct Proposal {
    pub(crate) call_id: SmolStr,
    pub(crate) tool: Arc<Tool>,
    pub(crate) arguments: Arguments,
}

impl Proposal {
    /// Checks that the tool is known and offered, and that the arguments fit its schema. Runs no
    /// guest code.
    ///
    /// # Errors
    /// `not_found`, with the nearest names; `invalid_arguments`, with every violation and its JSON
    /// pointer.
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
                    "The tool '{tool_name}' is disabled because it failed too often. Continue without it."
                ),
            ));
        }
        let value = arguments.to_value();
        let violations = tool.arguments.violations(&value);
        if !violations.is_empty() {
            return Err(Fault::new(
                Code::InvalidArguments,
                format!(
                    "The arguments of '{tool_name}' do not fit its schema:\n{}{}",
                    schema::describe(&violations),
                    known_arguments(&tool.descriptor.parameters, &value),
                ),
            ));
        }
        Ok(Self { call_id: call_id.into(), tool: Arc::clone(tool), arguments: arguments.clone() })
    }

    /// Restores a call from its record. It was checked before it was recorded.
    pub(crate) fn recorded(call_id: &str, tool: Arc<Tool>, arguments: Arguments) -> Self {
        Self { call_id: call_id.into(), tool, arguments }
    }

    /// Returns the call's id.
    #[must_use]
    pub fn call_id(&self) -> &SmolStr {
        &self.call_id
    }

    /// Returns the requested tool.
    #[must_use]
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Returns its arguments.
    #[must_use]
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }
}

/// Lists the tool's arguments if one was sent that is not among them.
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
    // The order does not depend on the language in which the tool was written.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arguments_are_kept_as_this_host_writes_them() {
        let canonical = r#"{"a":[1,"x"],"b":null}"#;
        for (sent, text) in [
            (canonical, canonical),
            (" {\"a\": 2.0}", r#"{"a":2}"#),
            ("[1e2]", "[100]"),
            ("", "{}"),
            ("null", "{}"),
        ] {
            assert_eq!(Arguments::read(sent).unwrap().text(), text);
        }
    }

    #[test]
    fn what_was_checked_is_read_again_where_it_is_looked_into_again() {
        for sent in [r#"{"a":[1,"x"]}"#, r#"{ "a": [1.0, "x"] }"#] {
            let mut read = Arguments::read(sent).unwrap();
            let value = read.value().clone();
            read.forget_value();
            assert!(!read.written.is_read());
            assert_eq!(serde_json::to_value(&read).unwrap(), value);
            assert_eq!((read.value(), read.text()), (&value, r#"{"a":[1,"x"]}"#));
            assert_eq!(read, Arguments::from_value(value));
        }
    }

    #[test]
    fn z3_recorded_arguments_are_not_parsed_and_showing_them_keeps_no_value() {
        let text = format!(r#"{{"a":[{}0.5]}}"#, "0,".repeat(1_000));
        let record = serde_json::to_string(&Arguments::read(&text).unwrap()).unwrap();
        let value: Value = serde_json::from_str(&record).unwrap();
        for read in [serde_json::from_str::<Arguments>(&record), serde_json::from_value(value)] {
            let read = read.unwrap();
            assert_eq!(read.text(), text);
            assert_eq!(read.to_value()["a"][1_000], 0.5);
            assert!(!read.written.is_read());
            assert_eq!(read.value()["a"][0], 0);
        }
        assert!(serde_json::from_str::<Arguments>(r#"{"a":1,"a":2}"#).is_err());
    }

    #[test]
    fn a_value_that_no_text_could_say_is_kept_as_it_was_made() {
        let deep = (0..200).fold(Value::from(0), |value, _| Value::from(vec![value]));
        for value in [deep, serde_json::json!({"$serde_json::private::RawValue": "1"})] {
            let arguments = Arguments::from_value(value.clone());
            assert_eq!((arguments.value(), arguments.text()), (&value, value.to_string().as_str()));
            assert_eq!(serde_json::to_value(&arguments).unwrap(), value);
        }
    }

    #[test]
    fn arguments_that_nest_deep_are_serialized_like_others() {
        let nested = |open: &str, close: &str| {
            let levels = json::MAX_DEPTH - 1;
            format!("{{\"a\":{}0{}}}", open.repeat(levels), close.repeat(levels))
        };
        for sent in [nested("[", "]"), nested("{\"b\":", "}")] {
            let mut read = Arguments::read(sent.as_str()).unwrap();
            read.forget_value();
            assert_eq!(serde_json::to_string(&read).unwrap(), sent);
            assert_eq!(&serde_json::to_value(&read).unwrap(), read.value());
        }
    }

    proptest! {
        #[test]
        fn text_and_value_say_the_same(text in r#"[\[{]?("\PC{0,3}"|[0-9.eE+-]{1,5}|[\]\[}{:, ]|null|true){0,8}[\]}]?"#) {
            let Ok(mut read) = Arguments::read(text.as_str()) else { return Ok(()) };
            let value = read.value().clone();
            prop_assert_eq!(value.to_string(), read.text());
            read.forget_value();
            prop_assert_eq!(read.value(), &value);
        }
    }
}
