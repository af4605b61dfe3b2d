//! The components that runs called. Their bytes are stored in parts, one statement each, so that a
//! slow connection delays a large component and does not fail it.

use crate::connect::{Params, find, params, query, run};
use crate::database::Database;
use std::sync::{Arc, PoisonError};
use tollgate_agent::digest::digest;
use tollgate_store::{ComponentFile, StoreError};

/// The size of every part except the last.
const PART_BYTES: usize = 1 << 20;

impl Database {
    /// Stores the bytes of components that the database does not have. A component whose file is gone
    /// or has changed is left out, as in other stores: its calls run, and a replay reports that it is missing.
    pub(crate) async fn keep(&self, components: &[ComponentFile]) -> Result<(), StoreError> {
        let unknown = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            components.iter().filter(|file| !kept.contains(&file.digest)).cloned().collect::<Vec<_>>()
        };
        for file in unknown {
            let digest = Arc::clone(&file.digest);
            if !self.has_component(&digest).await? {
                let bytes = tokio::task::spawn_blocking(move || file.read()).await.ok().flatten();
                let Some(bytes) = bytes else { continue };
                self.store_component(&digest, &bytes).await?;
            }
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(digest);
        }
        Ok(())
    }

    /// Returns whether the database has all parts of a component.
    pub(crate) async fn has_component(&self, digest: &str) -> Result<bool, StoreError> {
        self.read(|client| async move {
            let sql = "SELECT 1 FROM components WHERE digest = $1";
            let rows = query(&client, sql, params![(digest.to_owned(), TEXT)]).await?;
            client.finish();
            Ok(!rows.is_empty())
        })
        .await
    }

    /// Stores the parts of a component, and then its row. Parts that another host or an interrupted
    /// attempt has stored stay as they are.
    pub(crate) async fn store_component(&self, digest: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let sql =
            "INSERT INTO component_parts (digest, part, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        for (part, bytes) in (0_i32..).zip(bytes.chunks(PART_BYTES)) {
            let row = || params![(digest.to_owned(), TEXT), (part, INT4), (bytes.to_vec(), BYTEA)];
            self.send(sql, row).await?;
        }
        let sql = "INSERT INTO components (digest) VALUES ($1) ON CONFLICT DO NOTHING";
        self.send(sql, || params![(digest.to_owned(), TEXT)]).await
    }

    /// Returns the bytes of a component; `None` if the database does not have it.
    ///
    /// # Errors
    /// The database cannot be read, or the bytes are not those of this component.
    pub(crate) async fn component(&self, wanted: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT coalesce(bytes, '') FROM components WHERE digest = $1";
        let whole = self.bytes(sql, || params![(wanted.to_owned(), TEXT)]).await?;
        let Some(mut bytes) = whole else { return Ok(None) };
        if bytes.is_empty() {
            let sql = "SELECT bytes FROM component_parts WHERE digest = $1 AND part = $2";
            for part in 0_i32.. {
                let row = || params![(wanted.to_owned(), TEXT), (part, INT4)];
                let Some(more) = self.bytes(sql, row).await? else { break };
                bytes.extend(more);
            }
        }
        if digest(&bytes) == wanted {
            return Ok(Some(bytes));
        }
        Err(StoreError::damaged(format!(
            "the store does not contain the bytes of the component {}, but others; restore the database from a copy",
            tollgate_agent::text::clean(wanted, 100)
        )))
    }

    /// Runs a statement that may be repeated.
    async fn send(&self, sql: &str, row: impl Fn() -> Params) -> Result<(), StoreError> {
        self.read(|client| {
            let row = row();
            async move {
                run(&client, sql, row).await?;
                client.finish();
                Ok(())
            }
        })
        .await
    }

    /// Returns the value of a query for bytes; `None` if there is no row.
    async fn bytes(&self, sql: &str, row: impl Fn() -> Params) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|client| {
            let row = row();
            async move {
                let rows = find(&client, sql, row).await?;
                client.finish();
                Ok(rows.first().map(|row| row.get(0)))
            }
        })
        .await
    }
}
