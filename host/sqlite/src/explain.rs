//! Error messages: what failed, why, and what to do.

use rusqlite::Error;
use std::io;
use std::path::Path;
use tollgate_store::{Remedy, StoreError, StoreErrorKind};

const FULL_DISK: &str = "the disk is full; free some room";
const CHECK_MODE: &str = "check the owner and mode of the file and its directory";

/// Returns why the system refused to open, create or write a file, and what to do.
pub(super) fn cause(error: &io::Error) -> String {
    use io::ErrorKind::{
        FileTooLarge, IsADirectory, NotADirectory, NotFound, OutOfMemory, PermissionDenied, QuotaExceeded,
        ReadOnlyFilesystem, StorageFull,
    };
    let errno = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    let words = match (error.kind(), errno) {
        (_, Some(rustix::io::Errno::LOOP)) => {
            "it is a symbolic link, which is not followed here; move what it points to into its place"
        }
        (_, Some(rustix::io::Errno::MFILE)) => {
            "this process has too many open files; raise its limit (ulimit -n)"
        }
        (_, Some(rustix::io::Errno::NFILE)) => "the system has too many open files; end other programs",
        (_, Some(rustix::io::Errno::IO)) => "the disk failed to read or write; check its health",
        (StorageFull, _) => FULL_DISK,
        (QuotaExceeded, _) => "your disk quota is used up; free some room",
        (FileTooLarge, _) => "the file would exceed the limit on file sizes (ulimit -f); raise it",
        (ReadOnlyFilesystem, _) => "the file system is read-only",
        (NotADirectory, _) => "a part of its path is a file",
        (IsADirectory, _) => "a directory has its name; move it away",
        (NotFound, _) => "it does not exist and cannot be created",
        (OutOfMemory, _) => "memory ran out; end other programs",
        (PermissionDenied, _) => return format!("permission was denied; {CHECK_MODE}"),
        _ => return format!("the system refused it ({}); {CHECK_MODE}", error.kind()),
    };
    words.to_owned()
}

/// Returns what it means for a caller that the system refused a file.
fn kind_of(error: &io::Error) -> StoreErrorKind {
    use io::ErrorKind::{FileTooLarge, OutOfMemory, QuotaExceeded, StorageFull};
    use rustix::io::Errno;
    match (error.kind(), error.raw_os_error().map(Errno::from_raw_os_error)) {
        (StorageFull | QuotaExceeded | FileTooLarge, _) => StoreErrorKind::Full,
        (OutOfMemory, _) | (_, Some(Errno::MFILE | Errno::NFILE)) => StoreErrorKind::Unavailable,
        (_, Some(Errno::IO)) => StoreErrorKind::Other,
        _ => StoreErrorKind::Unusable,
    }
}

/// Returns the step that resolves the refusal of a file, beyond what its [`cause`] names.
pub(super) fn remedy_of(error: &io::Error) -> Option<Remedy> {
    let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    (kind_of(error) == StoreErrorKind::Unusable && !is_link).then_some(Remedy::OtherDirectory)
}

/// Returns the error of something that failed because the system refused a file.
pub(super) fn refused(what: &str, error: &io::Error) -> StoreError {
    StoreError::new(kind_of(error), format!("{what}: {}", cause(error))).with_remedy(remedy_of(error))
}

/// Explains an SQLite error to an operator. SQLite's own text is not shown. If SQLite does not
/// report the cause, the system is asked for it.
pub(super) fn explain(verb: &str, file: &Path, error: &Error) -> StoreError {
    let (kind, why, remedy) = why(file, error);
    StoreError::new(kind, format!("cannot {verb} the store {}: {why}", file.display())).with_remedy(remedy)
}

/// The kind of an error, its cause, and the step that resolves it.
type Cause = (StoreErrorKind, String, Option<Remedy>);

fn why(file: &Path, error: &Error) -> Cause {
    use StoreErrorKind::{Damaged, Full, Other, Unavailable, Unusable};
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase, OutOfMemory,
        PermissionDenied, ReadOnly, SystemIoFailure,
    };
    let code = error.sqlite_error().map(|e| e.extended_code).unwrap_or_default();
    let (kind, words, remedy) = match error.sqlite_error_code() {
        Some(DiskFull) => (Full, FULL_DISK, None),
        Some(SystemIoFailure | ReadOnly | PermissionDenied | CannotOpen) => {
            return refused_by_the_system(file).unwrap_or_else(|| {
                let words = format!(
                    "the disk refused the write (code {code}); check its health, its quota and the limit on file sizes"
                );
                (Other, words, None)
            });
        }
        Some(DatabaseCorrupt) => {
            (Damaged, "the file is damaged; restore it from a copy, or move it away to begin a new one", None)
        }
        Some(NotADatabase) => (Unusable, "it is not an SQLite file", Some(Remedy::OtherDirectory)),
        Some(DatabaseBusy | DatabaseLocked) => {
            (Unavailable, "other processes kept it locked for too long; try again later", None)
        }
        Some(OutOfMemory) => (Unavailable, "memory ran out; end other programs", None),
        Some(_) => return (Other, format!("SQLite refused it (code {code})"), Some(Remedy::Verify)),
        None => (Damaged, "a record in it cannot be read", Some(Remedy::Verify)),
    };
    (kind, words.to_owned(), remedy)
}

