//! The database of keys, sessions, sign-in codes and request keys, which all processes of a data
//! directory share.

use super::database_file::{connect, create_file, keep_log, prepare};
use super::principal::Principal;
use super::records::{
    AccessError, CODE_MS, Credential, KeyRequest, KeySummary, NewSession, SESSION_IDLE_MS, SESSION_MS,
    SessionSummary, scope_names, scopes_of,
};
use super::secret::{self, SecretDigest};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tollgate::store::{DatabaseTurn, StoreFiles, now_ms};

/// The file within the data directory.
const FILE: &str = "tollgate.access.db";
/// The maximum number of cached credentials.
const MAX_CACHED: usize = 10_000;
/// The maximum number of keys, of sessions and of open sign-in codes.
const MAX_ROWS: i64 = 10_000;
/// The maximum number of sessions of one key.
const MAX_KEY_SESSIONS: i64 = 64;
/// The maximum length of a browser's description of itself, in bytes.
const MAX_USER_AGENT_BYTES: usize = 200;
/// How much a stored last use may lag behind, in milliseconds.
const USE_LAG_MS: u64 = 30_000;

/// The keys, sessions and sign-in codes of a data directory.
#[derive(Debug)]
pub struct AccessDatabase {
    file: PathBuf,
    /// Another file at the path, such as a restored backup, has other keys: a key that is revoked
    /// there would be valid here.
    place: StoreFiles,
    writer: Mutex<Connection>,
    reader: Mutex<CachedReader>,
    clock: Clock,
    /// The version that was seen last; `None` if the database could not be read.
    changes: watch::Sender<Option<i64>>,
    /// Taken when the database closes and released after everything else is dropped: the last field.
    closing: Option<DatabaseTurn>,
}

impl Drop for AccessDatabase {
    /// Lets the last connection move the log into the database, if its files are still the ones that
    /// were opened. Otherwise it would remove what other processes have written since.
    fn drop(&mut self) {
        self.closing = self.place.last_turn();
        if self.closing.is_none() {
            return;
        }
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        let reader = self.reader.get_mut().unwrap_or_else(PoisonError::into_inner);
        for connection in [writer, &mut reader.connection] {
            // If it fails, the log stays, and the next start reads it.
            let _ = keep_log(connection, false);
        }
    }
}

/// Returns the time in milliseconds since the Unix epoch.
type Clock = fn() -> u64;

/// A connection for lookups. Its cached rows are valid until any other connection commits.
#[derive(Debug)]
struct CachedReader {
    connection: Connection,
    version: i64,
    known: HashMap<SecretDigest, Arc<Credential>>,
}

/// A principal as it is stored.
#[derive(serde::Serialize, serde::Deserialize)]
struct StoredPrincipal {
    name: String,
    scopes: Vec<String>,
    #[serde(default)]
    agents: Vec<String>,
    #[serde(default)]
    tools: Vec<String>,
    /// The browser of a session, as it describes itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_agent: Option<String>,
}

impl StoredPrincipal {
    fn text(principal: &Principal) -> String {
        let stored = Self {
            name: principal.name.clone(),
            scopes: scope_names(principal),
            agents: principal.agents.clone(),
            tools: principal.tools.clone(),
            user_agent: None,
        };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Returns the text of a principal with the browser of its session.
    fn with_browser(text: &str, user_agent: &str) -> rusqlite::Result<String> {
        let user_agent = tollgate_agent::text::clean(user_agent, MAX_USER_AGENT_BYTES);
        let stored = Self { user_agent: Some(user_agent), ..Self::read(text)? };
        Ok(serde_json::to_string(&stored).unwrap_or_default())
    }

    fn read(text: &str) -> rusqlite::Result<Self> {
        serde_json::from_str(text).map_err(|e| {
            rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(e))
        })
    }

    fn principal(self, has_key: bool) -> Principal {
        let scopes = scopes_of(&self.scopes).collect();
        Principal { name: self.name, scopes, agents: self.agents, tools: self.tools, has_key }
    }
}

