//! The stores of these tests. To add a kind of store to all tests, add an implementation of
//! [`Place`] here, a constructor, and a line in `with_each_store!`.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;
use tollgate::store::{MemoryStore, PruneOptions, PruneReport, SqliteStore, Store, StoreLimits};

/// The test's interface to one kind of store.
pub(crate) trait Place: Send + Sync {
    /// Opens the store. Each call opens a durable store anew on the same data, as another process
    /// would.
    fn open(&self) -> Arc<dyn Store>;

    /// Opens it with these limits.
    fn open_limited(&self, limits: StoreLimits) -> Arc<dyn Store>;

    /// Returns whether the store outlives its process.
    fn is_durable(&self) -> bool;

    /// Removes old runs from a durable store.
    fn prune(&self, pruning: PruneOptions) -> PruneReport;
}

/// The location of a store, so that it can be opened a second time.
pub(crate) struct StoreAt(Box<dyn Place>);

impl StoreAt {
    pub(crate) fn memory() -> Self {
        Self(Box::<InMemory>::default())
    }

    pub(crate) fn sqlite() -> Self {
        Self(Box::new(tempfile::tempdir().unwrap()))
    }

    pub(crate) fn open(&self) -> Arc<dyn Store> {
        self.0.open()
    }

    pub(crate) fn open_limited(&self, limits: StoreLimits) -> Arc<dyn Store> {
        self.0.open_limited(limits)
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.0.is_durable()
    }

    /// Removes runs that are older than this time.
    pub(crate) async fn prune(&self, before_ms: u64, dry_run: bool) -> PruneReport {
        let pruning = PruneOptions { before_ms, dry_run, give_back: false };
        tokio::task::block_in_place(|| self.0.prune(pruning))
    }
}

/// A store in memory; the limits of all handles are those of the first that has any.
#[derive(Default)]
struct InMemory(OnceLock<Arc<MemoryStore>>);

impl Place for InMemory {
    fn open(&self) -> Arc<dyn Store> {
        Arc::clone(self.0.get_or_init(|| Arc::new(MemoryStore::new()))) as Arc<dyn Store>
    }

    fn open_limited(&self, limits: StoreLimits) -> Arc<dyn Store> {
        let limited = || Arc::new(MemoryStore::new().with_limits(limits));
        Arc::clone(self.0.get_or_init(limited)) as Arc<dyn Store>
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn prune(&self, _: PruneOptions) -> PruneReport {
        panic!("a store in memory keeps no old runs")
    }
}

/// A data directory.
impl Place for TempDir {
    fn open(&self) -> Arc<dyn Store> {
        sqlite(self.path())
    }

    fn open_limited(&self, limits: StoreLimits) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.path()).unwrap().with_limits(limits))
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn prune(&self, pruning: PruneOptions) -> PruneReport {
        SqliteStore::prune(self.path(), pruning).unwrap()
    }
}

/// Opens the store in a data directory.
pub(crate) fn sqlite(directory: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(directory).unwrap())
}
