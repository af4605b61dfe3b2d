//! Reading threads, events and lists of runs.

use crate::audit::after_prefix;
use crate::connect::{Busy, Params, find, find_prepared, int8, params};
use crate::conversations::KnownConversation;
use crate::prepared_commit::Tail;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};
use tollgate_agent::json;
use tollgate_agent::run::event::RecordedChange;
use tollgate_agent::run::{Event, StoredEvent, Thread};
use tollgate_agent::state::{State, StateChange};
use tollgate_store::rules::{EventRow, LARGE_BYTES, aside, first_damage};
use tollgate_store::{
    ClaimedRun, EventPage, KeyFilter, MAX_CHANGES_BYTES, PageLimit, ReadAtClaim, Record, Remedy, RunFilter,
    RunOwner, RunSummary, SentCommand, StateRead, StoreError, ThreadSize,
};

/// Reads a record from its text.
pub(crate) fn parse<T: DeserializeOwned>(what: &str, body: &str) -> Result<T, StoreError> {
    json::from_record(body).map_err(|e| {
        StoreError::damaged(format!(
            "the store contains an invalid {what}: {e}; restore it from a copy, or use the newer version that wrote it"
        ))
    })
}

/// Returns whether parsing these rows takes so long that it belongs on a thread that may block.
pub(crate) fn are_large<'r>(rows: impl IntoIterator<Item = &'r Row>) -> bool {
    rows.into_iter().map(Row::raw_size_bytes).sum::<usize>() > LARGE_BYTES
}

/// Returns the values of rows of keys and values, by key, and whether they are large.
pub(crate) async fn values(rows: Vec<Row>) -> Result<(HashMap<String, Arc<Value>>, bool), StoreError> {
    let are_large = are_large(&rows);
    let read = move || {
        let value = |row: &Row| Ok((row.get(0), Arc::new(parse("value", row.get(1))?)));
        rows.iter().map(value).collect::<Result<HashMap<String, Arc<Value>>, StoreError>>()
    };
    Ok((aside(are_large, read).await?, are_large))
}

/// A thread as it was found.
pub(crate) enum FoundThread {
    /// The thread, its conversation as it is now known, and the size of its records in bytes.
    Read(Thread, KnownConversation, u64),
    /// Reading it takes more text than the limit.
    Larger(ThreadSize),
    /// The conversation is not the one that this host knows.
    Other,
}

/// Calls the function of the database that reads a thread.
pub(crate) const THREAD: &str = "SELECT o_revision, o_key, o_text, o_record_bytes, o_state_bytes, o_message_bytes \
    FROM thread_v1($1, $2, $3)";

/// Reads a thread in one statement, so that state and conversation are consistent, unless that takes more
/// text than `max_bytes`. Of the conversation, reads what this host does not know.
pub(crate) async fn thread(
    client: Busy,
    thread_id: &str,
    known: KnownConversation,
    max_bytes: u64,
) -> Result<Result<FoundThread, StoreError>, Error> {
    // The last known message is read again, to compare it.
    let from = int8(known.messages.len().saturating_sub(1) as u64);
    let row = params![(thread_id.to_owned(), TEXT), (from, INT8), (int8(max_bytes), INT8)];
    let rows = find_prepared(&client, THREAD, row).await?;
    client.finish();
    let are_large = are_large(&rows);
    Ok(aside(are_large, move || found_thread(&rows, known, max_bytes)).await)
}

