//! Copying a data directory into a database.
//!
//! Each run is copied in a transaction of its own, with the rows that depend on it, so a run that the
//! database has is complete. A copy that was interrupted continues with the runs that are missing. At
//! the end, everything is read back and compared. From the first row until then, a marker in
//! `settings` keeps hosts from working on what is incomplete. Records are read in pages: a whole one
//! may be larger than the memory.

use crate::config::PostgresConfig;
use crate::connect::{params, run, single};
use crate::error::explain;
use crate::settings::{COPY, setting};
use crate::store::PostgresStore;
use crate::{audit, schema, write};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_postgres::{Client, Error};
use tollgate_agent::run::{Event, StoredEvent};
use tollgate_agent::text::clean;
use tollgate_store::rules::{EventRow, checksum, label, serialize};
use tollgate_store::{
    AuditFilter, AuditRecord, AuditStore, ComponentStore, CoordinationStore, CopySource, PageLimit,
    RecordReader, Remedy, RunFilter, RunStore, RunSummary, StateStore, StoreError,
};

/// Adds a run that no host drives.
const INSERT_RUN: &str =
    "INSERT INTO runs (id, thread, agent, kind, title, status, owner, epoch, events, last_commit,
    last_moved, started_at_ms, updated_at_ms)
    VALUES ($1, $2, $3, $4, $5, $6, NULL, $10, $7, 'copy', 0, $8, $9)";
/// Adds the commands to a run that were not carried out, in their order.
const INSERT_COMMANDS: &str = "INSERT INTO inbox (run, id, body)
    SELECT $1, x.id, x.body FROM unnest($2, $3) WITH ORDINALITY AS x(id, body, n) ORDER BY x.n";
/// Adds the events of a run.
const INSERT_EVENTS: &str = "INSERT INTO events (run, number, at_ms, body, checksum)
    SELECT $1, x.number, x.at_ms, x.body, x.sum FROM unnest($2, $3, $4, $5)
    AS x(number, at_ms, body, sum)";
/// Advances the number of audit records that an unfinished copy has written.
const COUNT_AUDIT: &str = "UPDATE settings SET value = $1 WHERE name = 'copied_audit' AND value = $2";
/// The number of changes of a thread that are read at once.
const CHANGES_AT_ONCE: usize = 500;
/// The part of a record that is read at once. A single event may be larger.
const PAGE: PageLimit = PageLimit { events: 1_000, bytes: 1 << 20 };
/// The number of audit records that are read at once.
const AUDIT_AT_ONCE: usize = 1_000;

/// The result of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CopyReport {
    /// The number of runs in the data directory, all of which are in the database.
    pub runs: u64,
    /// The number of their events.
    pub events: u64,
    /// The number of their threads.
    pub threads: u64,
    /// The number of audit records.
    pub audit: u64,
    /// The number of components.
    pub components: u64,
    /// The number of runs that an earlier, interrupted copy had copied.
    pub known: u64,
}

impl PostgresStore {
    /// Copies all runs, threads, audit records and components of a data directory that no process
    /// uses. The database must be empty, or contain an interrupted copy of the same directory. No
    /// host may use the database, and none can until the copy has finished.
    ///
    /// # Errors
    /// A store cannot be read or written, a host uses the database, the database is not empty, the
    /// copy differs from the directory, or the directory changed meanwhile.
    pub async fn copy(config: PostgresConfig, from: &dyn CopySource) -> Result<CopyReport, StoreError> {
        let client = single(&config, &config.server, |_| {}).await?;
        schema::check(&client, &config).await?;
        Self::on(client, config).await?.copy_from(from).await
    }

    /// Returns the key from which the codes of open questions are made. It is the same for all hosts.
    ///
    /// # Errors
    /// The database cannot be reached or used.
    pub async fn decisions_key(config: &PostgresConfig) -> Result<String, StoreError> {
        let client = single(config, &config.server, |_| {}).await?;
        schema::check(&client, config).await?;
        let key = setting(&client, "decisions_key").await;
        let key = key.map_err(|e| explain("read", &config.address(), &e))?;
        key.ok_or_else(|| {
            StoreError::damaged("the store has no key of decisions; restore the database from a backup")
        })
    }

