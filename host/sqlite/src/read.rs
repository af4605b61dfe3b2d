//! Reading threads, events and lists of runs.

use super::explain::explain;
use super::open::{NEWEST, applied_and_known};
use super::process::Process;
use super::sizes::Subject;
use super::{audit, inbox, state};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params, params_from_iter};
use std::path::Path;
use std::sync::Arc;
use tollgate_agent::json;
use tollgate_agent::message::Message;
use tollgate_agent::run::{Event, RunSpec, StoredEvent, Thread};
use tollgate_agent::state::{State, StateChange};
use tollgate_store::rules::{EventRow, first_damage};
use tollgate_store::{
    AuditFilter, AuditRecord, EventPage, KeyFilter, PageLimit, Record, Remedy, RunFilter, RunSummary,
    SentCommand, StoreError, ThreadSize, ToolHealth,
};

fn event_row(row: &Row<'_>) -> rusqlite::Result<EventRow> {
    Ok(EventRow {
        number: row.get::<_, i64>(0)?.cast_unsigned(),
        at_ms: row.get::<_, i64>(1)?.cast_unsigned(),
        // The checksum detects damaged text.
        body: String::from_utf8_lossy(row.get_ref(2)?.as_bytes().unwrap_or_default()).into_owned(),
        checksum: row.get(3)?,
    })
}

/// A part of a run's events.
struct FoundEvents {
    /// The number of the run's last event.
    last: u64,
    /// The checksum of the event before them.
    before: Option<Vec<u8>>,
    rows: Vec<EventRow>,
    has_more: bool,
}

/// The rows of a run's events.
#[derive(Default)]
struct FoundRows {
    rows: Vec<EventRow>,
    /// Whether there are more than the limit allows.
    has_more: bool,
    /// A description of the first damage.
    damage: Option<String>,
}

/// A thread with at most this much text is read whole and cached, in bytes.
pub(super) const SMALL_THREAD_BYTES: u64 = 256 * 1024;
/// The maximum number of messages of a cached thread.
pub(super) const MAX_CACHED_MESSAGES: usize = 100;

/// The state of a thread, as it was read.
pub(super) enum FoundState {
    /// The whole thread, which is small.
    Whole(Thread),
    /// The wanted keys.
    Part(State),
    /// The wanted keys have more bytes than may be read.
    Larger(u64),
}

/// Returns the sum of the sizes of these keys, in bytes.
fn total(sizes: &[(String, usize)]) -> u64 {
    sizes.iter().map(|(_, bytes)| *bytes as u64).sum()
}

/// One connection in use.
pub(super) struct Reader<'a> {
    pub(super) connection: &'a Connection,
    pub(super) file: &'a Path,
    pub(super) process: &'a Process,
}

