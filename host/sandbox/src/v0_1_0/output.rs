//! What a tool hands back, in the host's words, or the fault that it is.

use super::types;
use serde_json::Value;
use std::sync::Arc;
use tollgate_agent::code::Code;
use tollgate_agent::json::{self, JsonError, LazyJson};
use tollgate_agent::outcome::{
    Action, Fault, Mutation, Outcome, ResumeMode, Ticket, ToolOutput, ToolResult, ToolStatus,
};
use tollgate_agent::question::{MAX_ACTION_BYTES, MAX_MESSAGE_BYTES};
use tollgate_agent::run::answer::MAX_ANSWER_BYTES;
use tollgate_agent::state::change::MAX_MUTATIONS;
use tollgate_agent::text::clean;

/// The most actions of one call.
const MAX_ACTIONS: usize = 16;
/// The longest note for the model, in bytes.
const MAX_NOTE_BYTES: usize = 16 * 1024;
/// The longest text of a tool's error, in bytes.
const MAX_ERROR_BYTES: usize = 16 * 1024;

/// What `execute` returned.
pub(crate) type Returned = Result<types::ToolOutput, types::ToolError>;

/// How many bytes of text the guest returned.
pub(crate) fn returned_bytes(returned: &Returned) -> u64 {
    let bytes = match returned {
        Ok(output) => {
            let result = output.result.data.len() + output.result.message.as_ref().map_or(0, String::len);
            let mutations: usize = output.mutations.iter().map(|m| m.key.len() + m.update.len()).sum();
            result + mutations
        }
        Err(error) => error_text(error).1.len(),
    };
    bytes as u64
}

/// Reads what `execute` returned.
pub(crate) fn lift_returned(tool_name: &str, returned: Returned) -> Outcome {
    match returned {
        Ok(output) => match lift_output(tool_name, output) {
            Ok(output) => Outcome::Returned(output),
            Err(fault) => Outcome::Faulted(fault),
        },
        Err(error) => Outcome::Faulted(lift_error(tool_name, &error)),
    }
}

/// The fault that an error of `validate-args` is: its kind does not matter.
pub(crate) fn lift_rejection(tool_name: &str, error: &types::ToolError) -> Fault {
    let (_, text) = error_text(error);
    let text = clean(text, MAX_ERROR_BYTES);
    Fault::new(Code::InvalidArguments, format!("The arguments of '{tool_name}' are not accepted: {text}"))
}

fn lift_output(tool: &str, given: types::ToolOutput) -> Result<ToolOutput, Fault> {
    if given.mutations.len() > MAX_MUTATIONS {
        return Err(Fault::new(
            Code::BadMutation,
            format!(
                "Tool '{tool}' returned {} mutations; at most {MAX_MUTATIONS} are taken from one call.",
                given.mutations.len()
            ),
        ));
    }
    Ok(ToolOutput {
        result: Arc::new(lift_result(tool, given.result)?),
        mutations: given
            .mutations
            .into_iter()
            .map(|m| {
                let update = parse(tool, "an update of a mutation", &m.update)?;
                Ok(Mutation { key: m.key, update })
            })
            .collect::<Result<_, Fault>>()?,
        actions: lift_actions(tool, given.actions)?,
    })
}

pub(super) fn lift_result(tool: &str, given: types::ToolResult) -> Result<ToolResult, Fault> {
    Ok(ToolResult {
        status: match given.status {
            types::ToolStatus::Success => ToolStatus::Success,
            types::ToolStatus::Error => ToolStatus::Error,
            types::ToolStatus::Pending(None) => ToolStatus::Pending(None),
            types::ToolStatus::Pending(Some(ticket)) => {
                ToolStatus::Pending(Some(Box::new(lift_ticket(tool, ticket)?)))
            }
        },
        data: LazyJson::from_text(given.data)
            .map_err(|(why, text)| malformed(tool, "the data of its result", &why, &text))?,
        message: given.message.map(|message| clean(&message, MAX_ANSWER_BYTES)),
    })
}

