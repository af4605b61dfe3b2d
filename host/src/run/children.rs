//! Runs of other agents below the calls of a run. An attempt asks for a child, the parent records
//! it, the host starts it after that commit, and the tool is answered after its end is committed.
//!
//! A child is its own task with its own record. It outlives the attempt that asked for it: a
//! later attempt that asks again in the same place waits for the same child.

use super::child::{ChildForwarder, ChildRunResult, ChildStart};
use super::reports::CallReports;
use super::services::RunHost;
use crate::blocking::aside_if;
use crate::stream::Publisher;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tollgate_agent::child::{ChildError, ChildOutcome, ChildRequest, Delegates, MAX_CHILDREN};
use tollgate_agent::run::child_plan::ChildPlace;
use tollgate_agent::run::{ChildAsk, ChildRefusal, Input, Run};
use tollgate_sandbox::ChildRunner;

/// The maximum number of queued requests.
const MAX_ASKS: usize = 64;
/// How long the end of a run waits for its children to stop. They were cancelled; those that need
/// longer continue to their own end.
const END_WAIT: Duration = Duration::from_secs(2);

/// The children of one run that are active in this process.
#[derive(Default)]
pub(super) struct Children {
    /// The channel on which attempts ask; created for the first attempt that may.
    asks: Option<(AskSender, mpsc::Receiver<Box<Ask>>)>,
    live: BTreeMap<ChildPlace, ActiveChild>,
}

/// A child in flight, and the requests that wait for it.
struct ActiveChild {
    cancel: CancellationToken,
    end: SharedEnd,
    waiting: Vec<oneshot::Sender<ChildResult>>,
}

type AskSender = mpsc::Sender<Box<Ask>>;
type ChildResult = Result<ChildOutcome, ChildRefusal>;
type SharedEnd = Shared<BoxFuture<'static, Arc<ChildRunResult>>>;

/// A request for a child, from an attempt to its driver.
pub(super) struct Ask {
    ordinal: u32,
    digest: String,
    request: ChildRequest,
    /// The reports of the attempt that asked.
    reports: Arc<CallReports>,
    reply: oneshot::Sender<ChildResult>,
}

impl Ask {
    pub(super) fn as_ask(&self) -> ChildAsk<'_> {
        ChildAsk {
            call_id: &self.reports.call_id,
            attempt: self.reports.attempt,
            ordinal: self.ordinal,
            digest: &self.digest,
            request: &self.request,
        }
    }

    pub(super) fn refuse(self, refusal: ChildRefusal) {
        // The attempt may have ended already.
        let _ = self.reply.send(Err(refusal));
    }

    /// Returns the input that records a child under this run id.
    pub(super) fn input(&self, run_id: &str) -> Input {
        Input::ChildAsked {
            call_id: self.reports.call_id.clone(),
            attempt: self.reports.attempt,
            ordinal: self.ordinal,
            agent_id: self.request.agent_id.clone(),
            digest: self.digest.clone(),
            run_id: run_id.to_owned(),
        }
    }

    pub(super) fn place(&self) -> ChildPlace {
        (self.reports.call_id.clone(), self.ordinal)
    }
}

impl Children {
    /// Waits for the next request of an attempt. Never completes if no attempt may make one.
    pub(super) async fn next_ask(&mut self) -> Box<Ask> {
        if let Some((_, asks)) = &mut self.asks
            && let Some(ask) = asks.recv().await
        {
            return ask;
        }
        // No attempt may make requests. (Otherwise `asks` itself holds a sender.)
        std::future::pending().await
    }

    /// Returns the handle with which one attempt asks for children; `None` if its tool may not
    /// run agents.
    pub(super) fn of_attempt(
        &mut self,
        delegates: &Arc<Delegates>,
        reports: &Arc<CallReports>,
    ) -> Option<Arc<CallChildren>> {
        if matches!(**delegates, Delegates::None) {
            return None;
        }
        Some(Arc::new(CallChildren {
            asks: self.asks.get_or_insert_with(|| mpsc::channel(MAX_ASKS)).0.clone(),
            delegates: Arc::clone(delegates),
            reports: Arc::clone(reports),
            asked: AtomicU32::new(0),
            broke: AtomicBool::new(false),
        }))
    }

