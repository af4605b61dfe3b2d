//! Removing old data: completed runs with their events, audit records, and components without runs.
//!
//! Hosts work meanwhile: each transaction is short, and locks what it changes in the order of commits. Several
//! processes may remove the same runs. [`remove`](crate::remove) and [`pruned_threads`](crate::pruned_threads) leave
//! marks among the settings, by which the next call finishes what an interrupted one has begun.

use crate::connect::{int8, params};
use crate::database::Database;
use crate::remove::{OldRun, PRUNED_THREAD, REST_OF_RUN, ROWS_AT_ONCE};
use crate::schema;
use crate::settings::check_copied;
use crate::store::PostgresStore;
use std::collections::{BTreeSet, HashMap};
use tokio_postgres::Row;
use tokio_util::sync::CancellationToken;
use tollgate_agent::json;
use tollgate_agent::run::Event;
use tollgate_store::{BlockingRun, PruneOptions, PruneReport, StoreError};

/// The maximum number of blocking runs that are named.
const MAX_NAMED: i64 = 20;

/// Finds the open runs that keep old ones from being removed, with the number of each. The last two conditions on the
/// status are those of the index.
const HELD_BACK: &str = "SELECT o.id, o.status, count(*) FROM runs o JOIN runs r ON r.thread = o.thread
        AND r.status NOT IN ('running', 'waiting') AND r.updated_at_ms < $1 AND r.updated_at_ms >= o.started_at_ms
    WHERE o.status IN ('running', 'waiting') AND o.status <> 'completed' AND length(o.status) > 0
    GROUP BY o.id, o.status ORDER BY 3 DESC, 1 LIMIT $2";
/// Reads the next runs, and whether each is over and old.
const RUNS: &str = "SELECT id, thread, kind, updated_at_ms, events, last_commit = 'copy',
        status NOT IN ('running', 'waiting') AND updated_at_ms < $1
    FROM runs WHERE id > $2 ORDER BY id LIMIT $3";
/// Reads, for each of these threads, when the first of its remaining runs began.
const KEPT_SINCE: &str = "SELECT thread, min(started_at_ms) FROM runs
    WHERE thread = ANY($1) AND (status IN ('running', 'waiting') OR updated_at_ms >= $2) GROUP BY thread";
/// Counts the events and the audit records of runs.
const COUNT: &str = "SELECT (SELECT count(*) FROM events WHERE run = ANY($1)),
    (SELECT count(*) FROM audit WHERE run_id = ANY($1))";
/// Reads the next old audit records, and whether each may be removed: the newest record of each file stays, because the
/// next load is compared with it. The records of remaining runs stay too; those of others were removed with them.
const AUDIT: &str = "SELECT a.at_ms, a.id,
        (a.file IS NULL OR a.id < (SELECT max(n.id) FROM audit n WHERE n.file = a.file))
        AND (a.run_id IS NULL OR NOT EXISTS (SELECT FROM runs r WHERE r.id = a.run_id))
    FROM (SELECT at_ms, id, file, run_id FROM audit WHERE (at_ms, id) > ($1, $2) AND at_ms < $3
        ORDER BY at_ms, id LIMIT $4) AS a ORDER BY 1, 2";

