//! The places of the stores of the suite.

use crate::cluster::{Database, cluster};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tollgate::store::{PruneOptions, PruneReport, Store, StoreLimits};
use tollgate_postgres::{PostgresConfig, PostgresStore};

/// A database; each store that is opened on it is a host of its own.
pub(crate) struct StoreAt {
    url: String,
    _database: Database,
}

impl StoreAt {
    pub(crate) async fn postgres() -> Self {
        let database = cluster().database().await;
        Self { url: cluster().url(&database.name), _database: database }
    }

    /// The same behind PgBouncer in transaction mode; `None` if that is not installed.
    pub(crate) async fn pgbouncer() -> Option<Self> {
        let database = cluster().database().await;
        Some(Self { url: cluster().pooled_url(&database.name)?, _database: database })
    }

    pub(crate) fn open(&self) -> Arc<dyn Store> {
        self.open_limited(StoreLimits::default())
    }

    /// Opens the store as a host of its own.
    pub(crate) async fn host(&self) -> PostgresStore {
        self.limited_host(StoreLimits::default()).await
    }

    async fn limited_host(&self, limits: StoreLimits) -> PostgresStore {
        let config = PostgresConfig::new(&self.url).unwrap().with_limits(limits);
        PostgresStore::connect(config.with_connections(2).unwrap()).await.unwrap()
    }

    pub(crate) fn open_limited(&self, limits: StoreLimits) -> Arc<dyn Store> {
        let handle = tokio::runtime::Handle::current();
        Arc::new(tokio::task::block_in_place(|| handle.block_on(self.limited_host(limits))))
    }

    pub(crate) fn is_durable(&self) -> bool {
        true
    }

    /// Removes runs that are older than this time.
    pub(crate) async fn prune(&self, before_ms: u64, dry_run: bool) -> PruneReport {
        let pruning = PruneOptions { before_ms, dry_run, give_back: false };
        self.host().await.prune(pruning, &CancellationToken::new()).await.unwrap()
    }
}
