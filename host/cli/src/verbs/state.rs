//! `tollgate state`: exports and imports a thread's persistent state as JSON.

use crate::globals::Globals;
use crate::session::OpenSession;
use crate::session::data::{open_store, thread_named};
use crate::terminal::{Exit, Failure, Output, quantity};
use crate::verbs::call::read_stdin;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use tollgate::store::{RunFilter, restore_state};
use tollgate_agent::state::set_aside::{SET_ASIDE, misfits};
use tollgate_agent::state::{KeyScope, KeySet, State};

/// The maximum size of a state on standard input, in bytes.
const MAX_STATE_BYTES: u64 = 1 << 30;

/// Export a thread's persistent state as JSON, or import it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StateVerb {
    #[command(subcommand)]
    way: StateSubcommand,
}

#[derive(Debug, Subcommand)]
enum StateSubcommand {
    /// Print the persistent keys of a thread
    #[command(after_help = EXAMPLES)]
    Export {
        /// The conversation; `last` is the newest one
        thread: String,
    },
    /// Set keys of a thread from standard input, as printed by `export`
    #[command(after_help = EXAMPLES)]
    Import {
        /// The conversation; `last` is the newest one
        thread: String,
        /// Keep keys that no loaded component defines, for when it is loaded again
        #[arg(long)]
        keep_unknown: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  tollgate state export notes > notes.json
  tollgate state import copy-of-notes < notes.json

Under \"set_aside\", `export` prints values that a newer version of their tool rejected, each
under its key and the revision that still had it.";

impl StateVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let store = open_store(globals)?;
        let opened = OpenSession::open(globals, output).await?;
        let keys = opened.loaded.toolbox.catalog().keys();
        match self.way {
            StateSubcommand::Export { thread } => {
                let thread = thread_named(&*store, thread).await?;
                let found = store.thread(&thread).await?;
                let of_thread =
                    RunFilter { thread_id: Some(thread.clone()), limit: 1, ..RunFilter::default() };
                let is_new = found.state.revision() == 0 && found.messages.is_empty();
                if is_new && store.runs(of_thread).await?.is_empty() {
                    return Err(Failure::usage(format!(
                        "there is no thread {}; `{} runs` lists the threads of runs",
                        crate::terminal::text::shown_line(&thread, 80),
                        crate::terminal::program()
                    )));
                }
                let state = found.state;
                for misfit in misfits(keys, &state) {
                    output.warn(&format!(
                        "{} no longer fits its key ({}); the next call in this thread sets it aside",
                        misfit.key,
                        crate::terminal::text::shown_line(&misfit.why, 200)
                    ));
                }
                output.json(&export(&thread, &state, keys));
            }
            StateSubcommand::Import { thread, keep_unknown } => {
                let thread = thread_named(&*store, thread).await?;
                let state = read_state(&read_stdin(MAX_STATE_BYTES)?, keys, keep_unknown)?;
                let revision = restore_state(&*store, &thread, &state).await?;
                if output.is_json() {
                    output.json(&json!({"thread": thread, "revision": revision}));
                } else {
                    let keys = quantity::count(state.iter().count() as u64, "key");
                    output.say(&format!("{keys} set, revision {revision}"));
                }
            }
        }
        Ok(Exit::Done)
    }
}

fn export(thread: &str, state: &State, keys: &KeySet) -> Value {
    let (mut values, mut aside) = (Map::new(), Map::new());
    for (key, value) in state.iter() {
        let kept = keys.get(key).is_none_or(|k| k.persistent && k.scope == KeyScope::Thread);
        match key.strip_prefix(SET_ASIDE) {
            Some(key) => drop(aside.insert(key.to_owned(), value.clone())),
            None if kept => drop(values.insert(key.to_owned(), value.clone())),
            None => {}
        }
    }
    json!({"thread": thread, "revision": state.revision(), "state": values, "set_aside": aside})
}

/// Reads the output of `export`. Nothing is imported unless all of it fits.
fn read_state(text: &str, keys: &KeySet, keep_unknown: bool) -> Result<State, Failure> {
    let read = tollgate_agent::json::parse(text).map_err(|e| {
        Failure::usage(format!("standard input is not valid JSON: {e}; pass the output of `state export`"))
    })?;
    let Some(Value::Object(values)) = read.get("state") else {
        return Err(Failure::usage(
            "standard input has no object \"state\"; pass the output of `state export`",
        ));
    };
    let mut wrong = Vec::new();
    for (key, value) in values {
        match keys.get(key) {
            None if keep_unknown => {}
            None => wrong.push(format!("{key}: no loaded component defines it (--keep-unknown keeps it)")),
            Some(definition) if definition.scope == KeyScope::Run => {
                wrong.push(format!("{key}: its values end with the run"))
            }
            Some(definition) => wrong.extend(definition.refusal(value).map(|why| format!("{key}: {why}"))),
        }
    }
    if wrong.is_empty() {
        let values = values.iter().map(|(key, value)| (key.clone(), value.clone()));
        let aside = read.get("set_aside").and_then(Value::as_object).into_iter().flatten();
        let aside = aside.map(|(key, value)| (format!("{SET_ASIDE}{key}"), value.clone()));
        return Ok(State::restored(0, values.chain(aside)));
    }
    Err(Failure::usage(format!(
        "nothing was imported:\n  {}",
        crate::terminal::text::shown(&wrong.join("\n  "))
    )))
}
