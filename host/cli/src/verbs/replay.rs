//! `tollgate replay`: repeats a run's calls from the record.

use crate::globals::Globals;
use crate::session::data::{find_run, open_store_to_read};
use crate::session::{OpenSession, host_with};
use crate::terminal::output::{BAD, BOLD, GOOD, WAITS};
use crate::terminal::text::shown_line;
use crate::terminal::{Exit, Failure, Output};
use clap::Args;
use std::sync::Arc;
use tollgate::replay::{ReplayReport, ReplayedAttempt};
use tollgate::tools::ArchivedTools;
use tollgate_agent::run::replay::Finding;

/// Run a run's calls again from the record, and report where they differ
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayVerb {
    /// The run's id, its beginning, or `last`
    run: String,
}

const EXAMPLES: &str = "\
Examples:
  tollgate replay 9f3c2a71
  tollgate replay 9f3c2a71 --json | jq '.attempts[] | select(.finding != \"same\")'

Each call receives the recorded inputs: arguments, state, decisions, the clocks' readings,
its random numbers, and the component as it was. Nothing is stored or changed.

The exit code is 0 if every result is the same, and 1 if one differs or cannot be replayed.";

/// The maximum number of characters of a value on one line.
const LINE_CHARS: usize = 100;

impl ReplayVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let store = open_store_to_read(globals)?;
        let run = find_run(&*store, &self.run).await?;
        let opened = OpenSession::open(globals, output).await?;
        let kept = ArchivedTools::new(opened.sandbox.clone(), opened.config.clone());
        let host = host_with(opened, None, |builder| builder.store(store))?;
        let replayed = host.replay(&run.run_id, Some(Arc::new(kept))).await?;
        if output.is_json() {
            output.json(&replayed);
        } else {
            show(&replayed, output);
        }
        Ok(if replayed.is_same() { Exit::Done } else { Exit::Failed })
    }
}

fn show(replayed: &ReplayReport, output: &Output) {
    for attempt in &replayed.attempts {
        output.line(&line(attempt));
    }
    let of = |wanted: fn(&Finding) -> bool| replayed.attempts.iter().filter(|a| wanted(&a.finding)).count();
    let same = of(|finding| *finding == Finding::Same);
    let differ = of(|finding| matches!(finding, Finding::Differs(_)));
    let not = of(|finding| matches!(finding, Finding::NotReplayable { .. }));
    output.line(&format!("{same} the same, {differ} different, {not} not replayable"));
}

fn line(attempt: &ReplayedAttempt) -> String {
    let ReplayedAttempt { call_id, tool_name, attempt: number, event, finding } = attempt;
    let which = format!(
        "{BOLD}{}{BOLD:#} {}, attempt {number}, event {event}",
        shown_line(call_id, 60),
        shown_line(tool_name, 60)
    );
    let value = |value: &Option<String>| {
        value.as_deref().map_or_else(|| "nothing".to_owned(), |value| shown_line(value, LINE_CHARS))
    };
    match finding {
        Finding::Same => format!("{which}: {GOOD}the same{GOOD:#}"),
        Finding::NotReplayable { why } => {
            format!("{which}: {WAITS}not replayable{WAITS:#}: {}", shown_line(why, 300))
        }
        Finding::Differs(difference) => format!(
            "{which}: {BAD}different{BAD:#} at {}\n  recorded: {}\n  now:      {}",
            shown_line(&difference.place, 200),
            value(&difference.recorded),
            value(&difference.now)
        ),
    }
}