    /// Registers the request as waiting for its child. If the child is not in flight, starts it
    /// and returns a future of its end, which must be awaited.
    pub(super) fn take_up(
        &mut self,
        host: &Arc<dyn RunHost>,
        ask: Ask,
        start: ChildStart,
        publisher: &Publisher,
    ) -> Option<BoxFuture<'static, Input>> {
        let place = ask.place();
        if let Some(live) = self.live.get_mut(&place) {
            live.waiting.push(ask.reply);
            return None;
        }
        let updates = ChildForwarder {
            parent: publisher.clone(),
            place: place.clone(),
            agent_id: ask.request.agent_id.clone(),
            streaming: ask.request.streaming,
            reports: ask.reports,
        };
        let (host, cancel) = (Arc::clone(host), start.cancel.clone());
        let task = tokio::spawn(host.run_child(start, updates));
        let end = async move {
            let ran = match task.await {
                Ok(Ok(ran)) => ran,
                Ok(Err(e)) => ChildRunResult::broke(e.to_string()),
                Err(e) => ChildRunResult::broke(format!("its task failed: {e}")),
            };
            Arc::new(ran)
        };
        let end = end.boxed().shared();
        self.live.insert(place.clone(), ActiveChild { cancel, end: end.clone(), waiting: vec![ask.reply] });
        Some(stands(place, end))
    }

    /// Sends the child's result to its waiting requests, after the parent has recorded it.
    pub(super) fn answer(&mut self, place: &ChildPlace) {
        let Some(live) = self.live.remove(place) else { return };
        let Some(ran) = live.end.peek() else { return };
        for waiting in live.waiting {
            let _ = waiting.send(ran.outcome.clone().map_err(ChildRefusal::Error));
        }
    }

    /// Ends a child that no request waits for. Returns `None` if its end is being awaited
    /// already.
    pub(super) fn end(
        &self,
        host: &Arc<dyn RunHost>,
        place: ChildPlace,
        run_id: String,
    ) -> Option<BoxFuture<'static, Input>> {
        if let Some(live) = self.live.get(&place) {
            live.cancel.cancel();
            return None;
        }
        let ending = Arc::clone(host).end_child(run_id);
        let ended = async move {
            let ran = ending.await.unwrap_or_else(|e| ChildRunResult::broke(e.to_string()));
            Arc::new(ran)
        };
        Some(stands(place, ended.boxed().shared()))
    }

    /// Ends the children that are still active when a run ends, within bounds.
    pub(super) async fn end_all(&self, host: &Arc<dyn RunHost>, run: &Run) {
        let ends = run.open_children().map(|(place, child)| {
            let live = self.live.get(place).map(|live| live.end.clone());
            let run_id = child.run_id.clone();
            let cancel = self.live.get(place).map(|live| live.cancel.clone());
            async move {
                match (live, cancel) {
                    (Some(end), Some(cancel)) => {
                        cancel.cancel();
                        drop(end.await);
                    }
                    // A child that cannot be ended now is ended when it is next loaded.
                    _ => drop(Arc::clone(host).end_child(run_id).await),
                }
            }
        });
        let all = futures::future::join_all(ends.collect::<Vec<_>>());
        let _ = tokio::time::timeout(END_WAIT, all).await;
    }
}

fn stands(place: ChildPlace, end: SharedEnd) -> BoxFuture<'static, Input> {
    Box::pin(async move {
        let ran = end.await;
        let (call_id, ordinal) = place;
        Input::ChildChanged { call_id, ordinal, end: ran.end.clone() }
    })
}

/// The requests of one attempt for children; each has its own place.
pub(super) struct CallChildren {
    asks: AskSender,
    delegates: Arc<Delegates>,
    reports: Arc<CallReports>,
    asked: AtomicU32,
    broke: AtomicBool,
}

