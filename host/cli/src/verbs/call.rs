//! `tollgate call`: makes one call without a model.

use crate::globals::Globals;
use crate::render::attachments::{self, attachments};
use crate::render::narrate::Narrator;
use crate::render::usage::used;
use crate::session::ask::say_how_to_decide;
use crate::session::data::find_thread;
use crate::session::{Opened, host_with, shutdown, warn_of_left_out, with_servers};
use crate::terminal::output::{BAD, BOLD, DIM, shown, shown_line, shown_marked};
use crate::terminal::remedy::of_store;
use crate::terminal::{Exit, Failure, Output, program};
use crate::verbs::resume::follow_and_ask;
use clap::Args;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate::config::Config;
use tollgate::run::{RunEnd, RunHandle};
use tollgate::store::{KeyFilter, StateRead, StoreError, short_id};
use tollgate::tools::Loaded;
use tollgate::{CallRequest, Host};
use tollgate_agent::child::Delegates;
use tollgate_agent::code::Code;
use tollgate_agent::content::ContentPart;
use tollgate_agent::name::server_prefix;
use tollgate_agent::proposal::Arguments;
use tollgate_agent::run::CallEnd;
use tollgate_agent::run::event::{Finished, Suspended};
use tollgate_agent::state::{KeyScope, StateChange};

/// Call one tool: arguments, gate, sandbox and commit as in a run, but no model
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CallVerb {
    /// The tool's name, as `tollgate tools` shows it
    tool: String,
    /// The arguments as a JSON object; `-` reads them from standard input
    #[arg(allow_hyphen_values = true)]
    args: Option<String>,
    /// Use the state of this conversation; `last` is the newest one
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Save the images and files that the tool attaches in this directory
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate call word_count '{\"text\": \"one two three\"}'
  tollgate call json_query - < arguments.json
  tollgate call word_count '{\"path\": \"/docs/README.md\"}' --json | jq .data.words
  tollgate call draw_chart '{\"values\": [1, 2, 3]}' --save charts

With --json, one object is printed:
  {\"tool\", \"call_id\", \"status\", \"data\", \"message\", \"content\", \"suspension\", \"error\",
   \"mutations\", \"usage\"}
where status is success, pending or error. The exit code is 0, 3 or 1; it is 2 if the
arguments are not JSON.";

impl CallVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let arguments = read_arguments(self.args)?;
        let (opened, store) = Opened::open_with_store(globals, output).await?;
        if opened.loaded.toolbox.catalog().tool(&self.tool).is_none() {
            opened.warn_of_refused(output);
        }
        opened.warn_of_tool(&self.tool, output);
        let store = store.opened().await?;
        let names_thread = self.thread.is_none();
        let thread_id = find_thread(&*store, self.thread).await?;
        let loaded = opened.loaded.to_audit();
        let mut config = opened.config.clone();
        keep_needed_servers(&mut config, &opened.loaded, &self.tool);
        let host = host_with(opened, None, |builder| builder.store(store))?;
        host.record_loaded(loaded).await?;
        let servers = with_servers(&host, &config, output).await?;
        if host.toolbox().catalog().tool(&self.tool).is_none() {
            warn_of_left_out(&servers, output);
        }
        let mut request = CallRequest::from_json(self.tool, arguments);
        request.thread_id = thread_id;
        let work = async {
            let handle = host.start_call(request).await?;
            let mut narrator = Narrator::new(output).reports_only();
            let end = follow_and_ask(&host, handle, &mut narrator, globals, output).await?;
            let shown = ShownEnd { save: self.save.as_deref(), names_thread };
            let end = valued(&host, end, output).await;
            let exit = answer(&end, shown, output)?;
            say_how_to_make_room(&host, &end, output).await;
            Ok(exit)
        };
        shutdown::finish(&host, servers, work).await
    }
}

/// Leaves the MCP servers that a call of this tool may need, so that it does not wait for others: none
/// for a component's tool, unless the component may run agents, and one for that server's tool.
fn keep_needed_servers(config: &mut Config, loaded: &Loaded, tool: &str) {
    let provides = |server: &String| tool.starts_with(&server_prefix(server));
    match loaded.component_of(tool) {
        Some(component) if config.grants_of(&component.id).catalog.delegates == Delegates::None => {
            config.servers.clear();
        }
        None if config.servers.keys().any(provides) => config.servers.retain(|server, _| provides(server)),
        _ => {}
    }
}

/// Narrates the call until it has ended; a signal that ends the program cancels it.
pub(crate) async fn follow(mut handle: RunHandle, narrator: &mut Narrator<'_>) -> Result<RunEnd, Failure> {
    let cancellation = handle.cancellation();
    let interrupt = async move {
        shutdown::asked().await;
        cancellation.cancel();
        std::future::pending::<()>().await;
    };
    let told = async {
        while let Some(told) = handle.events.next().await {
            narrator.tell(&told);
        }
    };
    tokio::select! {
        () = told => {}
        () = interrupt => {}
    }
    Ok(handle.wait().await?)
}