/// Reads the rows of a thread: its own, its messages, and the values of its state, in this order.
fn found_thread(rows: &[Row], known: KnownConversation, max_bytes: u64) -> Result<FoundThread, StoreError> {
    let Some((first, rows)) = rows.split_first() else {
        let is_new = known.messages.is_empty();
        let none = FoundThread::Read(Thread::default(), KnownConversation::default(), 0);
        return Ok(if is_new { none } else { FoundThread::Other });
    };
    let number = |at: usize| first.get::<_, i64>(at).cast_unsigned();
    let size = ThreadSize { state_bytes: number(4), message_bytes: number(5) };
    if size.state_bytes + size.message_bytes > max_bytes {
        return Ok(FoundThread::Larger(size));
    }
    let (messages, values) =
        rows.split_at(rows.partition_point(|row| row.get::<_, Option<&str>>(1).is_none()));
    let mut bodies = messages.iter().map(|row| row.get::<_, &str>(2)).peekable();
    if !known.messages.is_empty() && bodies.next() != Some(&*known.last) {
        return Ok(FoundThread::Other);
    }
    let mut known = known;
    if bodies.peek().is_some() {
        let all = Arc::make_mut(&mut known.messages);
        for body in bodies {
            all.push(parse("message", body)?);
            known.bytes += body.len();
            known.last = Arc::from(body);
        }
    }
    let values: Vec<(String, Value)> = values
        .iter()
        .map(|row| Ok((row.get(1), parse("value", row.get(2))?)))
        .collect::<Result<_, StoreError>>()?;
    let messages = Arc::clone(&known.messages);
    let state = State::restored(number(0), values);
    Ok(FoundThread::Read(Thread { messages, state }, known, number(3)))
}

/// The rest of the rows that were read with the claim of a run, which the driver does not get.
pub(crate) struct FoundClaim {
    pub(crate) thread_id: String,
    pub(crate) known: KnownConversation,
    /// The size of the records of the thread, in bytes.
    pub(crate) record_bytes: u64,
    pub(crate) tail: Option<Tail>,
}

/// The runs of a claim, each with the rows that were read with it.
pub(crate) type FoundClaims = Vec<(ClaimedRun, Option<FoundClaim>)>;

/// Returns the runs of the rows of a claim.
pub(crate) async fn claimed(rows: Vec<Row>) -> Result<FoundClaims, StoreError> {
    let are_large = are_large(&rows);
    let read = move || -> Result<FoundClaims, StoreError> {
        let claimed = rows.iter().map(|row| {
            let (run_id, epoch) = (Arc::<str>::from(row.get::<_, &str>(0)), row.get::<_, i64>(1));
            // The driver reads again the rows that cannot be read, and reports why.
            let (read, found) = found_claim(&run_id, row).unzip();
            (ClaimedRun { run_id, epoch: epoch.cast_unsigned(), read: read.map(Box::new) }, found)
        });
        Ok(claimed.collect())
    };
    aside(are_large, read).await
}

fn found_claim(run_id: &Arc<str>, row: &Row) -> Option<(ReadAtClaim, FoundClaim)> {
    let thread_id = row.get::<_, Option<String>>(2)?;
    let number = |at: usize| row.get::<_, i64>(at).cast_unsigned();
    let texts = |at: usize| row.get::<_, Option<Vec<String>>>(at).unwrap_or_default();
    let (numbers, times): (Vec<i64>, Vec<i64>) = (row.get(4), row.get(5));
    let checksums: Vec<Option<Vec<u8>>> = row.get(7);
    let parts = numbers.into_iter().zip(times).zip(texts(6)).zip(checksums);
    let rows: Vec<EventRow> = parts
        .map(|(((number, at_ms), body), checksum)| EventRow {
            number: number.cast_unsigned(),
            at_ms: at_ms.cast_unsigned(),
            body,
            checksum,
        })
        .collect();
    if first_damage(&rows, 0, number(3), None).is_some() {
        return None;
    }
    let events = rows.iter().map(|row| event(run_id, row).ok()).collect::<Option<Vec<_>>>()?;
    let bodies = texts(10);
    let messages = bodies.iter().map(|body| parse("message", body).ok()).collect::<Option<Vec<_>>>()?;
    let values = texts(11).into_iter().zip(texts(12));
    let values = values.map(|(key, value)| Some((key, parse("value", &value).ok()?)));
    let state = State::restored(number(8), values.collect::<Option<Vec<_>>>()?);
    let commands = texts(13)
        .into_iter()
        .zip(texts(14))
        .map(|(id, body)| Some(SentCommand { id: Arc::from(id), command: parse("command", &body).ok()? }));
    let known = KnownConversation {
        messages: Arc::new(messages),
        last: Arc::from(bodies.last().map_or("", String::as_str)),
        bytes: bodies.iter().map(String::len).sum(),
    };
    let thread = Thread { messages: Arc::clone(&known.messages), state };
    let found = FoundClaim { thread_id, known, record_bytes: number(9), tail: Tail::of(&rows) };
    Some((ReadAtClaim { events, thread, commands: commands.collect::<Option<_>>()? }, found))
}

