//! `tollgate prune`, which removes old runs, and `tollgate store verify`, which looks for damage.

use crate::globals::Globals;
use crate::session::data::{ReadableStore, data_dir, open_to_read};
#[cfg(any(feature = "mcp", feature = "postgres"))]
use crate::session::database::SharedStore;
use crate::terminal::{Exit, Failure, Output, program, quantity};
use crate::verbs::audit::since_ms;
use clap::{Args, Subcommand};
use std::path::PathBuf;
#[cfg(feature = "postgres")]
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
#[cfg(any(feature = "mcp", feature = "postgres"))]
use tokio_util::sync::DropGuard;
#[cfg(any(feature = "mcp", feature = "postgres"))]
use tollgate::config::Config;
use tollgate::config::read_period;
use tollgate::store::{BlockingRun, PruneOptions, PruneReport, SqliteStore, VerifyReport};
#[cfg(feature = "postgres")]
use tollgate::store::{Remedy, StoreError, StoreLimits};
#[cfg(feature = "postgres")]
use tollgate_postgres::PostgresStore;

/// Remove old completed runs, their events and audit records, and free their disk space
#[derive(Debug, Args)]
#[command(after_help = PRUNE_EXAMPLES)]
pub(crate) struct PruneVerb {
    /// Remove runs older than this, such as 12h or 30d [default: `keep` in [store]]
    #[arg(long, value_name = "TIME", value_parser = read_period)]
    older_than: Option<Duration>,
    /// Only count what would be removed
    #[arg(long)]
    dry_run: bool,
}

const PRUNE_EXAMPLES: &str = "\
Examples:
  tollgate prune --older-than 30d --dry-run
  tollgate prune --older-than 30d
  tollgate prune --json | jq .freed_bytes

Runs in progress or waiting for a person stay, and so do the state and the conversation of every
thread. A run that was removed can no longer be shown or replayed.";

/// Check the store, or set up a database that several hosts share
#[derive(Debug, Args)]
#[command(after_help = STORE_EXAMPLES)]
pub(crate) struct StoreVerb {
    #[command(subcommand)]
    way: StoreSubcommand,
}

#[derive(Debug, Subcommand)]
enum StoreSubcommand {
    /// Check the file and the checksums of every run
    Verify,
    /// Create the schema in the database that `url` in [store] names
    #[cfg(feature = "postgres")]
    Init {
        /// Print the SQL instead of running it
        #[arg(long)]
        print: bool,
    },
    /// Migrate the schema to this version; hosts of an earlier version must have stopped
    #[cfg(feature = "postgres")]
    Migrate,
    /// Check that the database can be used
    #[cfg(feature = "postgres")]
    Check,
    /// Copy the data directory into the database; a copy that was interrupted goes on
    #[cfg(feature = "postgres")]
    Copy,
}

const STORE_EXAMPLES: &str = "\
Examples:
  tollgate store verify
  tollgate store init                                create the tables in the database of [store]
  tollgate store copy                                move runs and state from the data directory
  tollgate store verify --json | jq '.damaged[].run_id'

The exit code is 0 if nothing is damaged, and 1 if something is.";

impl PruneVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let keep = match self.older_than {
            Some(period) => Some(period),
            None => globals.read_config()?.store.keep,
        };
        let keep = keep.ok_or_else(|| {
            Failure::usage("no age to prune by; pass --older-than 30d, or set keep = \"30d\" in [store]")
        })?;
        let pruning = PruneOptions { before_ms: since_ms(keep), dry_run: self.dry_run, give_back: true };
        let (pruned, is_shared) = match crate::session::database::named_database(globals)? {
            None => (prune(data_dir(globals)?, pruning, CancellationToken::new()).await?, false),
            #[cfg(feature = "postgres")]
            Some(database) => {
                let store =
                    crate::session::database::connect(&database, StoreLimits::default(), None).await?;
                (store.prune(pruning, &CancellationToken::new()).await?, true)
            }
            #[cfg(not(feature = "postgres"))]
            Some(_) => return Err(crate::session::database::without_postgres()),
        };
        if output.is_json() {
            output.json(&pruned);
        } else {
            output.line(&said(&pruned, is_shared));
            pruned.held_back.iter().for_each(|open| output.say(&held_back(open)));
        }
        Ok(Exit::Done)
    }
}

async fn prune(
    directory: PathBuf,
    pruning: PruneOptions,
    stop: CancellationToken,
) -> Result<PruneReport, Failure> {
    let pruning = tokio::task::spawn_blocking(move || SqliteStore::prune_until(&directory, pruning, &stop));
    Ok(pruning.await.map_err(|e| Failure::failed(format!("pruning failed: {e}")))??)
}

