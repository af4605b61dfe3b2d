//! The operations of principals on runs, calls, questions and threads. Every protocol uses these
//! functions, so tenancy and four-eyes hold in one place.
//!
//! The threads of a principal are stored as `<principal>/<id>`. Whatever belongs to another
//! principal does not exist, unless the credential may see everything.

use crate::access::Principal;
use crate::load::ClientShare;
use crate::problem::Problem;
use crate::scope::Scope;
use crate::state::ServerState;
use axum::http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tollgate::config::DecisionMakers;
use tollgate::run::{RunEnd, RunError};
use tollgate::store::{RecordReader, RunFilter, RunSummary};
use tollgate::{
    Busy, CallRequest, DIRECT_AGENT, Decision, Event, FollowUntil, HostError, RunFollower, RunHandle,
    RunRequest,
};
use tollgate_agent::SmolStr;
use tollgate_agent::context::RunIdentity;
use tollgate_agent::message::Message;
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{DecisionAnswer, RunSpec, RunUsage, StoredEvent, Task};
use uuid::Uuid;

/// The maximum length of a thread's id as clients give it, in characters.
const MAX_THREAD_CHARS: usize = 200;
/// How long a run that continues waits for a place.
const CONTINUE_WAIT: Duration = Duration::from_secs(2);

/// A run that a principal may see.
#[derive(Debug, Clone)]
pub struct VisibleRun {
    /// The run's id.
    pub run_id: String,
    /// How the run began.
    pub spec: Arc<RunSpec>,
    /// Whether it belongs to the principal.
    pub is_own: bool,
}

impl VisibleRun {
    /// Returns the principal whose run it is; `None` if it was started without one.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.spec.identity.principal.as_deref()
    }
}

/// A run that is in progress, and its place among the principal's runs.
#[derive(Debug)]
pub struct StartedRun {
    /// The run.
    pub handle: RunHandle,
    /// `None` if it had a place before, or has ended.
    place: Option<OwnedSemaphorePermit>,
}

impl StartedRun {
    /// Waits in the background until the run rests, so that it does not depend on the request that
    /// started it. Its place is taken until then.
    pub fn detach(self) -> tokio::task::JoinHandle<Result<RunEnd, RunError>> {
        tokio::spawn(self.rest())
    }

    /// Lets the run continue until it rests, without other clients.
    pub fn keep_running(self) {
        tokio::spawn(async move {
            if let Err(why) = self.rest().await {
                tracing::warn!("a run could not be continued: {why}");
            }
        });
    }

    /// Waits until the run rests, and holds its place until then.
    async fn rest(mut self) -> Result<RunEnd, RunError> {
        while self.handle.events.next().await.is_some() {}
        self.handle.wait().await
    }

    /// Waits until the run rests. If it is dropped, the run is left.
    ///
    /// # Errors
    /// The host cannot continue the run.
    pub async fn wait(self) -> Result<RunEnd, Problem> {
        let Self { handle, place } = self;
        let ended = handle.wait().await;
        drop(place);
        ended.map_err(|e| Problem::of_run(&e))
    }

    /// Keeps the place until the run rests, and leaves the run to its followers. A run that is not
    /// detached is cancelled 10 s after the last of them left.
    pub fn leave(self) {
        let Self { handle, place } = self;
        tokio::spawn(async move {
            let ended = handle.leave().await;
            drop(place);
            if let Err(why) = ended {
                tracing::warn!("a run could not be continued: {why}");
            }
        });
    }
}

/// A request to start a run.
#[derive(Debug, Clone, Default)]
pub struct RunStart {
    /// The agent.
    pub agent: String,
    /// The user's message.
    pub input: String,
    /// The thread as the client names it; `None` begins a new one.
    pub thread_id: Option<String>,
    /// The conversation that precedes the message; only a new thread accepts one.
    pub history: Vec<Message>,
    /// Whether to wait for another run of the thread.
    pub queue: bool,
    /// Whether the run continues without clients.
    pub detached: bool,
    /// Whether another agent asks for the run.
    pub by_agent: bool,
    /// The id of the new run; `None` generates one.
    pub run_id: Option<String>,
}

