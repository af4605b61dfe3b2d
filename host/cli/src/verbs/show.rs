//! `tollgate show`: shows what happened in a run, as a timeline.

use crate::globals::Globals;
use crate::render::timeline::timeline;
use crate::session::ask::{question_or_way, typed};
use crate::session::data::{find_run, open_store_to_read};
use crate::terminal::output::{BOLD, DIM, shown_line};
use crate::terminal::{Exit, Failure, Output, program, quantity};
use crate::verbs::runs::{started, status};
use clap::Args;
use std::sync::Arc;
use tollgate::store::{Record, RunSummary};
use tollgate_agent::run::event::Suspended;
use tollgate_agent::run::{CallStatus, Event, Run, StoredEvent, Thread};

/// Show what happened in a run: turns, calls, gates, attempts, state, usage
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
        let store = open_store_to_read(globals)?;
        let run = find_run(&store, &self.run).await?;
        let Record { events, damage, .. } = store.record(&run.run_id).await?;
        if let Some(damage) = &damage {
            output.warn(&format!(
                "the record of this run is damaged ({damage}): what follows is what is left of it; `{} store verify` checks every run",
                program()
            ));
        }
        let exit = if damage.is_some() { Exit::Failed } else { Exit::Done };
        if output.is_json() {
            events.iter().for_each(|event| output.json_line(event));
            return Ok(exit);
        }
        output.line(&heading(&run, &events));
        output.write(&timeline(&events));
        say_what_is_open(&run, &events, output);
        Ok(exit)
    }
}

fn heading(run: &RunSummary, events: &[Arc<StoredEvent>]) -> String {
    let asked = match events.first().map(|first| &first.event) {
        Some(Event::RunStarted { spec }) => spec.identity.principal.as_deref(),
        _ => None,
    };
    let asked = asked.map(|name| format!(", asked by {}", shown_line(name, 64))).unwrap_or_default();
    let what = if run.kind == "call" { "a direct call" } else { "a run" };
    let took = quantity::millis(run.updated_at_ms.saturating_sub(run.started_at_ms));
    format!(
        "{BOLD}{}{BOLD:#}  {}\n{DIM}{what} of agent {}, thread {}{asked}, {}, {took} from first to last event{DIM:#}",
        run.run_id,
        status(run),
        shown_line(&run.agent_id, 64),
        shown_line(&run.thread_id, 64),
        started(run.started_at_ms),
    )
}

/// Prints the open questions with the commands that answer them, and how to resume an interrupted
/// run.
fn say_what_is_open(run: &RunSummary, events: &[Arc<StoredEvent>], output: &Output) {
    if ["waiting", "interrupted"].contains(&status(run)) {
        for suspended in waiting(events) {
            let decide = format!("{} decide {} {}", program(), run.run_id, typed(&suspended.call_id));
            output.line(&format!("\n{}", question_or_way(&run.run_id, &suspended)));
            output.line(&format!("answer it: {decide} --resume '...'   or end it: {decide} --cancel"));
        }
    }
    if status(run) == "interrupted" && run.kind != "child" {
        output.line(&format!("\nits process is gone; it goes on with: {} resume {}", program(), run.run_id));
    }
}

/// Returns the unanswered questions, with the arguments of their calls.
fn waiting(events: &[Arc<StoredEvent>]) -> Vec<Arc<Suspended>> {
    let mut run = Run::new(Thread::default());
    // A record that cannot be folded shows as much as it can.
    let _ = events.iter().try_for_each(|event| run.apply(&event.event));
    let waiting = run.calls().iter().filter(|call| call.status == CallStatus::Suspended);
    waiting.filter_map(|call| call.suspended.clone()).collect()
}
