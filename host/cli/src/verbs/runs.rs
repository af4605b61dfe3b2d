//! `tollgate runs`: lists runs, including those that wait for a person.

use crate::globals::Globals;
use crate::session::data::open_store_to_read;
use crate::terminal::output::shown_line;
use crate::terminal::table::{table, text_of};
use crate::terminal::{Exit, Failure, Output};
use clap::Args;
use tollgate::store::{RunFilter, RunSummary};

/// List runs and direct calls, newest first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunsVerb {
    /// Show only runs of this conversation
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Show only runs with this status
    #[arg(long, value_name = "STATUS", value_parser = STATUSES)]
    status: Option<String>,
    /// Show at most N runs
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

const STATUSES: [&str; 7] = ["running", "waiting", "completed", "blocked", "stopped", "cancelled", "failed"];

const EXAMPLES: &str = "\
Examples:
  tollgate runs
  tollgate runs --status waiting
  tollgate runs --thread notes --json | jq '.[0].run_id'";

impl RunsVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let store = open_store_to_read(globals)?;
        let filter = RunFilter {
            thread_id: self.thread,
            status: self.status,
            limit: self.limit,
            ..RunFilter::default()
        };
        let runs = store.runs(filter).await?;
        if output.is_json() {
            output.json(&runs);
        } else if runs.is_empty() {
            output.say("no runs");
        } else {
            output.line(&listing(&runs));
        }
        Ok(Exit::Done)
    }
}

fn listing(runs: &[RunSummary]) -> String {
    let mut rows = table(&["RUN", "STATUS", "STARTED", "AGENT", "THREAD", "WHAT"]);
    for run in runs {
        rows.add_row([
            run.run_id.clone(),
            status(run).to_owned(),
            started(run.started_at_ms),
            shown_line(&run.agent_id, 24),
            shown_line(&run.thread_id, 36),
            shown_line(&run.title, 60),
        ]);
    }
    text_of(&rows)
}

/// Returns the status; a running run without a live process counts as interrupted, unless it waits
/// for its first one.
pub(crate) fn status(run: &RunSummary) -> &str {
    if run.queued {
        return "queued";
    }
    if run.status == "running" && !run.at_work { "interrupted" } else { &run.status }
}

/// Formats a time for people.
pub(crate) fn started(at_ms: u64) -> String {
    let moment = jiff::Timestamp::from_millisecond(i64::try_from(at_ms).unwrap_or(i64::MAX));
    let local =
        moment.map(|at| at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string());
    local.unwrap_or_default()
}
