//! `tollgate show`: shows what happened in a run, as a timeline.

use crate::globals::Globals;
use crate::render::attachments::{self, attachments};
use crate::render::timeline::timeline;
use crate::session::ask::{how_to_decide, question_or_way};
use crate::session::codes::Codes;
use crate::session::data::{find_run, open_store_to_read};
use crate::terminal::output::{BOLD, DIM};
use crate::terminal::text::shown_line;
use crate::terminal::{Exit, Failure, Output, program, quantity};
use crate::verbs::runs::{local_time, status_with_code};
use clap::Args;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use tollgate::store::{Record, RunSummary, short_id};
use tollgate_agent::content::ContentPart;
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Event, Run, StoredEvent, Thread};

/// Show what happened in a run: turns, calls, gates, attempts, state, usage
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowVerb {
    /// The run's id, its beginning, or `last`
    run: String,
    /// Save the images and files that its calls attached in this directory
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate show 9f3c2a71
  tollgate show last --save pictures
  tollgate show 9f3c2a71 --json | jq '.type'

With --json every stored event is one line of JSON.";

impl ShowVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let store = open_store_to_read(globals)?;
        let run = find_run(&*store, &self.run).await?;
        let Record { events, damage, .. } = store.record(&run.run_id).await?;
        if let Some(damage) = &damage {
            output.warn(&format!(
                "the record of this run is damaged ({damage}): the readable part follows; `{} store verify` checks every run",
                program()
            ));
        }
        if let Some(dir) = &self.save {
            attachments::save(events.iter().flat_map(|event| attached(&event.event)), dir, output)?;
        }
        let exit = if damage.is_some() { Exit::Failed } else { Exit::Done };
        if output.is_json() {
            events.iter().for_each(|event| output.json_line(event));
            return Ok(exit);
        }
        output.line(&heading(&run, &events));
        output.write(&timeline(&events));
        say_what_is_open(&run, &events, globals, output).await;
        Ok(exit)
    }
}

/// Returns the attachments of the call that this event ends.
fn attached(event: &Event) -> &[ContentPart] {
    match event {
        Event::CallFinished(finished) => attachments(&finished.end),
        _ => &[],
    }
}

fn heading(run: &RunSummary, events: &[Arc<StoredEvent>]) -> String {
    let asked = match events.first().map(|first| &first.event) {
        Some(Event::RunStarted { spec }) => spec.identity.principal.as_deref(),
        _ => None,
    };
    let asked = asked.map(|name| format!(", asked by {}", shown_line(name, 64))).unwrap_or_default();
    let agent = shown_line(&run.agent_id, 64);
    let what = match run.kind.as_str() {
        "call" if run.agent_id == tollgate::DIRECT_AGENT => "a direct call".to_owned(),
        "call" => format!("a direct call of agent {agent}"),
        _ => format!("a run of agent {agent}"),
    };
    let on =
        run.owner.as_ref().map(|owner| format!(", on {}", shown_line(&owner.name, 64))).unwrap_or_default();
    // The times of a fast call are equal.
    let took = match run.updated_at_ms.saturating_sub(run.started_at_ms) {
        0 => String::new(),
        ms => format!(", {} from first to last event", quantity::millis(ms)),
    };
    format!(
        "{BOLD}{}{BOLD:#}  {}\n{DIM}{what}, thread {}{asked}{on}, {}{took}\nrun {}{DIM:#}",
        short_id(&run.run_id),
        status_with_code(run, events),
        shown_line(&run.thread_id, 64),
        local_time(run.started_at_ms),
        run.run_id,
    )
}

/// Prints the open questions with the commands that answer them, and how to resume an interrupted
/// run.
async fn say_what_is_open(run: &RunSummary, events: &[Arc<StoredEvent>], globals: &Globals, output: &Output) {
    if ["waiting", "interrupted"].contains(&run.shown_status()) {
        let questions = waiting(events);
        let codes = if questions.is_empty() { None } else { Codes::shown(globals, output).await };
        let is_for_terminal = std::io::stdout().is_terminal();
        for suspended in questions {
            output.line(&format!("\n{}", question_or_way(&run.run_id, &suspended, is_for_terminal)));
            output.line(&how_to_decide(&run.run_id, &suspended));
            if let Some(codes) = &codes {
                let code = codes.of(&run.run_id, &suspended.suspension_id);
                output.line(&format!("its code: {BOLD}{code}{BOLD:#}"));
            }
        }
    }
    if run.shown_status() == "interrupted" && run.kind != "child" {
        output.line(&format!(
            "\nits process has ended; to continue: {} resume {}",
            program(),
            short_id(&run.run_id)
        ));
    }
}

/// Returns the unanswered questions, with the arguments of their calls.
fn waiting(events: &[Arc<StoredEvent>]) -> Vec<Arc<SuspendedCall>> {
    let mut run = Run::new(Thread::default());
    // A record that cannot be folded shows as much as it can.
    let _ = events.iter().try_for_each(|event| run.apply(&event.event));
    run.open_questions().cloned().collect()
}
