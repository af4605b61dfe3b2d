//! `tollgate hosts`: lists the hosts that share a database.

use crate::globals::Globals;
use crate::session::database::{connect, required_database, show_warnings};
use crate::terminal::output::shown_line;
use crate::terminal::table::{Column, Table};
use crate::terminal::{Exit, Failure, Output};
use crate::verbs::runs::started;
use clap::Args;
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

A run uses the tools of the host that claims it, and tools are not compared: run `tollgate sync --locked`
on each machine.";

impl HostsVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let store = connect(&required_database(globals)?, StoreLimits::default(), None).await?;
        show_warnings(&store, output).await?;
        let mut hosts = store.hosts().await?;
        hosts.retain(|host| self.all || host.state == "up");
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
            "up" => format!("{:.1} s", host.lease_left_ms as f64 / 1_000.0),
            _ => String::new(),
        };
        rows.row([
            host.id.clone(),
            shown_line(&host.name, 40),
            host.state.clone(),
            started(host.started_at_ms),
            lease,
            host.runs.to_string(),
            shown_line(&host.agents.join(", "), 60),
            shown_line(&host.version, 20),
        ]);
    }
    rows.text()
}
