//! The end of a direct call, as text and as JSON.

use crate::render::attachments::{self, attachments};
use crate::render::narrate::Narrator;
use crate::session::ask::say_how_to_decide;
use crate::session::follow::{RestingRun, say_how_to_make_room};
use crate::terminal::output::{BAD, BOLD, DIM};
use crate::terminal::quantity::call_usage;
use crate::terminal::text::{shown, shown_line, shown_marked};
use crate::terminal::{Exit, Failure, Output, program};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tollgate::Host;
use tollgate::run::RunEnd;
use tollgate::store::{KeyFilter, StateRead, short_id};
use tollgate_agent::code::Code;
use tollgate_agent::content::ContentPart;
use tollgate_agent::run::CallEnd;
use tollgate_agent::run::event::{FinishedCall, SuspendedCall};
use tollgate_agent::state::{KeyScope, StateChange};

/// The additions of `tollgate call` to the end of its call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallExtras<'a> {
    /// The directory to save attachments in.
    pub(crate) save: Option<&'a Path>,
    /// Whether the conversation whose state changed is named: the call began it.
    pub(crate) names_thread: bool,
}

/// Shows the end of a direct call: its result with the state that it led to, or its open question, and
/// how to make room.
pub(crate) async fn show_call_end(
    host: &Host,
    RestingRun { end, shown }: RestingRun,
    extras: CallExtras<'_>,
    narrator: &Narrator<'_>,
    output: &Output,
) -> Result<Exit, Failure> {
    let end = with_resulting_values(host, end, output).await;
    let exit = match end.waiting.first() {
        Some(waiting) => {
            pending(&end, waiting, shown.as_deref(), output);
            Exit::Waiting
        }
        None => answer(&end, extras, output)?,
    };
    say_how_to_make_room(host, &end, narrator, output).await;
    Ok(exit)
}

/// The maximum size of the changed values that are read to be shown, in bytes: the usual limit of a
/// thread's state.
const MAX_SHOWN_BYTES: u64 = 64 << 20;

/// Returns the same end with the values that the call's updates produced: a record may hold the
/// updates alone. If the values are large or cannot be read, only the updates are shown: the call ran.
async fn with_resulting_values(host: &Host, mut end: RunEnd, output: &Output) -> RunEnd {
    let finished = end.last_call.iter_mut().filter_map(|finished| Arc::make_mut(finished).change.as_mut());
    let waiting = end.waiting.iter_mut().filter_map(|waiting| Arc::make_mut(waiting).change.as_mut());
    let mut changes: Vec<&mut StateChange> = finished.chain(waiting).collect();
    let wanted = KeyFilter::changed_by(changes.iter().map(|change| &**change));
    match host.store().state(&end.thread_id, &wanted, MAX_SHOWN_BYTES).await {
        Ok(StateRead::State(state)) => {
            changes.iter_mut().for_each(|change| **change = change.with_values_of(&state));
        }
        Ok(StateRead::Larger(_)) => {}
        Err(why) => output.warn(&format!("cannot read the state after the call: {why}")),
    }
    end
}

fn answer(end: &RunEnd, extras: CallExtras<'_>, output: &Output) -> Result<Exit, Failure> {
    let Some(finished) = &end.last_call else {
        return Err(Failure::failed(format!("the call did not end: {:?}", end.status)));
    };
    if output.is_json() {
        output.json(&finished_json(finished));
    } else {
        show(finished, output);
        if extras.names_thread && keeps_state(finished) {
            let thread = &end.thread_id;
            output
                .hint(&format!("{DIM}kept in a new conversation; continue it with --thread {thread}{DIM:#}"));
        }
    }
    let attached = attachments(&finished.end);
    match extras.save {
        Some(dir) => attachments::save(attached, dir, output)?,
        None if !output.is_json()
            && attached.iter().any(|part| !matches!(part, ContentPart::Link { .. })) =>
        {
            let run = short_id(&end.run_id);
            output.hint(&format!("{DIM}to save: {} show {run} --save DIR{DIM:#}", program()));
        }
        None => {}
    }
    Ok(if finished.end.code().is_none() { Exit::Done } else { Exit::Failed })
}

/// The longest value that is printed over several lines, in bytes.
const MAX_LAID_OUT_BYTES: usize = 256 * 1024;

