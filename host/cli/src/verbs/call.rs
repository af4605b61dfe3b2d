//! `tollgate call`: makes one call without a model.

use crate::globals::Globals;
use crate::render::narrate::Narrator;
use crate::session::call_end::{CallExtras, show_call_end};
use crate::session::data::find_thread;
use crate::session::follow::follow_and_ask;
use crate::session::{OpenSession, finish, host_with, warn_of_left_out, with_servers};
use crate::terminal::{Exit, Failure, Output};
use clap::Args;
use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use tollgate::CallRequest;
use tollgate::config::Config;
use tollgate::tools::LoadedTools;
use tollgate_agent::name::server_prefix;
use tollgate_agent::proposal::Arguments;

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
        let (opened, store) = OpenSession::open_with_store(globals, output).await?;
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
            let rested = follow_and_ask(&host, handle, &mut narrator, globals, output).await?;
            let extras = CallExtras { save: self.save.as_deref(), names_thread };
            show_call_end(&host, rested, extras, &narrator, output).await
        };
        finish(&host, servers, work).await
    }
}

/// Leaves the MCP servers that a call of this tool may need, so that it does not wait for others: none
/// for a component's tool, unless the component may run agents, and one for that server's tool.
fn keep_needed_servers(config: &mut Config, loaded: &LoadedTools, tool: &str) {
    let provides = |server: &String| tool.starts_with(&server_prefix(server));
    match loaded.component_of(tool) {
        Some(component) if config.grants_of(&component.id).delegates().next().is_none() => {
            config.servers.clear();
        }
        None if config.servers.keys().any(provides) => config.servers.retain(|server, _| provides(server)),
        _ => {}
    }
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
            crate::terminal::text::shown_line(&text, 100)
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
