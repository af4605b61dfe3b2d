//! `tollgate hosts`: lists the hosts that share a database.

use crate::globals::Globals;
use crate::session::database::{connect, required_database, show_warnings};
use crate::terminal::table::{Column, Table};
use crate::terminal::text::shown_line;
use crate::terminal::{Exit, Failure, Output, program};
use crate::verbs::runs::local_time;
use clap::Args;
use std::collections::BTreeSet;
use tollgate::store::StoreLimits;
use tollgate_postgres::HostRow;

/// List the hosts that share the database, and the runs that they drive
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HostsVerb {
    /// Also show hosts that are gone, of the last day
    #[arg(long)]
    all: bool,
}

const EXAMPLES: &str = "\
Examples:
  tollgate hosts
  tollgate hosts --all --json | jq '.[] | select(.state == \"dead\")'

A run uses the tools of the host that claims it. A warning names the tools that hosts have in different
versions: run `tollgate sync --locked` on each.";

impl HostsVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let store = connect(&required_database(globals)?, StoreLimits::default(), None).await?;
        show_warnings(&store, output).await?;
        let mut hosts = store.hosts().await?;
        hosts.retain(|host| self.all || host.state != "dead");
        differences(&hosts).iter().for_each(|difference| output.warn(difference));
        if output.is_json() {
            output.json(&hosts);
        } else if hosts.is_empty() {
            output.say("no hosts");
        } else {
            output.line(&listing(&hosts));
        }
        Ok(Exit::Done)
    }
}

fn listing(hosts: &[HostRow]) -> String {
    let mut rows = Table::new(&[
        Column::whole("HOST", 0),
        Column::text("NAME", 3),
        Column::whole("STATE", 0),
        Column::whole("STARTED", 4),
        Column::whole("LEASE", 2),
        Column::whole("RUNS", 1),
        Column::text("AGENTS", 5),
        Column::whole("VERSION", 6),
    ]);
    for host in hosts {
        let lease = match host.state.as_str() {
            "up" | "late" => format!("{:.1} s", host.lease_left_ms as f64 / 1_000.0),
            _ => String::new(),
        };
        rows.row([
            host.id.clone(),
            shown_line(&host.name, 40),
            host.state.clone(),
            local_time(host.started_at_ms),
            lease,
            host.runs.to_string(),
            shown_line(&host.agents.join(", "), 60),
            shown_line(&host.version, 20),
        ]);
    }
    let mut text = rows.text();
    for (host, unserved) in hosts.iter().flat_map(|host| host.unserved.iter().map(move |why| (host, why))) {
        let name = shown_line(&host.name, 40);
        text.push_str(&format!("\n{name} does not serve {}", shown_line(unserved, 300)));
    }
    text
}

/// The number of tools that are named if hosts differ.
const MAX_NAMED: usize = 10;

/// Returns how the hosts that serve agents differ, one sentence each.
pub(crate) fn differences(hosts: &[HostRow]) -> Vec<String> {
    let serving: Vec<&HostRow> =
        hosts.iter().filter(|host| host.state != "dead" && !host.config.is_empty()).collect();
    let Some((first, others)) = serving.split_first() else { return Vec::new() };
    let mut differences = Vec::new();
    let tools = |host: &HostRow| host.tools.iter().cloned().collect::<BTreeSet<_>>();
    let of_first = tools(first);
    let mut differing = BTreeSet::new();
    for other in others {
        let different = of_first.symmetric_difference(&tools(other)).cloned().collect::<Vec<_>>();
        differing.extend(different.iter().map(|tool| tool.split(' ').next().unwrap_or_default().to_owned()));
    }
    if !differing.is_empty() {
        let more = differing.len().saturating_sub(MAX_NAMED);
        let mut named: Vec<String> =
            differing.iter().take(MAX_NAMED).map(|name| shown_line(name, 64)).collect();
        if more > 0 {
            named.push(format!("{more} more"));
        }
        differences.push(format!(
            "hosts serve different tools: {}; run `{} sync --locked` on each",
            named.join(", "),
            program()
        ));
    }
    if others.iter().any(|other| other.config != first.config) {
        let words = "hosts have different configurations of agents; give each the same tollgate.toml";
        differences.push(words.to_owned());
    }
    differences
}