    async fn copy_from(&self, from: &dyn CopySource) -> Result<CopyReport, StoreError> {
        let runs = runs_of(from).await?;
        if let Some(busy) = runs.iter().find(|run| run.is_driven) {
            return Err(StoreError::unavailable(format!(
                "a process drives the run {}; stop every process that uses the data directory first",
                busy.run_id
            )));
        }
        self.begin(&from.place()).await?;
        let copied_before = runs_of(self).await?;
        let known: BTreeSet<&str> = copied_before.iter().map(|run| run.run_id.as_str()).collect();
        let wanted: BTreeSet<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
        if let Some(foreign) = known.iter().find(|run_id| !wanted.contains(*run_id)) {
            return Err(StoreError::unusable(format!(
                "the database contains the run {foreign}, which the data directory does not; copy into an empty database"
            )));
        }
        let mut copied = CopyReport { known: known.len() as u64, ..CopyReport::default() };
        let threads = from.thread_ids().await?;
        for run in &runs {
            copied.runs += 1;
            copied.events += run.events;
            if !known.contains(run.run_id.as_str()) {
                self.copy_run(from, run).await?;
            }
        }
        for thread_id in &threads {
            copied.threads += 1;
            self.copy_thread(from, thread_id).await?;
        }
        copied.audit = self.copy_audit(from).await?;
        copied.components = self.copy_components(from).await?;
        self.compare(from, &runs, &threads).await?;
        if runs_of(from).await? != runs || from.thread_ids().await? != threads {
            let message =
                format!("{} changed during the copy; stop every process that uses it", from.place());
            return Err(StoreError::unavailable(message).with_remedy(Remedy::RepeatCopy));
        }
        let client = self.client().await?;
        run(&client, "DELETE FROM settings WHERE name IN ('copy', 'copied_audit')", Vec::new())
            .await
            .map_err(|e| self.uncopied(&e))?;
        client.finish();
        Ok(copied)
    }

    /// Sets the marker of an unfinished copy, unless an interrupted copy of the same source has set
    /// it. No host can register from then on.
    async fn begin(&self, place: &str) -> Result<(), StoreError> {
        let client = self.client().await?;
        let failed = |e: Error| self.uncopied(&e);
        let refused = |why: String| {
            Err(StoreError::unusable(format!("cannot copy into the store at {}: {why}", self.address())))
        };
        // The lock waits for hosts that are registering, and later ones see the marker.
        let begin = "BEGIN; LOCK TABLE hosts IN SHARE ROW EXCLUSIVE MODE";
        client.batch_execute(begin).await.map_err(failed)?;
        match setting(&client, COPY).await.map_err(failed)? {
            Some(source) if source == place => {}
            Some(source) => {
                return refused(format!(
                    "a copy of {source} has not finished; continue that, or use another database"
                ));
            }
            None => {
                let sql = "SELECT coalesce(string_agg(name || ' (' || id || ')', ', '), '') FROM hosts
                    WHERE state = 'up' AND lease_until > clock_timestamp()";
                let hosts: String = client.query_typed_one(sql, &[]).await.map_err(failed)?.get(0);
                if !hosts.is_empty() {
                    return refused(format!("hosts use it: {}; stop them first", clean(&hosts, 1_000)));
                }
                let sql = "SELECT EXISTS (SELECT FROM runs) OR EXISTS (SELECT FROM threads) OR EXISTS (SELECT FROM audit)";
                if client.query_typed_one(sql, &[]).await.map_err(failed)?.get(0) {
                    let why = "it has runs, threads or audit records; copy into a new database";
                    return refused(why.to_owned());
                }
                let sql = "INSERT INTO settings (name, value) VALUES ($1, $2), ('copied_audit', '0')";
                run(&client, sql, params![(COPY, TEXT), (place.to_owned(), TEXT)]).await.map_err(failed)?;
                // A host that was stopped for longer than its lease has to register again.
                run(&client, "UPDATE hosts SET state = 'dead'", Vec::new()).await.map_err(failed)?;
            }
        }
        client.batch_execute("COMMIT").await.map_err(failed)?;
        client.finish();
        Ok(())
    }