/// Removes runs older than the configuration keeps, now and once a day, until the result is
/// dropped. A server may run for months.
///
/// # Errors
/// The role of the database may not remove runs, so `keep` would not be enforced.
#[cfg(any(feature = "mcp", feature = "postgres"))]
pub(crate) async fn keep_pruned(
    globals: &Globals,
    config: &Config,
    shared: &SharedStore,
) -> Result<DropGuard, Failure> {
    let stop = CancellationToken::new();
    let Some(keep) = config.store.keep else { return Ok(stop.drop_guard()) };
    let store = match shared {
        None => KeptStore::Directory(data_dir(globals)?),
        #[cfg(feature = "postgres")]
        Some(store) => {
            store.check_may_prune().await.map_err(|why| unenforced(&why))?;
            KeptStore::Database(Arc::clone(store))
        }
        #[cfg(not(feature = "postgres"))]
        Some(never) => match *never {},
    };
    let stopped = stop.clone();
    tokio::spawn(async move {
        let mut days = tokio::time::interval(Duration::from_secs(86_400));
        while stopped.run_until_cancelled(days.tick()).await.is_some() {
            let pruning = PruneOptions { before_ms: since_ms(keep), dry_run: false, give_back: false };
            if let Err(why) = store.prune(pruning, &stopped).await {
                tracing::warn!("old runs could not be removed: {why}");
            }
        }
    });
    Ok(stop.drop_guard())
}

/// A store whose old runs are removed once a day.
#[cfg(any(feature = "mcp", feature = "postgres"))]
enum KeptStore {
    Directory(PathBuf),
    #[cfg(feature = "postgres")]
    Database(Arc<PostgresStore>),
}

#[cfg(any(feature = "mcp", feature = "postgres"))]
impl KeptStore {
    async fn prune(&self, pruning: PruneOptions, stop: &CancellationToken) -> Result<PruneReport, Failure> {
        match self {
            Self::Directory(directory) => prune(directory.clone(), pruning, stop.clone()).await,
            #[cfg(feature = "postgres")]
            Self::Database(store) => Ok(store.prune(pruning, stop).await?),
        }
    }
}

/// Returns the failure of a host whose role may not enforce `keep`.
#[cfg(feature = "postgres")]
fn unenforced(why: &StoreError) -> Failure {
    if why.remedy() != Some(&Remedy::PruneAsOwner) {
        return why.clone().into();
    }
    Failure::usage(format!(
        "`keep` in [store] is not enforced: {why}; remove `keep`, and let a timer run `{} prune --older-than 30d --store \
         postgres://OWNER@HOST/DATABASE` as the role that created the tables",
        program()
    ))
}

fn said(pruned: &PruneReport, is_shared: bool) -> String {
    let what = format!(
        "{} with {}, {}",
        quantity::count(pruned.runs, "run"),
        quantity::count(pruned.events, "event"),
        quantity::count(pruned.audit, "audit record")
    );
    match pruned.dry_run {
        true => format!("would remove {what}"),
        false if is_shared => format!("removed {what}; the database keeps the space for later records"),
        false if pruned.is_in_use => {
            format!(
                "removed {what}; the store keeps the space for later records because another process uses it"
            )
        }
        false if pruned.lacks_room => format!(
            "removed {what}; the store keeps the space for later records because an earlier version made it, \
             and the disk has no room to write the remaining records once more; free some room, then prune again"
        ),
        false => format!("removed {what}; freed {} of disk", quantity::bytes(pruned.freed_bytes)),
    }
}

/// Describes a run that keeps old runs from being removed, and how to end it.
fn held_back(open: &BlockingRun) -> String {
    let (program, run) = (program(), &open.run_id);
    let kept = quantity::count(open.runs, "old run");
    match open.status.as_str() {
        "waiting" => {
            format!("the run {run} waits, and keeps {kept}; `{program} show {run}` shows what to decide")
        }
        _ => format!(
            "the run {run} is not over, and keeps {kept}; `{program} resume {run}` ends it if it was interrupted"
        ),
    }
}

impl StoreVerb {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        match self.way {
            StoreSubcommand::Verify => verify(globals, output).await,
            #[cfg(feature = "postgres")]
            way => database::run(&way, globals, output).await,
        }
    }
}

async fn verify(globals: &Globals, output: &Output) -> Result<Exit, Failure> {
    let verified = match crate::session::database::named_database(globals)? {
        None => match open_to_read(&data_dir(globals)?)? {
            ReadableStore::Whole(store) => store.verify().await?,
            ReadableStore::ReadOnly(store) => store.verify().await?,
        },
        #[cfg(feature = "postgres")]
        Some(database) => {
            crate::session::database::connect(&database, StoreLimits::default(), None).await?.verify().await?
        }
        #[cfg(not(feature = "postgres"))]
        Some(_) => return Err(crate::session::database::without_postgres()),
    };
    if output.is_json() {
        output.json(&verified);
    } else {
        show(&verified, output);
    }
    Ok(if verified.is_sound() { Exit::Done } else { Exit::Failed })
}

