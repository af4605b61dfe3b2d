//! Runs of agents as the clients of other protocols start, follow, decide and cancel them.
//!
//! A protocol sees only the runs of its principal: threads are stored as `<principal>/<id>`, and
//! everything else does not exist.

mod approval;
mod feed;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod history;
mod questions;
mod reply;
pub(crate) mod sse;

pub(crate) use approval::{approval, repeatable};
pub(crate) use feed::{Encode, Feed, FeedEnd, Until, encoded};
pub(crate) use questions::{Calls, KnownCall};
pub(crate) use reply::{Piece, ReplyText, Rest};

use crate::auth::{Principal, Scope};
use crate::problem::Problem;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate::store::{RunFilter, RunSummary};
use tollgate::tollgate_agent::message::Message;
use tollgate::{Agent, DIRECT_AGENT, EventStream, Host, HostError, RunRequest};
use tollgate_agent::run::event::Suspended;
use tollgate_agent::run::{Decision, DecisionAnswer, Event, RunStatus, StoredEvent};
use tollgate_agent::text::clean;

/// The maximum length of a client's thread id, in bytes.
const MAX_THREAD_ID_BYTES: usize = 200;

/// The runs of one principal.
#[derive(Clone, Copy)]
pub(crate) struct AgentRuns<'a> {
    pub(crate) host: &'a Host,
    pub(crate) principal: &'a Principal,
}

/// A request for a run.
pub(crate) struct Start {
    pub(crate) agent_id: String,
    pub(crate) prompt: String,
    /// The client's name of the thread; `None` creates a thread.
    pub(crate) thread: Option<String>,
    pub(crate) history: Vec<Message>,
    pub(crate) detached: bool,
    /// The id of the new run, so that a repeated request finds it; `None` generates one.
    pub(crate) run_id: Option<String>,
}

/// A run that was started, or continued by a message.
pub(crate) struct Started {
    pub(crate) run_id: Arc<str>,
    /// The client's name of the thread.
    pub(crate) thread: String,
    pub(crate) events: EventStream,
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
}

impl<'a> AgentRuns<'a> {
    pub(crate) fn new(host: &'a Host, principal: &'a Principal) -> Self {
        Self { host, principal }
    }

    /// Returns the agents that the principal may use.
    pub(crate) fn agents(&self) -> impl Iterator<Item = &'a Agent> {
        let patterns = &self.principal.agents;
        self.host.agents().filter(move |agent| {
            let id = &agent.spec.view.id;
            id != DIRECT_AGENT && (patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, id)))
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
    pub(crate) async fn start(&self, start: Start) -> Result<Started, Problem> {
        self.principal.require(Scope::Use)?;
        self.agent(&start.agent_id)?;
        let thread = match start.thread {
            Some(thread) => thread,
            None => uuid::Uuid::now_v7().to_string(),
        };
        let request = RunRequest {
            history: start.history,
            detached: start.detached,
            run_id: start.run_id,
            principal: Some(self.principal.name.as_str().into()),
            ..RunRequest::new(start.agent_id, start.prompt).on_thread(self.stored_thread(&thread)?)
        };
        let handle = self.host.run(request).await.map_err(refused)?;
        Ok(Started { run_id: Arc::clone(&handle.run_id), thread, events: handle.events })
    }