impl PostgresStore {
    /// Removes old completed runs and audit records, until the token is cancelled; the next call removes the rest.
    /// Runs that are running or waiting stay, and so do their children. Hosts may work, and other processes may do the
    /// same. The server reuses the space for later records: [`PruneOptions::give_back`] has no effect.
    ///
    /// A component to which no run refers is removed by the first call that is at least two hours after one that found
    /// it so, because hosts may be about to refer to it.
    ///
    /// # Errors
    /// The role may not remove records, a copy into the database has not finished, or the database cannot be read or
    /// written.
    pub async fn prune(
        &self,
        pruning: PruneOptions,
        stop: &CancellationToken,
    ) -> Result<PruneReport, StoreError> {
        if !pruning.dry_run {
            self.check_may_prune().await?;
        }
        // A copy may have begun since this process connected.
        let client = self.client().await?;
        check_copied(&client, self.address()).await?;
        client.finish();
        let database = self.database();
        let mut pruned = PruneReport { dry_run: pruning.dry_run, ..PruneReport::default() };
        pruned.held_back = database.held_back(pruning.before_ms).await?;
        if !pruning.dry_run {
            database.finish_pruning(stop).await?;
        }
        database.prune_runs(pruning.before_ms, &mut pruned, stop).await?;
        database.prune_audit(pruning.before_ms, &mut pruned, stop).await?;
        if !pruning.dry_run {
            database.prune_components(stop).await?;
        }
        let left = database.rows("SELECT count(*) FROM components", Vec::new).await?;
        pruned.components_left = left.first().map_or(0, |row| count(row, 0));
        Ok(pruned)
    }

    /// Checks that the role may remove runs. The role of hosts should not: see `docs/postgresql.md`.
    ///
    /// # Errors
    /// The role lacks a privilege, or the database cannot be read.
    pub async fn check_may_prune(&self) -> Result<(), StoreError> {
        let client = self.client().await?;
        schema::check_may_prune(&client, self.address()).await?;
        client.finish();
        Ok(())
    }
}

impl Database {
    async fn held_back(&self, before_ms: u64) -> Result<Vec<BlockingRun>, StoreError> {
        let rows = self.rows(HELD_BACK, || params![(int8(before_ms), INT8), (MAX_NAMED, INT8)]).await?;
        let blocking =
            |row: &Row| BlockingRun { run_id: row.get(0), status: row.get(1), runs: count(row, 2) };
        Ok(rows.iter().map(blocking).collect())
    }

    /// Finishes what an interrupted call has begun.
    async fn finish_pruning(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        let sql =
            "SELECT name FROM settings WHERE starts_with(name, $1) OR starts_with(name, $2) ORDER BY name";
        for row in self.rows(sql, || params![(REST_OF_RUN, TEXT), (PRUNED_THREAD, TEXT)]).await? {
            let name: &str = row.get(0);
            if let Some(run_id) = name.strip_prefix(REST_OF_RUN) {
                self.remove_rest(run_id, stop).await?;
            } else if let Some(thread) = name.strip_prefix(PRUNED_THREAD) {
                self.tidy_thread(thread, stop).await?;
            }
        }
        Ok(())
    }

    /// Removes the old runs, and then the rows that their threads no longer need.
    async fn prune_runs(
        &self,
        before_ms: u64,
        pruned: &mut PruneReport,
        stop: &CancellationToken,
    ) -> Result<(), StoreError> {
        let mut after = String::new();
        while !stop.is_cancelled() {
            let (old, last) = self.old_runs(before_ms, &after).await?;
            let Some(last) = last else { break };
            if pruned.dry_run {
                self.count(&old, pruned).await?;
            } else {
                let mut threads = BTreeSet::new();
                for run in &old {
                    if self.remove_run(run, before_ms, pruned, stop).await? {
                        threads.insert(run.thread.as_str());
                    }
                }
                for thread in threads {
                    self.tidy_thread(thread, stop).await?;
                }
            }
            after = last;
        }
        Ok(())
    }

    /// Counts what would be removed, in parts.
    async fn count(&self, old: &[OldRun], pruned: &mut PruneReport) -> Result<(), StoreError> {
        for part in old.chunks(100) {
            let ids: Vec<String> = part.iter().map(|run| run.id.clone()).collect();
            let counted = self.rows(COUNT, || params![(ids.clone(), TEXT_ARRAY)]).await?;
            for row in &counted {
                pruned.events += count(row, 0);
                pruned.audit += count(row, 1);
            }
            pruned.runs += part.len() as u64;
        }
        Ok(())
    }

