//! `tollgate audit`: shows what was loaded, granted, refused, called and denied; and `tollgate
//! enable`: puts a disabled tool back into use.

use crate::globals::Globals;
use crate::session::data::{find_run, open_store, open_store_to_read};
use crate::session::{OpenSession, host_with};
use crate::terminal::table::{Column, Table, cell};
use crate::terminal::text::shown_line;
use crate::terminal::{Exit, Failure, Output, quantity};
use crate::verbs::runs::local_time;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tollgate::config::read_period;
use tollgate::store::{AuditFilter, AuditKind, AuditRecord};
use tollgate_agent::outcome::Usage;

/// Show what was loaded, granted, refused, called and denied, newest first
#[derive(Debug, Args)]
#[command(after_help = AUDIT_EXAMPLES)]
pub(crate) struct AuditVerb {
    /// Show only records of this kind
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    kind: Option<String>,
    /// Show only records about this component
    #[arg(long, value_name = "ID")]
    component: Option<String>,
    /// Show only records about this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Show only calls of this run: its id, its beginning, or `last`
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Show only this outcome: `success`, `served`, or a code such as `denied`
    #[arg(long, value_name = "DECISION")]
    decision: Option<String>,
    /// Show only records about this power, such as `http` or `files`
    #[arg(long, value_name = "POWER")]
    power: Option<String>,
    /// Show only records of the last minutes, hours or days, such as 30m, 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = read_period)]
    since: Option<Duration>,
    /// Show at most N records
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

const AUDIT_EXAMPLES: &str = "\
Examples:
  tollgate audit
  tollgate audit --kind denial --since 7d
  tollgate audit --kind grant --power http
  tollgate audit --tool word_count --json | jq '.[] | {decision, usage}'
  tollgate audit --kind load --component notes";

/// Put a tool back into use that was disabled because it trapped too often
#[derive(Debug, Args)]
#[command(after_help = ENABLE_EXAMPLES)]
pub(crate) struct EnableVerb {
    /// The tool's name, as `tollgate tools` shows it
    tool: String,
}

const ENABLE_EXAMPLES: &str = "\
Example:
  tollgate audit --tool word_count --decision trapped    what went wrong
  tollgate enable word_count

A new version of its component is enabled automatically.";

impl AuditVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let store = open_store_to_read(globals)?;
        let kind = |typed: String| AuditKind::ALL.iter().copied().find(|kind| kind.as_str() == typed);
        // A prefix of several long ids stays a prefix.
        let run_id_prefix = match self.run {
            Some(typed) => Some(find_run(&*store, &typed).await.map_or(typed, |run| run.run_id)),
            None => None,
        };
        let records = store
            .audit(AuditFilter {
                kind: self.kind.and_then(kind),
                component_id: self.component,
                tool_name: self.tool,
                run_id_prefix,
                decision: self.decision,
                power: self.power,
                since_ms: self.since.map_or(0, since_ms),
                limit: self.limit,
                ..AuditFilter::default()
            })
            .await?;
        if output.is_json() {
            output.json(&records);
        } else if records.is_empty() {
            output.say("no matching audit records");
        } else {
            output.line(&listing(&records));
        }
        Ok(Exit::Done)
    }
}

impl EnableVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let opened = OpenSession::open(globals, output).await?;
        let store = open_store(globals)?;
        let host = host_with(opened, None, |builder| builder.store(store))?;
        host.refresh_health().await?;
        let catalog = host.toolbox();
        if catalog.catalog().tool(&self.tool).is_some() && catalog.catalog().disabled(&self.tool).is_none() {
            let words = format!("{} is not disabled; nothing was changed", shown_line(&self.tool, 80));
            match output.is_json() {
                true => output.json(&serde_json::json!({"tool": self.tool, "enabled": true})),
                false => output.say(&words),
            }
            return Ok(Exit::Done);
        }
        host.enable(&self.tool).await?;
        if output.is_json() {
            output.json(&serde_json::json!({"tool": self.tool, "enabled": true}));
        } else {
            output.say(&format!("{} is enabled", shown_line(&self.tool, 80)));
        }
        Ok(Exit::Done)
    }
}

fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(AuditKind::ALL.iter().map(|kind| kind.as_str()))
}

pub(crate) fn since_ms(period: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.saturating_sub(period).as_millis()).unwrap_or(u64::MAX)
}

fn listing(records: &[AuditRecord]) -> String {
    let mut table = Table::new(&[
        Column::whole("WHEN", 1),
        Column::whole("WHAT", 0),
        Column::whole("WHO", 4),
        Column::whole("MODEL", 6),
        Column::whole("DECISION", 0),
        Column::whole("ABOUT", 0),
        Column::whole("DIGEST", 7),
        Column::whole("COST", 5),
        Column::text("WHY", 2),
    ]);
    for record in records {
        table.row([
            local_time(record.at_ms),
            record.kind.as_str().to_owned(),
            cell(&record.who),
            record.model.as_deref().map(cell).unwrap_or_default(),
            cell(&record.decision),
            about(record),
            record.digest.as_deref().map(|digest| digest.chars().take(12).collect()).unwrap_or_default(),
            record.usage.map(|usage| cost(&usage)).unwrap_or_default(),
            record.detail.as_deref().map(cell).unwrap_or_default(),
        ]);
    }
    table.text()
}

/// Returns the fuel of a call, marked if it is a lower bound.
fn cost(usage: &Usage) -> String {
    let at_least = if usage.at_least { ">=" } else { "" };
    format!("{at_least}{}", quantity::fuel(usage.fuel))
}

/// Returns the tool, the component or the file, with the power if there is one.
fn about(record: &AuditRecord) -> String {
    let subject = [record.tool_name.as_deref(), record.component_id.as_deref(), record.file.as_deref()]
        .into_iter()
        .flatten()
        .next();
    let subject = subject.map(|subject| shown_line(subject, 40)).unwrap_or_default();
    match &record.power {
        Some(power) => format!("{subject} {}", shown_line(power, 40)),
        None => subject,
    }
}
