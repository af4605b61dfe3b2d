//! `tollgate work`: claims queued and interrupted runs of a shared database, and drives them.

use crate::globals::Globals;
use crate::session::database::{connect, required_database, show_warnings};
use crate::session::models::configured_model;
use crate::session::open::agent_of;
use crate::session::served::ServedAgents;
use crate::session::{OpenSession, finish, host_with, shutdown, warn_of_left_out, with_servers};
use crate::terminal::{Exit, Failure, Output, quantity};
use crate::verbs::store::keep_pruned;
use clap::Args;
use std::sync::Arc;
use std::time::Duration;
use tollgate::WorkOptions;

/// Drive queued and interrupted runs of a database that several hosts share
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WorkVerb {
    /// Show this name in `tollgate hosts` [default: the machine's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Drive only runs of these agents [default: all that have a model and their tools]
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    agents: Vec<String>,
    /// Drive at most N runs at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrency: u32,
    /// Let runs go on for this many seconds after a signal to stop; those that are left are released
    /// for other hosts
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    grace: u64,
}

const EXAMPLES: &str = "\
Examples:
  tollgate work                                      the database is `url` in [store]
  tollgate work --agents reviewer,writer --concurrency 4
  tollgate run --submit \"Review CHANGES.md\"          queue a run for a host that works

Any number of hosts may work on one database. If one of them is gone, the others take over its runs
within 1.35 times `lease_ms` of [store]. See docs/postgresql.md.";

impl WorkVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let config = globals.read_config()?;
        let database = required_database(globals)?;
        if let Some(unknown) = self.agents.iter().find(|id| !config.agents.contains_key(*id)) {
            let name = crate::terminal::text::shown_line(unknown, 80);
            return Err(Failure::usage(format!("there is no agent `{name}` in {}", config.name())));
        }
        let store = connect(&database, config.store.limits, self.name.as_deref()).await?;
        show_warnings(&store, output).await?;
        store.check_privileges().await?;
        let pruning = keep_pruned(globals, &config, &Some(Arc::clone(&store))).await?;
        let opened = OpenSession::load(config, output).await?;
        opened.warn_of_refused(output);
        opened.warn_of_notices(output);
        opened.warn_of_gaps();
        let mut served = ServedAgents::find(&opened.config, &opened.loaded);
        for unserved in &served.unserved {
            let is_named = |id: &String| unserved.starts_with(&format!("{id}: "));
            match self.agents.iter().find(|id| is_named(id)) {
                Some(_) => return Err(Failure::usage(format!("cannot work for {unserved}"))),
                None if self.agents.is_empty() => {
                    output.warn(&format!("runs of an agent are left to other hosts: {unserved}"));
                }
                None => {}
            }
        }
        served.ids.retain(|id| self.agents.is_empty() || self.agents.contains(id));
        let agents: Vec<_> = served
            .ids
            .iter()
            .filter_map(|id| {
                let model = configured_model(id, &opened.config).ok();
                Some(agent_of(id, opened.config.agents.get(id)?.clone(), model))
            })
            .collect();
        let (loaded, config) = (opened.loaded.clone(), Arc::new(opened.config.clone()));
        let sandbox = opened.sandbox.clone();
        let shared = Arc::clone(&store);
        let host = host_with(opened, None, |builder| {
            agents.into_iter().fold(builder.store(store), |builder, agent| builder.agent(agent))
        })?;
        let _announced = served.announce(&host, shared);
        host.note_loaded(loaded.to_audit()).await?;
        let servers = with_servers(&host, &config, output).await?;
        warn_of_left_out(&servers, output);
        let (_watch, unwatched) = host.watch(sandbox, config, &loaded);
        unwatched.iter().for_each(|why| tracing::debug!("{why}"));
        let options = WorkOptions {
            concurrency: self.concurrency as usize,
            grace: Duration::from_secs(self.grace),
            agents: served.ids,
        };
        let stop = shutdown::take_signals();
        output.say(&format!("working for {}", quantity::count(options.agents.len() as u64, "agent")));
        let work = async {
            host.work(&options, &stop).await;
            drop(pruning);
            Ok::<_, Failure>(Exit::Done)
        };
        finish(&host, servers, work).await
    }
}
