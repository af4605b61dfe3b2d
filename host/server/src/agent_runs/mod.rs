//! Runs of agents as the clients of other protocols start, follow, decide and cancel them.
//!
//! A protocol sees only the runs of its principal: threads are stored as `<principal>/<id>`, and
//! everything else does not exist.

mod answers;
mod approval;
#[cfg(test)]
pub(crate) mod costs;
mod feed;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod history;
mod once;
mod questions;
mod reply;

pub(crate) use answers::Answers;
pub(crate) use approval::{Approval, approval, repeatable};
pub(crate) use feed::{Encode, Feed, FeedEnd, FeedUntil, NOT_VALID, RECORD_LOST, encoded};
pub(crate) use once::{IdempotentStart, mark_replay, start_once};
pub(crate) use questions::{Calls, KnownCall, sent_arguments};
pub(crate) use reply::{Piece, ReplyText, Rest};

use crate::access::Principal;
use crate::load::{ClientShare, WholeRecordPlace};
use crate::operations::{RunStart, stored_thread_id};
use crate::problem::Problem;
use crate::pulse::Pulse;
use crate::state::ServerState;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use std::borrow::Borrow;
use std::sync::Arc;
use tollgate::blocking::block_in_place;
use tollgate::store::{RunFilter, RunSummary};
use tollgate::tools::Reservation;
use tollgate::{Agent, DIRECT_AGENT};
use tollgate_agent::message::Message;
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Decision, Event, RunSpec, RunStatus, StoredEvent, Task};
use tollgate_agent::text::clean;

/// The client of a request: its principal, and its share of the server.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    principal: Principal,
    share: ClientShare,
}

impl std::ops::Deref for Caller {
    type Target = Principal;

    fn deref(&self) -> &Principal {
        &self.principal
    }
}

/// The middleware of authentication puts both into the request.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let principal = parts.extensions.get::<Principal>().cloned();
        let share = parts.extensions.get::<ClientShare>().cloned();
        let (principal, share) = principal.zip(share).ok_or_else(Problem::unauthenticated)?;
        Ok(Self { principal, share })
    }
}

/// The runs of one principal.
#[derive(Clone, Copy)]
pub(crate) struct AgentRuns<'a> {
    state: &'a ServerState,
    caller: &'a Caller,
}

/// A request for a run.
#[derive(Default)]
pub(crate) struct Start {
    pub(crate) agent_id: String,
    pub(crate) prompt: String,
    /// The client's name of the thread; `None` creates a thread.
    pub(crate) thread: Option<String>,
    pub(crate) history: Vec<Message>,
    pub(crate) detached: bool,
    /// Whether another agent asks for the run.
    pub(crate) by_agent: bool,
    /// The id of the new run, so that a repeated request finds it; `None` generates one.
    pub(crate) run_id: Option<String>,
}

/// A run that was started, or continued by a message.
pub(crate) struct NewRun {
    pub(crate) run_id: Arc<str>,
    /// The client's name of the thread.
    pub(crate) thread: String,
    /// The number of events that the run had before.
    after: u64,
}

/// A run's record, with what clients ask about it.
pub(crate) struct OwnRun {
    pub(crate) run_id: String,
    /// The client's name of the thread.
    pub(crate) thread: String,
    pub(crate) agent_id: String,
    pub(crate) events: Vec<Arc<StoredEvent>>,
    pub(crate) calls: Calls,
    /// The end of the run; `None` if it works or waits.
    pub(crate) end: Option<RunStatus>,
    /// Whether the run waits for a person.
    pub(crate) is_waiting: bool,
    /// The memory of a large record.
    _memory: Option<Reservation>,
}

impl<'a> AgentRuns<'a> {
    pub(crate) fn new(state: &'a ServerState, caller: &'a Caller) -> Self {
        Self { state, caller }
    }

