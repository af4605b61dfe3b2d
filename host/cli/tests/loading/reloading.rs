//! Tests of tools that change while they are called.

use crate::compiling::{PROGRAM, shell};
use crate::versions::{Place, asked, curious, trapping, until, version};
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tollgate::models::{DeltaSink, Model, ModelFault, ScriptedModel, ScriptedTurn};
use tollgate::store::{AuditFilter, AuditKind};
use tollgate::tools::directory::{Change, DirectoryState};
use tollgate::{Agent, CallRequest, Host, RunRequest};
use tollgate_agent::message::{ModelReply, ModelRequest};
use tollgate_agent::run::{CallEnd, Event};
use tollgate_artifacts::{Guest, good, hostile};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_replaced_and_removed_is_seen() {
    let place = Place::new();
    let (host, mut watch) = place.watched().await;
    assert_eq!(asked(&host).await, "not_found");
    place.put("version.wasm", &version(1));
    until(&host, "1").await;
    place.put("version.wasm", &version(2));
    until(&host, "2").await;
    std::fs::remove_file(place.path("version.wasm")).unwrap();
    until(&host, "not_found").await;

    let mut changes = Vec::new();
    for _ in 0..3 {
        changes.push(watch.next().await.unwrap());
    }
    assert!(
        matches!(&changes[0], Change::Served { replaced: None, component_id, .. } if component_id == "version")
    );
    let Change::Served { digest: first, .. } = &changes[0] else { panic!() };
    assert!(matches!(&changes[1], Change::Served { replaced: Some(old), .. } if old == first));
    assert!(matches!(&changes[2], Change::Removed { component_id, .. } if component_id == "version"));
}

