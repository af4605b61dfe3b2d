//! The data directory, which holds runs, threads and state.

use crate::globals::Globals;
use crate::session::database::{OpenStore, connect_as_store, database, named_database};
use crate::session::project_data::ProjectData;
use crate::terminal::{Failure, Output};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::JoinHandle;
use tollgate::Host;
use tollgate::config::{Config, DatabaseConfig};
use tollgate::store::{
    ReadOnlyStore, RunFilter, RunStore, RunSummary, SHORT_ID_CHARS, SqliteStore, Store, StoreError,
    StoreErrorKind, StoreLimits, ThreadFilter, list_threads, short_id,
};
use tollgate_agent::name::did_you_mean;
use uuid::Uuid;

/// Opens the store that `--data`, `--store` or the configuration names, or this user's store.
pub(crate) fn open_store(globals: &Globals) -> Result<Arc<dyn Store>, Failure> {
    match named_database(globals)? {
        Some(database) => connected(&database, StoreLimits::default()),
        None => Ok(Arc::new(SqliteStore::open(&used_data_dir(globals)?)?)),
    }
}

/// Connects to a database, and blocks this thread meanwhile.
fn connected(database: &DatabaseConfig, limits: StoreLimits) -> Result<Arc<dyn Store>, Failure> {
    let connecting = connect_as_store(database, limits);
    let connected = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(connecting));
    Ok(connected?.0)
}

/// Opens the same store with the limits of the configuration.
pub(crate) fn open_limited_store(globals: &Globals, config: &Config) -> Result<Arc<dyn Store>, Failure> {
    if let Some(database) = database(globals, config) {
        return connected(&database, config.store.limits);
    }
    Ok(Arc::new(SqliteStore::open(&used_data_dir(globals)?)?.with_limits(config.store.limits)))
}

/// Opens the same store for reading, which may be the only access allowed.
pub(crate) fn open_store_to_read(globals: &Globals) -> Result<Arc<dyn Store>, Failure> {
    if let Some(database) = named_database(globals)? {
        return connected(&database, StoreLimits::default());
    }
    Ok(match open_to_read(&data_dir(globals)?)? {
        ReadableStore::Whole(store) => Arc::new(*store),
        ReadableStore::ReadOnly(store) => Arc::new(store),
    })
}

/// A store in a directory that is only read.
pub(crate) enum ReadableStore {
    Whole(Box<SqliteStore>),
    ReadOnly(ReadOnlyStore),
}

/// Opens the store in a directory for reading. If the disk takes no more, it is read without
/// writing, as on a read-only disk.
pub(crate) fn open_to_read(directory: &Path) -> Result<ReadableStore, StoreError> {
    if ReadOnlyStore::is_needed(directory) {
        return ReadOnlyStore::open(directory).map(ReadableStore::ReadOnly);
    }
    let why = match SqliteStore::open(directory) {
        Ok(store) => return Ok(ReadableStore::Whole(Box::new(store))),
        Err(why) => why,
    };
    // A limit on the size of files is an error of the disk for SQLite.
    let is_disk = matches!(why.kind(), StoreErrorKind::Full | StoreErrorKind::Other);
    if !is_disk || !SqliteStore::exists(directory) {
        return Err(why);
    }
    let store = ReadOnlyStore::open(directory).map_err(|_| why)?;
    Ok(ReadableStore::ReadOnly(store))
}

/// A store that another thread opens while tools are loaded.
pub(crate) struct OpeningStore(JoinHandle<Result<OpenStore, Failure>>);

impl OpeningStore {
    /// Starts to open the store that [`open_store`] opens.
    pub(crate) fn begin(globals: &Globals, config: &Config) -> Result<Self, Failure> {
        let limits = config.store.limits;
        if let Some(database) = database(globals, config) {
            return Ok(Self(tokio::spawn(async move { connect_as_store(&database, limits).await })));
        }
        let directory = used_data_dir(globals)?;
        let open = move || -> Result<OpenStore, Failure> {
            Ok((Arc::new(SqliteStore::open(&directory)?.with_limits(limits)), None))
        };
        Ok(Self(tokio::task::spawn_blocking(open)))
    }

    /// Returns the store, once it is open.
    pub(crate) async fn opened(self) -> Result<Arc<dyn Store>, Failure> {
        Ok(self.opened_shared().await?.0)
    }

    /// Like [`opened`](Self::opened), with the store that other hosts may share.
    pub(crate) async fn opened_shared(self) -> Result<OpenStore, Failure> {
        self.0.await.map_err(|e| Failure::failed(format!("opening the store failed: {e}")))?
    }
}

/// Returns the directory that `--data` names, or that of the project. It may not exist yet.
pub(crate) fn data_dir(globals: &Globals) -> Result<PathBuf, Failure> {
    match &globals.data {
        Some(directory) => Ok(directory.clone()),
        None => Ok(ProjectData::find(globals)?.dir),
    }
}

/// Returns the directory of [`data_dir`], which is about to be written to.
fn used_data_dir(globals: &Globals) -> Result<PathBuf, Failure> {
    if let Some(directory) = &globals.data {
        return Ok(directory.clone());
    }
    let project = ProjectData::find(globals)?;
    project.claim(&Output::new(globals.json, globals.quiet))?;
    Ok(project.dir)
}

/// The word that names the newest run, or its thread.
pub(crate) const LAST: &str = "last";

/// The number of candidates that are named if an id is ambiguous.
const NAMED_CANDIDATES: usize = 4;