    /// Returns the next runs that may be removed, and the last one that was examined.
    async fn old_runs(
        &self,
        before_ms: u64,
        after: &str,
    ) -> Result<(Vec<OldRun>, Option<String>), StoreError> {
        let next = || params![(int8(before_ms), INT8), (after.to_owned(), TEXT), (ROWS_AT_ONCE, INT8)];
        let rows = self.rows(RUNS, next).await?;
        let last = rows.last().map(|row| row.get(0));
        let old: Vec<&Row> = rows.iter().filter(|row| row.get(6)).collect();
        let threads: BTreeSet<&str> = old.iter().map(|row| row.get(1)).collect();
        let threads: Vec<String> = threads.into_iter().map(str::to_owned).collect();
        let kept = || params![(threads.clone(), TEXT_ARRAY), (int8(before_ms), INT8)];
        let kept = if old.is_empty() { Vec::new() } else { self.rows(KEPT_SINCE, kept).await? };
        let kept_since: HashMap<&str, i64> = kept.iter().map(|row| (row.get(0), row.get(1))).collect();
        let mut removable = Vec::with_capacity(old.len());
        for row in old {
            let (thread, ended_ms): (&str, i64) = (row.get(1), row.get(3));
            let run = OldRun {
                id: row.get(0),
                thread: thread.to_owned(),
                events: row.get(4),
                is_copied: row.get(5),
            };
            // A run that was at work beside a remaining one may have changed what that one read.
            let was_at_work = kept_since.get(thread).is_some_and(|since| *since <= ended_ms);
            // A parent that continues reads the result of its child.
            let is_child = row.get::<_, &str>(2) == "child";
            let is_needed = was_at_work || (is_child && self.has_open_parent(&run.id).await?);
            if !is_needed {
                removable.push(run);
            }
        }
        Ok((removable, last))
    }

    async fn has_open_parent(&self, run_id: &str) -> Result<bool, StoreError> {
        let sql = "SELECT body FROM events WHERE run = $1 AND number = 1";
        let first = self.rows(sql, || params![(run_id.to_owned(), TEXT)]).await?;
        let first = first.first().and_then(|row| json::from_record(row.get(0)).ok());
        let Some(Event::RunStarted { spec }) = first else { return Ok(false) };
        let Some(parent) = &spec.identity.parent_run_id else { return Ok(false) };
        let sql = "SELECT 1 FROM runs WHERE id = $1 AND status IN ('running', 'waiting')";
        Ok(!self.rows(sql, || params![(parent.to_string(), TEXT)]).await?.is_empty())
    }

    /// Removes old audit records that do not belong to remaining runs.
    async fn prune_audit(
        &self,
        before_ms: u64,
        pruned: &mut PruneReport,
        stop: &CancellationToken,
    ) -> Result<(), StoreError> {
        let mut after = (i64::MIN, 0_i64);
        while !stop.is_cancelled() {
            let next =
                || params![(after.0, INT8), (after.1, INT8), (int8(before_ms), INT8), (ROWS_AT_ONCE, INT8)];
            let rows = self.rows(AUDIT, next).await?;
            let Some(last) = rows.last() else { break };
            after = (last.get(0), last.get(1));
            let old: Vec<i64> = rows.iter().filter(|row| row.get(2)).map(|row| row.get(1)).collect();
            pruned.audit += match pruned.dry_run || old.is_empty() {
                true => old.len() as u64,
                false => {
                    let sql = "DELETE FROM audit WHERE id = ANY($1)";
                    self.send(sql, || params![(old.clone(), INT8_ARRAY)]).await?
                }
            };
        }
        Ok(())
    }

    /// Removes the components to which no run has referred for a while.
    async fn prune_components(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        if stop.is_cancelled() {
            return Ok(());
        }
        for digest in self.mark_unused_components().await? {
            if stop.is_cancelled() {
                break;
            }
            self.remove_component(&digest).await?;
        }
        Ok(())
    }
}

fn count(row: &Row, at: usize) -> u64 {
    row.get::<_, i64>(at).cast_unsigned()
}
