//! Commands to runs whose answers are lost.

use crate::cluster::cluster;
use crate::proxy::{Mode, Proxy};
use crate::{commit, finished, prompt, started, until};
use tollgate::store::{CoordinationStore, RunCommand, RunStore};
use tollgate_agent::run::Event;
use tollgate_postgres::{PostgresConfig, PostgresStore};

fn message() -> RunCommand {
    RunCommand::Message("Go on.".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_answer_is_lost_is_stored_once() {
    let database = cluster().database().await;
    let proxy = Proxy::start(cluster().socket()).await;
    let store =
        PostgresStore::connect(PostgresConfig::new(&proxy.url(&database.name)).unwrap()).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    proxy.set(Mode::LoseCommit);
    assert!(store.send("r", "m", message()).await.unwrap());
    assert_eq!((proxy.lost(), store.commands("r").await.unwrap().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_answer_is_lost_is_not_stored_again_after_another_host_has_carried_it_out() {
    let added = Event::MessageAdded { text: "Go on.".to_owned() };
    // The run goes on, or has ended before the command is sent again.
    for carried_out in [vec![added.clone()], vec![added, finished()]] {
        let database = cluster().database().await;
        let proxy = Proxy::start(cluster().socket()).await;
        let config = PostgresConfig::new(&proxy.url(&database.name)).unwrap();
        let store = PostgresStore::connect(config).await.unwrap();
        let other = PostgresStore::connect(database.config()).await.unwrap();
        other.commit(commit("r", 1, 0, vec![started("r", prompt()), Event::RunWaiting])).await.unwrap();
        let carrying_out = async {
            until("the loss", async || (proxy.lost() == 1).then_some(())).await;
            let claimed = other.claim(&["a".to_owned()], 1).await.unwrap();
            assert_eq!(other.commands("r").await.unwrap().len(), 1);
            let mut next = commit("r", claimed[0].epoch, 2, carried_out);
            next.carries_out = vec!["m".into()];
            other.commit(next).await.unwrap();
            proxy.set(Mode::Pass);
        };
        proxy.set(Mode::CutCommit);
        let (sent, ()) = tokio::join!(store.send("r", "m", message()), carrying_out);
        assert!(sent.unwrap(), "it was stored, and is not to be sent in another way");
        assert!(other.commands("r").await.unwrap().is_empty(), "it is stored again");
    }
}
