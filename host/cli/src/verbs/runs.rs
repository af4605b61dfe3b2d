//! `tollgate runs`: lists runs, including those that wait for a person.

use crate::globals::Globals;
use crate::session::codes::Codes;
use crate::session::data::{find_thread, open_store_to_read};
use crate::terminal::output::DIM;
use crate::terminal::table::{Column, Table, cell};
use crate::terminal::{Exit, Failure, Output, program};
use clap::Args;
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate::run::RunEnd;
use tollgate::store::{RunFilter, RunStore, RunSummary, short_id};
use tollgate_agent::code::Code;
use tollgate_agent::run::{Event, StoredEvent};

/// List runs and direct calls, newest first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunsVerb {
    /// Show only runs of this conversation; `last` is the newest one
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Show only runs with this status
    #[arg(long, value_name = "STATUS", value_parser = STATUSES)]
    status: Option<String>,
    /// Show at most N runs
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

const STATUSES: [&str; 8] =
    ["running", "interrupted", "waiting", "completed", "blocked", "stopped", "cancelled", "failed"];
/// The status of a run whose process has ended. The store lists it as running.
const INTERRUPTED: &str = "interrupted";
/// The number of running runs among which interrupted ones are looked for.
const RUNNING_READ: usize = 10_000;

const EXAMPLES: &str = "\
Examples:
  tollgate runs
  tollgate runs --status waiting
  tollgate runs --thread notes --json | jq '.[0].run_id'

Every verb that takes a run takes its short or long id, the beginning of either, and `last`. On a
terminal, CODE is what `tollgate decide` needs elsewhere.";

impl RunsVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let store = open_store_to_read(globals)?;
        let mut filter = RunFilter {
            thread_id: find_thread(&*store, self.thread).await?,
            status: self.status,
            limit: self.limit.saturating_add(1),
            ..RunFilter::default()
        };
        let only_interrupted = filter.status.as_deref() == Some(INTERRUPTED);
        if only_interrupted {
            (filter.status, filter.limit) = (Some("running".to_owned()), RUNNING_READ);
        }
        let mut runs = store.runs(filter).await?;
        runs.retain(|run| !only_interrupted || run.shown_status() == INTERRUPTED);
        let has_more = runs.len() > self.limit;
        runs.truncate(self.limit);
        let mut listed = Vec::with_capacity(runs.len());
        for run in runs {
            listed.push(RunEntry::of(&*store, run).await?);
        }
        if output.is_json() {
            output.json(&listed.iter().map(RunEntry::as_json).collect::<Vec<_>>());
        } else if listed.is_empty() {
            output.say("no runs");
        } else {
            let waits = listed.iter().any(|listed| listed.waiting.is_some());
            let codes = if waits { Codes::shown(globals, output).await } else { None };
            output.line(&listing(&listed, codes.as_ref()));
            if has_more {
                output.hint(&format!(
                    "{DIM}older runs are not shown; list more: --limit {}{DIM:#}",
                    10 * self.limit.max(1)
                ));
            }
            if waits {
                output.hint(&format!("{DIM}answer what waits: {} decide RUN{DIM:#}", program()));
            }
        }
        Ok(Exit::Done)
    }
}

/// A run with what its record adds to the list.
struct RunEntry {
    run: RunSummary,
    /// The code with which a direct call failed.
    code: Option<Code>,
    /// The run's open questions, if it waits.
    waiting: Option<RunEnd>,
}

impl RunEntry {
    async fn of(store: &dyn RunStore, run: RunSummary) -> Result<Self, Failure> {
        let ended = matches!(run.status.as_str(), "completed" | "failed");
        if !(run.status == "waiting" || run.kind == "call" && ended) {
            return Ok(Self { run, code: None, waiting: None });
        }
        // A damaged record is listed all the same; `show` reports the damage.
        let record = store.events(&run.run_id, 0).await.unwrap_or_default();
        let code = ended.then(|| code_of(&record)).flatten();
        let thread_id = Arc::from(run.thread_id.as_str());
        let waiting = (!ended).then(|| RunEnd::of_record(&record, &thread_id).ok()).flatten();
        Ok(Self { run, code, waiting })
    }

    fn status(&self) -> String {
        match self.code {
            // Earlier versions stored such a run as completed.
            Some(code) => format!("failed ({code})"),
            None => self.run.shown_status().to_owned(),
        }
    }

    fn as_json(&self) -> Value {
        let mut value = json!(self.run);
        value["short_id"] = json!(short_id(&self.run.run_id));
        value["code"] = json!(self.code);
        value
    }
}

/// Returns the code with which the last call of a record ended.
fn code_of(record: &[Arc<StoredEvent>]) -> Option<Code> {
    let mut ends = record.iter().rev().filter_map(|event| match &event.event {
        Event::CallFinished(finished) => Some(finished.end.code()),
        _ => None,
    });
    ends.next().flatten()
}

fn listing(runs: &[RunEntry], codes: Option<&Codes>) -> String {
    let mut columns = vec![Column::whole("RUN", 0), Column::whole("STATUS", 0)];
    columns.extend(codes.map(|_| Column::whole("CODE", 1)));
    columns.extend([
        Column::whole("STARTED", 3),
        Column::whole("AGENT", 4),
        Column::whole("THREAD", 5),
        Column::text("WHAT", 2),
    ]);
    let mut table = Table::new(&columns);
    for listed in runs {
        let run = &listed.run;
        let mut cells = vec![short_id(&run.run_id).to_owned(), listed.status()];
        cells.extend(codes.map(|codes| codes_of(codes, listed)));
        cells.extend([
            local_time(run.started_at_ms),
            cell(&run.agent_id),
            cell(&run.thread_id),
            cell(&run.title),
        ]);
        table.row(cells);
    }
    table.text()
}

/// Returns the codes of a run's open questions.
fn codes_of(codes: &Codes, listed: &RunEntry) -> String {
    let waiting = listed.waiting.iter().flat_map(|end| &end.waiting);
    let each = waiting.map(|asked| codes.of(&listed.run.run_id, &asked.suspension_id));
    each.collect::<Vec<_>>().join(" ")
}

/// Returns the status of a run with the code with which a direct call failed.
pub(crate) fn status_with_code(run: &RunSummary, record: &[Arc<StoredEvent>]) -> String {
    let is_ended_call = run.kind == "call" && matches!(run.status.as_str(), "completed" | "failed");
    match is_ended_call.then(|| code_of(record)).flatten() {
        Some(code) => format!("failed ({code})"),
        None => run.shown_status().to_owned(),
    }
}

/// Formats a time for people.
pub(crate) fn local_time(at_ms: u64) -> String {
    let moment = jiff::Timestamp::from_millisecond(i64::try_from(at_ms).unwrap_or(i64::MAX));
    let local =
        moment.map(|at| at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string());
    local.unwrap_or_default()
}
