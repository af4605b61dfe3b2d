//! `tollgate show`: what happened in a run, as a timeline.

use super::ask::question;
use super::data::{find_run, open_store};
use super::narrate::{Narrator, spent};
use super::output::{BOLD, DIM, shown};
use super::runs::status;
use super::{Exit, Failure, Globals, Output, program};
use clap::Args;
use std::sync::Arc;
use tollgate::run::Told;
use tollgate_agent::run::event::Suspended;
use tollgate_agent::run::{Event, Numbered, Task};

/// Shows what happened in a run: turns, calls, gates, attempts, state, usage
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowVerb {
    /// The run's id, or its beginning
    run: String,
}

const EXAMPLES: &str = "\
Examples:
  tollgate show 0192f0a1
  tollgate show 0192f0a1 --json | jq '.type'

With --json every stored event is one line of JSON.";

impl ShowVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let store = open_store(globals)?;
        let run = find_run(&store, &self.run).await?;
        let events = store.events(&run.run_id, 0).await?;
        if output.is_json() {
            events.iter().for_each(|event| output.json_line(event));
            return Ok(Exit::Done);
        }
        output.line(&format!("{BOLD}run {}{BOLD:#}  {}", run.run_id, status(&run)));
        output.line(&format!("{DIM}agent {}, thread {}{DIM:#}", shown(&run.agent_id), shown(&run.thread_id)));
        let mut narrator = Narrator::new(output).timeline_from(run.started_at_ms);
        for event in &events {
            opening(&event.event, output);
            narrator.tell(&Told::Stored(Arc::clone(event)));
        }
        closing(&events, &run.run_id, output);
        Ok(Exit::Done)
    }
}

fn opening(event: &Event, output: &Output) {
    match event {
        Event::RunStarted { spec } if matches!(spec.task, Task::Call { .. }) => output.line("a direct call"),
        Event::MessageAdded { text } => {
            output.line(&format!("{BOLD}>{BOLD:#} {}", shown(text).replace('\n', "\n  ")))
        }
        _ => {}
    }
}

fn closing(events: &[Arc<Numbered>], run_id: &str, output: &Output) {
    match events.last().map(|last| &last.event) {
        Some(Event::RunFinished { text, usage, .. }) => {
            if !text.is_empty() {
                output.line(&shown(text));
            }
            output.line(&format!("{DIM}{}{DIM:#}", spent(usage)));
        }
        Some(Event::RunWaiting) => {
            for suspended in waiting(events) {
                output.line("");
                output.line(&question(suspended));
                output.line(&format!(
                    "answer it: {} decide {run_id} {} --resume '...'",
                    program(),
                    suspended.call_id
                ));
            }
        }
        _ => {}
    }
}

/// The questions that were asked and not answered.
fn waiting(events: &[Arc<Numbered>]) -> Vec<&Suspended> {
    let mut open: Vec<&Suspended> = Vec::new();
    for event in events {
        match &event.event {
            Event::CallSuspended(suspended) => {
                open.retain(|other| other.call_id != suspended.call_id);
                open.push(suspended);
            }
            Event::CallDecided { call_id, .. } => open.retain(|other| &other.call_id != call_id),
            Event::CallFinished(finished) => open.retain(|other| other.call_id != finished.call_id),
            _ => {}
        }
    }
    open
}
