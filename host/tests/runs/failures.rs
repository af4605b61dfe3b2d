//! Tests of errors of the store on disk, which loses nothing when it fails.

use crate::rules::{changed, commit, started};
use tollgate::store::{
    CommitError, Remedy, RunFilter, RunStore, SqliteStore, StateStore, StoreError, StoreErrorKind,
};
use tollgate_agent::run::Event;

fn refusal(directory: &std::path::Path) -> String {
    refused(directory).to_string()
}

fn refused(directory: &std::path::Path) -> StoreError {
    match SqliteStore::open(directory) {
        Ok(_) => panic!("it was opened"),
        Err(e) => e,
    }
}

#[test]
fn a_file_that_is_no_store_is_refused_in_words() {
    let at = tempfile::tempdir().unwrap();
    let file = at.path().join("tollgate.db");
    std::fs::write(&file, "not a database, but long enough to look at: ".repeat(100)).unwrap();
    assert!(refusal(at.path()).contains("not an SQLite file"), "{}", refusal(at.path()));
    std::fs::remove_file(&file).unwrap();
    rusqlite::Connection::open(&file).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    assert!(refusal(at.path()).contains("another program's"), "{}", refusal(at.path()));
}

#[test]
fn a_store_of_a_newer_version_is_refused_in_words() {
    let at = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(at.path()).unwrap());
    let connection = rusqlite::Connection::open(at.path().join("tollgate.db")).unwrap();
    connection
        .execute_batch(
            "INSERT INTO refinery_schema_history VALUES (99, 'future', '2030-01-01T00:00:00Z', '1')",
        )
        .unwrap();
    assert!(refusal(at.path()).contains("version 99"), "{}", refusal(at.path()));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let refused = refused(std::path::Path::new("/proc/nowhere/tollgate"));
    assert!(refused.to_string().contains("/proc/nowhere"), "{refused}");
    assert_eq!(refused.remedy(), Some(&Remedy::OtherDirectory));
}

#[tokio::test]
async fn a_damaged_page_is_told_and_what_lies_beside_it_is_read() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("tollgate.db");
    {
        let store = SqliteStore::open(data.path()).unwrap();
        store.commit(commit("r", 0, vec![started("r"), changed(1, 10), Event::RunWaiting])).await.unwrap();
    }
    let (root, size): (u64, u64) = {
        let connection = rusqlite::Connection::open(&file).unwrap();
        let root = "SELECT rootpage FROM sqlite_master WHERE name = 'events'";
        let root: i64 = connection.query_row(root, [], |row| row.get(0)).unwrap();
        let size: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        (root.cast_unsigned(), size.cast_unsigned())
    };
    let mut bytes = std::fs::read(&file).unwrap();
    let at = usize::try_from((root - 1) * size).unwrap();
    bytes[at..at + usize::try_from(size).unwrap()].fill(0xff);
    std::fs::write(&file, bytes).unwrap();

    let store = SqliteStore::open(data.path()).unwrap();
    let damaged = store.events("r", 0).await.unwrap_err();
    assert_eq!(damaged.kind(), StoreErrorKind::Damaged);
    let words = damaged.to_string();
    assert!(
        words.contains("tollgate.db") && words.contains("damaged") && words.contains("from a copy"),
        "{words}"
    );
    let refused = store.commit(commit("r", 3, vec![Event::RunWaiting])).await.unwrap_err();
    assert!(refused.to_string().contains("damaged"), "{refused}");
    assert_eq!(store.runs(RunFilter::default()).await.unwrap()[0].events, 3);
    assert_eq!(store.thread("t").await.unwrap().state.get("k.n"), Some(&serde_json::json!(10)));
}

#[tokio::test]
async fn a_record_that_is_no_event_is_told() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    store.commit(commit("r", 0, vec![started("r")])).await.unwrap();
    let connection = rusqlite::Connection::open(data.path().join("tollgate.db")).unwrap();
    connection.execute_batch("UPDATE events SET body = '{\"type\": \"run_sta'").unwrap();
    let words = store.events("r", 0).await.unwrap_err().to_string();
    assert!(words.contains("contains an invalid event"), "{words}");
}

#[tokio::test]
async fn a_directory_that_is_lost_under_way_is_told_and_never_written_into_the_void() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    store.commit(commit("r", 0, vec![started("r")])).await.unwrap();
    let elsewhere = data.path().with_extension("moved");
    std::fs::rename(data.path(), &elsewhere).unwrap();
    let lost = store.commit(commit("r", 1, vec![Event::RunWaiting])).await;
    let Err(CommitError::Failed(words)) = lost else { panic!("{lost:?}") };
    assert!(words.to_string().contains("was moved or removed while it was in use"), "{words}");
    // A new file at the old path is another store.
    drop(SqliteStore::open(data.path()).unwrap());
    let lost = store.commit(commit("r2", 0, vec![started("r2")])).await;
    assert!(matches!(lost, Err(CommitError::Failed(_))), "{lost:?}");
    let kept = SqliteStore::open(&elsewhere).unwrap();
    assert_eq!(kept.events("r", 0).await.unwrap()[0].number, 1);
    std::fs::remove_dir_all(&elsewhere).unwrap();
}