/// Returns the id under which a principal's thread is stored; without an id, that of a new thread.
///
/// # Errors
/// The id is empty, too long, or contains control characters.
pub fn stored_thread_id(principal: &str, client_id: Option<&str>) -> Result<String, Problem> {
    let Some(id) = client_id else { return Ok(format!("{principal}/{}", Uuid::now_v7())) };
    if id.is_empty() || id.chars().count() > MAX_THREAD_CHARS || id.chars().any(char::is_control) {
        let detail =
            format!("a thread's id has from 1 to {MAX_THREAD_CHARS} characters and no control characters");
        return Err(Problem::unprocessable(detail));
    }
    Ok(format!("{principal}/{id}"))
}

/// Checks that a principal does not answer a gate's question of a run that it asked for as an agent.
///
/// # Errors
/// It does: 403 `own_question`.
pub(crate) fn refuse_own_gate(
    principal: &Principal,
    identity: &RunIdentity,
    asked: &SuspendedCall,
) -> Result<(), Problem> {
    let is_own = identity.principal.as_deref() == Some(principal.name.as_str());
    match is_own && identity.asked_by_agent && asked.asking_gate().is_some() {
        true => Err(Problem::agents_question()),
        false => Ok(()),
    }
}

impl ServerState {
    /// Returns a run that the principal may see: its own, or any with the scope `read` or one of
    /// `others`.
    ///
    /// # Errors
    /// There is no such run for this principal: 404.
    pub async fn visible_run(
        &self,
        principal: &Principal,
        run_id: &str,
        others: &[Scope],
    ) -> Result<VisibleRun, Problem> {
        let missing = || Problem::not_found("run");
        let spec = self.store().run_spec(run_id).await?.ok_or_else(missing)?;
        let is_own = spec.identity.principal.as_deref() == Some(principal.name.as_str());
        let sees_all = principal.has(Scope::Read) || others.iter().any(|scope| principal.has(*scope));
        if is_own || sees_all {
            return Ok(VisibleRun { run_id: run_id.to_owned(), spec, is_own });
        }
        Err(missing())
    }