/// Returns how much text [`thread`] reads if this host knows this many messages.
pub(crate) async fn thread_size(client: Busy, thread_id: &str, known: usize) -> Result<ThreadSize, Error> {
    let sql = "SELECT
        (SELECT coalesce(sum(octet_length(value)), 0) FROM state WHERE thread = $1)::int8,
        (SELECT coalesce(sum(octet_length(body)), 0) FROM messages WHERE thread = $1 AND position >= $2)::int8";
    let row = params![(thread_id.to_owned(), TEXT), (int8(known as u64), INT8)];
    let rows = find(&client, sql, row).await?;
    client.finish();
    let bytes = |at| rows.first().map_or(0, |row| row.get::<_, i64>(at).cast_unsigned());
    Ok(ThreadSize { state_bytes: bytes(0), message_bytes: bytes(1) })
}

/// Returns the wanted keys of a thread's state, unless their text is longer than this.
pub(crate) async fn state(
    client: Busy,
    thread_id: &str,
    wanted: &KeyFilter,
    max_bytes: u64,
) -> Result<Result<StateRead, StoreError>, Error> {
    // One statement, so that the values are those whose size was summed.
    let sql = "WITH wanted AS MATERIALIZED (SELECT key, octet_length(value) AS bytes FROM state
            WHERE thread = $1 AND ($2 OR key = ANY($3) OR split_part(key, '.', 1) = ANY($4))),
        total AS (SELECT coalesce(sum(bytes), 0)::int8 AS bytes FROM wanted)
        SELECT t.bytes, h.revision, s.key, s.value FROM total t LEFT JOIN threads h ON h.id = $1
        LEFT JOIN wanted w ON t.bytes <= $5 LEFT JOIN state s ON s.thread = $1 AND s.key = w.key ORDER BY s.key";
    let none = BTreeSet::new();
    let (all, keys, owners) = match wanted {
        KeyFilter::All => (true, &none, &none),
        KeyFilter::Of { owner_ids, keys } => (false, keys, owner_ids),
    };
    let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>();
    let max = i64::try_from(max_bytes).unwrap_or(i64::MAX);
    let given = params![
        (thread_id.to_owned(), TEXT),
        (all, BOOL),
        (list(keys), TEXT_ARRAY),
        (list(owners), TEXT_ARRAY),
        (max, INT8)
    ];
    let rows = find(&client, sql, given).await?;
    client.finish();
    let are_large = are_large(&rows);
    let read = move || -> Result<StateRead, StoreError> {
        let Some(first) = rows.first() else { return Ok(StateRead::State(State::default())) };
        let bytes = first.get::<_, i64>(0).cast_unsigned();
        if bytes > max_bytes {
            return Ok(StateRead::Larger(bytes));
        }
        let revision = first.get::<_, Option<i64>>(1).unwrap_or_default().cast_unsigned();
        let rows = rows.iter().filter_map(|row| Some((row.get::<_, Option<String>>(2)?, row)));
        let values = rows.map(|(key, row)| Ok((key, parse("value", row.get(3))?)));
        Ok(StateRead::State(State::restored(revision, values.collect::<Result<Vec<_>, StoreError>>()?)))
    };
    Ok(aside(are_large, read).await)
}