impl AccessDatabase {
    /// Opens the database of a data directory, creating both if they are missing.
    ///
    /// # Errors
    /// The directory or the file cannot be used, or a newer version wrote the file.
    pub fn open(directory: &Path) -> Result<Self, AccessError> {
        tollgate::store::make_private_directory(directory).map_err(|e| AccessError(e.to_string()))?;
        let file = directory.join(FILE);
        let failed = |why: &dyn std::fmt::Display| {
            AccessError(format!(
                "cannot open the keys in {}: {why}; check the file's owner and the disk",
                file.display()
            ))
        };
        let _turn = DatabaseTurn::of(&file).map_err(|e| failed(&e))?;
        create_file(&file).map_err(|e| failed(&e))?;
        let mut writer = connect(&file).map_err(|e| failed(&e))?;
        prepare(&mut writer, &file).map_err(|e| failed(&e))?;
        let reader = connect(&file).map_err(|e| failed(&e))?;
        let reader = Mutex::new(CachedReader { connection: reader, version: -1, known: HashMap::new() });
        let place = StoreFiles::of(&file).map_err(|e| failed(&e))?;
        let changes = watch::Sender::new(None);
        Ok(Self { file, place, writer: Mutex::new(writer), reader, clock: now_ms, changes, closing: None })
    }

    fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    /// Checks that the database is still where it was opened.
    ///
    /// # Errors
    /// It was moved, removed or replaced.
    pub fn check(&self) -> Result<(), AccessError> {
        self.place.check().map_err(|lost| AccessError(lost.to_string()))
    }

