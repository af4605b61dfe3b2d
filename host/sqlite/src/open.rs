//! Opening the database file: its location, whether it belongs to Tollgate, and whether this
//! version can read it.

use super::explain::{explain, sibling_path};
use super::lock::{check_kind, take_turn, unwritable};
use super::private_dir;
use super::process;
use super::store_files::lost;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::error::Error as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tollgate_store::{Remedy, StoreError};

/// The database file within the data directory.
const FILE: &str = "tollgate.db";
/// The application id that marks the file as a Tollgate store: "TOLG".
const APPLICATION_ID: i32 = 0x544f_4c47;
/// How long a process waits for its turn to write.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// The page cache of a connection in KiB, a quarter of SQLite's default. A run writes at the end
/// of the file, and the system caches the rest of it.
const CACHE_KIB: i32 = 512;

mod migrations {
    refinery::embed_migrations!("src/migrations");
}

/// The newest migration this program knows. Building the list of migrations would take longer
/// than the rest of a start.
pub(super) const NEWEST: i64 = 12;

/// Creates or checks the store and migrates it to this version. Returns its path and a first
/// connection. The directory's path contains no links that another user could have placed.
pub(super) fn prepare(directory: &Path) -> Result<(PathBuf, Connection), StoreError> {
    private_dir::make(directory)?;
    let _turn = take_turn(directory)?;
    let file = file_in(directory);
    check_regular(&file)?;
    if file.exists() {
        check_beside(directory, &file)?;
    }
    // SQLite gives its other files the same mode.
    private_dir::make_file(&file).map_err(|why| unwritable(&file, &why))?;
    let is_new = std::fs::metadata(&file).is_ok_and(|file| file.len() == 0);
    let mut connection = open_file(&file, is_new)?;
    check_ours(&connection, &file)?;
    match applied_and_known(&connection, &file)? {
        NEWEST => {}
        0 => bring_up(&mut connection, &file)?,
        _ => {
            check_unused(directory, &file)?;
            let store = file.display();
            tracing::warn!("migrating the store {store} to this version, which may take a while");
            bring_up(&mut connection, &file)?;
        }
    }
    Ok((file, connection))
}

fn bring_up(connection: &mut Connection, file: &Path) -> Result<(), StoreError> {
    let store_temporary = |connection: &Connection, place: &str| {
        connection.pragma_update(None, "temp_store", place).map_err(|e| explain("convert", file, &e))
    };
    // An index of a large table is sorted, which may take more memory than there is.
    store_temporary(connection, "FILE")?;
    // All in one transaction: a migration and its entry in the history are two steps, and a
    // process may be killed between them.
    let runner = migrations::migrations::runner().set_grouped(true);
    runner.run(connection).map_err(|why| match why.source().and_then(|of| of.downcast_ref()) {
        Some(of_sqlite) => explain("convert", file, of_sqlite),
        None => {
            StoreError::other(format!("cannot migrate the store {} to this version: {why}", file.display()))
        }
    })?;
    store_temporary(connection, "MEMORY")
}

/// Opens another connection to an existing store.
pub(super) fn connect(file: &Path) -> Result<Connection, StoreError> {
    open_file(file, false)
}

/// Checks that the store's files are regular files, if they exist. SQLite would block on a pipe,
/// or write to a device.
pub(super) fn check_regular(file: &Path) -> Result<(), StoreError> {
    check_kind(file)?;
    ["-wal", "-shm", "-journal"].iter().try_for_each(|ending| check_kind(&sibling_path(file, ending)))
}

/// Returns the path of the database in a data directory.
pub(super) fn file_in(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Opens a read-only connection. If no process writes to the file, its log is ignored.
pub(super) fn connect_read_only(file: &Path, is_unchanging: bool) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_URI;
    let mut uri = String::from("file:");
    for byte in file.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(*byte))
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    if is_unchanging {
        uri.push_str("?immutable=1");
    }
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(&uri, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(connection)
    };
    open().map_err(|e| explain("read", file, &e))
}

fn open_file(file: &Path, is_new: bool) -> Result<Connection, StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        if is_new {
            // Only an empty file takes this setting at once; see `prune`.
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        // SQLite would otherwise write its statement journals to a file.
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        // Keeps plans independent of bound values; otherwise statements are prepared again for
        // each value.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // See `allow_checkpoint`.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    open().map_err(|e| explain("open", file, &e))
}

/// Lets the connection move the log into the database and remove it, if it is the last one that
/// closes. If a file beside the database was removed or replaced meanwhile, what the connection
/// knows of the log is outdated, and other commits would be lost. So the caller checks the
/// [`StoreFiles`](super::store_files::Place) before, and holds the directory's lock until the connection is closed.
pub(super) fn allow_checkpoint(connection: &Connection) {
    // If it fails, the log stays, and the next start reads it.
    let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
}

/// Fails if another process uses the store, and a file that it uses beside the database is gone.
/// SQLite would create another one, and the two processes would not see each other's commits.
fn check_beside(directory: &Path, file: &Path) -> Result<(), StoreError> {
    let is_gone = |path: &PathBuf| !path.try_exists().unwrap_or(true);
    let gone = ["-wal", "-shm"].map(|ending| sibling_path(file, ending)).into_iter().find(is_gone);
    match gone {
        Some(gone) if process::any_lives(directory) => Err(lost(file, &gone)),
        _ => Ok(()),
    }
}

