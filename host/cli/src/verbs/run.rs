//! `tollgate run`: runs an agent on a prompt.

use crate::globals::Globals;
use crate::render::narrate::Narrator;
use crate::session::data::{OpeningStore, agent_of_thread, find_thread, open_store_to_read, thread_named};
use crate::session::follow::{follow_and_ask, show_run_end};
use crate::session::models::model_to_run;
use crate::session::{OpenSession, finish, host_with, shutdown, with_servers};
use crate::terminal::{Exit, Failure, Output};
use crate::verbs::call::{MAX_INPUT_BYTES, read_stdin};
use crate::verbs::resume::{interrupted_on, say_finished};
use clap::Args;
use std::io::IsTerminal;
use std::sync::Arc;
use tollgate::config::{Config, DEFAULT_AGENT};
use tollgate::{Busy, Host, HostError, RunOptions, RunRequest};
use tollgate_agent::name;

/// Run an agent, which answers the prompt and calls its tools on the way
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunVerb {
    /// The prompt; `-` reads it from standard input
    prompt: Option<String>,
    /// Run this agent of [agents.ID] [default: the conversation's, `default`, or the only one]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Continue this conversation; `last` is the newest one
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Wait for the conversation's current run to finish instead of failing
    #[arg(long)]
    queue: bool,
    /// Queue the run for a host that works (`tollgate work`), and print its id
    #[arg(long, conflicts_with_all = ["queue", "model"])]
    submit: bool,
    /// Use this model instead of the configured one: NAME, or PROVIDER/NAME
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Limit the model's turns of this run
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,
    /// Limit the tool calls of this run
    #[arg(long, value_name = "N")]
    max_calls: Option<u32>,
    /// Limit the tokens of this run, read and written
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// Limit the wall time of this run, in seconds
    #[arg(long, value_name = "SECONDS")]
    max_seconds: Option<u64>,
    /// Limit each call of a tool that states no timeout, in seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate run \"Which of our documents speaks of gates?\"
  tollgate run --agent reviewer --model anthropic/claude-sonnet-4-5 \"Review CHANGES.md\"
  tollgate run --model recorded/turns.toml \"Play what was written down\"
  git log -5 | tollgate run - --json

The answer goes to standard output, progress to standard error. With --json every event is one
line of JSON on standard output. PROVIDER is openai, anthropic, gemini,
ollama or recorded; the model of every run is set in [model] of tollgate.toml.";

impl RunVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let prompt = read_prompt(self.prompt)?;
        let config = globals.read_config()?;
        let agent_id = agent_to_run(self.agent, self.thread.as_deref(), globals, &config).await?;
        if self.submit {
            return submit(agent_id, prompt, self.thread, globals, output).await;
        }
        let model = model_to_run(self.model.as_deref(), &agent_id, &config)?;
        let store = OpeningStore::begin(globals, &config)?;
        let opened = OpenSession::load(config, output).await?;
        opened.warn_of_notices(output);
        let store = store.opened().await?;
        let thread_id = find_thread(&*store, self.thread).await?;
        let sandbox = opened.sandbox.clone();
        let watched = (Arc::new(opened.config.clone()), opened.loaded.clone());
        let running = model.map(|model| (agent_id.as_str(), model));
        let host = host_with(opened, running, |builder| builder.store(store))?;
        host.record_loaded(watched.1.to_audit()).await?;
        let servers = with_servers(&host, &watched.0, output).await?;
        // A conversation may last: a tool that is built meanwhile is available from the next turn.
        let (_watch, unwatched) = host.watch(sandbox, watched.0, &watched.1);
        unwatched.iter().for_each(|why| tracing::debug!("{why}"));
        let mut request = RunRequest::new(agent_id, prompt).with_options(RunOptions {
            model_turns: self.max_turns,
            tool_calls: self.max_calls,
            tokens: self.max_tokens,
            wall_ms: self.max_seconds.map(|seconds| seconds.saturating_mul(1_000)),
            timeout_ms: self.timeout.map(|seconds| seconds.saturating_mul(1_000)),
        });
        request.thread_id = thread_id;
        request.busy = if self.queue { Busy::Queue } else { Busy::Refuse };
        finish(&host, servers, run(&host, &request, globals, output)).await
    }
}