    /// Returns the run id for a request with a key of the client's choice. The same parts give the
    /// same id, for this principal alone.
    pub(crate) fn request_id(&self, parts: &[&str]) -> String {
        use sha2::{Digest, Sha256};
        let mut digest = Sha256::new();
        for part in std::iter::once(&self.principal.name.as_str()).chain(parts) {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest.finalize()[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
    }

    /// Returns a run of the principal.
    pub(crate) async fn run(&self, run_id: &str) -> Result<OwnRun, Problem> {
        let events = self.host.store().events(run_id, 0).await.map_err(store_failed)?;
        OwnRun::of(events, &self.principal.name).ok_or_else(|| Problem::not_found("run"))
    }

    /// Returns the newest run of a thread; `None` if there is none.
    pub(crate) async fn latest(&self, thread: &str) -> Result<Option<RunSummary>, Problem> {
        let filter = RunFilter {
            thread_id: Some(self.stored_thread(thread)?),
            kind: Some("prompt".to_owned()),
            limit: 1,
            ..RunFilter::default()
        };
        Ok(self.host.store().runs(filter).await.map_err(store_failed)?.into_iter().next())
    }

    /// Returns runs in the principal's threads.
    pub(crate) async fn summaries(&self, filter: RunFilter) -> Result<Vec<RunSummary>, Problem> {
        let prefix = format!("{}/", self.principal.name);
        let mut runs = self.host.store().runs(filter).await.map_err(store_failed)?;
        runs.retain(|run| run.thread_id.starts_with(&prefix));
        Ok(runs)
    }

    /// Checks that the principal may decide these questions of its run, and that the answers fit.
    /// Nothing is decided.
    pub(crate) fn check_decisions(&self, run: &OwnRun, decisions: &[Decision]) -> Result<(), Problem> {
        if !self.principal.has(Scope::DecideAny) {
            self.principal.require(Scope::Decide)?;
        }
        decisions.iter().try_for_each(|decision| {
            let asked =
                run.question(&decision.target).ok_or_else(|| run.no_such_question(&decision.target))?;
            match &decision.answer {
                DecisionAnswer::Cancel => Ok(()),
                DecisionAnswer::Resume(value) => fits(asked, value),
            }
        })
    }

    /// Answers questions of a run, and lets it continue without waiting for it. Either all answers
    /// are acceptable, or none is given.
    pub(crate) async fn decide(&self, run: &OwnRun, decisions: Vec<Decision>) -> Result<(), Problem> {
        self.check_decisions(run, &decisions)?;
        let mut decisions = decisions.into_iter();
        let Some(first) = decisions.next() else { return Ok(()) };
        let mut handle = self.host.decide(&run.run_id, first).await.map_err(refused)?;
        if decisions.len() == 0 {
            return Ok(());
        }
        let (host, run_id) = (self.host.clone(), run.run_id.clone());
        tokio::spawn(async move {
            for decision in decisions {
                if let Err(why) = handle.wait().await {
                    return tracing::warn!("the run {run_id} could not continue: {why}");
                }
                handle = match host.decide(&run_id, decision).await {
                    Ok(handle) => handle,
                    Err(why) => return tracing::warn!("a decision about the run {run_id} failed: {why}"),
                };
            }
            let _ = handle.wait().await;
        });
        Ok(())
    }

    /// Ends a run for this reason.
    pub(crate) async fn cancel(&self, run_id: &str, reason: &str) -> Result<(), Problem> {
        self.principal.require(Scope::Use)?;
        self.host.cancel(run_id, Some(reason.to_owned())).await.map_err(refused)
    }

    /// Returns the name under which a client's thread is stored.
    pub(crate) fn stored_thread(&self, thread: &str) -> Result<String, Problem> {
        let fits = !thread.is_empty()
            && thread.len() <= MAX_THREAD_ID_BYTES
            && !thread.chars().any(char::is_control);
        if !fits {
            let detail =
                format!("a thread id has 1 to {MAX_THREAD_ID_BYTES} bytes and no control characters");
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_thread_id", detail));
        }
        Ok(format!("{}/{thread}", self.principal.name))
    }
}

impl OwnRun {
    /// Reads the record of a run; `None` if it is empty, not an agent's run, or another
    /// principal's.
    fn of(events: Vec<Arc<StoredEvent>>, principal: &str) -> Option<Self> {
        let Event::RunStarted { spec } = &events.first()?.event else { return None };
        let identity = &spec.identity;
        let thread = identity.thread_id.strip_prefix(principal)?.strip_prefix('/')?.to_owned();
        let mut calls = Calls::default();
        events.iter().for_each(|event| calls.apply(&event.event));
        let last = events.last().map(|last| &last.event);
        let end = match last {
            Some(Event::RunFinished { status, .. }) => Some(status.clone()),
            _ => None,
        };
        let is_waiting = matches!(last, Some(Event::RunWaiting));
        let (run_id, agent_id) = (identity.run_id.to_string(), identity.agent_id.to_string());
        Some(Self { run_id, thread, agent_id, events, calls, end, is_waiting })
    }

    /// Returns the number of stored events.
    pub(crate) fn stored(&self) -> u64 {
        self.events.last().map_or(0, |last| last.number)
    }

    /// Returns the open question with this suspension id.
    pub(crate) fn question(&self, suspension_id: &str) -> Option<&Suspended> {
        let mut waiting = self.calls.waiting();
        waiting.find(|(_, asked)| asked.suspension_id == suspension_id).map(|(_, asked)| asked.as_ref())
    }

    /// Returns the error for a question that is not open: decided before, or unknown.
    pub(crate) fn no_such_question(&self, suspension_id: &str) -> Problem {
        let was_asked = self.events.iter().any(|event| match &event.event {
            Event::CallSuspended(asked) => asked.suspension_id == suspension_id,
            _ => false,
        });
        if !was_asked {
            return Problem::not_found("question");
        }
        let detail = format!("the question {} does not wait any longer", clean(suspension_id, 300));
        Problem::new(StatusCode::CONFLICT, "already_decided", detail)
    }
}

/// Checks that an answer fits the question's schema.
pub(crate) fn fits(asked: &Suspended, value: &Value) -> Result<(), Problem> {
    let unusable = |why: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "does_not_fit", why);
    let schema = asked.answer_schema().map_err(|why| unusable(why.to_string()))?;
    let violations = schema.map(|schema| schema.violations(value)).unwrap_or_default();
    if violations.is_empty() {
        return Ok(());
    }
    let described = tollgate_agent::schema::describe(&violations);
    let mut problem = unusable(format!("the answer does not fit the question's schema:\n{described}"));
    let errors = violations.iter().map(|v| json!({"pointer": v.pointer, "detail": v.problem})).collect();
    problem.members.insert("errors".to_owned(), Value::Array(errors));
    Err(problem)
}

/// Returns the problem for a request that the host refused.
pub(crate) fn refused(why: HostError) -> Problem {
    let (status, code) = match &why {
        HostError::Busy(_) => (StatusCode::CONFLICT, "thread_busy"),
        HostError::Waiting(_) => (StatusCode::CONFLICT, "thread_waiting"),
        HostError::Overloaded(_) => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
        HostError::Refused(_) => (StatusCode::UNPROCESSABLE_ENTITY, "refused"),
        HostError::Setup(_) | HostError::Store(_) | HostError::Run(_) => {
            return store_failed(why);
        }
    };
    let detail = match &why {
        // The error of the library names the thread as it is stored.
        HostError::Busy(_) => "another run of this thread is active; wait for it".to_owned(),
        why => why.to_string(),
    };
    Problem::new(status, code, detail)
}

/// Reports an internal failure to the operator. The client learns no details.
fn store_failed(why: impl std::fmt::Display) -> Problem {
    tracing::error!("a request failed: {why}");
    let detail = "the server could not read or write its store; see its log";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
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
pub(crate) fn name_ignored(response: &mut Response, ignored: &[String]) {
    let is_plain = |c: char| c == ' ' || c.is_ascii_graphic();
    let names: String = ignored.join(", ").chars().map(|c| if is_plain(c) { c } else { '?' }).collect();
    if let Ok(names) = HeaderValue::from_str(&names)
        && !ignored.is_empty()
    {
        response.headers_mut().insert(HeaderName::from_static("tollgate-ignored"), names);
    }
}

/// Returns whether a pattern with `*` matches a name.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, is_match) in [
            ("clerk", "clerk", true),
            ("clerk", "clerks", false),
            ("*", "clerk", true),
            ("find-*", "find-notes", true),
            ("find-*", "refind-notes", false),
            ("*-notes", "find-notes", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "ac", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, name), is_match, "{pattern} {name}");
        }
    }
}
