//! The values of a thread's keys in SQLite, and their changes.
//!
//! An update is folded into the stored value if the value is small, or if its pending updates are
//! many or have grown as large as it was when last written. Any other update becomes a row beside the
//! value. The amortized amount that a commit writes therefore depends on the update, and not on
//! the value.

use super::job::kept_updates;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tollgate_agent::json;
use tollgate_agent::run::event::RecordedChange;
use tollgate_agent::state::key::owner_of;
use tollgate_agent::state::{KeyUpdate, Reducer, StateChange};
use tollgate_store::MAX_CHANGES_BYTES;
use tollgate_store::rules::WrittenKeys;

/// A value up to this size is rewritten with each update.
const SMALL_BYTES: i64 = 4 * 1024;

/// The maximum number of updates beside a value, or one for this many bytes of it if that is more. Each is a
/// row, however short it is.
const MAX_UPDATES: i64 = 1_024;
const BYTES_FOR_UPDATE: i64 = 256;

/// The stored size of a key: of its value, and of the updates that are not folded into it yet.
#[derive(Default, Clone, Copy)]
struct Size {
    value_bytes: i64,
    updates: i64,
    update_bytes: i64,
}

impl Size {
    fn of(connection: &Connection, thread: i64, key: &str) -> rusqlite::Result<Option<Self>> {
        let find = "SELECT octet_length(s.value), coalesce(z.updates, 0), coalesce(z.update_bytes, 0)
            FROM state s LEFT JOIN state_sizes z ON z.thread = s.thread AND z.key = s.key
            WHERE s.thread = ?1 AND s.key = ?2";
        connection.prepare_cached(find)?.query_row(params![thread, key], Self::of_row).optional()
    }

    fn of_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { value_bytes: row.get(0)?, updates: row.get(1)?, update_bytes: row.get(2)? })
    }

    /// Returns an upper bound of the value's length with all updates folded in.
    fn bytes(self) -> usize {
        usize::try_from(self.value_bytes + self.update_bytes + self.updates).unwrap_or(usize::MAX)
    }
}

/// Returns upper bounds of the sizes of an owner's values, by key.
pub(super) fn sizes(
    connection: &Connection,
    thread: i64,
    owner: &str,
) -> rusqlite::Result<HashMap<String, usize>> {
    // The owner's keys begin with its id and a dot. `/` is the character after the dot, so no key beyond
    // it is the owner's.
    let found = sizes_between(connection, thread, owner, &format!("{owner}/"))?;
    Ok(found.into_iter().filter(|(key, _)| owner_of(key) == owner).collect())
}

/// Returns the stored keys of a thread, sorted, with upper bounds of the sizes of their values.
pub(super) fn all_sizes(connection: &Connection, thread: i64) -> rusqlite::Result<Vec<(String, usize)>> {
    sizes_between(connection, thread, "", "\u{10FFFF}")
}

fn sizes_between(
    connection: &Connection,
    thread: i64,
    from: &str,
    before: &str,
) -> rusqlite::Result<Vec<(String, usize)>> {
    let find = "SELECT octet_length(s.value), coalesce(z.updates, 0), coalesce(z.update_bytes, 0), s.key
        FROM state s LEFT JOIN state_sizes z ON z.thread = s.thread AND z.key = s.key
        WHERE s.thread = ?1 AND s.key >= ?2 AND s.key < ?3 ORDER BY s.key";
    let mut find = connection.prepare_cached(find)?;
    let rows =
        find.query_map(params![thread, from, before], |row| Ok((row.get(3)?, Size::of_row(row)?.bytes())))?;
    rows.collect()
}

/// Writes a change's effects on the thread's persistent keys. `values` has the JSON of what each of them is
/// set to, or of its update.
pub(super) fn write<'v>(
    connection: &Connection,
    thread: i64,
    change: &StateChange,
    values: &mut impl Iterator<Item = &'v String>,
) -> rusqlite::Result<()> {
    for (update, json) in kept_updates(change).zip(values) {
        match (&update.value, &update.fold, &update.update) {
            (Some(_), ..) => {
                let before = Size::of(connection, thread, &update.key)?;
                set(connection, thread, &update.key, json, before)?;
            }
            (None, Some(fold), Some(_)) => add_update(connection, thread, update, fold.reducer, json)?,
            _ => {}
        }
    }
    Ok(())
}