fn show(finished: &FinishedCall, output: &Output) {
    match &finished.end {
        CallEnd::Result(result) => {
            if let Some(message) = &result.message {
                let style = if result.is_error() { BAD } else { BOLD };
                output.say(&format!("{style}{}{style:#}", shown_marked(message)));
            }
            // Print a large value as it is: formatting it takes many times its memory.
            match result.data.as_str() {
                _ if result.data.is_null() => {}
                Some(text) => output.line(&shown(text)),
                None if result.data.text().len() > MAX_LAID_OUT_BYTES => {
                    output.line(&shown(&result.data.text()));
                }
                None => {
                    output.line(&shown(&serde_json::to_string_pretty(&*result.data).unwrap_or_default()));
                }
            }
        }
        CallEnd::Fault(fault) => {
            let message = for_people(&fault.message);
            output.say(&format!("{BAD}{}:{BAD:#} {}", fault.code, shown_marked(message)));
            if fault.code == Code::Disabled {
                let name = shown_line(&finished.tool_name, 64);
                output.hint(&format!("{DIM}back into use: {} enable {name}{DIM:#}", program()));
            }
            if fault.code == Code::NotFound {
                output.hint(&format!("{DIM}`{} tools` lists what there is{DIM:#}", program()));
            }
            if let Some(detail) = &fault.detail {
                output.say(&format!("{DIM}{}{DIM:#}", shown_marked(detail)));
            }
        }
    }
    attachments::lines(attachments(&finished.end)).for_each(|line| output.say(&line));
    for update in finished.change.iter().flat_map(|change| change.updates.iter()) {
        output.hint(&format!("{DIM}state {} changed{DIM:#}", shown_line(&update.key, 140)));
    }
    output.hint(&format!("{DIM}{}{DIM:#}", call_usage(&finished.usage)));
}

/// Returns whether a call changed state that outlives it.
fn keeps_state(finished: &FinishedCall) -> bool {
    let updates = finished.change.iter().flat_map(|change| change.updates.iter());
    updates.into_iter().any(|update| update.scope == KeyScope::Thread && update.persistent)
}

/// Returns a fault's message without the advice that only a model can follow.
fn for_people(message: &str) -> &str {
    const FOR_MODELS: [&str; 2] = ["Call only tools that are listed.", "Go on without it."];
    let stripped = FOR_MODELS.iter().find_map(|advice| message.strip_suffix(advice));
    stripped.unwrap_or(message).trim_end()
}

fn finished_json(finished: &FinishedCall) -> Value {
    let content = attachments(&finished.end);
    let (status, data, message, error) = match &finished.end {
        CallEnd::Result(result) => {
            let code = finished.end.code();
            let words = result.message.clone().unwrap_or_default();
            let error = code.map_or(Value::Null, |code| json!({"code": code, "message": words}));
            let status = if result.is_error() { "error" } else { "success" };
            (status, json!(result.data), json!(result.message), error)
        }
        CallEnd::Fault(fault) => {
            ("error", Value::Null, Value::Null, json!({"code": fault.code, "message": fault.message}))
        }
    };
    json!({
        "tool": finished.tool_name,
        "call_id": finished.call_id,
        "status": status,
        "data": data,
        "message": message,
        "content": content,
        "suspension": null,
        "error": error,
        "mutations": mutations(finished.change.as_ref()),
        "usage": finished.usage,
    })
}

fn pending(end: &RunEnd, waiting: &SuspendedCall, shown: Option<&str>, output: &Output) {
    if !output.is_json() {
        return say_how_to_decide(end, shown, output);
    }
    output.json(&json!({
        "tool": waiting.tool_name,
        "call_id": waiting.call_id,
        "run_id": end.run_id,
        "status": "pending",
        "data": null,
        "message": waiting.ticket.message,
        "content": [],
        "suspension": {"id": waiting.suspension_id, "gate": waiting.gate, "ticket": waiting.ticket},
        "error": null,
        "mutations": mutations(waiting.change.as_ref()),
        "usage": waiting.usage,
    }));
}

fn mutations(change: Option<&StateChange>) -> Value {
    let updates = change.into_iter().flat_map(|change| change.updates.iter());
    updates.map(|u| json!({"key": u.key, "update": u.update, "value": u.value})).collect()
}