    /// Copies a run, its events and its changes in one transaction.
    async fn copy_run(&self, from: &dyn CopySource, summary: &RunSummary) -> Result<(), StoreError> {
        let run_id = summary.run_id.as_str();
        let client = self.client().await?;
        client.batch_execute("BEGIN").await.map_err(|e| self.uncopied(&e))?;
        let (mut after, mut bytes, mut begun, mut sum) = (0, 0, None, None);
        loop {
            // Reading checks the checksums.
            let page = from.events_page(run_id, after, PAGE).await?;
            if let Some(Event::RunStarted { spec }) = page.events.first().map(|first| &first.event) {
                begun = Some(label(spec));
            }
            let rows = rows_of(&page.events, sum)?;
            bytes += rows.iter().map(|row| row.body.len() as u64 + 64).sum::<u64>();
            after = rows.last().map_or(after, |row| row.number);
            sum = rows.last().and_then(|row| row.checksum.clone());
            self.copy_events(&client, summary, &page.events, rows).await?;
            if !page.has_more {
                break;
            }
        }
        self.copy_commands(&client, from, summary).await?;
        let Some((kind, title)) = begun else {
            let why = format!("the first event of the run {run_id} is missing");
            return Err(StoreError::damaged(why));
        };
        let (run_id, thread) = (run_id.to_owned(), summary.thread_id.clone());
        let (threaded, listed, ended) = futures::join!(
            run(
                &client,
                "INSERT INTO threads AS t (id, record_bytes) VALUES ($1, $2)
                 ON CONFLICT (id) DO UPDATE SET record_bytes = t.record_bytes + excluded.record_bytes",
                params![(thread.clone(), TEXT), (bytes.cast_signed(), INT8)]
            ),
            run(
                &client,
                INSERT_RUN,
                params![
                    (run_id, TEXT),
                    (thread, TEXT),
                    (summary.agent_id.clone(), TEXT),
                    (kind, TEXT),
                    (title, TEXT),
                    (summary.status.clone(), TEXT),
                    (summary.events.cast_signed(), INT8),
                    (summary.started_at_ms.cast_signed(), INT8),
                    (summary.updated_at_ms.cast_signed(), INT8),
                    // A queued run has had no driver.
                    (i64::from(!summary.queued), INT8)
                ]
            ),
            client.batch_execute("COMMIT")
        );
        threaded.and(listed).and(ended.map(|()| 0)).map_err(|e| self.uncopied(&e))?;
        client.finish();
        Ok(())
    }

    /// Copies a part of a run's events, and the changes among them.
    async fn copy_events(
        &self,
        client: &Client,
        summary: &RunSummary,
        events: &[Arc<StoredEvent>],
        rows: Vec<EventRow>,
    ) -> Result<(), StoreError> {
        let changed = |event: &Arc<StoredEvent>| {
            Some((event.event.change()?.revision.cast_signed(), event.number.cast_signed()))
        };
        let (revisions, numbers): (Vec<i64>, Vec<i64>) = events.iter().filter_map(changed).unzip();
        let of_rows = |number: fn(&EventRow) -> u64| {
            rows.iter().map(|row| number(row).cast_signed()).collect::<Vec<i64>>()
        };
        let row = params![
            (summary.run_id.clone(), TEXT),
            (of_rows(|row| row.number), INT8_ARRAY),
            (of_rows(|row| row.at_ms), INT8_ARRAY),
            (rows.iter().map(|row| row.body.clone()).collect::<Vec<String>>(), TEXT_ARRAY),
            (rows.into_iter().map(|row| row.checksum).collect::<Vec<_>>(), BYTEA_ARRAY)
        ];
        let (logged, changed) = futures::join!(
            run(client, INSERT_EVENTS, row),
            run(
                client,
                "INSERT INTO changes (thread, revision, run, number)
                 SELECT $1, x.revision, $2, x.number FROM unnest($3, $4) AS x(revision, number)",
                params![
                    (summary.thread_id.clone(), TEXT),
                    (summary.run_id.clone(), TEXT),
                    (revisions, INT8_ARRAY),
                    (numbers, INT8_ARRAY)
                ]
            )
        );
        logged.and(changed).map(drop).map_err(|e| self.uncopied(&e))
    }

    /// Copies the commands to a run that were not carried out.
    async fn copy_commands(
        &self,
        client: &Client,
        from: &dyn CopySource,
        summary: &RunSummary,
    ) -> Result<(), StoreError> {
        if !summary.is_open() {
            return Ok(());
        }
        let sent = from.pending_commands(&summary.run_id).await?;
        let ids: Vec<String> = sent.iter().map(|sent| sent.id.to_string()).collect();
        let bodies: Vec<String> =
            sent.iter().map(|sent| serialize(&sent.command)).collect::<Result<_, _>>()?;
        let row = params![(summary.run_id.clone(), TEXT), (ids, TEXT_ARRAY), (bodies, TEXT_ARRAY)];
        run(client, INSERT_COMMANDS, row).await.map(drop).map_err(|e| self.uncopied(&e))
    }

