//! `tollgate state`: a thread's persistent state as JSON, out and in.

use super::call::read_stdin;
use super::data::open_store;
use super::{Exit, Failure, Globals, Opened, Output};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use tollgate_agent::state::{KeyScope, KeySet, State};

/// Writes a thread's persistent state as JSON, or reads it back
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StateVerb {
    #[command(subcommand)]
    way: Way,
}

#[derive(Debug, Subcommand)]
enum Way {
    /// Prints the persistent keys of a thread
    Export {
        /// The thread
        thread: String,
    },
    /// Sets keys of a thread from standard input, as `export` printed them
    Import {
        /// The thread
        thread: String,
        /// Keep keys that nothing loaded defines, for when it is loaded again
        #[arg(long)]
        keep_unknown: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  tollgate state export notes > notes.json
  tollgate state import copy-of-notes < notes.json";

impl StateVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let store = open_store(globals)?;
        let opened = Opened::open(globals, output).await?;
        let keys = opened.loaded.toolbox.catalog().keys();
        match self.way {
            Way::Export { thread } => {
                let state = store.thread(&thread).await?.state;
                let values: Map<String, Value> = state
                    .iter()
                    .filter(|(key, _)| {
                        keys.get(key).is_none_or(|k| k.persistent && k.scope == KeyScope::Thread)
                    })
                    .map(|(key, value)| (key.to_owned(), value.clone()))
                    .collect();
                output.json(&json!({"thread": thread, "revision": state.revision(), "state": values}));
            }
            Way::Import { thread, keep_unknown } => {
                let state = read_state(&read_stdin()?, keys, keep_unknown)?;
                let revision = store.restore(&thread, &state).await?;
                if output.is_json() {
                    output.json(&json!({"thread": thread, "revision": revision}));
                } else {
                    output.say(&format!("{} keys set, revision {revision}", state.iter().count()));
                }
            }
        }
        Ok(Exit::Done)
    }
}

/// Reads what `export` printed. Nothing is imported unless all of it fits.
fn read_state(text: &str, keys: &KeySet, keep_unknown: bool) -> Result<State, Failure> {
    let read = tollgate_agent::json::parse(text).map_err(|e| {
        Failure::usage(format!("standard input is no JSON: {e}; it takes what `state export` prints"))
    })?;
    let Some(Value::Object(values)) = read.get("state") else {
        return Err(Failure::usage(
            "there is no object \"state\" in what was read; it takes what `state export` prints",
        ));
    };
    let mut wrong = Vec::new();
    for (key, value) in values {
        match keys.get(key) {
            None if keep_unknown => {}
            None => wrong.push(format!("{key}: nothing that is loaded defines it (--keep-unknown keeps it)")),
            Some(definition) if definition.scope == KeyScope::Run => {
                wrong.push(format!("{key}: it ends with the run"))
            }
            Some(definition) => {
                let violations = definition.schema.as_ref().map(|s| s.violations(value)).unwrap_or_default();
                wrong
                    .extend(violations.first().map(|v| format!("{key}: {} at \"{}\"", v.problem, v.pointer)));
                if !definition.reducer.accepts(value) {
                    wrong.push(format!(
                        "{key}: its reducer {} does not take the value",
                        definition.reducer.as_str()
                    ));
                }
            }
        }
    }
    if wrong.is_empty() {
        return Ok(State::restored(0, values.iter().map(|(key, value)| (key.clone(), value.clone()))));
    }
    Err(Failure::usage(format!("nothing was imported:\n  {}", super::output::shown(&wrong.join("\n  ")))))
}
