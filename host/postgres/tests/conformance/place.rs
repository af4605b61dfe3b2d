//! Where the stores of the suite are.

use crate::cluster::{Database, cluster};
use std::sync::Arc;
use tollgate::store::{Store, StoreLimits};
use tollgate_postgres::PostgresStore;

/// A database; each store that is opened on it is a host of its own.
pub(crate) struct StoreAt(Database);

impl StoreAt {
    pub(crate) async fn postgres() -> Self {
        Self(cluster().database().await)
    }

    pub(crate) fn open(&self) -> Arc<dyn Store> {
        self.open_limited(StoreLimits::default())
    }

    pub(crate) fn open_limited(&self, limits: StoreLimits) -> Arc<dyn Store> {
        let config = self.0.config().with_limits(limits).with_connections(2).unwrap();
        let connecting = PostgresStore::connect(config);
        let handle = tokio::runtime::Handle::current();
        Arc::new(tokio::task::block_in_place(|| handle.block_on(connecting)).unwrap())
    }

    pub(crate) fn is_durable(&self) -> bool {
        true
    }
}
