//! `tollgate chat`: a conversation with an agent at the terminal.

use crate::globals::Globals;
use crate::render::narrate::Narrator;
use crate::session::data::{OpeningStore, find_thread};
use crate::session::follow::{follow_and_ask, say_how_to_make_room};
use crate::session::models::model_to_run;
use crate::session::{OpenSession, ask, finish, host_with, shutdown, with_servers};
use crate::terminal::output::{BOLD, DIM, NAME};
use crate::terminal::text::{shown, shown_line};
use crate::terminal::{Exit, Failure, Output, program, quantity};
use crate::verbs::resume::{interrupted_on, say_finished};
use crate::verbs::run::agent_to_run;
use clap::Args;
use std::io::IsTerminal as _;
use std::sync::Arc;
use tollgate::{Busy, Host, HostError, RunRequest};
use tollgate_agent::message::Message;
use uuid::Uuid;

/// Talk with an agent: its answers as they are written, its questions, and its history
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ChatVerb {
    /// Talk with this agent of [agents.ID] [default: the conversation's, `default`, or the only one]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Continue this conversation; `last` is the newest one [default: a new one]
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Use this model instead of the configured one: NAME, or PROVIDER/NAME
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate chat
  tollgate chat --thread last
  tollgate chat --agent reviewer --model ollama/qwen3

Type a message and Enter. A line that begins with a slash is for the program:
  /history   the conversation so far
  /reasoning shows the model's reasoning, or folds it again
  /thread    how to continue this conversation later
  /help      this list
  /exit      leave; so do /quit, Ctrl-D and Ctrl-C";

const COMMANDS: &str = "/history  /reasoning  /thread  /help  /exit";

impl ChatVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        if output.is_json() {
            return Err(Failure::usage(
                "a conversation has no JSON form; use `tollgate run --thread ID --json`",
            ));
        }
        let config = globals.read_config()?;
        let agent_id = agent_to_run(self.agent, self.thread.as_deref(), globals, &config).await?;
        let model = model_to_run(self.model.as_deref(), &agent_id, &config)?;
        let store = OpeningStore::begin(globals, &config)?;
        let opened = OpenSession::load(config, output).await?;
        opened.warn_of_notices(output);
        let store = store.opened().await?;
        let thread_id =
            find_thread(&*store, self.thread).await?.unwrap_or_else(|| Uuid::now_v7().to_string());
        let sandbox = opened.sandbox.clone();
        let watched = (Arc::new(opened.config.clone()), opened.loaded.clone());
        let running = model.map(|model| (agent_id.as_str(), model));
        let host = host_with(opened, running, |builder| builder.store(store))?;
        host.record_loaded(watched.1.to_audit()).await?;
        let servers = with_servers(&host, &watched.0, output).await?;
        let (_watch, unwatched) = host.watch(sandbox, watched.0, &watched.1);
        unwatched.iter().for_each(|why| tracing::debug!("{why}"));
        let mut chat = Chat { host: &host, agent_id, thread_id, shows_reasoning: false, globals, output };
        finish(&host, servers, chat.talk()).await
    }
}

struct Chat<'a> {
    host: &'a Host,
    agent_id: String,
    thread_id: String,
    shows_reasoning: bool,
    globals: &'a Globals,
    output: &'a Output,
}

impl Chat<'_> {
    async fn talk(&mut self) -> Result<Exit, Failure> {
        let known = self.host.store().thread(&self.thread_id).await?.messages.len() as u64;
        let before =
            if known > 0 { format!(", {} so far", quantity::count(known, "message")) } else { String::new() };
        self.output.hint(&format!(
            "{DIM}talking with {}{before}; {COMMANDS}{DIM:#}",
            shown_line(&self.agent_id, 64)
        ));
        loop {
            if std::io::stdin().is_terminal() {
                self.output.prompt(&format!("{BOLD}>{BOLD:#} "));
            }
            let line = tokio::select! {
                line = ask::typed_line() => line?,
                () = shutdown::wait_for_signal() => None,
            };
            let Some(line) = line else { break };
            match line.trim() {
                "" => {}
                "/exit" | "/quit" => break,
                "/history" => self.history().await?,
                "/reasoning" => {
                    self.shows_reasoning = !self.shows_reasoning;
                    let words = if self.shows_reasoning { "shown" } else { "folded" };
                    self.output.say(&format!("{DIM}reasoning is {words}{DIM:#}"));
                }
                "/thread" => match self.how_to_continue().await? {
                    Some(how) => self.output.say(&how),
                    None => self.output.say(&format!("{DIM}the conversation has no messages yet{DIM:#}")),
                },
                command if command.starts_with('/') && !command.contains(' ') => {
                    let unknown = match command {
                        "/help" => String::new(),
                        other => format!("unknown command {}; known: ", shown_line(other, 40)),
                    };
                    self.output.say(&format!("{DIM}{unknown}{COMMANDS}{DIM:#}"));
                }
                message => match self.send(message).await {
                    Ok(()) => {}
                    // The conversation goes on: a provider may answer the next message.
                    Err(why) => self.output.error(&why),
                },
            }
            if shutdown::is_asked() {
                break;
            }
        }
        if let Some(how) = self.how_to_continue().await? {
            self.output.hint(&how);
        }
        Ok(Exit::Done)
    }

    async fn send(&self, message: &str) -> Result<(), Failure> {
        let mut request = RunRequest::new(self.agent_id.clone(), message);
        request.thread_id = Some(self.thread_id.clone());
        request.busy = Busy::Queue;
        let mut narrator = Narrator::new(self.output).in_a_conversation(self.shows_reasoning);
        let interrupted = interrupted_on(self.host, Some(&self.thread_id)).await?;
        let handle = match self.host.run(request).await {
            Err(HostError::Waiting(run_id)) => {
                self.output.warn("an earlier message was interrupted; its question comes first");
                self.host.recover(&run_id).await?
            }
            handle => {
                let handle = handle?;
                say_finished(self.host, interrupted, self.output).await?;
                handle
            }
        };
        let rested = follow_and_ask(self.host, handle, &mut narrator, self.globals, self.output).await?;
        narrator.finish(&rested.end);
        if !rested.end.waiting.is_empty() {
            self.output.hint(&format!("{DIM}the question stays open; your next message leaves it{DIM:#}"));
        }
        say_how_to_make_room(self.host, &rested.end, &narrator, self.output).await;
        Ok(())
    }

    async fn history(&self) -> Result<(), Failure> {
        let messages = self.host.store().thread(&self.thread_id).await?.messages;
        for message in messages.iter() {
            match message {
                Message::User(text) => self.output.say(&format!("{BOLD}>{BOLD:#} {}", shown(text))),
                Message::Assistant(said) => {
                    if !said.text.trim().is_empty() {
                        self.output.line(&shown(&said.text));
                    }
                    for call in said.calls.iter() {
                        self.output.say(&format!("  {NAME}→ {}{NAME:#}", shown_line(&call.name, 64)));
                    }
                }
                Message::Answer(_) | Message::Note(_) => {}
            }
        }
        Ok(())
    }

    /// Returns the command that continues the conversation; `None` if it has no messages.
    async fn how_to_continue(&self) -> Result<Option<String>, Failure> {
        if self.host.store().thread(&self.thread_id).await?.messages.is_empty() {
            return Ok(None);
        }
        let (program, thread_id) = (program(), tollgate_agent::text::quoted(&self.thread_id));
        Ok(Some(format!("{DIM}continue later: {program} chat --thread {thread_id}{DIM:#}")))
    }
}