    /// Returns the data directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("."))
    }

    /// Creates a key. Returns its id and the key, which is stored nowhere.
    ///
    /// # Errors
    /// The database cannot be written, or it has too many keys.
    pub fn add_key(&self, request: &KeyRequest) -> Result<(String, String), AccessError> {
        let (id, key) = secret::new_key().map_err(|e| self.failed("make a key for", &e))?;
        let principal = StoredPrincipal::text(&request.principal);
        self.has_room("keys")?;
        self.write(|connection| {
            connection.execute(
                "INSERT INTO keys (id, digest, principal, created_at_ms, expires_at_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    id,
                    secret::digest(&key),
                    principal,
                    self.now_ms().cast_signed(),
                    request.expires_at_ms.map(u64::cast_signed)
                ],
            )
        })?;
        Ok((id, key))
    }

    /// Returns all keys, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn keys(&self) -> Result<Vec<KeySummary>, AccessError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, principal, created_at_ms, expires_at_ms, revoked_at_ms, used_at_ms FROM keys
                 ORDER BY created_at_ms, id",
            )?;
            statement.query_map([], key_summary)?.collect()
        })
    }

    /// Revokes a key at once, in every process, and ends the sessions that it began. Returns
    /// whether there is such a key in force.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn revoke_key(&self, id: &str) -> Result<bool, AccessError> {
        let revoked = self.write(|connection| {
            connection.execute(
                "UPDATE keys SET revoked_at_ms = ?2 WHERE id = ?1 AND revoked_at_ms IS NULL",
                params![id, self.now_ms().cast_signed()],
            )
        })?;
        self.write(|connection| connection.execute("DELETE FROM sessions WHERE key_id = ?1", [id]))?;
        Ok(revoked > 0)
    }

    /// Creates a sign-in code, which works once within five minutes.
    ///
    /// # Errors
    /// The database cannot be written, or too many codes are open.
    pub fn add_code(&self, principal: &Principal) -> Result<String, AccessError> {
        let code = secret::new_code().map_err(|e| self.failed("make a code for", &e))?;
        let now = self.now_ms();
        self.write(|connection| {
            connection.execute("DELETE FROM codes WHERE expires_at_ms <= ?1", [now.cast_signed()])
        })?;
        self.has_room("codes")?;
        let (digest, expires) = (secret::code_digest(&code), now + CODE_MS);
        let principal = StoredPrincipal::text(principal);
        self.write(|connection| {
            connection.execute(
                "INSERT INTO codes (digest, principal, expires_at_ms) VALUES (?1, ?2, ?3)",
                params![digest, principal, expires.cast_signed()],
            )
        })?;
        Ok(code)
    }

    /// Begins a session with a sign-in code or a key, in a browser that describes itself so. Returns
    /// `None` if the code or key is not valid. A code is used up.
    ///
    /// # Errors
    /// The database cannot be written, or there are too many sessions.
    pub fn sign_in(&self, typed: &str, user_agent: Option<&str>) -> Result<Option<NewSession>, AccessError> {
        let now = self.now_ms();
        let typed = typed.trim();
        let (principal, key_id, limit) = if secret::is_key(typed) {
            let Some(credential) = self.credential(&secret::digest(typed))?.filter(|key| !key.is_session)
            else {
                return Ok(None);
            };
            let principal = StoredPrincipal::text(&credential.principal);
            (principal, Some(credential.id.clone()), credential.ends_at_ms)
        } else {
            let digest = secret::code_digest(typed);
            // A wrong code does not wait for writes.
            self.check()?;
            if !self.reader().has_code(&digest).map_err(|e| self.failed("read", &e))? {
                return Ok(None);
            }
            let used: Option<(String, i64)> = self.write(|connection| {
                connection
                    .prepare_cached("DELETE FROM codes WHERE digest = ?1 RETURNING principal, expires_at_ms")?
                    .query_row([digest], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()
            })?;
            match used {
                Some((principal, expires)) if expires.cast_unsigned() > now => (principal, None, u64::MAX),
                _ => return Ok(None),
            }
        };
        let principal = match user_agent {
            Some(user_agent) => StoredPrincipal::with_browser(&principal, user_agent)
                .map_err(|e| self.failed("make a session for", &e))?,
            None => principal,
        };
        self.end_stale_sessions(now)?;
        if let Some(key_id) = &key_id {
            self.make_room_for_session(key_id)?;
        }
        self.has_room("sessions")?;
        let (id, cookie) = secret::new_session().map_err(|e| self.failed("make a session for", &e))?;
        let ends = (now + SESSION_MS).min(limit);
        self.write(|connection| {
            connection.execute(
                "INSERT INTO sessions (id, digest, principal, key_id, created_at_ms, used_at_ms, ends_at_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6)",
                params![
                    id,
                    secret::digest(&cookie),
                    principal,
                    key_id,
                    now.cast_signed(),
                    ends.cast_signed()
                ],
            )
        })?;
        let name = StoredPrincipal::read(&principal).map_err(|e| self.failed("read", &e))?.name;
        Ok(Some(NewSession { id, name, cookie, ends_at_ms: ends }))
    }

    /// Returns the sessions that have not ended, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn sessions(&self) -> Result<Vec<SessionSummary>, AccessError> {
        let now = self.now_ms();
        self.end_stale_sessions(now)?;
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, principal, created_at_ms, used_at_ms, ends_at_ms FROM sessions ORDER BY created_at_ms, id",
            )?;
            statement.query_map([], session_summary)?.collect()
        })
    }

    /// Ends a session. Returns whether it existed.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn end_session(&self, id: &str) -> Result<bool, AccessError> {
        let ended =
            self.write(|connection| connection.execute("DELETE FROM sessions WHERE id = ?1", [id]))?;
        Ok(ended > 0)
    }

    /// Returns the valid key or session with this digest, and remembers that it was used.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn credential(&self, digest: &SecretDigest) -> Result<Option<Arc<Credential>>, AccessError> {
        let now = self.now_ms();
        Ok(self.find(digest)?.filter(|credential| credential.used(now)))
    }

    /// Returns for how long a key or session with this digest is valid, unless it changes; `None`
    /// if it is not valid. It does not count as used.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(crate) fn valid_for(&self, digest: &SecretDigest) -> Result<Option<Duration>, AccessError> {
        let now = self.now_ms();
        let valid = self.find(digest)?.filter(|credential| credential.is_valid(now));
        Ok(valid.map(|credential| Duration::from_millis(credential.ends_at_ms - now)))
    }

    /// Checks whether any process has changed the database, and notifies the receivers of
    /// [`changes`](Self::changes).
    pub(crate) fn check_for_changes(&self) {
        let version = self.check().ok().and_then(|()| self.reader().current_version().ok());
        self.changes.send_if_modified(|known| std::mem::replace(known, version) != version);
    }

    /// Returns a receiver of changes that [`check_for_changes`](Self::check_for_changes) finds. A value is a version of the
    /// database; `None` if it cannot be read.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<i64>> {
        self.changes.subscribe()
    }

    fn find(&self, digest: &SecretDigest) -> Result<Option<Arc<Credential>>, AccessError> {
        self.check()?;
        self.reader().find(digest).map_err(|e| self.failed("read", &e))
    }

    fn reader(&self) -> MutexGuard<'_, CachedReader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores when keys and sessions were last used.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn store_uses(&self) -> Result<(), AccessError> {
        let known: Vec<Arc<Credential>> = self.reader().known.values().map(Arc::clone).collect();
        let stale = known.iter().filter(|one| {
            let used = one.used_at_ms.load(Ordering::Relaxed);
            used > one.stored_at_ms.load(Ordering::Relaxed).saturating_add(USE_LAG_MS)
        });
        let stale: Vec<_> = stale.collect();
        if stale.is_empty() {
            return Ok(());
        }
        self.write(|connection| {
            let transaction = connection.transaction()?;
            for one in stale {
                let used = one.used_at_ms.load(Ordering::Relaxed);
                let table = if one.is_session { "sessions" } else { "keys" };
                transaction
                    .prepare_cached(&format!("UPDATE {table} SET used_at_ms = ?2 WHERE id = ?1"))?
                    .execute(params![one.id, used.cast_signed()])?;
                one.stored_at_ms.store(used, Ordering::Relaxed);
            }
            transaction.commit()
        })
    }

    fn end_stale_sessions(&self, now_ms: u64) -> Result<(), AccessError> {
        let idle_since = now_ms.saturating_sub(SESSION_IDLE_MS + USE_LAG_MS);
        self.write(|connection| {
            connection.execute(
                "DELETE FROM sessions WHERE ends_at_ms <= ?1 OR used_at_ms < ?2",
                [now_ms.cast_signed(), idle_since.cast_signed()],
            )
        })?;
        Ok(())
    }

    /// Ends the least recently used sessions of a key that has the maximum number, so that one key cannot
    /// take the room for all sessions.
    fn make_room_for_session(&self, key_id: &str) -> Result<(), AccessError> {
        self.write(|connection| {
            connection.execute(
                "DELETE FROM sessions WHERE key_id = ?1 AND id NOT IN
                 (SELECT id FROM sessions WHERE key_id = ?1 ORDER BY used_at_ms DESC, id LIMIT ?2)",
                params![key_id, MAX_KEY_SESSIONS - 1],
            )
        })?;
        Ok(())
    }

    fn has_room(&self, table: &str) -> Result<(), AccessError> {
        let count: i64 = self.read(|connection| {
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
        })?;
        if count < MAX_ROWS {
            return Ok(());
        }
        Err(AccessError(format!(
            "there are {count} {table}, which is the maximum; `tollgate keys` lists the keys"
        )))
    }

    /// Writes on the connection for writing.
    pub(crate) fn write<T>(
        &self,
        write: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, AccessError> {
        self.check()?;
        let mut connection: MutexGuard<'_, Connection> =
            self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut connection).map_err(|e| self.failed("write", &e))
    }

    /// Reads on the connection for writing.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, AccessError> {
        self.check()?;
        let connection = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        read(&connection).map_err(|e| self.failed("read", &e))
    }

    fn failed(&self, what: &str, why: &dyn std::fmt::Display) -> AccessError {
        AccessError(format!("cannot {what} {}: {why}; check the disk", self.file.display()))
    }
}

