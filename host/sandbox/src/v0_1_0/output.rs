//! Conversion of a tool's output to the host's types, or to a fault.

use super::types;
use crate::admission::Slot;
use crate::meter::Stop;
use serde_json::Value;
use std::sync::Arc;
use tollgate_agent::code::Code;
use tollgate_agent::json::{self, JsonError, LazyJson, Measure, NodesLeft};
use tollgate_agent::outcome::{
    Action, Fault, Mutation, Outcome, ResumeMode, Ticket, ToolOutput, ToolResult, ToolStatus,
};
use tollgate_agent::question::{MAX_ACTION_BYTES, MAX_MESSAGE_BYTES, MAX_PARAMETERS_BYTES};
use tollgate_agent::run::answer::MAX_ANSWER_BYTES;
use tollgate_agent::schema::MAX_SCHEMA_BYTES;
use tollgate_agent::state::change::{MAX_MUTATION_BYTES, MAX_MUTATIONS, MAX_MUTATIONS_BYTES};
use tollgate_agent::text::clean;

/// The maximum number of actions of one call.
const MAX_ACTIONS: usize = 16;
/// The maximum length of a note for the model, in bytes.
const MAX_NOTE_BYTES: usize = 16 * 1024;
/// The maximum length of a tool's error text, in bytes.
const MAX_ERROR_BYTES: usize = 16 * 1024;
/// Texts of at most this many bytes in total are parsed without measuring them first. Their
/// parsed form is at most about a hundred times as large, and every call has room for that.
const UNMEASURED_BYTES: u64 = 4 * 1024;

/// The result of `execute`.
pub(crate) type ContractReturn = Result<types::ToolOutput, types::ToolError>;

/// Returns how many bytes of text the guest returned.
pub(crate) fn returned_bytes(returned: &ContractReturn) -> u64 {
    let bytes = match returned {
        Ok(output) => {
            let mutations: usize = output.mutations.iter().map(|m| m.key.len() + m.update.len()).sum();
            result_bytes(&output.result) + mutations
        }
        Err(error) => error_text(error).1.len(),
    };
    bytes as u64
}

/// Returns how many bytes of text a result has.
pub(super) fn result_bytes(result: &types::ToolResult) -> usize {
    let message = result.message.as_ref().map_or(0, String::len);
    result.data.len() + message + ticket_of(result).map_or(0, ticket_bytes)
}

fn ticket_of(result: &types::ToolResult) -> Option<&types::SuspendTicket> {
    match &result.status {
        types::ToolStatus::Pending(ticket) => ticket.as_ref(),
        _ => None,
    }
}

/// Returns how many bytes of text a ticket has.
pub(super) fn ticket_bytes(ticket: &types::SuspendTicket) -> usize {
    let schema = ticket.response_schema.as_ref().map_or(0, String::len);
    ticket.action.len() + ticket.message.len() + ticket.parameters.len() + schema
}

/// An outcome, and the bytes that were charged to the call's slot for it.
#[derive(Debug)]
pub(crate) struct ChargedOutcome {
    pub(crate) outcome: Outcome,
    pub(crate) bytes: u64,
}

/// Reads the result of `execute`. Lengths and numbers of values are checked, and memory is
/// charged to the slot, before anything is parsed. If `looked_into` is set, the result's
/// data is charged as fully parsed, because it will be searched; otherwise much of it stays text.
///
/// # Errors
/// Fails if the call or the host has no room for the parsed form.
pub(crate) fn lift_returned(
    tool_name: &str,
    returned: ContractReturn,
    looked_into: bool,
    slot: &Slot,
    json_nodes: u32,
) -> Result<ChargedOutcome, Stop> {
    let mut bytes = 0;
    let lifted = match returned {
        Ok(output) => match check(tool_name, &output, looked_into, json_nodes) {
            Ok(held) => {
                slot.charge(held)?;
                bytes = held;
                lift_output(tool_name, output)
            }
            Err(fault) => Err(fault),
        },
        Err(error) => Err(lift_error(tool_name, &error)),
    };
    let outcome = lifted.map_or_else(Outcome::Faulted, Outcome::Returned);
    Ok(ChargedOutcome { outcome, bytes })
}

/// Checks lengths and numbers of values, and returns how many bytes the parsed output takes.
fn check(tool: &str, output: &types::ToolOutput, looked_into: bool, json_nodes: u32) -> Result<u64, Fault> {
    check_mutations(tool, output)?;
    let ticket = ticket_of(&output.result);
    ticket.map(|ticket| check_ticket(tool, ticket)).transpose()?;
    if output.mutations.iter().map(|m| m.update.len()).sum::<usize>() as u64
        + output.result.data.len() as u64
        + ticket.map_or(0, ticket_bytes) as u64
        <= UNMEASURED_BYTES.min(json_nodes.into())
    {
        return Ok(0);
    }
    let (mut nodes, mut bytes) = (NodesLeft::up_to(json_nodes as usize), 0);
    for mutation in &output.mutations {
        // Both the update and the resulting value are held.
        bytes += 2 * count(tool, "its mutations", &mutation.update, &mut nodes)?.parsed_bytes;
    }
    Ok(bytes + held_of_result(tool, &output.result, looked_into, &mut nodes)?)
}

/// Checks lengths and numbers of values of a gate's result, and returns how many bytes it takes
/// once it is parsed.
pub(super) fn check_result(gate: &str, result: &types::ToolResult) -> Result<u64, Fault> {
    ticket_of(result).map(|ticket| check_ticket(gate, ticket)).transpose()?;
    held_of_result(gate, result, false, &mut NodesLeft::up_to(json::MAX_NODES))
}

