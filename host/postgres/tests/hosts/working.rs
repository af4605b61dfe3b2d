//! Runs that are submitted, followed, decided and cancelled on one host, and driven by another.

use crate::cluster::{Database, cluster, without_pooler};
use crate::{PATIENCE, until};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate::run::RunUpdate;
use tollgate::store::{CoordinationStore, RunCommand, RunFilter, RunSummary, Store};
use tollgate::{FollowUntil, Host, HostError, RunRequest, RunStatus, WorkOptions};
use tollgate_agent::code::Code;
use tollgate_agent::run::{Decision, DecisionAnswer, Event};
use tollgate_postgres::{PostgresConfig, PostgresStore};

#[path = "../story/mod.rs"]
pub(crate) mod story;
use story::{AGENT, ANSWER, EFFECTS};

pub(crate) struct Hosts {
    pub(crate) database: Database,
    directory: tempfile::TempDir,
}

impl Hosts {
    pub(crate) async fn new() -> Self {
        Self { database: cluster().database().await, directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) async fn host(&self) -> (Host, Arc<PostgresStore>) {
        let config = self.database.config().with_lease(Duration::from_secs(2)).unwrap();
        let store = Arc::new(PostgresStore::connect(config.with_connections(4).unwrap()).await.unwrap());
        (story::host(Arc::clone(&store) as Arc<dyn Store>, self.directory.path()), store)
    }

    /// Starts a host that works until the token is dropped.
    pub(crate) async fn working(&self) -> (Host, tokio_util::sync::DropGuard) {
        let (host, _) = self.host().await;
        let (stop, working) = (CancellationToken::new(), host.clone());
        let stopped = stop.clone();
        tokio::spawn(async move { working.work(&options(), &stopped).await });
        (host, stop.drop_guard())
    }

    fn effects(&self) -> usize {
        std::fs::read_to_string(self.directory.path().join(EFFECTS)).unwrap_or_default().lines().count()
    }
}

pub(crate) fn options() -> WorkOptions {
    WorkOptions { agents: vec![AGENT.to_owned()], concurrency: 8, grace: Duration::from_secs(1) }
}

pub(crate) async fn run_of(host: &Host, run_id: &str) -> RunSummary {
    host.summary(run_id).await.unwrap().unwrap()
}

pub(crate) async fn until_status(host: &Host, run_id: &str, status: &str) {
    until(status, async || (run_of(host, run_id).await.status == status).then_some(())).await;
}

pub(crate) fn yes(id: &str, target: &str) -> RunCommand {
    RunCommand::Decide(decision(id, target))
}

fn decision(id: &str, target: &str) -> Decision {
    let answer = DecisionAnswer::Resume(json!(true));
    Decision {
        id: id.to_owned(),
        target: target.to_owned(),
        answer,
        reason: None,
        at_ms: 1,
        by: None,
        by_key: false,
    }
}

/// Returns the id of the question that waits.
pub(crate) async fn question(host: &Host, run_id: &str) -> String {
    let record = host.store().events(run_id, 0).await.unwrap();
    let asked = record.iter().rev().find_map(|event| match &event.event {
        Event::CallSuspended(asked) => Some(asked.suspension_id.clone()),
        _ => None,
    });
    asked.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_submitted_on_one_host_is_followed_there_and_driven_by_another() {
    let hosts = Hosts::new().await;
    let (submits, _) = hosts.host().await;
    let run_id = submits.submit(RunRequest::new(AGENT, "Go.").on_thread("t")).await.unwrap();
    let queued = run_of(&submits, &run_id).await;
    assert!(queued.queued && !queued.is_driven, "{queued:?}");
    let mut events = submits.follow(&run_id, 0).await.unwrap();
    let (_works, _stop) = hosts.working().await;
    let mut numbers = Vec::new();
    let follow = async {
        while let Some(update) = events.next().await {
            if let RunUpdate::Stored(event) = update {
                numbers.push(event.number);
            }
        }
    };
    tokio::time::timeout(PATIENCE, follow).await.expect("the stream ends");
    let run = run_of(&submits, &run_id).await;
    assert_eq!((run.status.as_str(), run.queued), ("completed", false));
    assert_eq!(numbers, (1..=run.events).collect::<Vec<_>>());
    let record = submits.store().events(&run_id, 0).await.unwrap();
    assert!(matches!(&record.last().unwrap().event, Event::RunFinished { text, .. } if text == ANSWER));
    assert_eq!(hosts.effects(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_one_thread_are_driven_one_after_another_and_those_of_many_at_once() {
    let hosts = Hosts::new().await;
    let (submits, _) = hosts.host().await;
    let (_a, _stop_a) = hosts.working().await;
    let (_b, _stop_b) = hosts.working().await;
    let mut runs = Vec::new();
    for number in 0..12 {
        let request = RunRequest::new(AGENT, format!("Go {number}.")).on_thread(format!("t{}", number % 4));
        runs.push(submits.submit(request).await.unwrap());
    }
    for run_id in &runs {
        until_status(&submits, run_id, "completed").await;
    }
    assert_eq!(hosts.effects(), 36, "each effect once");
    // Each run of a thread began after the one before it had ended.
    for thread in 0..4 {
        let mut ended = 0;
        for run_id in runs.iter().skip(thread).step_by(4) {
            let record = submits.store().events(run_id, 0).await.unwrap();
            let asked =
                record.iter().find(|event| matches!(event.event, Event::ModelReplied { .. })).unwrap();
            assert!(asked.at_ms >= ended, "{run_id}");
            ended = record.last().unwrap().at_ms;
        }
        let messages = submits.store().thread(&format!("t{thread}")).await.unwrap().messages;
        let said = messages.iter().filter(|m| matches!(m, tollgate_agent::message::Message::User(_))).count();
        assert_eq!(said, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_is_given_anywhere_reaches_the_run_once() {
    let hosts = Hosts::new().await;
    let (one, _) = hosts.host().await;
    let (two, _) = hosts.host().await;
    let (_works, _stop) = hosts.working().await;
    let run_id = one.submit(RunRequest::new(AGENT, "Please ask.").on_thread("t")).await.unwrap();
    until_status(&one, &run_id, "waiting").await;
    let target = question(&one, &run_id).await;
    let wrong = two.send(&run_id, yes("x", "no-such-call")).await;
    assert!(matches!(wrong, Err(HostError::UnknownQuestion(_))), "{wrong:?}");
    // The same question is answered on two hosts.
    let (a, b) = tokio::join!(one.send(&run_id, yes("a", &target)), two.send(&run_id, yes("b", &target)));
    assert!(a.is_ok() || b.is_ok());
    until_status(&one, &run_id, "completed").await;
    assert_eq!(hosts.effects(), 3, "the tool that asked ran once");
    let record = one.store().events(&run_id, 0).await.unwrap();
    let decided = record.iter().filter(|event| matches!(event.event, Event::CallDecided { .. })).count();
    assert_eq!(decided, 1);
    assert!(one.store().commands(&run_id).await.unwrap().is_empty());
    let late = two.send(&run_id, yes("c", &target)).await;
    assert!(matches!(late, Err(HostError::AlreadyEnded(_))), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_from_another_host_whether_it_is_queued_at_work_or_waiting() {
    let hosts = Hosts::new().await;
    let (one, _) = hosts.host().await;
    let cancel = || RunCommand::Cancel("no longer needed".to_owned());
    let queued = one.submit(RunRequest::new(AGENT, "Go.").on_thread("q")).await.unwrap();
    one.send(&queued, cancel()).await.unwrap();
    let (_works, _stop) = hosts.working().await;
    until_status(&one, &queued, "cancelled").await;
    assert_eq!(hosts.effects(), 0);
    let waiting = one.submit(RunRequest::new(AGENT, "Please ask.").on_thread("w")).await.unwrap();
    until_status(&one, &waiting, "waiting").await;
    let target = question(&one, &waiting).await;
    one.send(&waiting, cancel()).await.unwrap();
    until_status(&one, &waiting, "cancelled").await;
    let RunCommand::Decide(late) = yes("late", &target) else { unreachable!() };
    let late = one.decide(&waiting, late).await.map(drop);
    assert!(
        matches!(late, Err(HostError::AlreadyDecided { .. })),
        "it was seen, so it is not unknown: {late:?}"
    );
    let at_work = one.submit(RunRequest::new(AGENT, "Go.").on_thread("a")).await.unwrap();
    until("work", async || run_of(&one, &at_work).await.is_driven.then_some(())).await;
    // It may have ended by itself meanwhile.
    let _ = one.send(&at_work, cancel()).await;
    until("the end", async || {
        let status = run_of(&one, &at_work).await.status;
        ["cancelled", "completed"].contains(&status.as_str()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_another_host_drives_is_decided_and_cancelled_without_workers() {
    let hosts = Hosts::new().await;
    let (drives, drives_store) = hosts.host().await;
    let (other, _) = hosts.host().await;
    let request = RunRequest::new(AGENT, "Please linger.").on_thread("t").detached();
    let run_id = drives.run(request).await.unwrap().run_id.clone();
    let asked = until("the question", async || {
        let record = other.store().events(&run_id, 0).await.unwrap();
        let asked = |event: &Event| match event {
            Event::CallSuspended(asked) => Some(asked.suspension_id.to_string()),
            _ => None,
        };
        record.iter().find_map(|stored| asked(&stored.event))
    })
    .await;
    let run = run_of(&other, &run_id).await;
    assert!(run.is_driven && run.owner.is_some_and(|owner| owner.id == *drives_store.host_id()));
    let wrong = other.decide(&run_id, decision("x", "no-such-call")).await.map(drop);
    assert!(matches!(wrong, Err(HostError::UnknownQuestion(_))), "{wrong:?}");
    let mut joined = other.decide(&run_id, decision("a", &asked)).await.unwrap();
    let record = other.store().events(&run_id, 0).await.unwrap();
    let decided = |event: &Event| matches!(event, Event::CallDecided { decision, .. } if decision.id == "a");
    assert!(record.iter().any(|stored| decided(&stored.event)), "it is in the record");
    let late = other.decide(&run_id, decision("b", &asked)).await.map(drop);
    assert!(matches!(late, Err(HostError::AlreadyDecided { .. })), "{late:?}");
    assert!(other.store().commands(&run_id).await.unwrap().is_empty());
    assert!(run_of(&other, &run_id).await.is_driven, "the other call goes on");
    other.cancel(&run_id, Some("no longer needed".to_owned())).await.unwrap();
    let follow = async {
        while joined.events.next().await.is_some() {}
        joined.wait().await.unwrap()
    };
    let end = tokio::time::timeout(PATIENCE, follow).await.expect("the stream ends");
    let cancelled = RunStatus::Cancelled { reason: "no longer needed".to_owned() };
    assert_eq!(end.status, Some(cancelled));
    let over = other.cancel(&run_id, None).await;
    assert!(matches!(over, Err(HostError::AlreadyEnded(_))), "{over:?}");
}

/// Starts a run that asks a person beside a call that lingers. Returns its id and the question's.
async fn lingering(host: &Host) -> (tollgate::run::RunHandle, String) {
    let request = RunRequest::new(AGENT, "Please linger.").on_thread("t").detached();
    let handle = host.run(request).await.unwrap();
    let run_id = Arc::clone(&handle.run_id);
    let asked = until("the question", async || {
        let record = host.store().events(&run_id, 0).await.unwrap();
        record.iter().find_map(|stored| match &stored.event {
            Event::CallSuspended(asked) => Some(asked.suspension_id.to_string()),
            _ => None,
        })
    });
    let asked = asked.await;
    (handle, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_reaches_a_run_whose_host_died_before_anyone_knows_it() {
    let hosts = Hosts::new().await;
    let (drives, _) = hosts.host().await;
    let (other, _) = hosts.host().await;
    let (handle, asked) = lingering(&drives).await;
    let behind = hosts.database.client().await;
    // A host that has just died drives it: its lease is still valid.
    behind
        .batch_execute(
            "INSERT INTO hosts (id, name, version, state, lease_ms, lease_until)
                VALUES ('ghost', '', '1', 'up', 4000000, clock_timestamp() + interval '1 hour');
             UPDATE runs SET owner = 'ghost', epoch = epoch + 1",
        )
        .await
        .unwrap();
    let run_id = Arc::clone(&handle.run_id);
    other.decide(&run_id, decision("a", &asked)).await.unwrap();
    assert_eq!(other.store().commands(&run_id).await.unwrap().len(), 1, "it is stored");
    behind.batch_execute("UPDATE hosts SET state = 'dead' WHERE id = 'ghost'").await.unwrap();
    let (_works, _stop) = hosts.working().await;
    until("the decision", async || {
        let record = other.store().events(&run_id, 0).await.unwrap();
        let is_taken =
            |event: &Event| matches!(event, Event::CallDecided { decision, .. } if decision.id == "a");
        record.iter().any(|stored| is_taken(&stored.event)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_another_host_still_drives_is_waited_for() {
    let hosts = Hosts::new().await;
    let (drives, run_id) = delegating(&hosts).await;
    let (_works, _stop) = hosts.working().await;
    let behind = hosts.database.client().await;
    // As if the driver of the parent had lost its run, and no one else's.
    behind
        .batch_execute(
            "UPDATE runs SET owner = NULL, epoch = epoch + 1 WHERE kind = 'prompt';
             SELECT pg_notify('tollgate', 'other:w')",
        )
        .await
        .unwrap();
    until_status(&drives, &run_id, "completed").await;
    assert_eq!(delegated(&drives, &run_id).await, Some(None), "the call has its child's answer");
}

/// As if another statement released the child just after the attempt to take it over.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_whose_takeover_is_refused_at_first_is_taken_over() {
    let hosts = Hosts::new().await;
    let (drives, run_id) = delegating(&hosts).await;
    let (_works, _stop) = hosts.working().await;
    let behind = hosts.database.client().await;
    // Both drivers have lost their runs, and the first takeover of the child is refused.
    behind
        .batch_execute(
            "UPDATE runs SET owner = NULL, epoch = epoch + 1;
             CREATE SEQUENCE taken_over;
             CREATE FUNCTION refuse_once() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF nextval('taken_over') = 1 THEN RETURN NULL; END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER refuse_once BEFORE UPDATE ON runs FOR EACH ROW
                 WHEN (NEW.kind = 'child' AND NEW.epoch > OLD.epoch) EXECUTE FUNCTION refuse_once();
             SELECT pg_notify('tollgate', 'other:w')",
        )
        .await
        .unwrap();
    until_status(&drives, &run_id, "completed").await;
    assert_eq!(delegated(&drives, &run_id).await, Some(None), "the call has its child's answer");
    let taken_over = behind.query_one("SELECT last_value FROM taken_over", &[]).await.unwrap();
    assert_eq!(taken_over.get::<_, i64>(0), 2, "the child was refused once, then taken over");
}

/// Begins a run on one host, and returns both once its child is at work.
async fn delegating(hosts: &Hosts) -> (Host, Arc<str>) {
    let (drives, _) = hosts.host().await;
    let request = RunRequest::new(AGENT, "Please delegate.").on_thread("t").detached();
    let run_id = drives.run(request).await.unwrap().run_id.clone();
    let behind = hosts.database.client().await;
    until("the child", async || {
        let sql = "SELECT count(*) FROM runs WHERE kind = 'child' AND events > 3";
        (behind.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 1).then_some(())
    })
    .await;
    (drives, run_id)
}

/// Returns the code of the end of the run's call that delegates; `None` if it did not end.
async fn delegated(host: &Host, run_id: &str) -> Option<Option<Code>> {
    let record = host.store().events(run_id, 0).await.unwrap();
    record.iter().find_map(|stored| match &stored.event {
        Event::CallFinished(finished) if finished.tool_name == "delegate" => Some(finished.end.code()),
        _ => None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_renew_its_lease_stops_its_runs_and_records_no_end() {
    let hosts = Hosts::new().await;
    let (drives, _) = hosts.host().await;
    let (handle, _) = lingering(&drives).await;
    let run_id = Arc::clone(&handle.run_id);
    let behind = hosts.database.client().await;
    // The database answers everything except the renewals.
    behind.batch_execute("BEGIN; SELECT FROM hosts FOR UPDATE").await.unwrap();
    let before = drives.store().events(&run_id, 0).await.unwrap().len();
    let stopped = tokio::time::timeout(PATIENCE, handle.wait()).await.expect("it stops");
    let words = stopped.unwrap_err().to_string();
    assert!(words.contains("could not renew its lease in time"), "{words}");
    assert_eq!(drives.store().events(&run_id, 0).await.unwrap().len(), before, "nothing is recorded");
    behind.batch_execute("COMMIT").await.unwrap();
    let (_works, _stop) = hosts.working().await;
    until("that it goes on", async || run_of(&drives, &run_id).await.is_driven.then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_taken_for_dead_stops_its_runs() {
    let hosts = Hosts::new().await;
    let (drives, store) = hosts.host().await;
    let (handle, _) = lingering(&drives).await;
    let behind = hosts.database.client().await;
    behind.execute("UPDATE hosts SET state = 'dead' WHERE id = $1", &[&&*store.host_id()]).await.unwrap();
    let stopped = tokio::time::timeout(PATIENCE, handle.wait()).await.expect("it stops");
    assert!(stopped.unwrap_err().to_string().contains("could not renew its lease in time"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_knows_events_which_the_database_has_lost_says_so() {
    let hosts = Hosts::new().await;
    let (drives, _) = hosts.host().await;
    let (other, _) = hosts.host().await;
    let (handle, _) = lingering(&drives).await;
    let mut follower = other.follow_until(&handle.run_id, 0, FollowUntil::Rest).await.unwrap();
    let events = run_of(&other, &handle.run_id).await.events;
    let mut seen = 0;
    while seen < events {
        if let Some(RunUpdate::Stored(event)) = follower.next().await.unwrap() {
            seen = event.number;
        }
    }
    let behind = hosts.database.client().await;
    // As after a failover without synchronous replication.
    behind.batch_execute("DELETE FROM events WHERE number > 2; UPDATE runs SET events = 2").await.unwrap();
    let told = tokio::time::timeout(PATIENCE, follower.next()).await.expect("it does not wait");
    assert!(told.unwrap_err().to_string().contains("has lost events of the run that were reported"));
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_pooler_without_notifications_hosts_find_work_and_commands_by_looking() {
    let hosts = Hosts::new().await;
    let Some(url) = cluster().pooled_url(&hosts.database.name) else { return without_pooler() };
    let pooled = async || {
        let config = PostgresConfig::new(&url).unwrap().with_lease(Duration::from_secs(2)).unwrap();
        let store = PostgresStore::connect(config.with_connections(2).unwrap()).await.unwrap();
        story::host(Arc::new(store) as Arc<dyn Store>, hosts.directory.path())
    };
    let deaf = PostgresStore::connect(PostgresConfig::new(&url).unwrap()).await.unwrap();
    let direct = PostgresConfig::new(&url).unwrap().with_listen_url(&cluster().url(&hosts.database.name));
    let hears = PostgresStore::connect(direct.unwrap()).await.unwrap();
    let (submits, works, stop) = (pooled().await, pooled().await, CancellationToken::new());
    let _stopped = stop.clone().drop_guard();
    tokio::spawn(async move { works.work(&options(), &stop).await });
    let run_id = submits.submit(RunRequest::new(AGENT, "Please linger.").on_thread("t")).await.unwrap();
    until("work", async || run_of(&submits, &run_id).await.is_driven.then_some(())).await;
    submits.send(&run_id, RunCommand::Cancel("enough".to_owned())).await.unwrap();
    until_status(&submits, &run_id, "cancelled").await;
    let warns = |warnings: &[String]| warnings.iter().any(|why| why.contains("listen_url"));
    assert!(warns(&deaf.warnings().await.unwrap()));
    assert!(!warns(&hears.warnings().await.unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_asked_to_stop_releases_its_runs_and_no_one_waits_for_its_lease() {
    let hosts = Hosts::new().await;
    let (submits, _) = hosts.host().await;
    let mut runs = Vec::new();
    for number in 0..6 {
        let request = RunRequest::new(AGENT, "Go.").on_thread(format!("t{number}"));
        runs.push(submits.submit(request).await.unwrap());
    }
    let (first, store) = hosts.host().await;
    let stop = CancellationToken::new();
    let options = WorkOptions { grace: Duration::ZERO, ..options() };
    let stopping = async {
        until("work", async || (hosts.effects() > 0).then_some(())).await;
        stop.cancel();
    };
    tokio::join!(first.work(&options, &stop), stopping);
    store.close().await.unwrap();
    let names: Vec<String> = submits
        .store()
        .runs(RunFilter::default())
        .await
        .unwrap()
        .into_iter()
        .filter(|run| run.is_driven)
        .map(|run| run.run_id)
        .collect();
    assert!(names.is_empty(), "no run seems to be at work: {names:?}");
    let (_second, _stop) = hosts.working().await;
    for run_id in &runs {
        until_status(&submits, run_id, "completed").await;
    }
}
