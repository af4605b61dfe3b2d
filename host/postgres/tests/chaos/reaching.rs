//! Commands to a run that another process drives.

use crate::process::HostProcess;
use crate::{PATIENCE, client, cluster, story};
use serde_json::json;
use std::sync::Arc;
use tokio::time::Instant;
use tollgate::{FollowUntil, Host, RunRequest, RunStatus};
use tollgate_agent::run::{Decision, DecisionAnswer, Event};

/// Waits until a run asks a question, and returns its id.
pub(crate) async fn question(client: &Host, run_id: &str) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let record = client.store().events(run_id, 0).await.unwrap();
        let asked = record.iter().find_map(|stored| match &stored.event {
            Event::CallSuspended(asked) => Some(asked.suspension_id.clone()),
            _ => None,
        });
        if let Some(target) = asked {
            return target;
        }
        assert!(Instant::now() < until, "the question does not arrive");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Returns the decision to go on.
pub(crate) fn yes(target: String) -> Decision {
    Decision {
        id: "yes".to_owned(),
        target,
        answer: DecisionAnswer::Resume(json!(true)),
        reason: None,
        at_ms: 1,
        by: None,
        by_key: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_and_a_cancellation_reach_a_run_of_another_process() {
    let (database, directory) = (cluster().database().await, tempfile::tempdir().unwrap());
    let _host = HostProcess::start(&database.name, directory.path(), None).await;
    let client = client(&database).await;
    let request = RunRequest::new(story::AGENT, "Please linger.").on_thread("t");
    let run_id = client.submit(request).await.unwrap();
    let decision = yes(question(&client, &run_id).await);
    let began = Instant::now();
    let handle = client.decide(&run_id, decision).await.unwrap();
    let decided = began.elapsed();
    let mut follower = client.follow_until(&run_id, 0, FollowUntil::End).await.unwrap();
    let began = Instant::now();
    client.cancel(&run_id, Some("enough".to_owned())).await.unwrap();
    let follow = async { while follower.next().await.unwrap().is_some() {} };
    tokio::time::timeout(PATIENCE, follow).await.expect("the run ends");
    println!("decided in {decided:?}, cancelled and followed to the end in {:?}", began.elapsed());
    let end = handle.wait().await.unwrap();
    assert_eq!(end.status, Some(RunStatus::Cancelled { reason: "enough".to_owned() }));
    let record: Vec<Arc<_>> = client.store().events(&run_id, 0).await.unwrap();
    assert!(record.iter().any(|stored| matches!(stored.event, Event::CallDecided { .. })));
}
