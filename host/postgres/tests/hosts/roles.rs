//! The roles that docs/postgresql.md describes: one that creates the schema, and one for the hosts.

use crate::cluster::cluster;
use crate::working::{options, question, run_of, story, until_status, yes};
use std::sync::Arc;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;
use tollgate::RunRequest;
use tollgate::store::{AuditKind, AuditRecord, AuditStore as _, RunCommand, Store};
use tollgate_postgres::{PostgresConfig, PostgresStore};

/// The tables of what was recorded.
const RECORDS: [&str; 7] =
    ["events", "messages", "changes", "audit", "components", "component_parts", "run_components"];

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Creates a database with the two roles, and the schema. Returns the URLs of its owner and of the hosts.
pub(crate) async fn database_with_roles() -> (String, String) {
    let database = cluster().empty_database().await;
    let name = &database.name;
    let (owner, role) = (format!("owner_{name}"), format!("host_{name}"));
    let create = format!(
        "CREATE ROLE {owner} LOGIN; CREATE ROLE {role} LOGIN; ALTER DATABASE {name} OWNER TO {owner}"
    );
    database.client().await.batch_execute(&create).await.unwrap();
    let url = |role: &str| cluster().url(name).replace("tollgate@", &format!("{role}@"));
    PostgresStore::migrate(&PostgresConfig::new(&url(&owner)).unwrap()).await.unwrap();
    connect(&url(&owner)).await.batch_execute(&PostgresStore::grants_sql(&role)).await.unwrap();
    (url(&owner), url(&role))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_role_of_the_hosts_drives_runs_and_cannot_alter_what_was_recorded() {
    let (owner, role) = database_with_roles().await;
    let config = PostgresConfig::new(&role).unwrap().with_connections(4).unwrap();
    let store = Arc::new(PostgresStore::connect(config).await.unwrap());
    assert!(!store.warnings().await.unwrap().iter().any(|warning| warning.contains("may alter")));
    let directory = tempfile::tempdir().unwrap();
    let host = story::host(Arc::clone(&store) as Arc<dyn Store>, directory.path());
    let (works, stop) = (host.clone(), CancellationToken::new());
    let _stopped = stop.clone().drop_guard();
    tokio::spawn(async move { works.work(&options(), &stop).await });
    let submit = async |thread: &str, prompt: &str| {
        host.submit(RunRequest::new(story::AGENT, prompt).on_thread(thread)).await.unwrap()
    };
    let (asks, delegates) = (submit("a", "Please ask.").await, submit("d", "Please delegate.").await);
    until_status(&host, &asks, "waiting").await;
    host.send(&asks, yes("yes", &question(&host, &asks).await)).await.unwrap();
    until_status(&host, &asks, "completed").await;
    until_status(&host, &delegates, "completed").await;
    let cancelled = submit("c", "Please ask.").await;
    until_status(&host, &cancelled, "waiting").await;
    host.send(&cancelled, RunCommand::Cancel("enough".to_owned())).await.unwrap();
    until_status(&host, &cancelled, "cancelled").await;
    store.record_audit(vec![AuditRecord::at(9, AuditKind::Grant, "person", "granted")]).await.unwrap();
    assert!(run_of(&host, &asks).await.owner.is_none());

    let (owns, compromised) = (connect(&owner).await, connect(&role).await);
    let denied = async |sql: String| {
        let why = compromised.batch_execute(&sql).await.expect_err(&sql);
        assert_eq!(why.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{sql}: {why:?}");
    };
    for table in RECORDS {
        let column = owns
            .query_one(
                "SELECT attname::text FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum = 2",
                &[&table],
            )
            .await
            .unwrap()
            .get::<_, String>(0);
        denied(format!("UPDATE {table} SET {column} = {column}")).await;
        denied(format!("DELETE FROM {table}")).await;
        denied(format!("TRUNCATE {table}")).await;
        denied(format!("DROP TABLE {table}")).await;
    }
    for table in ["runs", "threads", "state"] {
        denied(format!("DELETE FROM {table}")).await;
    }
    denied("UPDATE meta SET min_host = 99".to_owned()).await;
}