/// Says how to make room for the record of a call that was refused for the lack of it.
async fn say_how_to_make_room(host: &Host, end: &RunEnd, output: &Output) {
    let Some(refused) = end.last_call.as_ref().filter(|end| end.end.code() == Some(Code::Overloaded)) else {
        return;
    };
    let toolbox = host.toolbox();
    let owner = toolbox.catalog().tool(&refused.tool_name).map(|tool| tool.owner.id.as_str());
    let admitted = host.store().admit(Some(&end.thread_id), owner).await;
    if let Some(remedy) = admitted.as_ref().err().and_then(StoreError::remedy)
        && !output.is_json()
    {
        output.hint(&format!("{DIM}{}{DIM:#}", of_store(remedy)));
    }
}

/// The maximum size of the changed values that are read to be shown, in bytes: the usual limit of a
/// thread's state.
const MAX_SHOWN_BYTES: u64 = 64 << 20;

/// Returns the same end with the values that the call's updates produced: a record may hold the
/// updates alone. If the values are large or cannot be read, only the updates are shown: the call ran.
pub(crate) async fn valued(host: &Host, mut end: RunEnd, output: &Output) -> RunEnd {
    let finished = end.last_call.iter_mut().filter_map(|finished| Arc::make_mut(finished).change.as_mut());
    let waiting = end.waiting.iter_mut().filter_map(|waiting| Arc::make_mut(waiting).change.as_mut());
    let mut changes: Vec<&mut StateChange> = finished.chain(waiting).collect();
    let wanted = KeyFilter::changed_by(changes.iter().map(|change| &**change));
    match host.store().state(&end.thread_id, &wanted, MAX_SHOWN_BYTES).await {
        Ok(StateRead::State(state)) => {
            changes.iter_mut().for_each(|change| **change = change.standing(&state));
        }
        Ok(StateRead::Larger(_)) => {}
        Err(why) => output.warn(&format!("cannot read the state after the call: {why}")),
    }
    end
}

fn read_arguments(typed: Option<String>) -> Result<Arc<str>, Failure> {
    let text: Arc<str> = match typed.as_deref() {
        None => Arc::default(),
        Some("-") => read_stdin(MAX_INPUT_BYTES)?.into(),
        Some(text) => text.into(),
    };
    let read = Arguments::read(Arc::clone(&text)).map_err(|fault| match text.trim_start().starts_with('{') {
        true => Failure::usage(fault.message),
        false => Failure::usage(format!(
            "the arguments are not JSON; write an object in quotes, such as '{{\"name\": \"Ada\"}}' (got: {})",
            crate::terminal::output::shown_line(&text, 100)
        )),
    })?;
    match read.value() {
        Value::Object(_) => Ok(text),
        other => Err(Failure::usage(format!(
            "the arguments are {}, and must be a JSON object, such as '{{\"text\": \"one two\"}}'",
            kind_of(other)
        ))),
    }
}

/// The maximum size of arguments or a prompt on standard input, in bytes: every limit is at most
/// this.
pub(crate) const MAX_INPUT_BYTES: u64 = 64 << 20;

/// Reads standard input to its end, up to this many bytes.
pub(crate) fn read_stdin(limit_bytes: u64) -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .take(limit_bytes + 1)
        .read_to_string(&mut text)
        .map_err(|e| Failure::usage(format!("standard input cannot be read: {e}")))?;
    if text.len() as u64 > limit_bytes {
        return Err(Failure::usage(format!(
            "standard input has more than {} MiB; send less",
            limit_bytes >> 20
        )));
    }
    Ok(text)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Additions to the answer of a call that has ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShownEnd<'a> {
    /// The directory to save attachments in.
    save: Option<&'a Path>,
    /// Whether the conversation whose state changed is named: the call began it.
    names_thread: bool,
}

/// Shows how a call ended.
pub(crate) fn answer(end: &RunEnd, shown: ShownEnd<'_>, output: &Output) -> Result<Exit, Failure> {
    if let Some(waiting) = end.waiting.first() {
        pending(end, waiting, output);
        return Ok(Exit::Waiting);
    }
    let Some(finished) = &end.last_call else {
        return Err(Failure::failed(format!("the call did not end: {:?}", end.status)));
    };
    if output.is_json() {
        output.json(&finished_json(finished));
    } else {
        show(finished, output);
        if shown.names_thread && keeps_state(finished) {
            let thread = &end.thread_id;
            output
                .hint(&format!("{DIM}kept in a new conversation; continue it with --thread {thread}{DIM:#}"));
        }
    }
    let attached = attachments(&finished.end);
    match shown.save {
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

fn show(finished: &Finished, output: &Output) {
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
    output.hint(&format!("{DIM}{}{DIM:#}", used(&finished.usage)));
}

/// Returns whether a call changed state that outlives it.
fn keeps_state(finished: &Finished) -> bool {
    let updates = finished.change.iter().flat_map(|change| change.updates.iter());
    updates.into_iter().any(|update| update.scope == KeyScope::Thread && update.persistent)
}

/// Returns a fault's message without the advice that only a model can follow.
fn for_people(message: &str) -> &str {
    const FOR_MODELS: [&str; 2] = ["Call only tools that are listed.", "Go on without it."];
    let stripped = FOR_MODELS.iter().find_map(|advice| message.strip_suffix(advice));
    stripped.unwrap_or(message).trim_end()
}

fn finished_json(finished: &Finished) -> Value {
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

fn pending(end: &RunEnd, waiting: &Suspended, output: &Output) {
    if !output.is_json() {
        return say_how_to_decide(end, output);
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
