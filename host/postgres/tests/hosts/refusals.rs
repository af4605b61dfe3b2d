//! Databases that a host refuses at its start, and the messages.

use crate::cluster::cluster;
use tollgate::store::RunStore as _;
use tollgate_postgres::{PostgresConfig, PostgresStore, SchemaState};

async fn refused(config: PostgresConfig) -> String {
    match PostgresStore::connect(config).await {
        Ok(_) => panic!("it was not refused"),
        Err(why) => why.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_a_schema_is_initialized_by_name_and_once() {
    let database = cluster().empty_database().await;
    let words = refused(database.config()).await;
    assert!(words.contains("it has no schema; run `tollgate store init`"), "{words}");
    assert_eq!(PostgresStore::check(&database.config()).await.unwrap(), SchemaState::Empty);
    let config = database.config();
    let (one, two) = tokio::join!(PostgresStore::migrate(&config), PostgresStore::migrate(&config));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.to, two.to);
    assert!((one.from == 0) != (two.from == 0), "one of them does it: {one:?} {two:?}");
    PostgresStore::connect(database.config()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_programs_tables_and_newer_schemas_are_left_alone() {
    let database = cluster().empty_database().await;
    database.client().await.batch_execute("CREATE TABLE invoices (id int)").await.unwrap();
    let words = PostgresStore::migrate(&database.config()).await.unwrap_err().to_string();
    assert!(words.contains("tables that are not Tollgate's"), "{words}");
    let database = cluster().database().await;
    database.client().await.batch_execute("UPDATE meta SET min_host = 99").await.unwrap();
    let words = refused(database.config()).await;
    assert!(words.contains("use the newer tollgate"), "{words}");
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
        let told = refused(config).await;
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
    let page = include_str!("../../../../docs/postgresql.md");
    let grants: String = page.lines().filter(|line| line.starts_with("GRANT ")).collect();
    assert_eq!(grants.matches("GRANT ").count(), 4, "{grants}");
    let grants = grants.replace("TO tollgate;", &format!("TO {role};"));
    let client = database.client().await;
    client.batch_execute(&format!("CREATE ROLE {role} LOGIN; {grants}")).await.unwrap();
    let url = cluster().url(&database.name).replace("tollgate@", &format!("{role}@"));
    let store = PostgresStore::connect(PostgresConfig::new(&url).unwrap()).await.unwrap();
    let words = store.warnings().await.unwrap().join("\n");
    assert!(!words.contains("may alter"), "{words}");
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
    let words = refused(config.unwrap()).await;
    assert!(words.contains("lacks a privilege"), "{words}");
}