    /// Returns the usage of a run that has ended; `None` for one that has not.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn ended_usage(&self, run: &RunSummary) -> Result<Option<RunUsage>, Problem> {
        if run.is_open() {
            return Ok(None);
        }
        let last = self.store().events(&run.run_id, run.events.saturating_sub(1)).await?;
        Ok(match last.last().map(|last| &last.event) {
            Some(Event::RunFinished { usage, .. }) => Some((**usage).clone()),
            _ => None,
        })
    }

    /// Starts a run of an agent, or continues the thread's waiting run with the message.
    ///
    /// # Errors
    /// The scope `use` or the agent is missing, the principal has too many runs in progress or waiting, or
    /// the host refuses the run.
    pub(crate) async fn start_run(
        &self,
        principal: &Principal,
        share: &ClientShare,
        start: RunStart,
    ) -> Result<StartedRun, Problem> {
        principal.require(Scope::Use)?;
        self.check_agent(principal, &start.agent)?;
        share.waiting().check(&**self.store(), &principal.name).await?;
        let place = share.run()?;
        let thread_id = stored_thread_id(&principal.name, start.thread_id.as_deref())?;
        self.check_open_agent(principal, &thread_id).await?;
        let mut request = RunRequest::new(start.agent, start.input).on_thread(thread_id);
        request.busy = if start.queue { Busy::Queue } else { Busy::Refuse };
        request.detached = start.detached;
        request.asked_by_agent = start.by_agent;
        request.history = start.history;
        request.principal = Some(SmolStr::new(&principal.name));
        request.run_id = start.run_id;
        let thread_id = request.thread_id.clone();
        match self.host.run(request).await {
            Ok(handle) => Ok(StartedRun { handle, place: Some(place) }),
            Err(why @ HostError::Busy(_)) => Err(self.thread_busy(why, thread_id).await),
            Err(why) => Err(why.into()),
        }
    }

    /// Starts a direct call of a tool.
    ///
    /// # Errors
    /// The scope `use` or the tool is missing, the principal has too many calls in progress or runs that
    /// wait, or the store fails.
    pub(crate) async fn start_call(
        &self,
        principal: &Principal,
        share: &ClientShare,
        tool_call: (&str, &str),
        ids: (Option<&str>, Option<String>),
        detached: bool,
    ) -> Result<StartedRun, Problem> {
        let (request, place) = self.call_request(principal, share, tool_call, ids, detached).await?;
        let handle = self.host.start_call(request).await?;
        Ok(StartedRun { handle, place: Some(place) })
    }

    /// Calls a tool directly, and returns the end of the call with the events that were stored
    /// meanwhile. If the future is dropped, the call is left.
    ///
    /// # Errors
    /// As for [`start_call`](Self::start_call), or the host cannot continue the call.
    pub(crate) async fn call(
        &self,
        principal: &Principal,
        share: &ClientShare,
        tool_call: (&str, &str),
        thread_id: Option<&str>,
        detached: bool,
    ) -> Result<(RunEnd, Vec<Arc<StoredEvent>>), Problem> {
        let ids = (thread_id, None);
        let (request, _place) = self.call_request(principal, share, tool_call, ids, detached).await?;
        Ok(self.host.call_with_events(request).await?)
    }

    /// Returns the request of a direct call, and its place among those of the principal.
    async fn call_request(
        &self,
        principal: &Principal,
        share: &ClientShare,
        (tool_name, arguments): (&str, &str),
        (thread_id, run_id): (Option<&str>, Option<String>),
        detached: bool,
    ) -> Result<(CallRequest, OwnedSemaphorePermit), Problem> {
        principal.require(Scope::Use)?;
        self.check_tool(principal, tool_name)?;
        share.waiting().check(&**self.store(), &principal.name).await?;
        let place = share.call()?;
        let stored_id = stored_thread_id(&principal.name, thread_id)?;
        let request = CallRequest::from_json(tool_name, arguments);
        let mut request = match thread_id {
            Some(_) => request.on_thread(stored_id),
            None => request.on_new_thread(stored_id),
        };
        request.detached = detached;
        request.principal = Some(SmolStr::new(&principal.name));
        request.run_id = run_id;
        Ok((request, place))
    }

    /// Adds to the problem which run of the thread is at work.
    async fn thread_busy(&self, why: HostError, thread_id: Option<String>) -> Problem {
        let problem = Problem::from(why);
        let status = Some("running".to_owned());
        let filter = RunFilter { thread_id, status, limit: 1, ..RunFilter::default() };
        // The run may have ended meanwhile, and the store may fail; the problem is the same.
        match self.store().runs(filter).await.unwrap_or_default().first() {
            Some(run) => problem.with("run_id", run.run_id.as_str()),
            None => problem,
        }
    }

    /// Checks that the principal may use an agent, and that the agent exists. The problem names no
    /// agent that the principal may not use.
    ///
    /// # Errors
    /// There is no such agent for this principal: 404 with the nearest names.
    pub(crate) fn check_agent(&self, principal: &Principal, agent: &str) -> Result<(), Problem> {
        let ids = self.host.agents().map(|agent| agent.spec.view.id.as_str());
        let seen: Vec<&str> = ids.filter(|id| *id != DIRECT_AGENT && principal.may_use_agent(id)).collect();
        if seen.contains(&agent) {
            return Ok(());
        }
        let nearest: Vec<String> =
            tollgate_agent::name::nearest(agent, seen.into_iter()).into_iter().map(str::to_owned).collect();
        Err(Problem::not_found("agent").with("nearest", nearest))
    }

    /// Checks that the credential may use the agent of the thread's last run, which a message
    /// continues if it waits or was interrupted.
    async fn check_open_agent(&self, principal: &Principal, thread_id: &str) -> Result<(), Problem> {
        if principal.agents.is_empty() {
            return Ok(());
        }
        let (thread_id, kind) = (Some(thread_id.to_owned()), Some("prompt".to_owned()));
        let filter = RunFilter { thread_id, kind, limit: 1, ..RunFilter::default() };
        match self.store().runs(filter).await?.first() {
            Some(run) if run.is_open() && !principal.may_use_agent(&run.agent_id) => {
                let detail = "the thread has an open run of an agent that this key may not use; use another \
                              thread, or another key";
                Err(Problem::new(StatusCode::NOT_FOUND, "not_found", detail))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the credential may let a run continue: it may use its agent, or call its tool.
    ///
    /// # Errors
    /// It may not: 404, as for a new run.
    pub(crate) fn check_continued(&self, principal: &Principal, run: &VisibleRun) -> Result<(), Problem> {
        let (may_continue, what) = match &run.spec.task {
            Task::Prompt(_) => (principal.may_use_agent(&run.spec.identity.agent_id), "agent"),
            Task::Call { tool_name, .. } => (principal.may_use_tool(tool_name), "tool"),
        };
        if may_continue { Ok(()) } else { Err(Problem::not_found(what)) }
    }

    /// Takes one of its owner's places for a run that continues, and waits for a moment until one is free.
    /// After a "no" it is a place of another kind, so that a person can say no while all others are taken.
    /// Returns `None` if the run has ended, or has a place because it is in progress.
    ///
    /// # Errors
    /// The owner has too many runs in progress.
    async fn place_to_continue(
        &self,
        principal: &Principal,
        run: &VisibleRun,
        is_declined: bool,
    ) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        let needs_place = |run: RunSummary| run.is_open() && !run.is_driven;
        if !self.host.summary(&run.run_id).await?.is_some_and(needs_place) {
            return Ok(None);
        }
        let share = self.load.share(run.owner().unwrap_or(&principal.name));
        let places = match run.spec.task {
            _ if is_declined => share.declined(),
            Task::Prompt(_) => share.runs(),
            Task::Call { .. } => share.calls(),
        };
        match tokio::time::timeout(CONTINUE_WAIT, places.acquire_owned()).await {
            Ok(Ok(place)) => Ok(Some(place)),
            _ => Err(Problem::too_many("runs of the run's owner are in progress")),
        }
    }

    /// Checks that the principal may call a tool, and that the tool exists.
    ///
    /// # Errors
    /// There is no such tool for this principal: 404 with the nearest names.
    pub fn check_tool(&self, principal: &Principal, tool_name: &str) -> Result<(), Problem> {
        let toolbox = self.host.toolbox();
        let catalog = toolbox.catalog();
        match principal.may_use_tool(tool_name) && catalog.tool(tool_name).is_some() {
            true => Ok(()),
            false => Err(self.no_such_tool(principal, tool_name)),
        }
    }

    /// Returns the problem of a tool that does not exist for the principal: 404 with the nearest names.
    pub(crate) fn no_such_tool(&self, principal: &Principal, tool_name: &str) -> Problem {
        let toolbox = self.host.toolbox();
        let names = toolbox.catalog().tools().map(|tool| tool.descriptor.name.as_str());
        let known = names.filter(|name| principal.may_use_tool(name));
        let nearest: Vec<String> =
            tollgate_agent::name::nearest(tool_name, known).into_iter().map(str::to_owned).collect();
        Problem::not_found("tool").with("nearest", nearest)
    }

    /// Checks that the principal may answer questions of a run with this owner.
    ///
    /// # Errors
    /// A scope is missing, or the run is the principal's own and others decide.
    pub fn may_decide(&self, principal: &Principal, owner: Option<&str>) -> Result<(), Problem> {
        let is_own = owner == Some(principal.name.as_str());
        if is_own && self.config.decides == DecisionMakers::Others {
            return Err(Problem::own_question());
        }
        let scope = if is_own && !principal.has(Scope::DecideAny) { Scope::Decide } else { Scope::DecideAny };
        principal.require(scope)
    }

    /// Checks that the principal may answer questions of this run, and let it continue.
    ///
    /// # Errors
    /// As for [`may_decide`](Self::may_decide) and [`check_continued`](Self::check_continued).
    pub(crate) fn check_decides(&self, principal: &Principal, run: &VisibleRun) -> Result<(), Problem> {
        self.may_decide(principal, run.owner())?;
        self.check_continued(principal, run)
    }

    /// Returns whether the principal may answer this question of a run: a gate's question of a run
    /// that an agent asked for is answered by another principal, whatever `decides` says.
    ///
    /// # Errors
    /// As for [`check_decides`](Self::check_decides).
    pub(crate) fn may_answer(
        &self,
        principal: &Principal,
        run: &VisibleRun,
        asked: &SuspendedCall,
    ) -> Result<(), Problem> {
        self.check_decides(principal, run)?;
        refuse_own_gate(principal, &run.spec.identity, asked)
    }

    /// Checks that a principal does not answer the gates' questions of a run that it asked for as
    /// an agent.
    async fn refuse_own_gates(
        &self,
        principal: &Principal,
        run: &VisibleRun,
        decisions: &[Decision],
    ) -> Result<(), Problem> {
        if !run.is_own || !run.spec.identity.asked_by_agent {
            return Ok(());
        }
        let mut record = RecordReader::new(&**self.store(), &run.run_id);
        while let Some(stored) = record.next().await? {
            let Event::CallSuspended(asked) = &stored.event else { continue };
            let is_target = |it: &Decision| it.target == asked.suspension_id || it.target == *asked.call_id;
            if decisions.iter().any(is_target) {
                self.may_answer(principal, run, asked)?;
            }
        }
        Ok(())
    }

    /// Answers questions of a run, all or none, and returns the run, which continues.
    ///
    /// # Errors
    /// The principal does not see the run or may not decide, a decision is refused, or the owner of the run
    /// has too many in progress.
    pub async fn decide(
        &self,
        principal: &Principal,
        run_id: &str,
        mut decisions: Vec<Decision>,
    ) -> Result<StartedRun, Problem> {
        let run = self.visible_run(principal, run_id, &[Scope::DecideAny]).await?;
        self.check_decides(principal, &run)?;
        self.refuse_own_gates(principal, &run, &decisions).await?;
        let is_declined = decisions.iter().all(|decision| decision.answer == DecisionAnswer::Cancel);
        let place = self.place_to_continue(principal, &run, is_declined).await?;
        for decision in &mut decisions {
            (decision.by, decision.by_key) = (Some(principal.name.clone()), principal.has_key);
        }
        match self.host.decide_all(run_id, decisions).await {
            Ok(handle) => Ok(StartedRun { handle, place }),
            Err(HostError::UnknownQuestion(_)) => Err(Problem::not_found("question")),
            Err(HostError::Busy(_)) => {
                let detail = "the run is at work; try again in a moment";
                Err(Problem::new(StatusCode::CONFLICT, "busy", detail))
            }
            Err(why) => Err(why.into()),
        }
    }

    /// Resumes an interrupted run that the principal sees.
    ///
    /// # Errors
    /// The principal may not continue it, its owner has too many runs, or the host refuses it.
    pub(crate) async fn recover(
        &self,
        principal: &Principal,
        run: &VisibleRun,
    ) -> Result<StartedRun, Problem> {
        self.check_continued(principal, run)?;
        let place = self.place_to_continue(principal, run, false).await?;
        Ok(StartedRun { handle: self.host.recover(&run.run_id).await?, place })
    }

    /// Cancels a run of the principal, or any with the scope `operate`.
    ///
    /// # Errors
    /// The principal does not see the run or may not cancel it, or the run has ended.
    pub async fn cancel(
        &self,
        principal: &Principal,
        run_id: &str,
        reason: Option<String>,
    ) -> Result<(), Problem> {
        let run = self.visible_run(principal, run_id, &[Scope::Operate]).await?;
        let is_own = run.is_own && principal.has(Scope::Use);
        principal.require(if is_own { Scope::Use } else { Scope::Operate })?;
        let given = reason.map(|reason| format!(": {}", tollgate_agent::text::clean(&reason, 500)));
        let reason = format!("it was cancelled by {}{}", principal.name, given.unwrap_or_default());
        Ok(self.host.cancel(run_id, Some(reason)).await?)
    }

    /// Follows a run that the principal sees.
    ///
    /// # Errors
    /// The principal does not see the run, or the store fails.
    pub async fn follow(
        &self,
        principal: &Principal,
        run_id: &str,
        after: u64,
        until: FollowUntil,
    ) -> Result<RunFollower, Problem> {
        self.visible_run(principal, run_id, &[Scope::DecideAny]).await?;
        Ok(self.host.follow_until(run_id, after, until).await?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::access::AccessDatabase;
    use crate::state::ServerOptions;
    use serde_json::Value;
    use tollgate::config::ServeConfig;
    use tollgate::{FnTool, Host};
    use tollgate_agent::gate::permissions::{DefaultRule, Permissions};

    #[tokio::test(flavor = "multi_thread")]
    async fn questions_can_be_answered_while_the_owner_has_no_place() {
        let tool = FnTool::new("echo", "echo", "Echoes.", |arguments: Value, _| async move { arguments });
        let host = Host::builder().tool(tool).gate(Permissions::new(DefaultRule::Ask)).build().unwrap();
        let data = tempfile::tempdir().unwrap();
        let access = AccessDatabase::open(data.path()).unwrap();
        let options = ServerOptions { calls: 1, ..ServerOptions::default() };
        let state = ServerState::new(host, access, ServeConfig::default(), options);
        let ada = Principal::new("ada", [Scope::Use, Scope::Decide]);
        let share = state.load.share("ada");
        let ask = async || {
            let (end, _) = state.call(&ada, &share, ("echo", "{}"), None, false).await.unwrap();
            (end.run_id.to_string(), end.waiting[0].suspension_id.clone())
        };
        let answer = async |question: &(String, String), answer: DecisionAnswer| {
            let decision = Decision { answer, ..Decision::cancel(question.1.as_str()) };
            state.decide(&ada, &question.0, vec![decision]).await
        };
        let (yes, no) = (|| DecisionAnswer::Resume(Value::Bool(true)), || DecisionAnswer::Cancel);
        let (first, second, third) = (ask().await, ask().await, ask().await);

        let place = share.call().unwrap();
        assert_eq!(answer(&first, yes()).await.unwrap_err().code, "too_many_requests");
        answer(&first, no()).await.unwrap().wait().await.unwrap();
        assert_eq!(answer(&first, yes()).await.unwrap_err().code, "already_decided");
        let freed = async {
            tokio::time::sleep(CONTINUE_WAIT / 10).await;
            drop(place);
        };
        let (continued, ()) = tokio::join!(answer(&second, yes()), freed);
        continued.unwrap().wait().await.unwrap();
        let declined = share.declined();
        let all = u32::try_from(declined.available_permits()).unwrap();
        let _held = declined.acquire_many_owned(all).await.unwrap();
        assert_eq!(answer(&third, no()).await.unwrap_err().code, "too_many_requests");
    }
}
