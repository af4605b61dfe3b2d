//! A real disk that is full.

use crate::servers::{DATABASE, Server};
use crate::{LEASE, host, open_runs, story, until, verdict};
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate::{RunRequest, WorkOptions};
use tollgate_postgres::{PostgresConfig, PostgresStore};

/// Fills what is left of a file system. Returns the file.
fn fill(directory: &std::path::Path) -> PathBuf {
    use std::io::Write as _;
    let path = directory.join("ballast");
    let mut file = std::fs::File::create(&path).unwrap();
    while file.write_all(&[1; 64 * 1024]).is_ok() {}
    while file.write_all(&[1; 512]).is_ok() {}
    path
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a small file system: scripts/chaos makes one"]
async fn a_full_disk_of_the_server_loses_nothing_that_was_reported() {
    let small = std::env::var("TOLLGATE_SMALL_DISK").expect("the directory of a small file system");
    let small = PathBuf::from(small);
    let mut server = Server::at(&small);
    server.create().await;
    let config = PostgresConfig::new(&server.url(DATABASE)).unwrap().with_lease(LEASE).unwrap();
    let (directory, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
    let options =
        WorkOptions { agents: vec![story::AGENT.to_owned()], concurrency: 8, grace: Duration::ZERO };
    let works = host(&config, directory.path()).await;
    let (stopped, client) = (stop.clone(), host(&config, &std::env::temp_dir()).await);
    let working = tokio::spawn(async move { works.work(&options, &stopped).await });
    let (mut runs, mut failed) = (Vec::new(), Vec::new());
    let request = |number: usize| RunRequest::new(story::AGENT, "Go.").on_thread(format!("t{number}"));
    for number in 0..4 {
        runs.push(client.submit(request(number)).await.unwrap());
    }
    until("work", async || directory.path().join(story::EFFECTS).exists().then_some(())).await;
    let ballast = fill(&small);
    until("an error", async || {
        // A page of a table may have room for a while.
        match client.submit(request(runs.len())).await {
            Ok(run) => runs.push(run),
            Err(why) => failed.push(why.to_string()),
        }
        failed.iter().any(|why| why.contains("the server's disk is full")).then_some(())
    })
    .await;
    println!("{} runs before the disk was full, then: {}", runs.len(), failed.last().unwrap());
    tokio::time::sleep(LEASE * 2).await;
    std::fs::remove_file(ballast).unwrap();
    if PostgresStore::connect(config.clone()).await.is_err() {
        // A server that cannot write its log ends, and an operator starts it again.
        server.kill();
        server.start();
    }
    until("the end of all runs", async || (open_runs(&client).await? == 0).then_some(())).await;
    stop.cancel();
    working.await.unwrap();
    let behind = server.client().await;
    let submitted = verdict::Submitted { runs, ..verdict::Submitted::default() };
    let readers = [&**client.store()];
    let told = verdict::of(&readers, &behind, directory.path(), &submitted, "a full disk").await;
    println!("{told:?}");
    // The last report is still being written.
    tokio::time::sleep(LEASE).await;
}