impl CachedReader {
    fn current_version(&self) -> rusqlite::Result<i64> {
        self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
    }

    fn find(&mut self, digest: &SecretDigest) -> rusqlite::Result<Option<Arc<Credential>>> {
        let version = self.current_version()?;
        if version != self.version || self.known.len() > MAX_CACHED {
            self.known.clear();
            self.version = version;
        }
        if let Some(found) = self.known.get(digest) {
            return Ok(Some(Arc::clone(found)));
        }
        let found = match self.find_key(digest)? {
            Some(key) => Some(key),
            None => self.find_session(digest)?,
        };
        let Some(found) = found.map(Arc::new) else { return Ok(None) };
        self.known.insert(*digest, Arc::clone(&found));
        Ok(Some(found))
    }

    fn has_code(&self, digest: &SecretDigest) -> rusqlite::Result<bool> {
        self.connection.prepare_cached("SELECT 1 FROM codes WHERE digest = ?1")?.exists([digest])
    }

    fn find_key(&self, digest: &SecretDigest) -> rusqlite::Result<Option<Credential>> {
        self.connection
            .prepare_cached(
                "SELECT id, principal, coalesce(used_at_ms, 0), coalesce(expires_at_ms, -1) FROM keys
                 WHERE digest = ?1 AND revoked_at_ms IS NULL",
            )?
            .query_row([digest], |row| credential(row, false))
            .optional()
    }

