//! The connection that a server on another machine needs: TLS, and a password that is never sent.

use crate::cluster::{Database, cluster};
use crate::proxy::Proxy;
use crate::{commit, prompt, started};
use tollgate::store::{RunStore as _, StoreErrorKind};
use tollgate_postgres::{PostgresConfig, PostgresStore};

const PASSWORD: &str = "hunter2";

/// Creates a role with a password and the privileges of a host.
async fn role(database: &Database) -> String {
    let role = format!("tls_{}", database.name);
    let sql = format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'; {}", PostgresStore::grants_sql(&role));
    database.client().await.batch_execute(&sql).await.unwrap();
    role
}

fn config(role: &str, host: &str, database: &Database, parameters: &str) -> PostgresConfig {
    let url = format!("postgres://{role}@{host}:{}/{}{parameters}", cluster().port(), database.name);
    PostgresConfig::new(&url).unwrap().with_password(PASSWORD)
}

async fn refused(config: PostgresConfig) -> String {
    let why = PostgresStore::connect(config).await.err().expect("it is refused").to_string();
    assert!(!why.contains(PASSWORD), "{why}");
    why
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_connects_with_tls_and_scram() {
    let database = cluster().database().await;
    let role = role(&database).await;
    // The password is bound to this connection: a server in between could not use it.
    let config = config(&role, "localhost", &database, "?channel_binding=require");
    let store = PostgresStore::connect(config.with_ca(cluster().certificate())).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    let behind = database.client().await;
    let sql = "SELECT count(*), count(*) FILTER (WHERE s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
        WHERE a.usename = $1";
    let row = behind.query_one(sql, &[&role]).await.unwrap();
    let (all, with_tls): (i64, i64) = (row.get(0), row.get(1));
    assert!(all >= 2 && all == with_tls, "{with_tls} of {all} connections use TLS");
    let sql = "SELECT rolpassword LIKE 'SCRAM-SHA-256$%' FROM pg_authid WHERE rolname = $1";
    assert!(behind.query_one(sql, &[&role]).await.unwrap().get::<_, bool>(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_refused_that_is_not_the_one_of_the_certificate() {
    let database = cluster().database().await;
    let role = role(&database).await;
    // No public authority has signed it.
    let words = refused(config(&role, "localhost", &database, "?sslmode=require")).await;
    assert!(words.contains("TLS failed") && words.contains("as the store's ca"), "{words}");
    // It names another machine.
    let other = config(&role, "127.0.0.1", &database, "");
    let words = refused(other.with_ca(cluster().certificate())).await;
    assert!(words.contains("TLS failed") && words.contains("as its certificate does"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_a_missing_tls_have_words_of_their_own() {
    let database = cluster().database().await;
    let role = role(&database).await;
    let trusting = config(&role, "localhost", &database, "").with_ca(cluster().certificate());
    let words = refused(trusting.with_password("wrong")).await;
    assert!(words.contains("refused the user or the password") && !words.contains("wrong"), "{words}");
    let words = refused(config(&role, "localhost", &database, "?sslmode=disable")).await;
    assert!(words.contains("the server requires TLS; set the store's ca"), "{words}");
    // A server without TLS: it offers none on its Unix socket.
    let proxy = Proxy::start(cluster().socket()).await;
    let url = proxy.url(&database.name).replace("sslmode=disable", "sslmode=require");
    let why = PostgresStore::connect(PostgresConfig::new(&url).unwrap()).await.err().unwrap();
    assert_eq!(why.kind(), StoreErrorKind::Unusable);
    assert!(why.to_string().contains("the server offers no TLS"), "{why}");
}