/// Returns why the system refuses the file, its directory or SQLite's files beside it. `None` if
/// it does not.
fn refused_by_the_system(file: &Path) -> Option<Cause> {
    let refused = |error: &io::Error, words: String| Some((kind_of(error), words, remedy_of(error)));
    let opened = |file: &Path| std::fs::File::options().read(true).write(true).open(file).map(drop);
    let is_link = std::fs::symlink_metadata(file).is_ok_and(|metadata| metadata.is_symlink());
    if is_link {
        let error = rustix::io::Errno::LOOP.into();
        return refused(&error, cause(&error));
    }
    if let Err(error) = opened(file)
        && error.kind() != io::ErrorKind::NotFound
    {
        return refused(&error, cause(&error));
    }
    let directory = file.parent()?;
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    if let Err(error) = rustix::fs::access(directory, access) {
        let error = error.into();
        return refused(&error, format!("{} cannot be written: {}", directory.display(), cause(&error)));
    }
    for ending in ["-wal", "-shm"] {
        let beside = sibling_path(file, ending);
        match opened(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return refused(&error, format!("{}: {}", beside.display(), cause(&error)));
            }
            _ => {}
        }
    }
    let free = rustix::fs::statvfs(directory).ok()?;
    (free.f_bavail == 0).then(|| (StoreErrorKind::Full, FULL_DISK.to_owned(), None))
}

/// Returns the path of a file that SQLite keeps beside the database.
pub(super) fn sibling_path(file: &Path, ending: &str) -> std::path::PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn each_cause_has_words_of_its_own_and_a_next_step() {
        let causes = [
            Errno::ACCESS,
            Errno::LOOP,
            Errno::NOSPC,
            Errno::MFILE,
            Errno::NFILE,
            Errno::ROFS,
            Errno::NOTDIR,
            Errno::ISDIR,
            Errno::DQUOT,
            Errno::FBIG,
            Errno::IO,
            Errno::NOMEM,
        ];
        let words: std::collections::BTreeSet<String> =
            causes.iter().map(|errno| cause(&(*errno).into())).collect();
        assert_eq!(words.len(), causes.len(), "{words:?}");
        assert!(words.iter().all(|words| !words.contains("os error")), "{words:?}");
    }

    #[test]
    fn a_lack_of_room_differs_from_a_lack_of_rights_and_from_a_passing_lack() {
        let kinds = [
            (StoreErrorKind::Full, &[Errno::NOSPC, Errno::DQUOT, Errno::FBIG][..]),
            (StoreErrorKind::Unusable, &[Errno::ACCESS, Errno::ROFS, Errno::NOTDIR, Errno::LOOP][..]),
            (StoreErrorKind::Unavailable, &[Errno::MFILE, Errno::NFILE, Errno::NOMEM][..]),
            (StoreErrorKind::Other, &[Errno::IO][..]),
        ];
        for (kind, causes) in kinds {
            causes.iter().for_each(|errno| assert_eq!(kind_of(&(*errno).into()), kind, "{errno:?}"));
        }
    }

    #[test]
    fn words_of_the_driver_do_not_reach_the_operator() {
        let data = tempfile::tempdir().unwrap();
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE t (a TEXT NOT NULL UNIQUE); INSERT INTO t VALUES ('x')")
            .unwrap();
        let errors = [
            connection.execute("INSERT INTO t VALUES ('x')", []).unwrap_err(),
            connection.execute("INSERT INTO u VALUES (1)", []).unwrap_err(),
            connection.query_row("SELECT a FROM t", [], |row| row.get::<_, i64>(0)).unwrap_err(),
        ];
        for error in errors {
            let error = explain("write to", &data.path().join("tollgate.db"), &error);
            assert_eq!(error.remedy(), Some(&Remedy::Verify));
            let words = error.to_string();
            assert!(
                !words.contains("UNIQUE") && !words.contains("no such") && !words.contains("column"),
                "{words}"
            );
        }
    }
}
