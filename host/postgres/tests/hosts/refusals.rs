//! Databases that a host refuses at its start, and the messages.

use crate::cluster::cluster;
use tollgate::store::{
    AuditKind, AuditRecord, AuditStore as _, CoordinationStore as _, Remedy, RunStore as _, StoreError,
    StoreErrorKind,
};
use tollgate_postgres::{PostgresConfig, PostgresStore, SchemaState};

async fn refused(config: PostgresConfig) -> StoreError {
    match PostgresStore::connect(config).await {
        Ok(_) => panic!("it was not refused"),
        Err(why) => why,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_a_schema_is_initialized_by_name_and_once() {
    let database = cluster().empty_database().await;
    let why = refused(database.config()).await;
    assert!(why.to_string().ends_with("it has no schema"), "{why}");
    assert_eq!(why.remedy(), Some(&Remedy::CreateSchema));
    assert_eq!(PostgresStore::check(&database.config()).await.unwrap(), SchemaState::Empty);
    let config = database.config();
    let (one, two) = tokio::join!(PostgresStore::migrate(&config), PostgresStore::migrate(&config));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.to, two.to);
    assert!((one.from == 0) != (two.from == 0), "one of them does it: {one:?} {two:?}");
    PostgresStore::connect(database.config()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_the_first_version_is_migrated_by_name() {
    let database = cluster().database().await;
    let behind = database.client().await;
    behind
        .batch_execute(
            "DROP TABLE settings, request_keys, component_parts; UPDATE meta SET min_host = 1;
             ALTER TABLE components ALTER COLUMN bytes SET NOT NULL;
             ALTER TABLE hosts DROP COLUMN tools, DROP COLUMN config, DROP COLUMN unserved;
             DROP INDEX runs_by_short_id, runs_by_agent, runs_by_kind, runs_open, runs_by_principal, audit_by_time,
                audit_by_kind, audit_by_decision, audit_by_component, audit_by_power, run_components_by_digest;
             ALTER TABLE audit DROP COLUMN note, DROP COLUMN model;
             DROP FUNCTION begin_v1, claim_v1, claim_v2, commit_v1, commit_v2, events_v1, thread_v1;
             DELETE FROM refinery_schema_history WHERE version > 1",
        )
        .await
        .unwrap();
    assert_eq!(refused(database.config()).await.remedy(), Some(&Remedy::MigrateSchema));
    let migrated = PostgresStore::migrate(&database.config()).await.unwrap();
    assert_eq!((migrated.from, migrated.to), (1, 10));
    PostgresStore::connect(database.config()).await.unwrap();
    let key = PostgresStore::decisions_key(&database.config()).await.unwrap();
    assert!(key.len() == 64 && key.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert_eq!(PostgresStore::decisions_key(&database.config()).await.unwrap(), key);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_programs_tables_and_newer_schemas_are_left_alone() {
    let database = cluster().empty_database().await;
    database.client().await.batch_execute("CREATE TABLE invoices (id int)").await.unwrap();
    let words = PostgresStore::migrate(&database.config()).await.unwrap_err().to_string();
    assert!(words.contains("tables that are not Tollgate's"), "{words}");
    // Other programs migrate with the same library.
    let database = cluster().empty_database().await;
    let history = "CREATE TABLE refinery_schema_history (version int4 PRIMARY KEY, name text, applied_on text, checksum text);
        INSERT INTO refinery_schema_history (version) VALUES (3), (12)";
    database.client().await.batch_execute(history).await.unwrap();
    for words in [
        PostgresStore::migrate(&database.config()).await.unwrap_err().to_string(),
        refused(database.config()).await.to_string(),
    ] {
        assert!(words.contains("tables that are not Tollgate's"), "{words}");
    }
    // The tables of an extension are no one's.
    let database = cluster().empty_database().await;
    database.client().await.batch_execute("CREATE EXTENSION pg_stat_statements").await.unwrap();
    assert_eq!(PostgresStore::migrate(&database.config()).await.unwrap().from, 0);
    let other = format!("{}_ascii", database.name);
    let create = format!(
        "CREATE DATABASE {other} TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
    );
    database.client().await.batch_execute(&create).await.unwrap();
    let words = refused(cluster().config(&other)).await.to_string();
    assert!(words.contains("encoded as SQL_ASCII; create one with `createdb -E UTF8`"), "{words}");
    let database = cluster().database().await;
    database.client().await.batch_execute("UPDATE meta SET min_host = 99").await.unwrap();
    let words = refused(database.config()).await.to_string();
    assert!(words.contains("use the newer version"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_cause_has_words_of_its_own_and_none_has_the_password() {
    let url = |database: &str| cluster().url(database);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let with = |url: &str| PostgresConfig::new(url).unwrap().with_password("hunter2");
    let words = [
        (with(&url("no_such_database")), "the database does not exist"),
        (with(&url("postgres").replace("tollgate@", "nobody@")), "SQLSTATE 28000"),
        (with(&format!("postgres://u@127.0.0.1:{closed}/x")), "check that the server runs"),
        (with("postgres://u@no-such-host.invalid/x"), "check that the server runs"),
    ];
    for (config, says) in words {
        let told = refused(config).await.to_string();
        let role = says == "SQLSTATE 28000" && told.contains("refused the user or the password");
        assert!(told.contains(says) || role, "{says}: {told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_weakens_the_guarantees_is_told() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    let words = store.warnings().await.unwrap().join("\n");
    // The test server does not sync, and its role owns the tables.
    assert!(words.contains("fsync is off") && words.contains("the role tollgate may alter"), "{words}");
    assert!(!words.contains("clock") && !words.contains("synchronous_commit"), "{words}");
    // A role with the documented grants may not.
    let role = format!("host_{}", database.name);
    let grants = PostgresStore::grants_sql(&role);
    let client = database.client().await;
    client.batch_execute(&format!("CREATE ROLE {role} LOGIN; {grants}")).await.unwrap();
    let url = cluster().url(&database.name).replace("tollgate@", &format!("{role}@"));
    let store = PostgresStore::connect(PostgresConfig::new(&url).unwrap()).await.unwrap();
    let words = store.warnings().await.unwrap().join("\n");
    assert!(!words.contains("may alter"), "{words}");
    for table in ["messages", "component_parts"] {
        client.batch_execute(&format!("GRANT TRUNCATE ON {table} TO {role}")).await.unwrap();
        let words = store.warnings().await.unwrap().join("\n");
        assert!(words.contains(&format!("the role {role} may alter")), "{table}: {words}");
        client.batch_execute(&format!("REVOKE TRUNCATE ON {table} FROM {role}")).await.unwrap();
    }
    store.check_privileges().await.unwrap();
    client.batch_execute(&format!("ALTER ROLE {role} SET synchronous_commit = off")).await.unwrap();
    let store = PostgresStore::connect(PostgresConfig::new(&url).unwrap()).await.unwrap();
    let words = store.warnings().await.unwrap().join("\n");
    assert!(words.contains("synchronous_commit is off"), "{words}");
    // It is enough to drive a run.
    let task = tollgate_agent::run::Task::Prompt("Go.".to_owned());
    store.commit(crate::commit("r", 1, 0, vec![crate::started("r", task)])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_privileges_is_told_what_it_lacks() {
    let database = cluster().database().await;
    let role = format!("role_{}", database.name);
    database.client().await.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await.unwrap();
    let config =
        PostgresConfig::new(&cluster().url(&database.name).replace("tollgate@", &format!("{role}@")));
    let config = config.unwrap();
    let why = refused(config.clone()).await;
    let words = why.to_string();
    assert!(words.contains("permission denied for table refinery_schema_history"), "{words}");
    assert_eq!(why.remedy(), Some(&Remedy::GrantPrivileges));
    let behind = database.client().await;
    behind.batch_execute(&PostgresStore::grants_sql(&role)).await.unwrap();
    let store = PostgresStore::connect(config).await.unwrap();
    let revoke = format!(
        "REVOKE INSERT ON audit FROM {role}; REVOKE EXECUTE ON FUNCTION commit_v2 FROM {role}, public; DROP TABLE turns"
    );
    behind.batch_execute(&revoke).await.unwrap();
    let why = store.check_privileges().await.unwrap_err();
    let words = why.to_string();
    assert!(words.contains("the role lacks INSERT on audit, SELECT on turns,"), "{words}");
    assert!(words.contains("EXECUTE on commit_v2"), "{words}");
    assert_eq!(why.remedy(), Some(&Remedy::GrantPrivileges));
    let record = AuditRecord::at(9, AuditKind::Grant, "person", "granted");
    let words = store.record_audit(vec![record]).await.unwrap_err().to_string();
    assert!(words.contains("permission denied for table audit"), "{words}");
    // It does not join the others, whose runs it could not take over.
    let words = store.queue("t").await.err().unwrap().to_string();
    assert!(words.contains("the role lacks INSERT on audit"), "{words}");
    assert!(store.hosts().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_allows_no_writes_is_refused_with_the_remedy() {
    let database = cluster().database().await;
    let name = &database.name;
    let read_only = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    database.client().await.batch_execute(&read_only).await.unwrap();
    let why = PostgresStore::connect(database.config()).await.err().unwrap();
    assert_eq!(why.kind(), StoreErrorKind::Unavailable);
    assert!(why.to_string().contains("none of its servers accepts writes"), "{why}");
}
