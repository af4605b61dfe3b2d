//! The data directory, which holds runs, threads and state.

use crate::globals::Globals;
use crate::session::database::{connect_as_store, database, named_database};
use crate::terminal::Failure;
use etcetera::BaseStrategy;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tollgate::Host;
use tollgate::config::{Config, DatabaseConfig};
use tollgate::store::{ReadOnlyStore, RunFilter, RunSummary, SqliteStore, Store, StoreError, StoreLimits};

/// Opens the store that `--data`, `--store` or the configuration names, or this user's store.
pub(crate) fn open_store(globals: &Globals) -> Result<Arc<dyn Store>, Failure> {
    match named_database(globals)? {
        Some(database) => connected(&database, StoreLimits::default()),
        None => Ok(Arc::new(SqliteStore::open(&data_dir(globals)?)?)),
    }
}

/// Connects to a database, and blocks this thread meanwhile.
fn connected(database: &DatabaseConfig, limits: StoreLimits) -> Result<Arc<dyn Store>, Failure> {
    let connecting = connect_as_store(database, limits);
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(connecting))
}

/// Opens the same store with the limits of the configuration.
pub(crate) fn open_limited_store(globals: &Globals, config: &Config) -> Result<Arc<dyn Store>, Failure> {
    if let Some(database) = database(globals, config) {
        return connected(&database, config.store.limits);
    }
    Ok(Arc::new(SqliteStore::open(&data_dir(globals)?)?.with_limits(config.store.limits)))
}

/// Opens the same store for reading, which may be the only access allowed.
pub(crate) fn open_store_to_read(globals: &Globals) -> Result<Arc<dyn Store>, Failure> {
    if let Some(database) = named_database(globals)? {
        return connected(&database, StoreLimits::default());
    }
    let directory = data_dir(globals)?;
    if ReadOnlyStore::is_needed(&directory) {
        return Ok(Arc::new(ReadOnlyStore::open(&directory)?));
    }
    Ok(Arc::new(SqliteStore::open(&directory)?))
}

/// A store that another thread opens while tools are loaded.
pub(crate) struct OpeningStore(JoinHandle<Result<Arc<dyn Store>, Failure>>);

impl OpeningStore {
    /// Starts to open the store that [`open_store`] opens.
    pub(crate) fn begin(globals: &Globals, config: &Config) -> Result<Self, Failure> {
        let limits = config.store.limits;
        if let Some(database) = database(globals, config) {
            return Ok(Self(tokio::spawn(async move { connect_as_store(&database, limits).await })));
        }
        let directory = data_dir(globals)?;
        let open = move || -> Result<Arc<dyn Store>, Failure> {
            Ok(Arc::new(SqliteStore::open(&directory)?.with_limits(limits)))
        };
        Ok(Self(tokio::task::spawn_blocking(open)))
    }

    /// Returns the store, once it is open.
    pub(crate) async fn opened(self) -> Result<Arc<dyn Store>, Failure> {
        self.0.await.map_err(|e| Failure::failed(format!("opening the store failed: {e}")))?
    }
}

/// Returns the directory that `--data` names, or this user's data directory.
pub(crate) fn data_dir(globals: &Globals) -> Result<PathBuf, Failure> {
    if let Some(directory) = &globals.data {
        return Ok(directory.clone());
    }
    let strategy = etcetera::choose_base_strategy().map_err(|e| {
        Failure::usage(format!("no home directory ({e}); name a data directory with --data DIR"))
    })?;
    Ok(strategy.data_dir().join("tollgate"))
}

/// Returns the one run whose id starts with `typed`.
pub(crate) async fn find_run(store: &Arc<dyn Store>, typed: &str) -> Result<RunSummary, Failure> {
    let filter = RunFilter { run_id_prefix: Some(typed.to_owned()), limit: 4, ..RunFilter::default() };
    let mut found = store.runs(filter).await?;
    let shown = crate::terminal::output::shown_line(typed, 80);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failure::usage(format!(
            "there is no run {shown}; `{} runs` lists them",
            crate::terminal::program()
        ))),
        _ => Err(Failure::usage(format!(
            "several runs start with {shown}: {}; type more of the id",
            found.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// Finishes the work of an earlier process that blocks this run.
pub(crate) async fn recovered(host: &Host, run: &RunSummary) -> Result<(), Failure> {
    if run.status == "running" && !run.at_work {
        host.recover(&run.run_id).await?.wait().await.map_err(|e| Failure::failed(e.to_string()))?;
    }
    Ok(())
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::failed(error.to_string())
    }
}
