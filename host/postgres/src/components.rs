//! The components that runs called. Their bytes are stored in parts, one statement each, so that a
//! slow connection delays a large component and does not fail it. One to which no run refers is removed in two steps,
//! hours apart, because hosts rely on the components that they have seen a while ago.

use crate::connect::{Busy, Params, params, query, run};
use crate::database::Database;
use crate::write::Batch;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio_postgres::Error;
use tollgate_agent::digest::digest;
use tollgate_store::{ComponentFile, StoreError};

/// The size of every part except the last.
const PART_BYTES: usize = 1 << 20;
/// How long a host relies on a component that it has seen in the database.
const KEPT_FOR: Duration = Duration::from_secs(300);
/// How long a component without runs is marked as unused before it may be removed. A host that looks for the component
/// removes the mark. It relies on it for [`KEPT_FOR`], and the longest commit takes about an hour on a slow connection.
const UNUSED_FOR_MS: i64 = 7_200_000;
/// The beginning of the names of the settings that mark components as unused. Their values are the times at which they
/// were set, by the server's clock, in milliseconds since the Unix epoch.
const UNUSED: &str = "unused component ";

impl Database {
    /// Stores the bytes of components that the database does not have. A component whose file is gone
    /// or has changed is left out, as in other stores: its calls run, and a replay reports that it is missing.
    pub(crate) async fn keep(&self, components: &[ComponentFile]) -> Result<(), StoreError> {
        let unknown = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let is_kept = |digest: &Arc<str>| kept.get(digest).is_some_and(|seen| seen.elapsed() < KEPT_FOR);
            components.iter().filter(|file| !is_kept(&file.digest)).cloned().collect::<Vec<_>>()
        };
        for file in unknown {
            let (digest, seen) = (Arc::clone(&file.digest), Instant::now());
            if !self.has_component(&digest).await? {
                let bytes = tokio::task::spawn_blocking(move || file.read()).await.ok().flatten();
                let Some(bytes) = bytes else { continue };
                self.store_component(&digest, &bytes).await?;
            }
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(digest, seen);
        }
        Ok(())
    }

    /// Returns whether the database has all parts of a component, and keeps it from being removed soon.
    pub(crate) async fn has_component(&self, digest: &str) -> Result<bool, StoreError> {
        self.read(|client| async move {
            // While the component is removed, the mark is locked.
            let mark = params![(format!("{UNUSED}{digest}"), TEXT)];
            run(&client, "DELETE FROM settings WHERE name = $1", mark).await?;
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
        self.send(sql, || params![(digest.to_owned(), TEXT)]).await.map(drop)
    }

    /// Marks the components to which no run refers as unused, and returns those that were marked long ago.
    pub(crate) async fn mark_unused_components(&self) -> Result<Vec<String>, StoreError> {
        let mark = "INSERT INTO settings (name, value)
            SELECT $1 || c.digest, (extract(epoch FROM clock_timestamp()) * 1000)::int8::text FROM components c
            WHERE NOT EXISTS (SELECT FROM run_components r WHERE r.digest = c.digest) ON CONFLICT DO NOTHING";
        self.send(mark, || params![(UNUSED, TEXT)]).await?;
        let sql = "SELECT substr(name, length($1) + 1) FROM settings WHERE CASE WHEN starts_with(name, $1)
            THEN value::int8 < (extract(epoch FROM clock_timestamp()) * 1000)::int8 - $2 END ORDER BY name";
        let rows = self.rows(sql, || params![(UNUSED, TEXT), (UNUSED_FOR_MS, INT8)]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Removes a component that is marked, unless a run refers to it by now, which removes the mark.
    pub(crate) async fn remove_component(&self, digest: &str) -> Result<(), StoreError> {
        self.read(|client| remove_component_once(client, &self.begin, digest)).await
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

    /// Returns the value of a query for bytes; `None` if there is no row.
    async fn bytes(&self, sql: &str, row: impl Fn() -> Params) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.rows(sql, row).await?.first().map(|row| row.get(0)))
    }
}

/// Removes a component in one transaction. A host that looks for it waits for the lock on the mark.
async fn remove_component_once(client: Busy, begin: &str, digest: &str) -> Result<(), Error> {
    let mark = || params![(format!("{UNUSED}{digest}"), TEXT)];
    let row = || params![(digest.to_owned(), TEXT)];
    let (begun, marked, used) = futures::join!(
        client.batch_execute(begin),
        query(&client, "SELECT 1 FROM settings WHERE name = $1 FOR UPDATE", mark()),
        query(&client, "SELECT 1 FROM run_components WHERE digest = $1 LIMIT 1", row())
    );
    begun?;
    if marked?.is_empty() {
        client.roll_back().await;
        return Ok(());
    }
    let mut batch = Batch::new(&client);
    if used?.is_empty() {
        batch.push("DELETE FROM component_parts WHERE digest = $1", row());
        batch.push("DELETE FROM components WHERE digest = $1", row());
    }
    batch.push("DELETE FROM settings WHERE name = $1", mark());
    batch.commit().await?;
    client.finish();
    Ok(())
}