/// Adds a row with the update, or folds it into the stored value together with earlier updates.
fn add_update(
    connection: &Connection,
    thread: i64,
    update: &KeyUpdate,
    reducer: Reducer,
    body: &str,
) -> rusqlite::Result<()> {
    let size = Size::of(connection, thread, &update.key)?;
    let bytes = i64::try_from(body.len()).unwrap_or(i64::MAX);
    let stays_apart = |size: &Size| {
        size.value_bytes > SMALL_BYTES
            && size.updates < MAX_UPDATES.max(size.value_bytes / BYTES_FOR_UPDATE)
            && size.update_bytes.saturating_add(bytes) <= size.value_bytes
    };
    if let Some(size) = size.filter(stays_apart) {
        return insert_update(connection, thread, &update.key, size.updates, reducer, body);
    }
    let value = match size {
        Some(_) => value_of(connection, thread, &update.key)?.map(Arc::new),
        None => None,
    };
    match update.folded(value) {
        Some(value) => set(connection, thread, &update.key, &value.to_string(), size),
        None => Ok(()),
    }
}

fn insert_update(
    connection: &Connection,
    thread: i64,
    key: &str,
    position: i64,
    reducer: Reducer,
    body: &str,
) -> rusqlite::Result<()> {
    let insert =
        "INSERT INTO state_updates (thread, key, position, reducer, body) VALUES (?1, ?2, ?3, ?4, ?5)";
    connection.prepare_cached(insert)?.execute(params![thread, key, position, reducer.as_str(), body])?;
    let bytes = i64::try_from(body.len()).unwrap_or(i64::MAX);
    let count = "INSERT INTO state_sizes (thread, key, updates, update_bytes) VALUES (?1, ?2, 1, ?3)
        ON CONFLICT (thread, key) DO UPDATE SET updates = updates + 1, update_bytes = update_bytes + ?3";
    connection.prepare_cached(count)?.execute(params![thread, key, bytes])?;
    Ok(())
}

/// Writes a key's value, which replaces its updates.
fn set(
    connection: &Connection,
    thread: i64,
    key: &str,
    value: &str,
    before: Option<Size>,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO state (thread, key, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (thread, key) DO UPDATE SET value = excluded.value",
        )?
        .execute(params![thread, key, value])?;
    if before.is_some_and(|before| before.updates > 0) {
        for table in ["state_updates", "state_sizes"] {
            connection
                .prepare_cached(&format!("DELETE FROM {table} WHERE thread = ?1 AND key = ?2"))?
                .execute(params![thread, key])?;
        }
    }
    Ok(())
}

/// Returns the current value of a key.
fn value_of(connection: &Connection, thread: i64, key: &str) -> rusqlite::Result<Option<Value>> {
    let find = "SELECT value FROM state WHERE thread = ?1 AND key = ?2";
    let value = connection
        .prepare_cached(find)?
        .query_row(params![thread, key], |row| row.get::<_, String>(0))
        .optional()?;
    let Some(value) = value else { return Ok(None) };
    let mut value = parsed(&value)?;
    let updates = "SELECT reducer, body FROM state_updates WHERE thread = ?1 AND key = ?2 ORDER BY position";
    let mut find = connection.prepare_cached(updates)?;
    let (mut updates, mut rows) = (Updates::default(), find.query(params![thread, key])?);
    while let Some(row) = rows.next()? {
        updates.add(&mut value, row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?)?;
    }
    updates.fold_into(&mut value)?;
    Ok(Some(value))
}

/// Returns the current values of a thread's keys.
pub(super) fn read(connection: &Connection, thread: i64) -> rusqlite::Result<Vec<(String, Value)>> {
    let mut values =
        connection.prepare_cached("SELECT key, value FROM state WHERE thread = ?1 ORDER BY key")?;
    let values = values.query_map([thread], |row| Ok((row.get(0)?, parsed(row.get_ref(1)?.as_str()?)?)))?;
    let mut values: Vec<(String, Value)> = values.collect::<rusqlite::Result<_>>()?;
    let updates = "SELECT key, reducer, body FROM state_updates WHERE thread = ?1 ORDER BY key, position";
    let mut find = connection.prepare_cached(updates)?;
    let mut rows = find.query([thread])?;
    let (mut of_key, mut updates) = (None, Updates::default());
    while let Some(row) = rows.next()? {
        let key = row.get_ref(0)?.as_str()?;
        let Ok(at) = values.binary_search_by(|(known, _)| known.as_str().cmp(key)) else { continue };
        if let Some(before) = of_key.replace(at).filter(|before| *before != at) {
            updates.fold_into(&mut values[before].1)?;
        }
        updates.add(&mut values[at].1, row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?)?;
    }
    if let Some(last) = of_key {
        updates.fold_into(&mut values[last].1)?;
    }
    Ok(values)
}