    fn find_session(&self, digest: &SecretDigest) -> rusqlite::Result<Option<Credential>> {
        self.connection
            .prepare_cached(
                "SELECT s.id, s.principal, s.used_at_ms, s.ends_at_ms FROM sessions s
                 LEFT JOIN keys k ON k.id = s.key_id
                 WHERE s.digest = ?1 AND k.revoked_at_ms IS NULL",
            )?
            .query_row([digest], |row| credential(row, true))
            .optional()
    }
}

fn credential(row: &Row<'_>, is_session: bool) -> rusqlite::Result<Credential> {
    let principal = StoredPrincipal::read(&row.get::<_, String>(1)?)?.principal(!is_session);
    let used = row.get::<_, i64>(2)?.cast_unsigned();
    Ok(Credential {
        id: row.get(0)?,
        is_session,
        principal: Arc::new(principal),
        // -1 is the largest number of milliseconds.
        ends_at_ms: row.get::<_, i64>(3)?.cast_unsigned(),
        used_at_ms: AtomicU64::new(used),
        stored_at_ms: AtomicU64::new(used),
    })
}

fn key_summary(row: &Row<'_>) -> rusqlite::Result<KeySummary> {
    let StoredPrincipal { name, scopes, agents, tools, .. } =
        StoredPrincipal::read(&row.get::<_, String>(1)?)?;
    let time = |at: usize| row.get::<_, Option<i64>>(at).map(|time| time.map(i64::cast_unsigned));
    Ok(KeySummary {
        id: row.get(0)?,
        name,
        scopes,
        agents,
        tools,
        created_at_ms: row.get::<_, i64>(2)?.cast_unsigned(),
        expires_at_ms: time(3)?,
        revoked_at_ms: time(4)?,
        used_at_ms: time(5)?,
    })
}

fn session_summary(row: &Row<'_>) -> rusqlite::Result<SessionSummary> {
    let StoredPrincipal { name, scopes, user_agent, .. } = StoredPrincipal::read(&row.get::<_, String>(1)?)?;
    Ok(SessionSummary {
        id: row.get(0)?,
        name,
        scopes,
        user_agent,
        created_at_ms: row.get::<_, i64>(2)?.cast_unsigned(),
        used_at_ms: row.get::<_, i64>(3)?.cast_unsigned(),
        ends_at_ms: row.get::<_, i64>(4)?.cast_unsigned(),
    })
}

#[cfg(test)]
#[path = "database_tests.rs"]
mod tests;