impl Reader<'_> {
    pub(super) fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
        self.with_thread(thread_id, |found| match found {
            None => Ok(Thread::default()),
            Some((id, revision)) => self.whole(id, revision),
        })
    }

    /// Returns how much text [`thread`](Self::thread) reads, in bytes.
    pub(super) fn thread_size(&self, thread_id: &str) -> Result<ThreadSize, StoreError> {
        self.with_thread(thread_id, |found| {
            let Some((id, _)) = found else { return Ok(ThreadSize::default()) };
            let state_bytes = total(&self.state_sizes(id)?);
            Ok(ThreadSize { state_bytes, message_bytes: self.message_bytes(id)? })
        })
    }

    /// Returns the wanted part of a thread's state: the whole thread if it is small, so that it can
    /// be cached.
    pub(super) fn state(
        &self,
        thread_id: &str,
        wanted: &KeyFilter,
        max_bytes: u64,
    ) -> Result<FoundState, StoreError> {
        self.with_thread(thread_id, |found| {
            let Some((id, revision)) = found else { return Ok(FoundState::Whole(Thread::default())) };
            let mut sizes = self.state_sizes(id)?;
            let small = SMALL_THREAD_BYTES.min(max_bytes);
            if total(&sizes) <= small
                && total(&sizes).saturating_add(self.bytes_of_few_messages(id)?) <= small
            {
                return self.whole(id, revision).map(FoundState::Whole);
            }
            sizes.retain(|(key, _)| wanted.matches(key));
            let bytes = total(&sizes);
            if bytes > max_bytes {
                return Ok(FoundState::Larger(bytes));
            }
            let keys = sizes.into_iter().map(|(key, _)| key);
            let values = state::read_keys(self.connection, id, keys).map_err(|e| self.explain(&e))?;
            Ok(FoundState::Part(State::restored(revision, values)))
        })
    }

    /// Calls `read` with the row and the revision of a thread, or `None` if it does not exist. All is
    /// read in one transaction, so that its parts are consistent.
    fn with_thread<T>(
        &self,
        thread_id: &str,
        read: impl FnOnce(Option<(i64, u64)>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _transaction = self.transaction()?;
        let find = || -> rusqlite::Result<Option<(i64, u64)>> {
            let find = "SELECT id, revision FROM threads WHERE thread_id = ?1";
            self.connection
                .prepare_cached(find)?
                .query_row([thread_id], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))
                .optional()
        };
        read(find().map_err(|e| self.explain(&e))?)
    }

    /// Begins a transaction that reads, and ends when it is dropped.
    fn transaction(&self) -> Result<Transaction<'_>, StoreError> {
        self.connection.unchecked_transaction().map_err(|e| self.explain(&e))
    }

    fn whole(&self, id: i64, revision: u64) -> Result<Thread, StoreError> {
        let messages = Arc::new(self.messages(id)?);
        Ok(Thread { messages, state: State::restored(revision, self.state_of(id)?) })
    }

    fn state_sizes(&self, thread: i64) -> Result<Vec<(String, usize)>, StoreError> {
        state::all_sizes(self.connection, thread).map_err(|e| self.explain(&e))
    }

    fn message_bytes(&self, thread: i64) -> Result<u64, StoreError> {
        let sum = "SELECT coalesce(sum(octet_length(body)), 0) FROM messages
            WHERE id >= ?1 << 32 AND id < (?1 + 1) << 32";
        let sum = self
            .connection
            .prepare_cached(sum)
            .and_then(|mut sum| sum.query_row([thread], |row| row.get::<_, i64>(0)));
        Ok(sum.map_err(|e| self.explain(&e))?.cast_unsigned())
    }

    /// Returns the size of a conversation, or [`u64::MAX`] if it has too many messages to be cached.
    fn bytes_of_few_messages(&self, thread: i64) -> Result<u64, StoreError> {
        let sum = "SELECT count(*), coalesce(sum(bytes), 0) FROM
            (SELECT octet_length(body) AS bytes FROM messages WHERE id >= ?1 << 32 AND id < (?1 + 1) << 32 LIMIT ?2)";
        let limit = i64::try_from(MAX_CACHED_MESSAGES + 1).unwrap_or(i64::MAX);
        let sum = self.connection.prepare_cached(sum).and_then(|mut sum| {
            sum.query_row(params![thread, limit], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        });
        let (count, bytes) = sum.map_err(|e| self.explain(&e))?;
        Ok(if count < limit { bytes.cast_unsigned() } else { u64::MAX })
    }

    fn messages(&self, thread: i64) -> Result<Vec<Message>, StoreError> {
        let query = "SELECT body FROM messages WHERE id >= ?1 << 32 AND id < (?1 + 1) << 32 ORDER BY id";
        let bodies = self.column(query, thread)?;
        bodies.iter().map(|body| self.parse("message", body)).collect()
    }

    fn state_of(&self, thread: i64) -> Result<Vec<(String, serde_json::Value)>, StoreError> {
        state::read(self.connection, thread).map_err(|e| self.explain(&e))
    }

    pub(super) fn events(&self, run_id: &Arc<str>, after: u64) -> Result<Vec<Arc<StoredEvent>>, StoreError> {
        Ok(self.events_page(run_id, after, PageLimit::NONE)?.events)
    }

    pub(super) fn events_page(
        &self,
        run_id: &Arc<str>,
        after: u64,
        limit: PageLimit,
    ) -> Result<EventPage, StoreError> {
        let FoundRows { rows, has_more, damage } = self.rows(run_id, after, limit)?;
        // A parse error is more informative than a wrong checksum.
        let events = rows.iter().map(|row| self.event(run_id, row)).collect::<Result<_, _>>()?;
        match damage {
            None => Ok(EventPage { events, has_more }),
            Some(problem) => {
                let message = format!(
                    "the record of run {run_id} is damaged ({problem}); restore the store from a copy"
                );
                Err(StoreError::damaged(message).with_remedy(Remedy::ShowRun(run_id.to_string())))
            }
        }
    }

    /// Returns the specification with which a run began; `None` if there is no such run.
    pub(super) fn run_spec(&self, run_id: &str) -> Result<Option<Arc<RunSpec>>, StoreError> {
        let query = || -> rusqlite::Result<Option<Event>> {
            let run = self
                .connection
                .prepare_cached("SELECT id FROM runs WHERE run_id = ?1")?
                .query_row([run_id], |row| row.get::<_, i64>(0))
                .optional()?;
            run.map_or(Ok(None), |run| runs_event(self.connection, run, 1))
        };
        Ok(match query().map_err(|e| self.explain(&e))? {
            Some(Event::RunStarted { spec }) => Some(spec),
            _ => None,
        })
    }

    /// Returns the record of a run, as far as it can be read.
    pub(super) fn record(&self, run_id: &Arc<str>) -> Result<Record, StoreError> {
        let FoundRows { rows, damage, .. } = self.rows(run_id, 0, PageLimit::NONE)?;
        let without_checksum = rows.iter().filter(|row| row.checksum.is_none()).count() as u64;
        let mut record = Record { damage, without_checksum, ..Record::default() };
        for row in &rows {
            match self.event(run_id, row) {
                Ok(event) => record.events.push(event),
                Err(_) => {
                    record.damage.get_or_insert_with(|| format!("event {}: it cannot be read", row.number));
                }
            }
        }
        Ok(record)
    }

    /// Returns the length of a whole record, in bytes.
    pub(super) fn record_bytes(&self, run_id: &str) -> Result<u64, StoreError> {
        let sum = "SELECT coalesce(sum(octet_length(body)), 0) FROM events JOIN runs
            ON events.id >= runs.id << 32 AND events.id < (runs.id + 1) << 32 WHERE runs.run_id = ?1";
        let sum = self
            .connection
            .prepare_cached(sum)
            .and_then(|mut sum| sum.query_row([run_id], |row| row.get::<_, i64>(0)));
        Ok(sum.map_err(|e| self.explain(&e))?.cast_unsigned())
    }

    fn event(&self, run_id: &Arc<str>, row: &EventRow) -> Result<Arc<StoredEvent>, StoreError> {
        let event: Event = self.parse("event", &row.body)?;
        let (number, at_ms) = (row.number, row.at_ms);
        Ok(Arc::new(StoredEvent { run_id: Arc::clone(run_id), number, at_ms, event }))
    }

    /// Returns the checksum of a run's event, if it has one.
    pub(super) fn checksum(&self, run_id: &str, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let find =
            "SELECT checksum FROM events WHERE id = (SELECT id << 32 FROM runs WHERE run_id = ?1) | ?2";
        let mut find = self.connection.prepare_cached(find).map_err(|e| self.explain(&e))?;
        let found = find.query_row(params![run_id, number.cast_signed()], |row| row.get(0)).optional();
        found.map(Option::flatten).map_err(|e| self.explain(&e))
    }

    /// Returns the rows of a run's events after a number, within a limit.
    fn rows(&self, run_id: &str, after: u64, limit: PageLimit) -> Result<FoundRows, StoreError> {
        let query = || -> rusqlite::Result<Option<FoundEvents>> {
            let run = self
                .connection
                .prepare_cached("SELECT id, events FROM runs WHERE run_id = ?1")?
                .query_row([run_id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?.cast_unsigned())))
                .optional()?;
            let Some((run, last)) = run else { return Ok(None) };
            let from = u32::try_from(after).unwrap_or(u32::MAX);
            // The checksum to continue from, without the event: that may have megabytes.
            let before = self
                .connection
                .prepare_cached("SELECT checksum FROM events WHERE id = (?1 << 32) + ?2")?
                .query_row(params![run, from], |row| row.get(0))
                .optional()?
                .flatten();
            let mut statement = self.connection.prepare_cached(
                "SELECT number, at_ms, body, checksum FROM events
                 WHERE id > (?1 << 32) + ?2 AND id < (?1 + 1) << 32 ORDER BY id",
            )?;
            let mut found = FoundEvents { last, before, rows: Vec::new(), has_more: false };
            let mut bytes = 0;
            for row in statement.query_map(params![run, from], event_row)? {
                let row = row?;
                let next = row.body.len() as u64;
                if !limit.has_room(found.rows.len(), bytes, next) {
                    found.has_more = true;
                    break;
                }
                bytes += next;
                found.rows.push(row);
            }
            Ok(Some(found))
        };
        let found = {
            // A run that another process drives grows between two queries.
            let _transaction = self.transaction()?;
            query().map_err(|e| self.explain(&e))?
        };
        let Some(FoundEvents { last, before, rows, has_more }) = found else {
            return Ok(FoundRows::default());
        };
        let until = rows.last().filter(|_| has_more).map_or(last, |row| row.number);
        let damage = first_damage(&rows, after, until, before.as_deref());
        let damage = damage.map(|(number, problem)| format!("event {number}: {problem}"));
        Ok(FoundRows { rows, has_more, damage })
    }

    pub(super) fn runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        let (sql, values) = listing(filter);
        let query = || -> rusqlite::Result<Vec<(RunSummary, String, i64)>> {
            let mut statement = self.connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params_from_iter(values), summary)?;
            rows.collect()
        };
        let rows = query().map_err(|e| self.explain(&e))?;
        let with_driver = |(summary, owner, epoch): (RunSummary, String, i64)| RunSummary {
            is_driven: summary.status == "running"
                && self.process.is_driven_by(&owner, &summary.run_id, epoch),
            queued: owner.is_empty(),
            ..summary
        };
        Ok(rows.into_iter().map(with_driver).collect())
    }

    pub(super) fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        audit::read(self.connection, filter).map_err(|e| self.explain(&e))
    }

    pub(super) fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError> {
        audit::tool_health(self.connection).map_err(|e| self.explain(&e))
    }

    pub(super) fn changes(
        &self,
        thread_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>, StoreError> {
        let find = "SELECT id FROM threads WHERE thread_id = ?1";
        let query = || -> rusqlite::Result<Vec<StateChange>> {
            let thread = self
                .connection
                .prepare_cached(find)?
                .query_row([thread_id], |row| row.get::<_, i64>(0))
                .optional()?;
            thread
                .map_or(Ok(Vec::new()), |thread| state::changes_since(self.connection, thread, after, limit))
        };
        query().map_err(|e| self.explain(&e))
    }

    pub(super) fn thread_ids(&self) -> Result<Vec<String>, StoreError> {
        let query = || -> rusqlite::Result<Vec<String>> {
            let mut find = self
                .connection
                .prepare_cached("SELECT thread_id FROM threads WHERE thread_id < x'' ORDER BY id")?;
            let rows = find.query_map([], |row| row.get(0))?;
            rows.collect()
        };
        query().map_err(|e| self.explain(&e))
    }

    pub(super) fn run_components(&self) -> Result<Vec<(String, String)>, StoreError> {
        let query = || -> rusqlite::Result<Vec<(String, String)>> {
            let mut find = self.connection.prepare_cached(
                "SELECT r.run_id, c.digest FROM run_components x JOIN runs r ON r.id = x.run
                 JOIN components c ON c.id = x.component WHERE +r.run_id < x'' ORDER BY r.id",
            )?;
            let rows = find.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        };
        query().map_err(|e| self.explain(&e))
    }

    pub(super) fn commands(&self, run_id: &str) -> Result<Vec<SentCommand>, StoreError> {
        inbox::commands(self.connection, run_id).map_err(|e| self.explain(&e))
    }

    pub(super) fn runs_with_commands(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError> {
        inbox::runs_with_commands(self.connection, runs).map_err(|e| self.explain(&e))
    }

    pub(super) fn has_component(&self, digest: &str) -> Result<bool, StoreError> {
        let find = "SELECT 1 FROM components WHERE digest = ?1";
        let found = self.connection.prepare_cached(find).and_then(|mut find| find.exists([digest]));
        found.map_err(|e| self.explain(&e))
    }

    pub(super) fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let query = || {
            self.connection
                .prepare_cached("SELECT bytes FROM components WHERE digest = ?1")?
                .query_row([digest], |row| row.get(0))
                .optional()
        };
        query().map_err(|e| self.explain(&e))
    }

    /// Checks that the store has this version. It is not migrated.
    pub(super) fn check_version(&self) -> Result<(), StoreError> {
        let has = applied_and_known(self.connection, self.file)?;
        if has == NEWEST {
            return Ok(());
        }
        let message = format!("the store {} has version {has}, and can only be read", self.file.display());
        Err(StoreError::unusable(message).with_remedy(Remedy::CopyDirectory))
    }

    pub(super) fn bytes(&self, subject: &Subject) -> Result<u64, StoreError> {
        subject.stored(self.connection).map_err(|e| self.explain(&e))
    }

    fn column(&self, sql: &str, key: i64) -> Result<Vec<String>, StoreError> {
        let query = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map([key], |row| row.get(0))?;
            rows.collect()
        };
        query().map_err(|e| self.explain(&e))
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, what: &str, body: &str) -> Result<T, StoreError> {
        json::from_record(body).map_err(|e| {
            let file = self.file.display();
            StoreError::damaged(format!(
                "the store {file} contains an invalid {what}: {e}; restore it from a copy, or use the newer version \
                 that wrote it"
            ))
        })
    }

    fn explain(&self, error: &rusqlite::Error) -> StoreError {
        explain("read", self.file, error)
    }
}