    /// Copies the conversation, the state, and the changes that no run made. Copying a thread again
    /// after an interruption changes nothing.
    async fn copy_thread(&self, from: &dyn CopySource, thread_id: &str) -> Result<(), StoreError> {
        let thread = from.thread(thread_id).await?;
        let bodies: Vec<String> = thread.messages.iter().map(serialize).collect::<Result<_, _>>()?;
        let values: Vec<(String, String)> =
            thread.state.iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect();
        let client = self.client().await?;
        let failed = |e: Error| self.uncopied(&e);
        let sql = "INSERT INTO messages (thread, position, body)
            SELECT $1, x.n - 1, x.body FROM unnest($2) WITH ORDINALITY AS x(body, n) ON CONFLICT DO NOTHING";
        let message_count = i64::try_from(bodies.len()).unwrap_or(i64::MAX);
        run(&client, sql, params![(thread_id.to_owned(), TEXT), (bodies, TEXT_ARRAY)])
            .await
            .map_err(failed)?;
        run(&client, write::SET_STATE, write::state_rows(thread_id, &values)).await.map_err(failed)?;
        let sql = "INSERT INTO threads AS t (id, revision, messages) VALUES ($1, $2, $3)
            ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, messages = excluded.messages";
        let row = params![
            (thread_id.to_owned(), TEXT),
            (thread.state.revision().cast_signed(), INT8),
            (message_count, INT8)
        ];
        run(&client, sql, row).await.map_err(failed)?;
        let mut after = 0;
        loop {
            let changes = from.changes(thread_id, after, CHANGES_AT_ONCE).await?;
            let Some(last) = changes.last() else { break };
            after = last.revision;
            let revisions: Vec<i64> = changes.iter().map(|change| change.revision.cast_signed()).collect();
            let bodies: Vec<String> = changes.iter().map(serialize).collect::<Result<_, _>>()?;
            // The changes of runs were copied with them.
            let sql = "INSERT INTO changes (thread, revision, body)
                SELECT $1, x.revision, x.body FROM unnest($2, $3) AS x(revision, body) ON CONFLICT DO NOTHING";
            let row = params![(thread_id.to_owned(), TEXT), (revisions, INT8_ARRAY), (bodies, TEXT_ARRAY)];
            run(&client, sql, row).await.map_err(failed)?;
        }
        client.finish();
        Ok(())
    }

    /// Copies the audit and the health of tools, and returns the number of audit records.
    async fn copy_audit(&self, from: &dyn CopySource) -> Result<u64, StoreError> {
        let count = audit_count(from).await?;
        let client = self.client().await?;
        let failed = |e: Error| self.uncopied(&e);
        let copied = setting(&client, "copied_audit").await.map_err(failed)?;
        // Records are copied in their order, so an interrupted copy has the first ones.
        let mut copied: usize = copied.and_then(|number| number.parse().ok()).unwrap_or(0);
        while copied < count {
            let chunk = audit_page(from, count, copied).await?;
            let counts = params![((copied + chunk.len()).to_string(), TEXT), (copied.to_string(), TEXT)];
            client.batch_execute("BEGIN").await.map_err(failed)?;
            if run(&client, COUNT_AUDIT, counts).await.map_err(failed)? == 0 {
                let why = "another copy into this database is in progress; wait until it has ended";
                return Err(StoreError::unavailable(why));
            }
            run(&client, audit::INSERT, audit::rows(&chunk)).await.map_err(failed)?;
            client.batch_execute("COMMIT").await.map_err(failed)?;
            copied += chunk.len();
        }
        for health in from.tool_health().await? {
            let (tool, health) = (health.tool_name.to_string(), Some(health));
            run(&client, "DELETE FROM tool_health WHERE tool_name = $1", params![(tool.clone(), TEXT)])
                .await
                .map_err(|e| self.uncopied(&e))?;
            let row = audit::health_row(&tool, &health);
            run(&client, audit::set_health(&health), row).await.map_err(|e| self.uncopied(&e))?;
        }
        client.finish();
        Ok(count as u64)
    }

    /// Copies the components that runs called, and returns their number.
    async fn copy_components(&self, from: &dyn CopySource) -> Result<u64, StoreError> {
        let mut digests = BTreeSet::new();
        for (run_id, digest) in from.run_components().await? {
            if !self.database().has_component(&digest).await?
                && let Some(bytes) = from.component(&digest).await?
            {
                self.database().store_component(&digest, &bytes).await?;
            }
            let client = self.client().await?;
            digests.insert(digest.clone());
            let sql = "INSERT INTO run_components (run, digest) VALUES ($1, $2) ON CONFLICT DO NOTHING";
            run(&client, sql, params![(run_id, TEXT), (digest, TEXT)])
                .await
                .map_err(|e| self.uncopied(&e))?;
            client.finish();
        }
        Ok(digests.len() as u64)
    }

