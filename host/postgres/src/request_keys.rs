//! The keys of requests that start a run at most once.

use crate::connect::{int8, params, query, run};
use crate::store::PostgresStore;
use async_trait::async_trait;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio_postgres::{Client, Error};
use tollgate_store::{
    KEEP_KEYS_MS, KEYS_REMOVED_AT_ONCE, RequestKey, RequestKeyStore, ReservedKey, StoreError, now_ms,
};

#[async_trait]
impl RequestKeyStore for PostgresStore {
    async fn reserve(
        &self,
        key: &RequestKey,
        body: &[u8; 32],
        run_id: &str,
    ) -> Result<ReservedKey, StoreError> {
        let (now_ms, is_sent) = (now_ms(), AtomicBool::new(false));
        loop {
            let reserving = self.database().read(|client| {
                let again = is_sent.swap(true, Relaxed);
                async move {
                    let row = reserve(&client, (key, body), run_id, (now_ms, again)).await?;
                    client.finish();
                    Ok(row)
                }
            });
            if let Some(row) = reserving.await? {
                return Ok(row);
            }
        }
    }

    async fn reserved(&self, key: &RequestKey) -> Result<Option<String>, StoreError> {
        self.database()
            .read(|client| async move {
                let run_id = reserved(&client, key).await?;
                client.finish();
                Ok(run_id)
            })
            .await
    }

    async fn share(&self, key: &RequestKey, run_id: &str) -> Result<bool, StoreError> {
        self.database()
            .read(|client| async move {
                let exists = share(&client, key, run_id).await?;
                client.finish();
                Ok(exists)
            })
            .await
    }

    async fn release(&self, key: &RequestKey, run_id: &str, inserted_at_ms: u64) -> Result<(), StoreError> {
        self.database()
            .read(|client| async move {
                release(&client, key, run_id, inserted_at_ms).await?;
                client.finish();
                Ok(())
            })
            .await
    }

    async fn redirect(&self, key: &RequestKey, run_id: &str) -> Result<(), StoreError> {
        self.database()
            .read(|client| async move {
                redirect(&client, key, run_id).await?;
                client.finish();
                Ok(())
            })
            .await
    }
}

/// Returns the row of a key, or inserts one with this time; `None` if another host removed the row at
/// this moment. If the answer to an earlier sending may be lost, an equal row is the caller's own.
async fn reserve(
    client: &Client,
    (key, body): (&RequestKey, &[u8; 32]),
    run_id: &str,
    (now_ms, is_sent_again): (u64, bool),
) -> Result<Option<ReservedKey>, Error> {
    let sql = "INSERT INTO request_keys (digest, body, run_id, at_ms) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    let row = params![
        (key.to_vec(), BYTEA),
        (body.to_vec(), BYTEA),
        (run_id.to_owned(), TEXT),
        (int8(now_ms), INT8)
    ];
    let is_inserted = run(client, sql, row).await? > 0;
    if is_inserted {
        // Another host may be removing the same rows.
        let sql = "DELETE FROM request_keys WHERE digest IN (SELECT digest FROM request_keys WHERE at_ms < $1
            ORDER BY at_ms LIMIT $2 FOR UPDATE SKIP LOCKED)";
        let old_ms = int8(now_ms.saturating_sub(KEEP_KEYS_MS));
        run(client, sql, params![(old_ms, INT8), (i64::from(KEYS_REMOVED_AT_ONCE), INT8)]).await?;
        return Ok(Some(ReservedKey {
            run_id: run_id.to_owned(),
            body: *body,
            inserted_at_ms: Some(now_ms),
        }));
    }
    let sql = "SELECT run_id, body, at_ms FROM request_keys WHERE digest = $1";
    let rows = query(client, sql, params![(key.to_vec(), BYTEA)]).await?;
    Ok(rows.first().map(|row| {
        let (found, body, at_ms): (String, &[u8], i64) = (row.get(0), row.get(1), row.get(2));
        let is_own = is_sent_again && found == run_id && at_ms == int8(now_ms);
        ReservedKey {
            run_id: found,
            body: body.try_into().unwrap_or_default(),
            inserted_at_ms: is_own.then_some(now_ms),
        }
    }))
}

/// Returns the id of the run for which a key is reserved.
async fn reserved(client: &Client, key: &RequestKey) -> Result<Option<String>, Error> {
    let sql = "SELECT run_id FROM request_keys WHERE digest = $1";
    let rows = query(client, sql, params![(key.to_vec(), BYTEA)]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// Notes that this host uses a row of another one. Returns whether it still exists.
async fn share(client: &Client, key: &RequestKey, run_id: &str) -> Result<bool, Error> {
    let sql = "UPDATE request_keys SET at_ms = greatest(at_ms + 1, $3) WHERE digest = $1 AND run_id = $2";
    let row = params![(key.to_vec(), BYTEA), (run_id.to_owned(), TEXT), (int8(now_ms()), INT8)];
    Ok(run(client, sql, row).await? > 0)
}

/// Removes a row that was inserted at this time, unless another host uses it too.
async fn release(client: &Client, key: &RequestKey, run_id: &str, inserted_at_ms: u64) -> Result<(), Error> {
    let sql = "DELETE FROM request_keys WHERE digest = $1 AND run_id = $2 AND at_ms = $3";
    let row = params![(key.to_vec(), BYTEA), (run_id.to_owned(), TEXT), (int8(inserted_at_ms), INT8)];
    run(client, sql, row).await.map(drop)
}

/// Records that the request continued another run.
async fn redirect(client: &Client, key: &RequestKey, run_id: &str) -> Result<(), Error> {
    let sql = "UPDATE request_keys SET run_id = $2 WHERE digest = $1";
    run(client, sql, params![(key.to_vec(), BYTEA), (run_id.to_owned(), TEXT)]).await.map(drop)
}
