//! The promises about any hostile guest: its output is bounded and readable by a person, and its
//! refused attempts are noted.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::Value;
use tollgate_agent::descriptor::MAX_DESCRIPTION_BYTES;
use tollgate_agent::run::answer::MAX_ANSWER_BYTES;
use tollgate_agent::text::clean;
use tollgate_artifacts::Guest;
use tollgate_sandbox::Limits;

use crate::rig::Ended;

/// Returns the first broken promise, if any.
pub(crate) fn against_the_promises(ended: &Ended) -> Option<String> {
    let (Some(attempt), Ok(output)) = (&ended.attempt, &ended.result) else {
        return Some("it has no result".to_owned());
    };
    let limits = Limits::default();
    let (reports, bytes) = (ended.told.reports.load(Relaxed), ended.told.bytes.load(Relaxed));
    if reports > u64::from(limits.reports) || bytes > limits.reports_bytes {
        return Some(format!("{reports} reports of {bytes} bytes were passed on"));
    }
    let descriptor = &ended.tool.descriptor;
    let console_bytes = usize::try_from(limits.console_bytes).unwrap();
    unfit("the description", &descriptor.description, MAX_DESCRIPTION_BYTES)
        .or_else(|| unfit("the console", &attempt.console.text, console_bytes))
        .or_else(|| unfit("the message", output.result.message.as_deref()?, MAX_ANSWER_BYTES))
        .or_else(|| unfit_parameters(&descriptor.parameters))
}

/// Returns the note that the guest's file expects, if it is missing. A guest that shares its
/// directory with others may not meet a refusal.
pub(crate) fn not_noted(guest: &Guest, ended: &Ended) -> Option<String> {
    let noted = guest.denied()?;
    let denied = &ended.attempt.as_ref()?.denied;
    let is_noted = denied.iter().any(|denied| denied.starts_with(&noted));
    (!is_noted).then(|| format!("\"{noted}\" is not noted: {denied:?}"))
}

fn unfit(what: &str, text: &str, max_bytes: usize) -> Option<String> {
    if text.len() > max_bytes {
        return Some(format!("{what} has {} bytes", text.len()));
    }
    let begins: String = text.chars().take(100).collect();
    (clean(text, usize::MAX) != text).then(|| format!("{what} is not clean: {}", begins.escape_debug()))
}

/// Checks names and descriptions at any depth.
fn unfit_parameters(parameters: &Value) -> Option<String> {
    match parameters {
        Value::String(text) => unfit("a text of the parameters", text, usize::MAX),
        Value::Array(items) => items.iter().find_map(unfit_parameters),
        Value::Object(parts) => parts.iter().find_map(|(name, part)| {
            unfit("a name in the parameters", name, usize::MAX).or_else(|| unfit_parameters(part))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}