/// A part of a run's events, as it was read.
struct FoundRows {
    rows: Vec<Row>,
    /// The events are those after this number, up to another.
    after: u64,
    until: u64,
}

/// Calls the function of the database that reads events of a run.
pub(crate) const EVENTS: &str =
    "SELECT o_last, o_number, o_at_ms, o_body, o_checksum FROM events_v1($1, $2, $3, $4)";

/// Reads a run's events after a number, within a limit.
async fn rows(client: &Busy, run_id: &str, after: u64, limit: PageLimit) -> Result<FoundRows, Error> {
    // One statement, so that a run that grows meanwhile is seen at one moment. The event before the
    // first requested one has the checksum to continue from. Bodies beyond the limit are not read.
    let until = i64::try_from(limit.events).ok().and_then(|most| int8(after).checked_add(most));
    let until = until.unwrap_or(i64::MAX);
    let bytes = int8(limit.bytes);
    let params = params![(run_id.to_owned(), TEXT), (int8(after), INT8), (until, INT8), (bytes, INT8)];
    let rows = find_prepared(client, EVENTS, params).await?;
    Ok(FoundRows { rows, after, until: until.cast_unsigned() })
}

impl FoundRows {
    /// Returns the rows, a description of the first damage, and the number of the run's last event.
    fn checked(&self) -> (Vec<EventRow>, Option<String>, u64) {
        let Some(first) = self.rows.first() else { return (Vec::new(), None, 0) };
        let last = first.get::<_, i64>(0).cast_unsigned();
        let mut rows: Vec<EventRow> = self.rows.iter().map_while(event_row).collect();
        let is_cut = rows.len() < self.rows.len() && !rows.is_empty();
        let before = match rows.first() {
            Some(first) if first.number == self.after => rows.remove(0).checksum,
            _ => None,
        };
        let until = rows.last().filter(|_| is_cut).map_or(self.until, |row| row.number);
        let damage = first_damage(&rows, self.after, last.min(until), before.as_deref());
        (rows, damage.map(|(number, problem)| format!("event {number}: {problem}")), last)
    }
}

/// Returns an event; `None` if its body was not read.
fn event_row(row: &Row) -> Option<EventRow> {
    Some(EventRow {
        number: row.get::<_, Option<i64>>(1)?.cast_unsigned(),
        at_ms: row.get::<_, i64>(2).cast_unsigned(),
        body: row.get::<_, Option<String>>(3)?,
        checksum: row.get(4),
    })
}

pub(crate) async fn events(
    client: Busy,
    run_id: &str,
    after: u64,
) -> Result<Result<Vec<Arc<StoredEvent>>, StoreError>, Error> {
    let page = events_page(client, run_id, after, PageLimit::NONE).await?;
    Ok(page.map(|(page, _)| page.events))
}

/// Returns the first events after a number, within a limit, and the run's last event if it is among them.
pub(crate) async fn events_page(
    client: Busy,
    run_id: &str,
    after: u64,
    limit: PageLimit,
) -> Result<Result<(EventPage, Option<Tail>), StoreError>, Error> {
    let found = rows(&client, run_id, after, limit).await?;
    client.finish();
    let run: Arc<str> = Arc::from(run_id);
    Ok(aside(are_large(&found.rows), move || page(&run, &found)).await)
}

fn page(run_id: &Arc<str>, found: &FoundRows) -> Result<(EventPage, Option<Tail>), StoreError> {
    let (rows, damage, last) = found.checked();
    let has_more = rows.last().is_some_and(|row| row.number < last);
    // A parse error is more informative than a wrong checksum.
    let events: Result<Vec<_>, _> = rows.iter().map(|row| event(run_id, row)).collect();
    match (events, damage) {
        (Err(why), _) => Err(why),
        (Ok(events), None) => {
            let tail = if has_more { None } else { Tail::of(&rows) };
            Ok((EventPage { events, has_more }, tail))
        }
        (Ok(_), Some(problem)) => {
            let message = format!(
                "the record of run {run_id} is damaged ({problem}); restore the database from a copy"
            );
            Err(StoreError::damaged(message).with_remedy(Remedy::ShowRun(run_id.to_string())))
        }
    }
}