/// Returns the current values of these keys of a thread.
pub(super) fn read_keys(
    connection: &Connection,
    thread: i64,
    keys: impl Iterator<Item = String>,
) -> rusqlite::Result<Vec<(String, Value)>> {
    let value = |key: String| Ok(value_of(connection, thread, &key)?.map(|value| (key, value)));
    keys.filter_map(|key| value(key).transpose()).collect()
}

/// Returns up to `limit` changes of a thread after a revision, oldest first. Fewer if they are larger than
/// [`MAX_CHANGES_BYTES`] together.
pub(super) fn changes_since(
    connection: &Connection,
    thread: i64,
    revision: u64,
    limit: usize,
) -> rusqlite::Result<Vec<StateChange>> {
    let mut statement = connection.prepare_cached(
        "SELECT coalesce(c.body, e.body), c.body IS NULL FROM changes c
         LEFT JOIN events e ON e.id = (c.run << 32) | c.number
         WHERE c.thread = ?1 AND c.revision > ?2 ORDER BY c.revision LIMIT ?3",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![thread, revision.cast_signed(), limit], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?))
    })?;
    let (mut changes, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let (body, of_event) = row?;
        bytes += body.len();
        if bytes > MAX_CHANGES_BYTES && !changes.is_empty() {
            break;
        }
        if of_event {
            let event: RecordedChange = json::from_record(&body).map_err(unreadable)?;
            changes.extend(event.change);
        } else {
            changes.push(json::from_record(&body).map_err(unreadable)?);
        }
    }
    Ok(changes)
}

/// Returns the keys that up to `limit` changes of a thread after a revision wrote, oldest first.
pub(super) fn keys_since(
    connection: &Connection,
    thread: i64,
    revision: u64,
    limit: usize,
) -> rusqlite::Result<Vec<WrittenKeys>> {
    let mut find = connection.prepare_cached(
        "SELECT revision, keys FROM changes WHERE thread = ?1 AND revision > ?2 ORDER BY revision LIMIT ?3",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = find.query_map(params![thread, revision.cast_signed(), limit], |row| {
        Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, Option<String>>(1)?))
    })?;
    let mut written = Vec::new();
    for row in rows {
        let (revision, keys) = row?;
        if let Some(keys) = keys.and_then(|keys| WrittenKeys::parse(revision, &keys)) {
            written.push(keys);
            continue;
        }
        // The change itself may be long, so it is the last one of the page.
        let change = changes_since(connection, thread, revision - 1, 1)?;
        written.extend(change.iter().map(WrittenKeys::of));
        break;
    }
    Ok(written)
}

/// Updates of one key with the same reducer, which are folded in together: a union sorts the value each time.
#[derive(Default)]
struct Updates {
    reducer: Option<Reducer>,
    bodies: Vec<Value>,
}

impl Updates {
    /// Adds an update to those of the value, and folds them in first if they have another reducer.
    fn add(&mut self, value: &mut Value, reducer: &str, body: &str) -> rusqlite::Result<()> {
        let reducer: Reducer = serde_json::from_value(Value::from(reducer)).map_err(unreadable)?;
        if self.reducer != Some(reducer) {
            self.fold_into(value)?;
            self.reducer = Some(reducer);
        }
        self.bodies.push(parsed(body)?);
        Ok(())
    }

    fn fold_into(&mut self, value: &mut Value) -> rusqlite::Result<()> {
        let bodies = std::mem::take(&mut self.bodies);
        let Some(reducer) = self.reducer.take() else { return Ok(()) };
        reducer.join_all(value, &bodies).map_err(unreadable)
    }
}

fn parsed(text: &str) -> rusqlite::Result<Value> {
    json::from_record(text).map_err(unreadable)
}

fn unreadable(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, why.into())
}