    /// Returns the beats at which quiet streams show that they are alive.
    pub(crate) fn pulse(&self) -> &'a Pulse {
        &self.state.pulse
    }

    /// Waits for a place to read a whole record or thread.
    pub(crate) async fn whole_record(&self) -> Option<WholeRecordPlace> {
        self.state.load.whole_record(&self.caller.name).await
    }

    /// Returns the agents that the principal may use.
    pub(crate) fn agents(&self) -> impl Iterator<Item = &'a Agent> {
        let caller = self.caller;
        self.state.host.agents().filter(move |agent| {
            let id = &agent.spec.view.id;
            id != DIRECT_AGENT && caller.may_use_agent(id)
        })
    }

    /// Returns an agent that the principal may use.
    pub(crate) fn agent(&self, id: &str) -> Result<&'a Agent, Problem> {
        self.agents().find(|agent| agent.spec.view.id == id).ok_or_else(|| {
            let known: Vec<&str> = self.agents().map(|agent| agent.spec.view.id.as_str()).collect();
            let detail = format!("there is no agent \"{}\"; known: {}", clean(id, 100), known.join(", "));
            Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
        })
    }

    /// Starts a run, or continues the thread's waiting run with the prompt.
    pub(crate) async fn start(&self, start: Start) -> Result<NewRun, Problem> {
        let latest = match &start.thread {
            Some(thread) => self.latest(thread).await?,
            None => None,
        };
        let thread = start.thread.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        let request = RunStart {
            agent: start.agent_id,
            input: start.prompt,
            thread_id: Some(thread.clone()),
            history: start.history,
            queue: false,
            detached: start.detached,
            by_agent: start.by_agent,
            run_id: start.run_id,
        };
        let started = self.state.start_run(&self.caller.principal, &self.caller.share, request).await?;
        let run_id = Arc::clone(&started.handle.run_id);
        started.leave();
        let continued = latest.filter(|latest| *latest.run_id == *run_id);
        Ok(NewRun { run_id, thread, after: continued.map_or(0, |run| run.events) })
    }

    /// Follows a run that was just started.
    pub(crate) fn follow(&self, started: &NewRun, until: FeedUntil) -> Result<Feed, Problem> {
        self.resume(&started.run_id, until, started.after, started.after + 1)
    }

    /// Follows a run after the event with this number. Waits up to the event `stored` are in the
    /// past: the run has continued since, except if it is the last.
    pub(crate) fn resume(
        &self,
        run_id: &str,
        until: FeedUntil,
        after: u64,
        stored: u64,
    ) -> Result<Feed, Problem> {
        let place = self.caller.share.stream()?;
        let feed = Feed::new(&self.state.host, run_id, until, after, stored);
        Ok(feed.with_place(place).with_credential(self.caller.share.ended()))
    }

    /// Returns the run id for a request with a key of the client's choice. The same parts give the
    /// same id, for this principal alone.
    pub(crate) fn request_id(&self, parts: &[&str]) -> String {
        use sha2::{Digest, Sha256};
        let mut digest = Sha256::new();
        for part in std::iter::once(&self.caller.name.as_str()).chain(parts) {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest.finalize()[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
    }

    /// Returns a run of the principal.
    pub(crate) async fn run(&self, run_id: &str) -> Result<OwnRun, Problem> {
        self.find_run(run_id).await?.ok_or_else(|| Problem::not_found("run"))
    }

    /// Returns a run of the principal; `None` if there is no such run.
    pub(crate) async fn find_run(&self, run_id: &str) -> Result<Option<OwnRun>, Problem> {
        // Another principal does not learn from the memory that a record needs that the run exists.
        let spec = self.state.store().run_spec(run_id).await?;
        if spec.is_none_or(|spec| own_thread(&spec, &self.caller.name).is_none()) {
            return Ok(None);
        }
        let memory = self.state.host.room_for_record(run_id).await?;
        let events = self.state.store().events(run_id, 0).await?;
        Ok(OwnRun::of(events, memory, &self.caller.name))
    }

    /// Returns the newest run of a thread; `None` if there is none.
    pub(crate) async fn latest(&self, thread: &str) -> Result<Option<RunSummary>, Problem> {
        let filter = RunFilter {
            thread_id: Some(self.stored_thread(thread)?),
            kind: Some("prompt".to_owned()),
            limit: 1,
            ..RunFilter::default()
        };
        Ok(self.state.store().runs(filter).await?.into_iter().next())
    }

    /// Returns runs in the principal's threads.
    pub(crate) async fn summaries(&self, filter: RunFilter) -> Result<Vec<RunSummary>, Problem> {
        let thread_prefix = Some(format!("{}/", self.caller.name));
        Ok(self.state.store().runs(RunFilter { thread_prefix, ..filter }).await?)
    }

    /// Answers questions of a run, all or none, and lets it continue without waiting for it.
    pub(crate) async fn decide(&self, run: &OwnRun, decisions: Vec<Decision>) -> Result<(), Problem> {
        self.state.decide(&self.caller.principal, &run.run_id, decisions).await?.keep_running();
        Ok(())
    }

    /// Ends a run for this reason.
    pub(crate) async fn cancel(&self, run_id: &str, reason: &str) -> Result<(), Problem> {
        self.state.cancel(&self.caller.principal, run_id, Some(reason.to_owned())).await
    }

    /// Returns the name under which a client's thread is stored.
    pub(crate) fn stored_thread(&self, thread: &str) -> Result<String, Problem> {
        stored_thread_id(&self.caller.name, Some(thread))
    }
}

impl OwnRun {
    /// Reads the record of a run; `None` if it is empty, not an agent's run, or another
    /// principal's.
    fn of(events: Vec<Arc<StoredEvent>>, memory: Option<Reservation>, principal: &str) -> Option<Self> {
        let Event::RunStarted { spec } = &events.first()?.event else { return None };
        let identity = &spec.identity;
        let thread = own_thread(spec, principal)?.to_owned();
        let mut calls = Calls::default();
        events.iter().for_each(|event| calls.apply(&event.event));
        let last = events.last().map(|last| &last.event);
        let end = match last {
            Some(Event::RunFinished { status, .. }) => Some(status.clone()),
            _ => None,
        };
        let is_waiting = matches!(last, Some(Event::RunWaiting));
        let (run_id, agent_id) = (identity.run_id.to_string(), identity.agent_id.to_string());
        Some(Self { run_id, thread, agent_id, events, calls, end, is_waiting, _memory: memory })
    }

    /// Returns the message with which the run began.
    pub(crate) fn prompt(&self) -> Option<&str> {
        match self.events.first().map(|first| &first.event) {
            Some(Event::RunStarted { spec }) => match &spec.task {
                Task::Prompt(prompt) => Some(prompt),
                Task::Call { .. } => None,
            },
            _ => None,
        }
    }

    /// Returns the number of stored events.
    pub(crate) fn stored(&self) -> u64 {
        self.events.last().map_or(0, |last| last.number)
    }

    /// Returns the open question with this suspension id.
    pub(crate) fn question(&self, suspension_id: &str) -> Option<&SuspendedCall> {
        let mut waiting = self.calls.waiting();
        waiting.find(|(_, asked)| asked.suspension_id == suspension_id).map(|(_, asked)| asked.as_ref())
    }

    /// Returns a question of the run, open or not, with the number of its event.
    pub(crate) fn asked(&self, suspension_id: &str) -> Option<(u64, &SuspendedCall)> {
        self.events.iter().find_map(|event| match &event.event {
            Event::CallSuspended(asked) if asked.suspension_id == suspension_id => {
                Some((event.number, asked.as_ref()))
            }
            _ => None,
        })
    }

    /// Returns the error for a question that is not open: decided before, or unknown.
    pub(crate) fn no_such_question(&self, suspension_id: &str) -> Problem {
        if self.asked(suspension_id).is_none() {
            return Problem::not_found("question");
        }
        let detail = format!("the question {} does not wait any longer", clean(suspension_id, 300));
        Problem::new(StatusCode::CONFLICT, "already_decided", detail)
    }
}

/// Returns the client's name of a run's thread; `None` if it is another principal's.
fn own_thread<'a>(spec: &'a RunSpec, principal: &str) -> Option<&'a str> {
    spec.identity.thread_id.strip_prefix(principal)?.strip_prefix('/')
}

