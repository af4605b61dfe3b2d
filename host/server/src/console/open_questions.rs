//! The open questions that a person may answer.

use super::failure::Failure;
use super::viewer::Viewer;
use crate::Scope;
use std::collections::HashSet;
use std::sync::Arc;
use tollgate::store::{RunFilter, RunSummary};

/// The statuses of runs that may have questions. A run whose other calls go on is running; one that
/// comes to rest meanwhile is found twice, not missed.
const ASKING: [&str; 2] = ["running", "waiting"];
/// The number of runs that are listed at once.
const RUNS_AT_ONCE: usize = 200;

/// A question with its run.
pub(super) struct ListedQuestion {
    pub(super) run: Arc<RunSummary>,
    pub(super) suspension_id: String,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
}

/// Returns the open questions that the person may answer, oldest first.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn all(viewer: &Viewer) -> Result<Vec<ListedQuestion>, Failure> {
    let mut open = Vec::new();
    for run in asking_runs(viewer).await? {
        let asking = viewer.asking(&run).await;
        if viewer.shared.may_decide(&viewer.principal, asking.owner.as_deref()).is_err() {
            continue;
        }
        let run = Arc::new(run);
        open.extend(asking.open.iter().map(|question| ListedQuestion {
            run: Arc::clone(&run),
            suspension_id: question.suspension_id.clone(),
            at_ms: question.at_ms,
        }));
    }
    open.sort_by(|a, b| (a.at_ms, &a.run.run_id).cmp(&(b.at_ms, &b.run.run_id)));
    Ok(open)
}

/// Returns the runs that may have a question for the person. The question of a child is asked by
/// its parent too, which passes on the answer.
async fn asking_runs(viewer: &Viewer) -> Result<Vec<RunSummary>, Failure> {
    let decides_any = viewer.has(Scope::DecideAny);
    if !decides_any && !viewer.has(Scope::Decide) {
        return Ok(Vec::new());
    }
    let (mut asking, mut known) = (Vec::new(), HashSet::new());
    for status in ASKING {
        let mut filter = RunFilter {
            status: Some(status.to_owned()),
            thread_prefix: (!decides_any).then(|| viewer.own_threads()),
            limit: RUNS_AT_ONCE,
            ..RunFilter::default()
        };
        loop {
            let page = viewer.store().runs(filter.clone()).await?;
            let is_last = page.len() < RUNS_AT_ONCE;
            filter.before = page.last().map(|run| run.run_id.clone());
            // A direct call has nothing else to do while it asks.
            let may_ask =
                |run: &RunSummary| run.kind == "prompt" || (run.kind == "call" && status == "waiting");
            asking.extend(page.into_iter().filter(|run| may_ask(run) && known.insert(run.run_id.clone())));
            if is_last {
                break;
            }
        }
    }
    Ok(asking)
}