/// Five versions, with three rounds to allow for other tests that compute.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_is_seen_within_a_second_of_its_last_write() {
    let place = Place::new();
    place.put("version.wasm", &version(0));
    let (host, _watch) = place.watched().await;
    let mut slowest = Vec::new();
    for round in 0..3 {
        let mut times = Vec::new();
        for number in round * 5 + 1..=round * 5 + 5 {
            place.put("version.wasm", &version(number));
            let written = std::time::Instant::now();
            until(&host, &number.to_string()).await;
            times.push(written.elapsed());
        }
        slowest.extend(times.into_iter().max());
        if slowest[slowest.len() - 1] < Duration::from_secs(1) {
            return;
        }
    }
    panic!("the slowest of each round: {slowest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_version_leaves_the_old_one_serving_and_says_why() {
    let place = Place::new();
    place.put("version.wasm", &version(1));
    let (host, loaded) = place.host().await;
    let mut live = DirectoryState::new(host.clone(), place.sandbox.clone(), place.config.clone(), &loaded);
    let first = loaded.components[0].digest.clone();
    for bytes in [
        version(2)[..200].to_vec(),
        Vec::new(),
        hostile::PRECOMPILED_ARTEFACT.bytes(),
        hostile::DESCRIBE_TRAPS.bytes(),
    ] {
        place.put("version.wasm", &bytes);
        let changes = live.refresh().await;
        assert!(
            matches!(changes.as_slice(), [Change::Refused(refused)] if refused.still_serves.as_ref() == Some(&first)),
            "{changes:?}"
        );
        assert_eq!(asked(&host).await, "1");
        assert_eq!(host.toolbox().refused().len(), 1);
        assert!(!host.toolbox().refused()[0].reason.is_empty());
    }
    place.put("version.wasm", &version(3));
    assert!(matches!(live.refresh().await.as_slice(), [Change::Served { .. }]));
    assert_eq!((asked(&host).await.as_str(), host.toolbox().refused().len()), ("3", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_tool_is_gone_while_another_is_compiled() {
    let folder = tempfile::tempdir().unwrap();
    // The compiler waits for as long as this file exists.
    let wait = folder.path().join("wait");
    let line =
        format!("while [ -e '{}' ]; do sleep 0.05; done; exec '{PROGRAM}' compile-child", wait.display());
    let place = Place::compiling(shell(&line));
    place.put("version.wasm", &version(1));
    let (host, loaded) = place.host().await;
    let mut live = DirectoryState::new(host.clone(), place.sandbox.clone(), place.config.clone(), &loaded);
    std::fs::write(&wait, "").unwrap();
    place.put("echo.wasm", &good::ECHO.bytes());
    let looking = tokio::spawn(async move { live.refresh().await });
    // By then, the look has seen one or both files, and compiles in either case.
    tokio::time::sleep(Duration::from_millis(300)).await;
    std::fs::remove_file(place.path("version.wasm")).unwrap();
    until(&host, "not_found").await;
    assert!(!looking.is_finished(), "the other is still being compiled");
    std::fs::remove_file(&wait).unwrap();
    let changes = looking.await.unwrap();
    assert!(
        matches!(changes.as_slice(), [Change::Removed { .. }, Change::Served { replaced: None, .. }]),
        "{changes:?}"
    );
}

/// A file that grows while the host watches it.
#[tokio::test(flavor = "multi_thread")]
async fn half_written_files_are_harmless() {
    let place = Place::new();
    place.put("version.wasm", &version(1));
    let (host, _watch) = place.watched().await;
    let bytes = version(2);
    let mut file = std::fs::File::create(place.path("version.wasm")).unwrap();
    for piece in bytes.chunks(bytes.len() / 8 + 1) {
        assert_eq!(asked(&host).await, "1");
        file.write_all(piece).unwrap();
        file.flush().unwrap();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    drop(file);
    until(&host, "2").await;
    assert!(host.toolbox().refused().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn rename_loops_are_harmless() {
    let place = Place::new();
    place.put("version.wasm", &version(1));
    let (host, _watch) = place.watched().await;
    for _ in 0..200 {
        std::fs::rename(place.path("version.wasm"), place.path("other.wasm")).unwrap();
        std::fs::rename(place.path("other.wasm"), place.path("version.wasm")).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    until(&host, "1").await;
    std::fs::rename(place.path("version.wasm"), place.path("other.wasm")).unwrap();
    let soon = tokio::time::Instant::now() + Duration::from_secs(20);
    let serves_other =
        || host.toolbox().catalog().tool("version").is_some_and(|t| t.owner.origin == "other.wasm");
    while !serves_other() {
        assert!(tokio::time::Instant::now() < soon);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A directory that is created after the host started, and one that is created again.
#[tokio::test(flavor = "multi_thread")]
async fn the_directory_itself_may_come_and_go() {
    let place = Place::new();
    let (host, loaded) = place.host().await;
    std::fs::remove_dir(place.path("")).unwrap();
    let (_watch, problem) = host.watch(place.sandbox.clone(), place.config.clone(), &loaded);
    assert!(problem.is_some());
    std::fs::create_dir(place.path("")).unwrap();
    place.put("version.wasm", &version(1));
    until(&host, "1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_asks_for_more_does_not_replace_the_old_one() {
    let place = Place::new();
    place.put("version.wasm", &version(1));
    let (host, loaded) = place.host().await;
    let mut live = DirectoryState::new(host.clone(), place.sandbox.clone(), place.config.clone(), &loaded);
    place.put("version.wasm", &curious(2));
    let changes = live.refresh().await;
    let [Change::Refused(refused)] = changes.as_slice() else { panic!("{changes:?}") };
    assert!(refused.reason.contains("to read the state key `mail.box`"), "{}", refused.reason);
    assert_eq!(asked(&host).await, "1");

    struct Anything;
    impl tollgate::tools::directory::Approval for Anything {
        fn judge(
            &self,
            _: &tollgate::tools::LoadedComponent,
            _: Option<&tollgate::tools::LoadedComponent>,
        ) -> Result<(), tollgate::tools::directory::FileRefusal> {
            Ok(())
        }
    }
    let mut live = live.with_approval(Arc::new(Anything));
    place.put("version.wasm", &curious(3));
    live.refresh().await;
    assert_eq!(asked(&host).await, "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn r1_a_newcomer_that_collides_is_refused_until_there_is_room() {
    let place = Place::new();
    place.put("b.wasm", &version(1));
    let (host, loaded) = place.host().await;
    let mut live = DirectoryState::new(host.clone(), place.sandbox.clone(), place.config.clone(), &loaded);
    place.put("a.wasm", &version(2));
    assert!(
        matches!(live.refresh().await.as_slice(), [Change::Refused(refused)] if refused.still_serves.is_none())
    );
    assert_eq!(asked(&host).await, "1");
    // A component that changes its id gives up the old one.
    place.put("b.wasm", &good::ECHO.bytes());
    assert_eq!(live.refresh().await.len(), 2);
    assert_eq!((asked(&host).await.as_str(), host.toolbox().refused().len()), ("2", 0));
    place.put("c.wasm", &version(3));
    assert!(matches!(live.refresh().await.as_slice(), [Change::Refused(_)]));
    std::fs::remove_file(place.path("a.wasm")).unwrap();
    live.refresh().await;
    assert_eq!((asked(&host).await.as_str(), host.toolbox().refused().len()), ("3", 0));
}

/// The call began on a version that is gone when it ends.
#[tokio::test(flavor = "multi_thread")]
async fn calls_under_way_finish_on_their_version() {
    let place = Place::new();
    place.put("waits.wasm", &slow());
    let (host, loaded) = place.host().await;
    let mut live = DirectoryState::new(host.clone(), place.sandbox.clone(), place.config.clone(), &loaded);
    let under_way = host.start_call(CallRequest::from_json("waits", "{}")).await.unwrap();
    std::fs::remove_file(place.path("waits.wasm")).unwrap();
    assert!(matches!(live.refresh().await.as_slice(), [Change::Removed { .. }]));
    assert!(host.toolbox().catalog().tool("waits").is_none());
    let end = under_way.wait().await.unwrap().last_call.unwrap().end.clone();
    assert!(matches!(end, CallEnd::Result(_)), "{end:?}");
}

/// Returns the guest `waits` with a wait of one second.
fn slow() -> Vec<u8> {
    let source: &'static str =
        Box::leak(good::WAITS.source.replace("50000000", "1000000000").into_boxed_str());
    Guest { source, ..good::WAITS }.bytes()
}

/// The tool is replaced while the model writes its second turn. The calls of that turn still go to
/// the version that it was offered, and those of the third turn to the new one.
#[tokio::test(flavor = "multi_thread")]
async fn w9_a_run_takes_up_a_new_version_at_its_next_turn() {
    let place = Place::new();
    place.put("version.wasm", &version(1));
    let loaded = place.load().await;
    let call = || ScriptedTurn::calls([("version", serde_json::json!({}))]);
    let model = Arc::new(Replacing {
        turns: ScriptedModel::new(vec![call(), call(), call(), ScriptedTurn::text("Done.")]),
        asked: AtomicU32::new(0),
        live: OnceLock::new(),
    });
    let agent = Agent::new("default", Arc::clone(&model) as Arc<dyn Model>).with_tools(["*"]);
    let host = Host::builder().toolbox(loaded.toolbox.clone()).agent(agent).build().unwrap();
    let live = DirectoryState::new(host.clone(), place.sandbox.clone(), place.config.clone(), &loaded);
    let in_place = (place, tokio::sync::Mutex::new(live));
    assert!(model.live.set(in_place).is_ok());
    let mut handle = host.run(RunRequest::new("default", "Which?")).await.unwrap();
    let mut answers = Vec::new();
    while let Some(told) = handle.events.next().await {
        let tollgate::run::RunUpdate::Stored(event) = told else { continue };
        if let Event::CallFinished(finished) = &event.event {
            let CallEnd::Result(result) = &finished.end else { panic!("{finished:?}") };
            answers.push(result.data.to_string());
        }
    }
    assert_eq!(answers, ["1", "1", "2"]);
}

/// Plays recorded turns, and replaces a tool during the second.
struct Replacing {
    turns: ScriptedModel,
    asked: AtomicU32,
    live: OnceLock<(Place, tokio::sync::Mutex<DirectoryState>)>,
}

#[async_trait::async_trait]
impl Model for Replacing {
    fn name(&self) -> &str {
        "replacing"
    }

    async fn reply(&self, request: ModelRequest, tell: &mut DeltaSink<'_>) -> Result<ModelReply, ModelFault> {
        if self.asked.fetch_add(1, Relaxed) == 1 {
            let (place, live) = self.live.get().unwrap();
            place.put("version.wasm", &version(2));
            assert_eq!(live.lock().await.refresh().await.len(), 1);
        }
        self.turns.reply(request, tell).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_traps_is_out_of_use_until_a_person_or_a_new_version() {
    let place = Place::new();
    place.put("version.wasm", &trapping(1));
    let (host, loaded) = place.host().await;
    let mut live = DirectoryState::new(host.clone(), place.sandbox.clone(), place.config.clone(), &loaded);
    for _ in 0..5 {
        assert_eq!(asked(&host).await, "trapped");
    }
    assert_eq!(asked(&host).await, "disabled");
    assert_eq!(host.toolbox().catalog().disabled("version"), Some("it trapped 5 times in a row"));
    host.enable_by("version", "ada").await.unwrap();
    let enabled = AuditFilter { kind: Some(AuditKind::Enabling), ..AuditFilter::default() };
    let enabled = host.store().audit(enabled).await.unwrap();
    assert_eq!((enabled.len(), enabled[0].who.as_str()), (1, "person ada"));
    for _ in 0..5 {
        assert_eq!(asked(&host).await, "trapped");
    }
    assert_eq!(asked(&host).await, "disabled");
    place.put("version.wasm", &version(2));
    live.refresh().await;
    assert_eq!(asked(&host).await, "2");
}

/// Its initial value takes millions of steps to check. It is refused, and no lock that others need
/// is held meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn z1_an_initial_value_that_costs_too_much_is_refused_while_other_tools_are_called() {
    let place = Place::new();
    place.put("version.wasm", &version(1));
    let (host, loaded) = place.host().await;
    let mut live = DirectoryState::new(host.clone(), place.sandbox.clone(), place.config.clone(), &loaded);
    place.put("costs.wasm", &hostile::INITIAL_VALUE_THAT_COSTS.bytes());
    let looking = tokio::spawn(async move { live.refresh().await });
    while !looking.is_finished() {
        assert_eq!(asked(&host).await, "1");
    }
    let changes = looking.await.unwrap();
    let [Change::Refused(refused)] = changes.as_slice() else { panic!("{changes:?}") };
    assert!(refused.reason.contains("too much work"), "{}", refused.reason);
    assert_eq!(asked(&host).await, "1");
}
