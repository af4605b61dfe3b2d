//! The keys of requests, stored in the access database of a data directory.

use super::database::AccessDatabase;
use super::records::AccessError;
use rusqlite::{OptionalExtension, TransactionBehavior, params};
use std::sync::Arc;
use tollgate::async_trait;
use tollgate::store::{
    KEEP_KEYS_MS, KEYS_REMOVED_AT_ONCE, RequestKey, RequestKeyStore, ReservedKey, StoreError, now_ms,
};

/// The keys of requests that the processes of a data directory share.
pub(crate) struct DirectoryKeys(pub(crate) Arc<AccessDatabase>);

impl DirectoryKeys {
    /// Uses the database on a thread that may block.
    async fn with<T: Send + 'static>(
        &self,
        job: impl FnOnce(&AccessDatabase) -> Result<T, AccessError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let access = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || job(&access)).await;
        done.map_err(|e| StoreError::other(e.to_string()))?.map_err(|e| StoreError::other(e.to_string()))
    }
}

#[async_trait]
impl RequestKeyStore for DirectoryKeys {
    async fn reserve(
        &self,
        key: &RequestKey,
        body: &[u8; 32],
        run_id: &str,
    ) -> Result<ReservedKey, StoreError> {
        let (key, body, run_id) = (*key, *body, run_id.to_owned());
        self.with(move |access| access.reserve(&key, &body, run_id)).await
    }

    async fn reserved(&self, key: &RequestKey) -> Result<Option<String>, StoreError> {
        let key = *key;
        self.with(move |access| {
            access.read(|connection| {
                connection
                    .prepare_cached("SELECT run_id FROM request_keys WHERE digest = ?1")?
                    .query_row([&key], |row| row.get(0))
                    .optional()
            })
        })
        .await
    }

    async fn share(&self, key: &RequestKey, run_id: &str) -> Result<bool, StoreError> {
        let (key, run_id) = (*key, run_id.to_owned());
        let sql = "UPDATE request_keys SET at_ms = max(at_ms + 1, ?3) WHERE digest = ?1 AND run_id = ?2";
        let shared = self.with(move |access| {
            access.write(|connection| {
                connection.prepare_cached(sql)?.execute(params![key, run_id, now_ms().cast_signed()])
            })
        });
        Ok(shared.await? > 0)
    }

    async fn release(&self, key: &RequestKey, run_id: &str, inserted_at_ms: u64) -> Result<(), StoreError> {
        let (key, run_id) = (*key, run_id.to_owned());
        let sql = "DELETE FROM request_keys WHERE digest = ?1 AND run_id = ?2 AND at_ms = ?3";
        let released = self.with(move |access| {
            access.write(|connection| {
                connection.prepare_cached(sql)?.execute(params![key, run_id, inserted_at_ms.cast_signed()])
            })
        });
        released.await.map(drop)
    }

    async fn redirect(&self, key: &RequestKey, run_id: &str) -> Result<(), StoreError> {
        let (key, run_id) = (*key, run_id.to_owned());
        let sql = "UPDATE request_keys SET run_id = ?2 WHERE digest = ?1";
        let redirected = self.with(move |access| {
            access.write(|connection| connection.prepare_cached(sql)?.execute(params![key, run_id]))
        });
        redirected.await.map(drop)
    }
}

impl AccessDatabase {
    /// Returns the row of a key, or inserts one with this run id. An insertion also removes some of the
    /// rows that are no longer needed.
    fn reserve(&self, key: &RequestKey, body: &[u8; 32], run_id: String) -> Result<ReservedKey, AccessError> {
        let now_ms = now_ms();
        self.write(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let known = transaction
                .prepare_cached("SELECT run_id, body FROM request_keys WHERE digest = ?1")?
                .query_row([key], |row| {
                    Ok(ReservedKey { run_id: row.get(0)?, body: row.get(1)?, inserted_at_ms: None })
                })
                .optional()?;
            if let Some(known) = known {
                return Ok(known);
            }
            transaction
                .prepare_cached(
                    "INSERT INTO request_keys (digest, body, run_id, at_ms) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![key, body, run_id, now_ms.cast_signed()])?;
            transaction
                .prepare_cached(
                    "DELETE FROM request_keys WHERE digest IN
                     (SELECT digest FROM request_keys WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2)",
                )?
                .execute(params![now_ms.saturating_sub(KEEP_KEYS_MS).cast_signed(), KEYS_REMOVED_AT_ONCE])?;
            transaction.commit()?;
            Ok(ReservedKey { run_id, body: *body, inserted_at_ms: Some(now_ms) })
        })
    }
}

#[cfg(test)]
#[path = "../../../tests/stores/request_keys.rs"]
mod rules;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn processes_of_a_data_directory_share_the_keys_of_requests() {
        let data = tempfile::tempdir().unwrap();
        let [one, two] =
            [(); 2].map(|()| DirectoryKeys(Arc::new(AccessDatabase::open(data.path()).unwrap())));
        super::rules::keys_of_requests_are_shared(&one, &two).await;
    }
}
