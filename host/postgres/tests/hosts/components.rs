//! The components of runs: their bytes, and calls that had begun with another version.

use crate::cluster::cluster;
use crate::working::{options, run_of, story::AGENT, until_status};
use crate::{commit, prompt, started, step, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate::models::{ScriptedModel, ScriptedTurn};
use tollgate::store::{
    ComponentFile, ComponentSource, ComponentStore, CoordinationStore, RunStore, Store, StoreErrorKind,
};
use tollgate::tools::{Attempt, AttemptRequest, Runner, Toolbox};
use tollgate::{Agent, Host, RunRequest, async_trait};
use tollgate_agent::catalog::{CatalogGrants, Owner, OwnerKind, Tool};
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::{ComponentDescriptor, ExecutionPolicy, ToolDescriptor};
use tollgate_agent::digest::digest;
use tollgate_agent::outcome::Fault;
use tollgate_agent::proposal::Arguments;
use tollgate_agent::run::Event;
use tollgate_postgres::PostgresStore;

/// The bytes of a component; `None` if its file is gone.
#[derive(Debug)]
struct Bytes(Option<Vec<u8>>);

impl ComponentSource for Bytes {
    fn read(&self) -> Option<Vec<u8>> {
        self.0.clone()
    }
}

pub(crate) fn file(digest: &str, bytes: Option<&[u8]>) -> ComponentFile {
    ComponentFile { digest: Arc::from(digest), source: Arc::new(Bytes(bytes.map(<[u8]>::to_vec))) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sizes_of_components_that_are_not_written_yet_are_written_when_a_host_ends() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    let mut first = commit("r", 1, 0, vec![started("r", prompt())]);
    first.charged = vec![Some("kit".into())];
    store.commit(first).await.unwrap();
    let behind = database.client().await;
    let written = async || -> i64 {
        let sql =
            "SELECT coalesce(sum(record_bytes), 0)::int8 FROM component_sizes WHERE component_id = 'kit'";
        behind.query_one(sql, &[]).await.unwrap().get(0)
    };
    assert_eq!(written().await, 0, "the run goes on");
    // The size of its thread, which is not written yet either, is refused.
    store.commit(commit("r", 1, 1, vec![step(1)])).await.unwrap();
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON threads FOR EACH ROW EXECUTE FUNCTION refuse()";
    behind.batch_execute(refuse).await.unwrap();
    store.close().await.unwrap();
    assert!(written().await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_of_a_component_are_stored_in_parts_and_read_as_they_were() {
    let database = cluster().database().await;
    let store = PostgresStore::connect(database.config()).await.unwrap();
    let other = PostgresStore::connect(database.config()).await.unwrap();
    let bytes: Vec<u8> = (0..2_500_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    let digest_of_bytes = digest(&bytes);
    let begin = async |store: &PostgresStore, run: &str, file: ComponentFile| {
        let mut first = commit(run, 1, 0, vec![started(run, prompt())]);
        (first.thread_id, first.components) = (run.into(), vec![file]);
        store.commit(first).await.unwrap();
    };
    // Two hosts store it at the same time.
    tokio::join!(
        begin(&store, "r", file(&digest_of_bytes, Some(&bytes))),
        begin(&other, "s", file(&digest_of_bytes, Some(&bytes)))
    );
    // Its file is gone; the run goes on all the same.
    begin(&store, "u", file("gone", None)).await;
    let behind = database.client().await;
    let count = async |sql: &str| behind.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(count("SELECT count(*) FROM component_parts WHERE octet_length(bytes) <= 1 << 20").await, 3);
    assert_eq!(count("SELECT count(*) FROM run_components").await, 2);
    assert!(store.component(&digest_of_bytes).await.unwrap() == Some(bytes));
    assert_eq!(store.component("gone").await.unwrap(), None);
    // A host of an earlier version has stored this one.
    let earlier = digest(b"earlier");
    let insert = "INSERT INTO components (digest, bytes) VALUES ($1, 'earlier')";
    behind.execute(insert, &[&earlier]).await.unwrap();
    assert_eq!(store.component(&earlier).await.unwrap().as_deref(), Some(&b"earlier"[..]));
    behind.batch_execute("DELETE FROM component_parts WHERE part = 1").await.unwrap();
    let damaged = store.component(&digest_of_bytes).await.unwrap_err();
    assert_eq!(damaged.kind(), StoreErrorKind::Damaged, "{damaged}");
}

/// A tool whose calls last until the host stops, and which counts them.
struct Endless(Arc<AtomicUsize>);

#[async_trait]
impl Runner for Endless {
    async fn run(&self, _: AttemptRequest<'_>) -> Attempt {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }

    async fn validate(&self, _: &Tool, _: &Arguments) -> Result<(), Fault> {
        Ok(())
    }
}

/// Returns a host that has this version of the tool, and the number of the tool's calls.
fn host(store: Arc<dyn Store>, version: &str, turns: Vec<ScriptedTurn>) -> (Host, Arc<AtomicUsize>) {
    let policy = ExecutionPolicy { idempotent: true, ..ExecutionPolicy::default() };
    let tool = ToolDescriptor::new("look", "look", "Looks.").with_execution(policy);
    let descriptor = ComponentDescriptor {
        id: "kit".to_owned(),
        version: version.to_owned(),
        tools: vec![tool],
        state: Vec::new(),
    };
    let owner = Owner {
        id: "kit".into(),
        kind: OwnerKind::Component,
        origin: "kit.wasm".to_owned(),
        version: version.into(),
    };
    let (mut toolbox, calls) = (Toolbox::default(), Arc::<AtomicUsize>::default());
    let runner = Arc::new(Endless(Arc::clone(&calls)));
    toolbox.add(owner, descriptor, &CatalogGrants::default(), runner).unwrap();
    let agent = Agent::new(AGENT, ScriptedModel::new(turns)).with_tools(["*"]);
    (Host::builder().toolbox(toolbox).agent(agent).store(store).build().unwrap(), calls)
}

#[tokio::test(flavor = "multi_thread")]
async fn w9_a_call_that_had_begun_is_not_run_by_a_host_with_another_version_of_its_component() {
    let database = cluster().database().await;
    let config = database.config().with_lease(Duration::from_secs(2)).unwrap();
    let store = async || Arc::new(PostgresStore::connect(config.clone()).await.unwrap()) as Arc<dyn Store>;
    let call = ScriptedTurn::calls([("look", serde_json::json!({}))]);
    let (first, calls) = host(store().await, "v1", vec![call]);
    let run_id = first.submit(RunRequest::new(AGENT, "Go.").on_thread("t")).await.unwrap();
    let stop = CancellationToken::new();
    let options = tollgate::WorkOptions { grace: Duration::ZERO, ..options() };
    let stopping = async {
        until("the call", async || (calls.load(Ordering::SeqCst) == 1).then_some(())).await;
        stop.cancel();
    };
    tokio::join!(first.work(&options, &stop), stopping);
    first.store().flush().await.unwrap();
    assert!(!run_of(&first, &run_id).await.is_driven);
    let (second, other_calls) = host(store().await, "v2", vec![ScriptedTurn::text("It was interrupted.")]);
    let (works, stop) = (second.clone(), CancellationToken::new());
    let _stopped = stop.clone().drop_guard();
    tokio::spawn(async move { works.work(&options, &stop).await });
    until_status(&second, &run_id, "completed").await;
    let record = second.store().events(&run_id, 0).await.unwrap();
    let ended = record.iter().find_map(|stored| match &stored.event {
        Event::CallFinished(finished) => Some(finished.end.code()),
        _ => None,
    });
    assert_eq!(ended, Some(Some(Code::Interrupted)));
    assert_eq!(other_calls.load(Ordering::SeqCst), 0, "the other version did not run");
}