fn show(verified: &VerifyReport, output: &Output) {
    for problem in &verified.database {
        output.line(&format!("the file is damaged: {}", crate::terminal::text::shown_line(problem, 200)));
    }
    for run in &verified.damaged {
        output.line(&format!("run {} is damaged: {}", run.run_id, run.problem));
    }
    let checked = format!(
        "{} with {} checked, {} damaged",
        quantity::count(verified.runs, "run"),
        quantity::count(verified.events, "event"),
        verified.damaged.len()
    );
    let old = match verified.without_checksum {
        0 => String::new(),
        number => format!("; {} of an earlier version have no checksum", quantity::count(number, "event")),
    };
    output.line(&format!("{checked}{old}"));
    if !verified.is_sound() {
        output.say(&format!(
            "restore the store from a copy, or see what can still be read: `{} show RUN`",
            program()
        ));
    }
}

#[cfg(feature = "postgres")]
mod database {
    //! The database that several hosts share: creating, migrating, checking and filling it.

    use super::StoreSubcommand;
    use crate::globals::Globals;
    use crate::session::data::data_dir;
    use crate::session::database::{connect, required_database, settings, show_warnings};
    use crate::terminal::{Exit, Failure, Output, program, quantity};
    use crate::verbs::hosts::differences;
    use serde_json::json;
    use tollgate::config::DatabaseConfig;
    use tollgate::store::{SqliteStore, StoreLimits};
    use tollgate_postgres::{PostgresConfig, PostgresStore, SchemaState};

    pub(super) async fn run(
        way: &StoreSubcommand,
        globals: &Globals,
        output: &Output,
    ) -> Result<Exit, Failure> {
        if let StoreSubcommand::Init { print: true } = way {
            output.line(&PostgresStore::schema_sql());
            output.line("-- The privileges of the role that hosts connect as, here `tollgate`.");
            output.line(&PostgresStore::grants_sql("tollgate"));
            return Ok(Exit::Done);
        }
        // `--data` names the source of a copy.
        let database = required_database(&Globals { data: None, ..globals.clone() })?;
        let config = settings(&database, None)?;
        match way {
            StoreSubcommand::Init { .. } => migrate(&config, output).await?,
            StoreSubcommand::Migrate => {
                if PostgresStore::check(&config).await? == SchemaState::Empty {
                    return Err(Failure::failed("the database has no schema; run `tollgate store init`"));
                }
                migrate(&config, output).await?;
            }
            StoreSubcommand::Check => check(&database, &config, output).await?,
            StoreSubcommand::Copy => copy(config, globals, output).await?,
            StoreSubcommand::Verify => {}
        }
        Ok(Exit::Done)
    }

    async fn migrate(config: &PostgresConfig, output: &Output) -> Result<(), Failure> {
        let migrated = PostgresStore::migrate(config).await?;
        match output.is_json() {
            true => output.json(&json!({"from": migrated.from, "to": migrated.to})),
            false if migrated.from == migrated.to => {
                output.say(&format!("the schema has version {} already", migrated.to));
            }
            false => output.say(&format!("the schema has version {} now", migrated.to)),
        }
        Ok(())
    }

    async fn check(
        database: &DatabaseConfig,
        config: &PostgresConfig,
        output: &Output,
    ) -> Result<(), Failure> {
        let state = PostgresStore::check(config).await?;
        let (version, fits) = match state {
            SchemaState::Current => ("current", true),
            SchemaState::Empty => ("missing", false),
            SchemaState::Older(_) => ("of an earlier version", false),
        };
        match output.is_json() {
            true => output.json(&json!({"address": config.address(), "schema": version})),
            false => {
                output.say(&format!("the database at {} answers; its schema is {version}", config.address()))
            }
        }
        if !fits {
            let verb = if state == SchemaState::Empty { "init" } else { "migrate" };
            return Err(Failure::failed(format!("run `{} store {verb}`", program())));
        }
        let store = connect(database, StoreLimits::default(), None).await?;
        show_warnings(&store, output).await?;
        differences(&store.hosts().await?).iter().for_each(|difference| output.warn(difference));
        Ok(store.check_privileges().await?)
    }

    async fn copy(config: PostgresConfig, globals: &Globals, output: &Output) -> Result<(), Failure> {
        let directory = data_dir(globals)?;
        if !SqliteStore::exists(&directory) {
            return Err(Failure::usage(format!(
                "there is no store in {}; name the data directory to copy with --data DIR",
                directory.display()
            )));
        }
        let copied = PostgresStore::copy(config, &SqliteStore::open(&directory)?).await?;
        match output.is_json() {
            true => output.json(&copied),
            false => output.say(&format!(
                "copied {} with {}, {}, {} and {}; all of them were compared",
                quantity::count(copied.runs, "run"),
                quantity::count(copied.events, "event"),
                quantity::count(copied.threads, "thread"),
                quantity::count(copied.audit, "audit record"),
                quantity::count(copied.components, "component")
            )),
        }
        Ok(())
    }
}