/// Returns the query for a list of runs. It contains only the requested conditions, so that each
/// combination uses an index instead of scanning the table.
fn listing(filter: &RunFilter) -> (String, Vec<Value>) {
    // Every blob is greater than every text: a run that is being removed has no name from now on. With the plus, no
    // index is read for it.
    let mut conditions = vec!["+r.run_id < x''"];
    let mut values = Vec::new();
    let mut only = |condition: &'static str, with: &[String]| {
        conditions.push(condition);
        values.extend(with.iter().cloned().map(Value::from));
    };
    if let Some(thread_id) = &filter.thread_id {
        only("r.thread = (SELECT id FROM threads WHERE thread_id = ?)", std::slice::from_ref(thread_id));
    }
    if let Some(status) = &filter.status {
        // The index covers all other statuses: most runs are completed, and those are rarely
        // listed by status.
        let others = "r.status = ? AND r.status <> 'completed'";
        let condition = if status == "completed" { "r.status = ?" } else { others };
        only(condition, std::slice::from_ref(status));
    }
    for (condition, wanted) in [
        ("r.kind = ?", &filter.kind),
        ("r.run_id = ?", &filter.run_id),
        ("r.agent_id = ?", &filter.agent_id),
        ("r.title = ?", &filter.title),
        ("r.id < (SELECT id FROM runs WHERE run_id = ?)", &filter.before),
    ] {
        if let Some(wanted) = wanted {
            only(condition, std::slice::from_ref(wanted));
        }
    }
    if let Some(prefix) = &filter.run_id_prefix {
        let after = format!("{prefix}{}", char::MAX);
        only("r.run_id >= ? AND r.run_id < ?", &[prefix.clone(), after]);
    }
    if let Some(prefix) = &filter.short_id_prefix {
        // Only ids of 36 characters, such as the host chooses, have a short form.
        let (whole, after) = (prefix.clone(), format!("{prefix}{}", char::MAX));
        only(
            "((length(r.run_id) = 36 AND substr(r.run_id, 29) >= ? AND substr(r.run_id, 29) < ?)
              OR (length(r.run_id) <> 36 AND r.run_id >= ? AND r.run_id < ?))",
            &[whole.clone(), after.clone(), whole, after],
        );
    }
    if let Some(principal) = filter.principal() {
        // With the plus, another index is read: that of the thread, or of the few runs that are not completed.
        let has_index = filter.thread_id.is_some()
            || filter.status.as_deref().is_some_and(|status| status != "completed");
        let condition = if has_index { "+r.principal = ?" } else { "r.principal = ?" };
        only(condition, &[principal.to_owned()]);
    } else if let Some(prefix) = &filter.thread_prefix {
        let after = format!("{prefix}{}", char::MAX);
        only("t.thread_id >= ? AND t.thread_id < ?", &[prefix.clone(), after]);
    }
    for (condition, time) in [("r.started_at_ms >= ?", filter.from_ms), ("r.started_at_ms < ?", filter.to_ms)]
    {
        if let Some(time) = time {
            conditions.push(condition);
            values.push(Value::from(time.min(i64::MAX.cast_unsigned()).cast_signed()));
        }
    }
    let wanted = conditions.join(" AND ");
    values.push(Value::from(i64::try_from(filter.limit).unwrap_or(i64::MAX)));
    let sql = format!(
        "SELECT r.run_id, t.thread_id, r.agent_id, r.kind, r.title, r.status, r.events,
                r.started_at_ms, r.updated_at_ms, r.owner, r.epoch
         FROM runs r JOIN threads t ON t.id = r.thread WHERE {wanted} ORDER BY r.id DESC LIMIT ?"
    );
    (sql, values)
}