/// Returns the one run that `typed` names: the newest one for `last`, else the one whose long or short
/// id it is or begins.
pub(crate) async fn find_run(store: &dyn RunStore, typed: &str) -> Result<RunSummary, Failure> {
    let shown = crate::terminal::text::shown_line(typed, 80);
    let limit = NAMED_CANDIDATES + 1;
    if typed == LAST {
        return last_run(store).await;
    }
    let prefix = Some(typed.to_ascii_lowercase());
    let by_id = RunFilter { run_id_prefix: Some(typed.to_owned()), limit, ..RunFilter::default() };
    let mut found = store.runs(by_id).await?;
    if typed.len() <= SHORT_ID_CHARS {
        let by_short_id = RunFilter { short_id_prefix: prefix, limit, ..RunFilter::default() };
        for run in store.runs(by_short_id).await? {
            if found.iter().all(|known| known.run_id != run.run_id) {
                found.push(run);
            }
        }
    }
    // A whole id is not ambiguous, even if it begins another one.
    let whole = found.iter().position(|run| run.run_id == typed || short_id(&run.run_id) == typed);
    match (whole, found.len()) {
        (Some(at), _) => Ok(found.swap_remove(at)),
        (None, 1) => Ok(found.remove(0)),
        (None, 0) => {
            let hint = did_you_mean(typed, std::iter::once(LAST)).unwrap_or_else(|| ";".to_owned());
            let program = crate::terminal::program();
            Err(Failure::usage(format!("there is no run {shown}{hint} `{program} runs` lists them")))
        }
        (None, _) => Err(ambiguous(
            "runs",
            &shown,
            found.iter().map(|run| {
                format!("{} ({})", short_id(&run.run_id), crate::terminal::text::shown_line(&run.title, 30))
            }),
        )),
    }
}

/// Returns the error for a beginning of several ids.
fn ambiguous(what: &str, shown: &str, mut candidates: impl Iterator<Item = String>) -> Failure {
    let named: Vec<String> = candidates.by_ref().take(NAMED_CANDIDATES).collect();
    let more = if candidates.next().is_some() { ", and more" } else { "" };
    let named = named.join(", ");
    Failure::usage(format!("several {what} match {shown}: {named}{more}; type more of the id"))
}

/// Returns the newest run that was started by a person or a client.
async fn last_run(store: &dyn RunStore) -> Result<RunSummary, Failure> {
    let mut newest = Vec::new();
    for kind in ["prompt", "call"] {
        let filter = RunFilter { kind: Some(kind.to_owned()), limit: 1, ..RunFilter::default() };
        newest.extend(store.runs(filter).await?);
    }
    newest.into_iter().max_by_key(|run| (run.started_at_ms, run.run_id.clone())).ok_or_else(|| {
        Failure::usage(format!(
            "there is no run yet; make one: {} call TOOL '{{}}'",
            crate::terminal::program()
        ))
    })
}

/// Returns the thread of an option, as [`thread_named`] finds it.
pub(crate) async fn find_thread(
    store: &dyn RunStore,
    typed: Option<String>,
) -> Result<Option<String>, Failure> {
    match typed {
        Some(typed) => thread_named(store, typed).await.map(Some),
        None => Ok(None),
    }
}

/// Returns the agent that last ran on this thread; `None` if none did.
pub(crate) async fn agent_of_thread(
    store: &dyn RunStore,
    thread_id: &str,
) -> Result<Option<String>, Failure> {
    let (thread_id, kind) = (Some(thread_id.to_owned()), Some("prompt".to_owned()));
    let newest = RunFilter { thread_id, kind, limit: 1, ..RunFilter::default() };
    Ok(store.runs(newest).await?.pop().map(|run| run.agent_id))
}

/// Returns the thread that `typed` names: that of the newest run for `last`, the one whose generated id
/// it begins, else `typed` itself.
pub(crate) async fn thread_named(store: &dyn RunStore, typed: String) -> Result<String, Failure> {
    if typed == LAST {
        return Ok(last_run(store).await?.thread_id);
    }
    if !begins_generated_id(&typed) {
        return Ok(typed);
    }
    let filter = ThreadFilter { prefix: Some(typed.clone()), limit: THREADS_READ, ..ThreadFilter::default() };
    let found = list_threads(store, filter).await?.into_iter().map(|thread| thread.thread_id);
    let found: Vec<String> = found.filter(|id| *id == typed || Uuid::try_parse(id).is_ok()).collect();
    match found.as_slice() {
        several if several.is_empty() || several.contains(&typed) => Ok(typed),
        [only] => Ok(only.clone()),
        several => Err(ambiguous("threads", &typed, several.iter().cloned())),
    }
}

/// The number of threads that are examined for one that is named by its beginning.
const THREADS_READ: usize = 100;
/// The least number of characters that name a thread by the beginning of its generated id.
const MIN_THREAD_PREFIX: usize = 8;

/// Returns whether a text is a UUID's beginning. Other ids of threads are a person's own words, and a
/// new word begins a new thread.
fn begins_generated_id(typed: &str) -> bool {
    let fits = |(at, c): (usize, char)| match at {
        8 | 13 | 18 | 23 => c == '-',
        _ => c.is_ascii_digit() || ('a'..='f').contains(&c),
    };
    (MIN_THREAD_PREFIX..36).contains(&typed.len()) && typed.chars().enumerate().all(fits)
}

/// Finishes the work of an earlier process that blocks this run.
pub(crate) async fn recovered(host: &Host, run: &RunSummary) -> Result<(), Failure> {
    if run.status == "running" && !run.is_driven {
        host.recover(&run.run_id).await?.wait().await?;
    }
    Ok(())
}