/// Returns the record of a run, as far as it can be read.
pub(crate) async fn record(client: Busy, run_id: &str) -> Result<Result<Record, StoreError>, Error> {
    let found = rows(&client, run_id, 0, PageLimit::NONE).await?;
    client.finish();
    let run: Arc<str> = Arc::from(run_id);
    Ok(aside(are_large(&found.rows), move || Ok(record_of(&run, &found))).await)
}

fn record_of(run_id: &Arc<str>, found: &FoundRows) -> Record {
    let (rows, damage, _) = found.checked();
    let without_checksum = rows.iter().filter(|row| row.checksum.is_none()).count() as u64;
    let mut record = Record { damage, without_checksum, ..Record::default() };
    for row in &rows {
        match event(run_id, row) {
            Ok(event) => record.events.push(event),
            Err(_) => {
                record.damage.get_or_insert_with(|| format!("event {}: it cannot be read", row.number));
            }
        }
    }
    record
}

/// Returns the length of a whole record.
pub(crate) async fn record_bytes(client: Busy, run_id: &str) -> Result<u64, Error> {
    let sql = "SELECT coalesce(sum(octet_length(body)), 0)::int8 FROM events WHERE run = $1";
    let rows = find(&client, sql, params![(run_id.to_owned(), TEXT)]).await?;
    client.finish();
    Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()))
}

fn event(run_id: &Arc<str>, row: &EventRow) -> Result<Arc<StoredEvent>, StoreError> {
    let event: Event = parse("event", &row.body)?;
    Ok(Arc::new(StoredEvent { run_id: Arc::clone(run_id), number: row.number, at_ms: row.at_ms, event }))
}

/// Returns up to `limit` changes of a thread after a revision, oldest first. Fewer if they are larger than
/// [`MAX_CHANGES_BYTES`] together.
pub(crate) async fn changes_since(
    client: &Busy,
    thread_id: &str,
    after: u64,
    limit: usize,
) -> Result<Result<Vec<StateChange>, StoreError>, Error> {
    let sql = "SELECT body, of_event FROM (
            SELECT coalesce(c.body, e.body) AS body, c.body IS NULL AS of_event,
                row_number() OVER by_revision AS position,
                sum(octet_length(coalesce(c.body, e.body))) OVER by_revision AS bytes
            FROM changes c LEFT JOIN events e ON e.run = c.run AND e.number = c.number
            WHERE c.thread = $1 AND c.revision > $2
            WINDOW by_revision AS (ORDER BY c.revision ROWS UNBOUNDED PRECEDING) ORDER BY c.revision LIMIT $3) AS page
        WHERE position = 1 OR bytes <= $4 ORDER BY position";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let bytes = i64::try_from(MAX_CHANGES_BYTES).unwrap_or(i64::MAX);
    let params = params![(thread_id.to_owned(), TEXT), (int8(after), INT8), (limit, INT8), (bytes, INT8)];
    let rows = find(client, sql, params).await?;
    let are_large = are_large(&rows);
    let read = move || -> Result<Vec<StateChange>, StoreError> {
        let mut changes = Vec::with_capacity(rows.len());
        for row in &rows {
            let body = row.get::<_, Option<&str>>(0).unwrap_or_default();
            if row.get(1) {
                changes.extend(parse::<RecordedChange>("event", body)?.change);
            } else {
                changes.push(parse("change", body)?);
            }
        }
        Ok(changes)
    };
    Ok(aside(are_large, read).await)
}