/// Queues a run, and prints its id.
async fn submit(
    agent_id: String,
    prompt: String,
    thread: Option<String>,
    globals: &Globals,
    output: &Output,
) -> Result<Exit, Failure> {
    let (opened, store) = OpenSession::open_with_store(globals, output).await?;
    let store = store.opened().await?;
    let host = host_with(opened, None, |builder| builder.store(store))?;
    let mut request = RunRequest::new(agent_id, prompt);
    request.thread_id = thread;
    let run_id = host.submit(request).await?;
    host.store().close().await?;
    match output.is_json() {
        true => output.json(&serde_json::json!({"run_id": run_id})),
        false => output.line(&run_id),
    }
    Ok(Exit::Done)
}

/// Runs the agent. If the conversation's last run was interrupted and asks something after its
/// recovery, that question comes first; while it is open, the message is not sent.
async fn run(host: &Host, request: &RunRequest, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
    let mut narrator = Narrator::new(output);
    let interrupted = interrupted_on(host, request.thread_id.as_deref()).await?;
    let rested = loop {
        let begun = async { Ok::<_, Failure>(host.run(request.clone()).await) };
        let recovered = match shutdown::unless_asked(begun).await? {
            Ok(handle) => {
                say_finished(host, interrupted, output).await?;
                break follow_and_ask(host, handle, &mut narrator, globals, output).await?;
            }
            Err(HostError::Waiting(run_id)) => run_id,
            Err(e) => return Err(e.into()),
        };
        output.warn(&format!(
            "the run {recovered} of this conversation was interrupted, and waits for an answer"
        ));
        let handle = host.recover(&recovered).await?;
        let rested = follow_and_ask(host, handle, &mut narrator, globals, output).await?;
        if !rested.end.waiting.is_empty() {
            output.warn("the message was not sent; answer first, or send it again to skip the question");
            break rested;
        }
    };
    Ok(show_run_end(host, &rested, &narrator, output).await)
}

fn read_prompt(typed: Option<String>) -> Result<String, Failure> {
    let piped = || !std::io::stdin().is_terminal();
    let prompt = match typed.as_deref() {
        Some("-") => read_stdin(MAX_INPUT_BYTES)?,
        Some(prompt) => prompt.to_owned(),
        None if piped() => read_stdin(MAX_INPUT_BYTES)?,
        None => String::new(),
    };
    match prompt.trim() {
        "" => Err(Failure::usage("missing prompt; pass it as an argument, or `-` to read standard input")),
        prompt => Ok(prompt.to_owned()),
    }
}

/// Returns the agent that `--agent` names; else the one that last ran on this thread; else the one of
/// [`chosen_agent`].
pub(crate) async fn agent_to_run(
    named: Option<String>,
    thread: Option<&str>,
    globals: &Globals,
    config: &Config,
) -> Result<String, Failure> {
    let last = match (&named, thread) {
        (None, Some(thread)) => {
            let store = open_store_to_read(globals)?;
            let thread_id = thread_named(&*store, thread.to_owned()).await?;
            agent_of_thread(&*store, &thread_id).await?
        }
        _ => None,
    };
    chosen_agent(named.or(last), config)
}

/// Returns the agent that the option names; else `default`; else the only configured one.
pub(crate) fn chosen_agent(named: Option<String>, config: &Config) -> Result<String, Failure> {
    let known: Vec<&str> =
        config.agents.keys().map(String::as_str).filter(|id| *id != tollgate::DIRECT_AGENT).collect();
    match named {
        Some(id) if known.contains(&id.as_str()) => Ok(id),
        Some(id) => {
            let hint = name::did_you_mean(&id, known.iter().copied()).unwrap_or_else(|| ";".to_owned());
            Err(Failure::usage(format!(
                "there is no agent `{}` in {}{hint} known: {}",
                crate::terminal::text::shown_line(&id, 80),
                config.name(),
                known.join(", ")
            )))
        }
        None => match known.as_slice() {
            [only] => Ok((*only).to_owned()),
            _ if known.contains(&DEFAULT_AGENT) => Ok(DEFAULT_AGENT.to_owned()),
            _ => Err(Failure::usage(format!("choose an agent: --agent {}", known.join(" or --agent ")))),
        },
    }
}
