//! The raw floor: the least that PostgreSQL and its client can do.

use crate::cluster::Database;
use futures::future::join_all;
use std::time::Instant;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, NoTls};

/// Returns the INSERTs per second of the row of one event, each in a transaction of its own.
pub(crate) async fn inserts(database: &Database, connections: usize, each: u64, body: &str) -> f64 {
    let table = format!("floor_{connections}");
    let create = format!("CREATE TABLE {table} (LIKE events INCLUDING ALL)");
    database.client().await.batch_execute(&create).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(database.client().await);
    }
    let insert =
        format!("INSERT INTO {table} (run, number, at_ms, body, checksum) VALUES ($1, $2, $3, $4, $5)");
    let began = Instant::now();
    let inserting = clients.into_iter().enumerate().map(|(client_number, client)| {
        let (insert, body, run) = (insert.clone(), body.to_owned(), format!("run-{client_number}"));
        tokio::spawn(async move {
            for number in 0..each.cast_signed() {
                let row: [(&(dyn ToSql + Sync), Type); 5] = [
                    (&run, Type::TEXT),
                    (&number, Type::INT8),
                    (&7_i64, Type::INT8),
                    (&body, Type::TEXT),
                    (&[1_u8; 32].as_slice(), Type::BYTEA),
                ];
                client.execute_typed(&insert, &row).await.unwrap();
            }
        })
    });
    join_all(inserting).await.into_iter().for_each(Result::unwrap);
    crate::per_second(connections as u64 * each, began)
}

/// Returns the times, in milliseconds, of an INSERT, a notification, its arrival at another
/// connection, and an UPDATE there: the least that hands work over.
pub(crate) async fn notifications(database: &Database, number: usize) -> Vec<f64> {
    let (listens, mut connection) =
        tokio_postgres::connect(&crate::cluster().url(&database.name), NoTls).await.unwrap();
    let (arrived, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if matches!(message, AsyncMessage::Notification(_)) && arrived.send(()).is_err() {
                break;
            }
        }
    });
    listens.batch_execute("CREATE TABLE handed (id int PRIMARY KEY, n int)").await.unwrap();
    listens.batch_execute("LISTEN floor").await.unwrap();
    let sends = database.client().await;
    let mut times = Vec::new();
    for id in 0..number {
        // As before each run that is measured: a processor that has been idle answers later.
        tokio::time::sleep(crate::IDLE).await;
        let began = Instant::now();
        sends.batch_execute(&format!("INSERT INTO handed VALUES ({id}, 0)")).await.unwrap();
        sends.batch_execute("NOTIFY floor").await.unwrap();
        arrivals.recv().await.unwrap();
        listens.batch_execute(&format!("UPDATE handed SET n = 1 WHERE id = {id}")).await.unwrap();
        times.push(began.elapsed().as_secs_f64() * 1_000.0);
    }
    times
}