/// Checks that an answer fits the question's schema.
pub(crate) fn fits(asked: &SuspendedCall, value: &Value) -> Result<(), Problem> {
    let unusable = |why: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "does_not_fit", why);
    let violations = block_in_place(|| asked.violations(value)).map_err(|why| unusable(why.to_string()))?;
    if violations.is_empty() {
        return Ok(());
    }
    let described = tollgate_agent::schema::describe(&violations);
    let mut problem = unusable(format!("the answer does not fit the question's schema:\n{described}"));
    let errors = violations.iter().map(|v| json!({"pointer": v.pointer, "detail": v.problem})).collect();
    problem.members.insert("errors".to_owned(), Value::Array(errors));
    Err(problem)
}

/// Returns the address of the page where people decide, on the host that the client addressed.
pub(crate) fn decide_url(headers: &HeaderMap) -> String {
    format!("{}/console/waiting", base_url(headers))
}

/// Returns the address of this server as the client addressed it; empty if it did not.
pub(crate) fn base_url(headers: &HeaderMap) -> String {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else {
        return String::new();
    };
    // Beyond loopback, a proxy with TLS is required.
    let is_local = ["localhost", "127.", "[::1]"].iter().any(|local| host.starts_with(local));
    let scheme = if is_local { "http" } else { "https" };
    format!("{scheme}://{host}")
}

/// Names the members of a request that were not applied, in a header of the answer.
pub(crate) fn name_ignored(response: &mut Response, ignored: &[impl Borrow<str>]) {
    let is_plain = |c: char| c == ' ' || c.is_ascii_graphic();
    let names: String = ignored.join(", ").chars().map(|c| if is_plain(c) { c } else { '?' }).collect();
    if let Ok(names) = HeaderValue::from_str(&names)
        && !ignored.is_empty()
    {
        response.headers_mut().insert(HeaderName::from_static("tollgate-ignored"), names);
    }
}