fn summary(row: &Row<'_>) -> rusqlite::Result<(RunSummary, String, i64)> {
    let summary = RunSummary {
        run_id: row.get(0)?,
        thread_id: row.get(1)?,
        agent_id: row.get(2)?,
        kind: row.get(3)?,
        title: row.get(4)?,
        status: row.get(5)?,
        events: row.get::<_, i64>(6)?.cast_unsigned(),
        started_at_ms: row.get::<_, i64>(7)?.cast_unsigned(),
        updated_at_ms: row.get::<_, i64>(8)?.cast_unsigned(),
        is_driven: false,
        queued: false,
        owner: None,
    };
    Ok((summary, row.get(9)?, row.get(10)?))
}

/// Returns one event of a run, if it exists.
pub(super) fn runs_event(connection: &Connection, run: i64, number: u64) -> rusqlite::Result<Option<Event>> {
    let body = connection
        .prepare_cached("SELECT body FROM events WHERE id = (?1 << 32) | ?2")?
        .query_row(params![run, number.cast_signed()], |row| row.get::<_, String>(0))
        .optional()?;
    body.map(|body| json::from_record(&body).map_err(unreadable)).transpose()
}

fn unreadable(why: json::JsonError) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(why))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::open;

    /// Returns SQLite's query plan.
    fn plan_of(filter: &RunFilter) -> String {
        let data = tempfile::tempdir().unwrap();
        let (_, connection) = open::prepare(data.path()).unwrap();
        let (query, values) = listing(filter);
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let steps = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
        steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn z3_the_runs_of_a_principal_are_read_in_their_order_and_no_others() {
        let text = |text: &str| Some(text.to_owned());
        let own = || RunFilter { thread_prefix: text("ada/"), ..RunFilter::default() };
        for (filter, index) in [
            (own(), "runs_by_principal (principal=?)"),
            (
                RunFilter { agent_id: text("a"), kind: text("prompt"), ..own() },
                "runs_by_principal (principal=?)",
            ),
            (RunFilter { status: text("completed"), ..own() }, "runs_by_principal (principal=?)"),
            (RunFilter { before: text("r"), ..own() }, "runs_by_principal (principal=? AND "),
            (RunFilter { status: text("waiting"), ..own() }, "runs_by_status (status=?)"),
            (RunFilter { thread_id: text("ada/t"), ..own() }, "runs_by_thread (thread=?)"),
        ] {
            let plan = plan_of(&filter);
            assert!(plan.contains(&format!("SEARCH r USING INDEX {index}")), "{plan}");
            assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