impl CallChildren {
    /// Returns whether the attempt asked for something other than an earlier attempt in the same
    /// place. If so, its call fails.
    pub(super) fn broke(&self) -> bool {
        self.broke.load(Ordering::Relaxed)
    }

    async fn ask(&self, ordinal: u32, request: ChildRequest) -> Result<ChildOutcome, ChildError> {
        let gone = || ChildError::ExecutionFailed("the run of this call has ended".to_owned());
        self.delegates.check(&request)?;
        let (reply, answer) = oneshot::channel();
        let digest = aside_if(!request.seed.is_empty(), || digest(&request));
        let reports = Arc::clone(&self.reports);
        let ask = Ask { ordinal, digest, request, reports, reply };
        self.asks.send(Box::new(ask)).await.map_err(|_| gone())?;
        match answer.await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(ChildRefusal::Error(error))) => Err(error),
            Ok(Err(ChildRefusal::AnotherRequest)) => {
                self.broke.store(true, Ordering::Relaxed);
                Err(ChildError::ExecutionFailed(format!(
                    "request {ordinal} of this call differs from the one in an earlier attempt"
                )))
            }
            Err(_) => Err(gone()),
        }
    }
}

impl ChildRunner for CallChildren {
    fn refuse(&self, agent_id: &str) -> Option<ChildError> {
        let all_asked = self.asked.load(Ordering::Relaxed) >= MAX_CHILDREN;
        let not_granted = self.delegates.check_agent(agent_id).err();
        let refusal = not_granted.or_else(|| all_asked.then(ChildError::too_many_children))?;
        self.asked.fetch_add(1, Ordering::Relaxed);
        Some(refusal)
    }

    fn run_child(&self, request: ChildRequest) -> BoxFuture<'_, Result<ChildOutcome, ChildError>> {
        // The place is assigned when the request is made, not when it is first polled.
        let ordinal = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        Box::pin(self.ask(ordinal, request))
    }
}

/// Returns a digest that identifies a request.
fn digest(request: &ChildRequest) -> String {
    let ChildRequest { agent_id, messages, seed, exports, streaming } = request;
    // All keys are strings, so serialization cannot fail.
    tollgate_agent::digest::digest_of_json(&(agent_id, messages, seed, exports, streaming))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use tollgate_agent::child::DelegateGrant;
    use tollgate_agent::message::{AssistantMessage, Message};

    /// Records of earlier versions have the digest of this text.
    #[test]
    fn a_request_is_hashed_as_the_json_of_its_parts() {
        let mut request = ChildRequest::new("scout", "Look.").with_export("a.b");
        request = request.with_seed("a.list", json!([1.5, {"z": "\u{e9}\n", "a": null}]));
        let said = AssistantMessage { text: "I see.".to_owned(), ..AssistantMessage::default() };
        request.messages.insert(0, Message::Assistant(said));
        let ChildRequest { agent_id, messages, seed, exports, streaming } = &request;
        let text = json!([agent_id, messages, seed, exports, streaming]).to_string();
        assert_eq!(digest(&request), tollgate_agent::digest::digest(text.as_bytes()));
    }

    #[test]
    fn t2_a_call_waits_for_no_more_requests_than_it_may_have_children() {
        let publisher = Publisher::without_clients(Arc::default(), "run".into());
        let reports = Arc::new(CallReports { publisher, call_id: "call".into(), attempt: 1 });
        let granted = BTreeMap::from([("scout".to_owned(), DelegateGrant::default())]);
        let mut all = Children::default();
        let call = all.of_attempt(&Arc::new(Delegates::Granted(granted)), &reports).unwrap();
        assert_eq!(call.refuse("other"), Some(ChildError::NotGranted("other".to_owned())));
        // A refused request keeps its place among the requests.
        for _ in 1..MAX_CHILDREN {
            assert_eq!(call.refuse("scout"), None);
            drop(call.run_child(ChildRequest::new("scout", "Look.")));
        }
        assert_eq!(call.refuse("scout"), Some(ChildError::too_many_children()));
        assert_eq!(call.refuse("other"), Some(ChildError::NotGranted("other".to_owned())));
    }
}