/// Checks lengths and numbers of values of a gate's question, and returns how many bytes it takes
/// once it is parsed.
pub(super) fn check_question(gate: &str, ticket: &types::SuspendTicket) -> Result<u64, Fault> {
    check_ticket(gate, ticket)?;
    held_of_ticket(gate, ticket, &mut NodesLeft::up_to(json::MAX_NODES))
}

fn held_of_result(
    tool: &str,
    result: &types::ToolResult,
    looked_into: bool,
    nodes: &mut NodesLeft,
) -> Result<u64, Fault> {
    let ticket = ticket_of(result).map(|ticket| held_of_ticket(tool, ticket, nodes)).transpose()?;
    let measure = count(tool, "the data of its result", &result.data, nodes)?;
    let parsed = if looked_into { measure.parsed_bytes } else { 0 };
    Ok(ticket.unwrap_or(0) + parsed + LazyJson::held_bytes(&result.data, &measure))
}

fn held_of_ticket(tool: &str, ticket: &types::SuspendTicket, nodes: &mut NodesLeft) -> Result<u64, Fault> {
    let texts = [Some(&ticket.parameters), ticket.response_schema.as_ref()].into_iter().flatten();
    let held = texts.map(|text| Ok(count(tool, "its ticket", text, nodes)?.parsed_bytes));
    held.sum()
}

fn count(tool: &str, what: &str, text: &str, nodes: &mut NodesLeft) -> Result<Measure, Fault> {
    let measure = json::measure(text.as_bytes());
    nodes.take(&measure).map_err(|why| malformed(tool, what, &why, text))?;
    Ok(measure)
}

/// Checks the length of a ticket's parsed fields.
fn check_ticket(tool: &str, ticket: &types::SuspendTicket) -> Result<(), Fault> {
    let within = |what: &str, bytes: usize, limit: usize| match bytes <= limit {
        true => Ok(()),
        false => Err(Fault::new(
            Code::MalformedOutput,
            format!("'{tool}' returned {what} of {bytes} bytes; the limit is {limit}."),
        )),
    };
    within("parameters of a ticket", ticket.parameters.len(), MAX_PARAMETERS_BYTES)?;
    within("a schema of a ticket", ticket.response_schema.as_ref().map_or(0, String::len), MAX_SCHEMA_BYTES)
}

fn check_mutations(tool: &str, output: &types::ToolOutput) -> Result<(), Fault> {
    let bad = |why: String| Err(Fault::new(Code::BadMutation, format!("Tool '{tool}' returned {why}.")));
    let mutations = &output.mutations;
    if mutations.len() > MAX_MUTATIONS {
        return bad(format!(
            "{} mutations; at most {MAX_MUTATIONS} are accepted from one call",
            mutations.len()
        ));
    }
    if let Some(long) = mutations.iter().find(|mutation| mutation.update.len() > MAX_MUTATION_BYTES) {
        let (key, bytes) = (clean(&long.key, 140), long.update.len());
        return bad(format!(
            "an update of {bytes} bytes for the state key \"{key}\"; the limit is {MAX_MUTATION_BYTES}"
        ));
    }
    let all: usize = mutations.iter().map(|mutation| mutation.key.len() + mutation.update.len()).sum();
    if all > MAX_MUTATIONS_BYTES {
        return bad(format!("mutations of {all} bytes in all; the limit is {MAX_MUTATIONS_BYTES}"));
    }
    Ok(())
}

/// Returns the fault for an error of `validate-args`; the error's kind does not matter.
pub(crate) fn lift_rejection(tool_name: &str, error: &types::ToolError) -> Fault {
    let (_, text) = error_text(error);
    let text = clean(text, MAX_ERROR_BYTES);
    Fault::new(Code::InvalidArguments, format!("The arguments of '{tool_name}' are not accepted: {text}"))
}

fn lift_output(tool: &str, given: types::ToolOutput) -> Result<ToolOutput, Fault> {
    Ok(ToolOutput {
        result: Arc::new(lift_result(tool, given.result)?),
        mutations: given
            .mutations
            .into_iter()
            .map(|m| {
                let update =
                    json::parse_exact(&m.update).map_err(|why| bad_update(tool, &m.key, &why, &m.update))?;
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
        content: Vec::new(),
    })
}

pub(super) fn lift_ticket(tool: &str, given: types::SuspendTicket) -> Result<Ticket, Fault> {
    check_ticket(tool, &given)?;
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

/// Sanitizes a ticket's text. It is not truncated, because a person must see all of it.
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
            "asked for {} actions; at most {MAX_ACTIONS} are accepted from one call",
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
    json::parse_exact(text).map_err(|why| malformed(tool, what, &why, text))
}

/// Returns the fault for an unacceptable update. A number that would change is the mutation's
/// fault; invalid JSON is the output's.
fn bad_update(tool: &str, key: &str, why: &JsonError, text: &str) -> Fault {
    if json::parse(text).is_err() {
        return malformed(tool, "an update of a mutation", why, text);
    }
    let message = format!(
        "Tool '{tool}' returned an update for the state key \"{}\" that is refused: {why}.",
        clean(key, 140)
    );
    Fault::new(Code::BadMutation, message).with_detail(clean(text, 500))
}

fn malformed(tool: &str, what: &str, why: &JsonError, text: &str) -> Fault {
    Fault::new(
        Code::MalformedOutput,
        format!("Tool '{tool}' returned {what} as something that is not acceptable JSON: {why}."),
    )
    .with_detail(clean(text, 500))
}