pub(super) fn lift_ticket(tool: &str, given: types::SuspendTicket) -> Result<Ticket, Fault> {
    Ok(Ticket {
        action: within(tool, "action", &given.action, MAX_ACTION_BYTES)?,
        message: within(tool, "message", &given.message, MAX_MESSAGE_BYTES)?,
        parameters: parse(tool, "the parameters of its ticket", &given.parameters)?,
        response_schema: given
            .response_schema
            .map(|schema| parse(tool, "the schema of its ticket", &schema))
            .transpose()?,
        resume_mode: match given.resume_mode {
            types::ResumeMode::ReplayToolCall => ResumeMode::ReplayToolCall,
            types::ResumeMode::UseDecisionAsToolResult => ResumeMode::UseDecisionAsToolResult,
            types::ResumeMode::PassDecisionToTool => ResumeMode::PassDecisionToTool,
        },
    })
}

/// A text of a ticket, cleaned. A person reads it whole, so that it is not cut.
fn within(tool: &str, what: &str, text: &str, max_bytes: usize) -> Result<String, Fault> {
    if text.len() <= max_bytes {
        return Ok(clean(text, max_bytes));
    }
    let message = format!(
        "Tool '{tool}' asked a question whose {what} has {} bytes; a question's {what} has at most {max_bytes}.",
        text.len()
    );
    Err(Fault::new(Code::MalformedOutput, message))
}

fn lift_actions(tool: &str, given: Vec<types::Action>) -> Result<Vec<Action>, Fault> {
    let bad = |why: String| Fault::new(Code::BadAction, format!("Tool '{tool}' {why}."));
    if given.len() > MAX_ACTIONS {
        return Err(bad(format!(
            "asked for {} actions; at most {MAX_ACTIONS} are taken from one call",
            given.len()
        )));
    }
    given
        .into_iter()
        .map(|action| match action {
            types::Action::TransferToAgent(agent) if agent.len() <= 64 => Ok(Action::TransferToAgent(agent)),
            types::Action::TransferToAgent(_) => Err(bad("named an agent by more than 64 bytes".to_owned())),
            types::Action::Escalate => Ok(Action::Escalate),
            types::Action::AddContext(note) if note.len() <= MAX_NOTE_BYTES => {
                Ok(Action::AddContext(clean(&note, MAX_NOTE_BYTES)))
            }
            types::Action::AddContext(note) => {
                Err(bad(format!("left a note of {} bytes; the limit is {MAX_NOTE_BYTES}", note.len())))
            }
        })
        .collect()
}

fn lift_error(tool: &str, error: &types::ToolError) -> Fault {
    let (code, text) = error_text(error);
    let text = clean(text, MAX_ERROR_BYTES);
    match code {
        Code::ToolInternal => {
            Fault::new(code, format!("Tool '{tool}' failed with an internal error.")).with_detail(text)
        }
        Code::ToolInvalidArguments => {
            Fault::new(code, format!("Tool '{tool}' does not accept the arguments: {text}"))
        }
        Code::ToolDenied => Fault::new(code, format!("Tool '{tool}' does not allow it: {text}")),
        Code::ToolNotFound => Fault::new(code, format!("Tool '{tool}' did not find it: {text}")),
        _ => Fault::new(code, format!("Tool '{tool}' failed: {text}")),
    }
}

fn error_text(error: &types::ToolError) -> (Code, &str) {
    match error {
        types::ToolError::InvalidArguments(text) => (Code::ToolInvalidArguments, text),
        types::ToolError::ExecutionFailed(text) => (Code::ToolFailed, text),
        types::ToolError::Denied(text) => (Code::ToolDenied, text),
        types::ToolError::NotFound(text) => (Code::ToolNotFound, text),
        types::ToolError::Internal(text) => (Code::ToolInternal, text),
    }
}

fn parse(tool: &str, what: &str, text: &str) -> Result<Value, Fault> {
    json::parse(text).map_err(|why| malformed(tool, what, &why, text))
}

fn malformed(tool: &str, what: &str, why: &JsonError, text: &str) -> Fault {
    Fault::new(
        Code::MalformedOutput,
        format!("Tool '{tool}' returned {what} as something that is not acceptable JSON: {why}."),
    )
    .with_detail(clean(text, 500))
}