    /// Reads everything back and compares it with the source.
    ///
    /// # Errors
    /// Something differs, or cannot be read.
    async fn compare(
        &self,
        from: &dyn CopySource,
        runs: &[RunSummary],
        threads: &[String],
    ) -> Result<(), StoreError> {
        let differs = |what: &str, id: &str| {
            Err(StoreError::damaged(format!(
                "the copy of {what} {id} differs from the data directory; drop the database and copy again"
            )))
        };
        let listed = runs_of(self).await?;
        let listed: BTreeSet<_> = listed.iter().map(|run| (&run.run_id, &run.status, run.events)).collect();
        for run in runs {
            let is_listed = listed.contains(&(&run.run_id, &run.status, run.events));
            if !is_listed || !self.has_record_of(from, run).await? {
                return differs("the run", &run.run_id);
            }
            if run.is_open()
                && self.commands(&run.run_id).await? != from.pending_commands(&run.run_id).await?
            {
                return differs("the commands to the run", &run.run_id);
            }
        }
        for thread_id in threads {
            let (source, copied) = (from.thread(thread_id).await?, self.thread(thread_id).await?);
            if source.messages != copied.messages || source.state != copied.state {
                return differs("the thread", thread_id);
            }
        }
        let count = audit_count(from).await?;
        let mut compared = 0;
        while compared < count {
            let page = audit_page(from, count, compared).await?;
            if audit_page(self, count, compared).await? != page {
                return differs("the", "audit");
            }
            compared += page.len();
        }
        if audit_count(self).await? != count {
            return differs("the", "audit");
        }
        for (_, digest) in from.run_components().await? {
            let (source, copied) = (from.component(&digest).await?, self.component(&digest).await?);
            if source != copied {
                return differs("the component", &digest);
            }
        }
        Ok(())
    }

    /// Returns whether both stores have the same events of a run. Reading also checks the checksums.
    async fn has_record_of(&self, from: &dyn CopySource, run: &RunSummary) -> Result<bool, StoreError> {
        let mut source = RecordReader::new(from, &run.run_id);
        let mut copy = RecordReader::new(self, &run.run_id);
        let mut events = 0;
        loop {
            match (source.next().await?, copy.next().await?) {
                (None, None) => return Ok(events == run.events),
                (Some(source), Some(copy)) if serialize(&*source)? == serialize(&*copy)? => events += 1,
                _ => return Ok(false),
            }
        }
    }

    /// Returns the error for a row that could not be copied.
    fn uncopied(&self, error: &Error) -> StoreError {
        explain("write to", self.address(), error)
    }
}

/// Returns all runs, oldest first.
async fn runs_of<S: RunStore + ?Sized>(store: &S) -> Result<Vec<RunSummary>, StoreError> {
    let mut runs = store.runs(RunFilter { limit: usize::MAX, ..RunFilter::default() }).await?;
    runs.reverse();
    Ok(runs)
}

/// Returns the number of audit records.
async fn audit_count<S: AuditStore + ?Sized>(store: &S) -> Result<usize, StoreError> {
    let mut count = 0;
    loop {
        let filter = AuditFilter { skip: count, limit: AUDIT_AT_ONCE, ..AuditFilter::default() };
        match store.audit(filter).await?.len() {
            0 => return Ok(count),
            found => count += found,
        }
    }
}

/// Returns the next of `count` audit records after the first `skip`, oldest first.
async fn audit_page<S: AuditStore + ?Sized>(
    store: &S,
    count: usize,
    skip: usize,
) -> Result<Vec<AuditRecord>, StoreError> {
    let limit = AUDIT_AT_ONCE.min(count - skip);
    let filter = AuditFilter { skip: count - skip - limit, limit, ..AuditFilter::default() };
    let mut records = store.audit(filter).await?;
    if records.is_empty() {
        let why = "the audit changed during the copy; stop every process that writes to it";
        return Err(StoreError::unavailable(why).with_remedy(Remedy::RepeatCopy));
    }
    records.reverse();
    Ok(records)
}

/// Returns the rows of events that follow one with this checksum. The first event of a run has none
/// before it.
fn rows_of(events: &[Arc<StoredEvent>], before: Option<Vec<u8>>) -> Result<Vec<EventRow>, StoreError> {
    let (mut rows, mut before): (Vec<EventRow>, _) = (Vec::with_capacity(events.len()), before);
    for event in events {
        let (number, at_ms, body) = (event.number, event.at_ms, serialize(&event.event)?);
        let sum = checksum(before.as_deref(), number, at_ms, &body).to_vec();
        before = Some(sum.clone());
        rows.push(EventRow { number, at_ms, body, checksum: Some(sum) });
    }
    Ok(rows)
}
