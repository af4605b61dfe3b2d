//! Parsing of a call's arguments.

use crate::error::ToolError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The arguments of a call as JSON text. The host has checked them against the tool's
/// schema. They are parsed once, directly into the type that the tool uses.
#[derive(Debug, Clone, Copy)]
pub struct Arguments<'a>(&'a str);

impl<'a> Arguments<'a> {
    /// Creates arguments from JSON text.
    pub fn new(json: &'a str) -> Self {
        Self(json)
    }

    /// Returns the text as the host wrote it.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// Parses the arguments as a `T`; a mismatch is `invalid_arguments`.
    pub fn parse<T: Deserialize<'a>>(self) -> Result<T, ToolError> {
        serde_json::from_str(self.0).map_err(|error| misfit(&error))
    }

    /// Returns the arguments as a JSON value.
    pub fn value(self) -> Result<Value, ToolError> {
        self.parse()
    }
}

/// Omits the line and column: the model has not seen the host's text.
fn misfit(error: &serde_json::Error) -> ToolError {
    let reason = error.to_string();
    let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason);
    ToolError::InvalidArguments(format!("The arguments do not fit: {reason}."))
}

/// A type of argument: it is read from JSON and has a schema.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a tool",
    label = "cannot be read from JSON, or has no schema",
    note = "put `#[tollgate_sdk::data]` on the type"
)]
pub trait Argument: DeserializeOwned + JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> Argument for T {}

/// Checks at compile time that a type can be an argument.
pub fn argument<T: Argument>() {}