fn check_ours(connection: &Connection, file: &Path) -> Result<(), StoreError> {
    let read = || -> rusqlite::Result<(i32, i64)> {
        let id = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        let tables = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
        Ok((id, tables))
    };
    let (id, tables) = read().map_err(|e| explain("read", file, &e))?;
    if id == APPLICATION_ID {
        return Ok(());
    }
    if tables > 0 {
        let message = format!("{} is another program's database", file.display());
        return Err(StoreError::unusable(message).with_remedy(Remedy::OtherDirectory));
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(|e| explain("write", file, &e))
}

/// Returns the newest migration applied to the file; fails if this program does not know it.
pub(super) fn applied_and_known(connection: &Connection, file: &Path) -> Result<i64, StoreError> {
    let (has, knows) = (applied(connection, file)?, NEWEST);
    if has <= knows {
        return Ok(has);
    }
    Err(StoreError::unusable(format!(
        "the store {} has version {has} and this program knows up to {knows}; use the newer version that wrote it",
        file.display()
    )))
}

/// Fails if another process uses the store. A process of the older version could no longer write
/// to it.
fn check_unused(directory: &Path, file: &Path) -> Result<(), StoreError> {
    if !process::any_lives(directory) {
        return Ok(());
    }
    Err(StoreError::unusable(format!(
        "the store {} is of an earlier version, and a process of that version uses it; end that process, then try again",
        file.display()
    )))
}

/// Returns the newest migration applied to the file; 0 for a new file.
fn applied(connection: &Connection, file: &Path) -> Result<i64, StoreError> {
    let table = "SELECT 1 FROM sqlite_master WHERE name = 'refinery_schema_history'";
    let newest = "SELECT coalesce(max(version), 0) FROM refinery_schema_history";
    let read = || -> rusqlite::Result<i64> {
        match connection.query_row(table, [], |_| Ok(())).optional()? {
            None => Ok(0),
            Some(()) => connection.query_row(newest, [], |row| row.get(0)),
        }
    };
    read().map_err(|e| explain("read", file, &e))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{FILE, prepare};
    use crate::process::Process;
    use std::path::Path;

    const OF_THE_FIRST_RELEASE: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/store-0.1.0.db");

    fn of_the_first_release(directory: &Path) {
        std::fs::copy(OF_THE_FIRST_RELEASE, directory.join(FILE)).unwrap();
    }

    #[test]
    fn a_store_that_an_earlier_version_uses_is_left_as_it_is() {
        let data = tempfile::tempdir().unwrap();
        of_the_first_release(data.path());
        let earlier = Process::register(data.path()).unwrap();
        let used = super::connect(&data.path().join(FILE)).unwrap();
        assert!(used.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0)).is_ok());
        let refused = prepare(data.path()).unwrap_err().to_string();
        assert!(refused.contains("uses it; end that process"), "{refused}");
        drop((earlier, used));
        let (_, connection) = prepare(data.path()).unwrap();
        let orphans = "SELECT count(*) FROM events WHERE run NOT IN (SELECT id FROM runs)";
        assert_eq!(connection.query_row(orphans, [], |row| row.get::<_, i64>(0)), Ok(0));
        let _of_this_version = Process::register(data.path()).unwrap();
        prepare(data.path()).unwrap();
    }

    #[test]
    fn what_keeps_a_store_from_being_brought_up_is_explained() {
        let data = tempfile::tempdir().unwrap();
        of_the_first_release(data.path());
        let file = data.path().join(FILE);
        let mut full = super::connect(&file).unwrap();
        let pages: i64 = full.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let given =
            full.pragma_update_and_check(None, "max_page_count", pages + 1, |row| row.get::<_, i64>(0));
        assert_eq!(given, Ok(pages + 1));
        let refused = super::bring_up(&mut full, &file).unwrap_err().to_string();
        assert!(refused.contains("the disk is full; free some room"), "{refused}");
        drop(full);
        prepare(data.path()).unwrap();
    }

    #[test]
    fn the_newest_migration_is_the_one_that_is_known() {
        let runner = super::migrations::migrations::runner();
        let newest = runner.get_migrations().iter().map(|migration| i64::from(migration.version())).max();
        assert_eq!(newest, Some(super::NEWEST));
    }

    #[test]
    fn audit_records_of_an_earlier_version_name_no_model() {
        let data = tempfile::tempdir().unwrap();
        of_the_first_release(data.path());
        let mut earlier = super::connect(&data.path().join(FILE)).unwrap();
        let runner = super::migrations::migrations::runner().set_target(refinery::Target::Version(11));
        runner.run(&mut earlier).unwrap();
        let add = "INSERT INTO audit (at_ms, kind, who, decision) VALUES (1, 'call', 'agent a', 'success')";
        earlier.execute(add, []).unwrap();
        drop(earlier);
        let (_, connection) = prepare(data.path()).unwrap();
        let read = "SELECT who FROM audit WHERE model IS NULL";
        assert_eq!(connection.query_row(read, [], |row| row.get::<_, String>(0)), Ok("agent a".to_owned()));
    }

    #[test]
    fn z3_no_lookup_reads_the_values_of_other_rows() {
        let data = tempfile::tempdir().unwrap();
        let (_, connection) = prepare(data.path()).unwrap();
        let find = "SELECT name FROM pragma_table_list WHERE wr = 1 ORDER BY name";
        let mut find = connection.prepare(find).unwrap();
        let found: Vec<String> = find.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        // A lookup in a table without row ids compares whole rows, so these have short ones only.
        assert_eq!(found, ["component_sizes", "run_components", "state_sizes", "tool_health"]);
    }
}
