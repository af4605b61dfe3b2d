//! The file of the database of keys: how it is created and opened.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// The time that a process waits until it may write.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The version of the tables that this program creates and reads.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE keys (
        id TEXT PRIMARY KEY,
        digest BLOB NOT NULL UNIQUE,
        principal TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL,
        expires_at_ms INTEGER,
        revoked_at_ms INTEGER,
        used_at_ms INTEGER
    ) WITHOUT ROWID;
    CREATE TABLE codes (
        digest BLOB PRIMARY KEY,
        principal TEXT NOT NULL,
        expires_at_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        digest BLOB NOT NULL UNIQUE,
        principal TEXT NOT NULL,
        key_id TEXT REFERENCES keys (id),
        created_at_ms INTEGER NOT NULL,
        used_at_ms INTEGER NOT NULL,
        ends_at_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE request_keys (
        digest BLOB PRIMARY KEY,
        body BLOB NOT NULL,
        run_id TEXT NOT NULL,
        at_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX request_keys_by_time ON request_keys (at_ms);";

/// Creates the file, unless it exists, with access for this user only. SQLite gives its log the same
/// mode.
pub(super) fn create_file(file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    match std::fs::File::options().write(true).create_new(true).mode(0o600).open(file) {
        Err(why) if why.kind() != std::io::ErrorKind::AlreadyExists => Err(why),
        _ => Ok(()),
    }
}

/// Opens a connection. The log stays when it closes; see [`keep_log`].
pub(super) fn connect(file: &Path) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A request key must not be forgotten when the power fails.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    keep_log(&connection, true)?;
    Ok(connection)
}

/// Sets whether the log stays when the connection is the last one that closes.
pub(super) fn keep_log(connection: &Connection, is_kept: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, is_kept).map(drop)
}

/// Creates the tables, unless they exist, and checks their version.
///
/// # Errors
/// The file cannot be written, or a newer version wrote it.
pub(super) fn prepare(connection: &mut Connection, file: &Path) -> Result<(), String> {
    let version = create_tables(connection).map_err(|e| e.to_string())?;
    if version > VERSION {
        return Err(format!("{} was written by a newer tollgate (version {version})", file.display()));
    }
    Ok(())
}

/// Creates the tables, unless they exist. Returns the version of the existing ones, and 0 if there were
/// none.
fn create_tables(connection: &mut Connection) -> rusqlite::Result<i64> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == 0 {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()?;
    Ok(version)
}