/// Returns the query for a list of runs. It contains only the requested conditions, so that each
/// combination uses an index.
pub(crate) fn listing(filter: &RunFilter) -> (String, Params) {
    let mut conditions: Vec<String> = Vec::new();
    let mut values: Params = Vec::new();
    let mut add = |value: &str| {
        values.push((Box::new(value.to_owned()) as Box<dyn ToSql + Sync + Send>, Type::TEXT));
        values.len()
    };
    if let Some(thread_id) = &filter.thread_id {
        conditions.push(format!("r.thread = ${}", add(thread_id)));
    }
    if let Some(status) = &filter.status {
        // The index covers all other statuses: most runs are completed, and those are rarely
        // listed by status. The open runs of one thread have another index.
        let indexed = match (status.as_str(), &filter.thread_id) {
            ("completed", _) | (_, Some(_)) => "",
            _ => " AND r.status <> 'completed' AND length(r.status) > 0",
        };
        conditions.push(format!("r.status = ${}{indexed}", add(status)));
    }
    for (condition, wanted) in [
        ("r.kind = ", &filter.kind),
        ("r.id = ", &filter.run_id),
        ("r.agent = ", &filter.agent_id),
        ("r.title = ", &filter.title),
        ("r.id < ", &filter.before),
    ] {
        conditions.extend(wanted.as_deref().map(|wanted| format!("{condition}${}", add(wanted))));
    }
    if let Some(prefix) = &filter.run_id_prefix {
        let from = add(prefix);
        let to = add(&after_prefix(prefix));
        conditions.push(format!("r.id >= ${from} AND r.id < ${to}"));
    }
    if let Some(prefix) = &filter.short_id_prefix {
        // Only ids of 36 characters, such as the host chooses, have a short form.
        let (from, to) = (add(prefix), add(&after_prefix(prefix)));
        let short = "(CASE length(r.id) WHEN 36 THEN substr(r.id, 29) ELSE r.id END) COLLATE \"C\"";
        conditions.push(format!("{short} >= ${from} AND {short} < ${to}"));
    }
    if let Some(principal) = filter.principal() {
        // As in the index.
        let principal = add(principal);
        let of_run = "(CASE WHEN strpos(r.thread, '/') > 0 THEN split_part(r.thread, '/', 1) END)";
        conditions.push(format!("{of_run} = ${principal}"));
    } else if let Some(prefix) = &filter.thread_prefix {
        let (from, to) = (add(prefix), add(&after_prefix(prefix)));
        conditions.push(format!("r.thread >= ${from} AND r.thread < ${to}"));
    }
    for (comparison, time) in [(">=", filter.from_ms), ("<", filter.to_ms)] {
        if let Some(time) = time {
            values.extend(params![(int8(time), INT8)]);
            conditions.push(format!("r.started_at_ms {comparison} ${}", values.len()));
        }
    }
    let wanted =
        if conditions.is_empty() { String::new() } else { format!("WHERE {}", conditions.join(" AND ")) };
    values.extend(params![(i64::try_from(filter.limit).unwrap_or(i64::MAX), INT8)]);
    let limit = values.len();
    let sql = format!(
        "SELECT r.id, r.thread, r.agent, r.kind, r.title, r.status, r.events, r.started_at_ms, r.updated_at_ms,
            r.status = 'running' AND coalesce(h.state = 'up' AND h.lease_until > clock_timestamp(), false),
            r.epoch = 0, h.id, h.name
         FROM runs r LEFT JOIN hosts h ON h.id = r.owner {wanted} ORDER BY r.id DESC LIMIT ${limit}"
    );
    (sql, values)
}

pub(crate) fn summary(row: &Row) -> RunSummary {
    RunSummary {
        run_id: row.get(0),
        thread_id: row.get(1),
        agent_id: row.get(2),
        kind: row.get(3),
        title: row.get(4),
        status: row.get(5),
        events: row.get::<_, i64>(6).cast_unsigned(),
        started_at_ms: row.get::<_, i64>(7).cast_unsigned(),
        updated_at_ms: row.get::<_, i64>(8).cast_unsigned(),
        is_driven: row.get(9),
        queued: row.get(10),
        owner: row.get::<_, Option<String>>(11).map(|id| RunOwner { id, name: row.get(12) }),
    }
}
