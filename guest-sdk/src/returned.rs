//! Converts the return value of a tool's function into the output of the call.
//!
//! There are three cases, and none shadows another. A [`ToolOutput`] or [`ToolResult`]
//! is used as it is. Any other `T: Serialize` is the data of a success. A `Result` is
//! split first: a [`ToolError`] ends the call, and any other error becomes the tool's
//! own error result, with a code if it is a [`CodedError`] or a
//! [`http::Error`].
//!
//! `Result` is itself `Serialize`, so the trait alone could not distinguish it.
//! [`ReturnedValue`] has an inherent method for it, and inherent methods take precedence
//! over a trait's.

use crate::coded::CodedError;
use crate::error::ToolError;
use crate::http;
use crate::output::ToolOutput;
use crate::result::ToolResult;
use serde::Serialize;
use std::any::Any;
use std::error::Error;
use std::fmt::Display;

/// A type that a tool may return on success: `T: Serialize`, [`ToolResult`] or
/// [`ToolOutput`].
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "neither `Serialize`, nor `ToolResult`, nor `ToolOutput`",
    note = "put `#[tollgate_sdk::data]` on the type, or derive `serde::Serialize`"
)]
pub trait IntoOutput {
    /// Converts the value into an output. A value that cannot be written as JSON is an
    /// internal error.
    fn into_output(self) -> Result<ToolOutput, ToolError>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize> IntoOutput for T {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        match serde_json::to_string(&self) {
            Ok(data) => Ok(ToolResult::of_json(data).into()),
            Err(error) => Err(ToolError::Internal(format!("The result cannot be written as JSON: {error}."))),
        }
    }
}

impl IntoOutput for ToolResult {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self.into())
    }
}

impl IntoOutput for ToolOutput {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self)
    }
}

/// The return value of a tool's function.
pub struct ReturnedValue<T>(pub T);

impl<T, E> ReturnedValue<Result<T, E>> {
    /// Splits the `Result` and converts its value.
    pub fn into_output(self) -> Result<ToolOutput, ToolError>
    where
        T: IntoOutput,
        E: Failure,
    {
        match self.0 {
            Ok(value) => value.into_output(),
            Err(error) => match refusal(error) {
                Refusal::Call(error) => Err(error),
                Refusal::Answer(result) => Ok((*result).into()),
            },
        }
    }
}

/// A return value that is not a `Result`.
pub trait ReturnedData {
    /// The returned type.
    type Value;

    /// Converts the value into an output.
    fn into_output(self) -> Result<ToolOutput, ToolError>
    where
        Self::Value: IntoOutput;
}

impl<T> ReturnedData for ReturnedValue<T> {
    type Value = T;

    fn into_output(self) -> Result<ToolOutput, ToolError>
    where
        T: IntoOutput,
    {
        self.0.into_output()
    }
}

/// An error that a tool may return: any type that can be displayed.
#[diagnostic::on_unimplemented(
    message = "a tool cannot fail with `{Self}`: the model has to read what went wrong",
    label = "does not implement `Display`",
    note = "implement `std::fmt::Display`, or return `tollgate_sdk::ToolError` or a `String`"
)]
pub trait Failure: Display + 'static {}

#[diagnostic::do_not_recommend]
impl<E: Display + 'static> Failure for E {}

/// The effect of an error returned by a tool's function.
enum Refusal {
    /// Ends the call; nothing commits.
    Call(ToolError),
    /// Becomes the tool's own answer that it failed.
    Answer(Box<ToolResult>),
}

/// Converts an error according to its type, bare or boxed. Errors that show their
/// causes with `{:#}` do so here.
fn refusal<E: Failure>(error: E) -> Refusal {
    if let Some(error) = find::<ToolError>(&error) {
        return Refusal::Call(error.clone());
    }
    if let Some(error) = find::<http::Error>(&error) {
        return Refusal::Answer(Box::new(error.clone().into()));
    }
    match find::<CodedError>(&error) {
        Some(error) => Refusal::Answer(Box::new(error.clone().into())),
        None => Refusal::Answer(Box::new(ToolResult::error(format!("{error:#}")))),
    }
}

fn find<T: Error + 'static>(error: &dyn Any) -> Option<&T> {
    if let Some(boxed) = error.downcast_ref::<Box<dyn Error>>() {
        return boxed.downcast_ref();
    }
    if let Some(boxed) = error.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        return boxed.downcast_ref();
    }
    error.downcast_ref()
}

/// Converts the outcome of a tool's own check of its arguments.
pub fn checked<E: Failure>(result: Result<(), E>) -> Result<(), ToolError> {
    result.map_err(|error| match refusal(error) {
        Refusal::Call(error) => error,
        Refusal::Answer(result) => ToolError::invalid_arguments(result.message().unwrap_or_default()),
    })
}
