//! Runs, questions and outcomes as clients see them.

use crate::access::Principal;
use crate::load::WholeRecordPlace;
use crate::operations::VisibleRun;
use crate::problem::Problem;
use crate::state::{ServerState, Shared};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use tollgate::run::RunEnd;
use tollgate::store::RunSummary;
use tollgate_agent::context::client_thread_id;
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Event, RunStatus, RunUsage, StoredEvent, Task};
use utoipa::ToSchema;

/// A run in a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunListing {
    /// The run's id.
    pub run_id: String,
    /// The thread, as its principal names it.
    pub thread_id: String,
    /// The principal; absent if it was started without one, such as on the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The agent.
    pub agent: String,
    /// `prompt`, `call` for a direct call, `child` for a run that a call started.
    pub kind: String,
    /// The beginning of the prompt, or the tool's name.
    pub title: String,
    /// queued, running, interrupted, waiting, completed, blocked, stopped, cancelled or failed.
    pub status: String,
    /// The name of the host that drives it, if several hosts share the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The resources used; absent until the run has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageDocument>,
    /// The number of stored events.
    pub events: u64,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// When its last event was stored.
    pub updated_at_ms: u64,
}

/// A run.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunDocument {
    /// The run's id.
    pub run_id: String,
    /// The thread, as its principal names it.
    pub thread_id: String,
    /// The principal; absent if it was started without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The agent.
    pub agent: String,
    /// `prompt`, `call` for a direct call, `child` for a run that a call started.
    pub kind: String,
    /// The beginning of the prompt, or the tool's name.
    pub title: String,
    /// queued, running, interrupted, waiting, completed, blocked, stopped, cancelled or failed.
    pub status: String,
    /// The name of the host that drives it, if several hosts share the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Why it ended so: the gate's reason, the limit, the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The answer, or the last text if there is no answer.
    pub text: String,
    /// The outcome of a direct call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The questions that wait for a person.
    pub questions: Vec<QuestionDocument>,
    /// The ids of its child runs.
    pub children: Vec<String>,
    /// The run that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The resources used.
    pub usage: UsageDocument,
    /// The number of stored events.
    pub events: u64,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// When its last event was stored.
    pub updated_at_ms: u64,
}

impl RunDocument {
    /// Returns whether the run has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !matches!(self.status.as_str(), "queued" | "running" | "interrupted" | "waiting")
    }
}

/// The outcome of a direct call.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The tool answered, or a person in its place.
    Result(ResultDocument),
    /// There is no answer.
    Fault(FaultDocument),
}

/// A tool's answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct ResultDocument {
    /// Whether the tool reports that it failed.
    pub is_error: bool,
    /// The answer.
    #[schema(value_type = Value)]
    pub data: Value,
    /// A sentence beside the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Why a call has no answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct FaultDocument {
    /// The stable code.
    pub code: String,
    /// The message for people.
    pub message: String,
}

/// The resources that a run used.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub struct UsageDocument {
    /// Model turns, including those of children.
    pub turns: u32,
    /// Calls that the model requested.
    pub calls: u32,
    /// Tokens read, including those of children.
    pub input_tokens: u64,
    /// Tokens written, including those of children.
    pub output_tokens: u64,
    /// Units of wasm fuel.
    pub fuel: u64,
    /// Wall time of all attempts in microseconds.
    pub wall_us: u64,
    /// The most memory that one attempt held, in bytes.
    pub memory_bytes: u64,
    /// Whether the figures of attempts are lower bounds, because one was stopped from outside.
    pub at_least: bool,
}

impl From<&RunUsage> for UsageDocument {
    fn from(usage: &RunUsage) -> Self {
        let tokens = usage.all_tokens();
        Self {
            turns: usage.all_steps(),
            calls: usage.calls,
            input_tokens: tokens.input_tokens,
            output_tokens: tokens.output_tokens,
            fuel: usage.tools.fuel,
            wall_us: usage.tools.wall_us,
            memory_bytes: usage.tools.memory_bytes,
            at_least: usage.tools.at_least,
        }
    }
}

/// A question that waits for a person.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct QuestionDocument {
    /// The run that waits.
    pub run_id: String,
    /// The question's id.
    pub suspension_id: String,
    /// The call that waits.
    pub call_id: String,
    /// The principal of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The thread, as its principal names it.
    pub thread_id: String,
    /// The agent that asks: of a child run, the child's.
    pub agent: String,
    /// The tool that waits.
    pub tool: String,
    /// The gate that asks; absent if the tool itself asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The arguments of the call.
    #[schema(value_type = Value)]
    pub arguments: Box<RawValue>,
    /// The action that is waited for, such as `approve`.
    pub action: String,
    /// The question, in the asker's words.
    pub message: String,
    /// Values to show beside the question.
    #[schema(value_type = Value)]
    pub parameters: Box<RawValue>,
    /// The JSON Schema of the answer; absent if any answer fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub response_schema: Option<Value>,
    /// Since when it waits, in milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// Whether the credential of the request may answer it.
    pub may_decide: bool,
    /// The path to which an answer is sent.
    pub answer_path: String,
}

/// The state in which a run rests, with the parts of its record that the state does not keep.
pub(crate) struct FoldedRun {
    end: RunEnd,
    found: RecordDetails,
    /// The place of a large record among those that are in memory at a time.
    _place: Option<WholeRecordPlace>,
}

/// The parts of a record that the state of a run does not keep.
#[derive(Default)]
struct RecordDetails {
    /// The children that the run started.
    children: Vec<String>,
    /// When each question was asked, by its id.
    asked_at_ms: HashMap<String, u64>,
}

impl RecordDetails {
    fn visit(&mut self, stored: &StoredEvent) {
        match &stored.event {
            Event::ChildStarted { child_run_id, .. } => self.children.push(child_run_id.clone()),
            Event::CallSuspended(asked) => {
                self.asked_at_ms.insert(asked.suspension_id.clone(), stored.at_ms);
            }
            _ => {}
        }
    }
}

/// The size of a record that is read without a place, in bytes.
const SMALL_RECORD_BYTES: u64 = 256 * 1024;

/// Reads a run's record. A large one waits for a place of
/// [`Load::whole_record`](crate::load::Load::whole_record) and keeps it until the result is dropped, so the
/// caller must have none.
pub(crate) async fn folded(
    state: &ServerState,
    principal: &Principal,
    run_id: &str,
) -> Result<FoldedRun, Problem> {
    let place = match state.store().record_bytes(run_id).await? > SMALL_RECORD_BYTES {
        true => state.load.whole_record(&principal.name).await,
        false => None,
    };
    let mut found = RecordDetails::default();
    let (_, end) = state.host.run_and_end(run_id, |stored| found.visit(stored)).await?;
    Ok(FoldedRun { end, found, _place: place })
}

/// Returns a run as the principal sees it.
pub(crate) async fn run_document(
    state: &Shared,
    principal: &Principal,
    run: &VisibleRun,
) -> Result<RunDocument, Problem> {
    let summary = state.host.summary(&run.run_id).await?;
    let summary = summary.ok_or_else(|| Problem::not_found("run"))?;
    let folded = folded(state, principal, &run.run_id).await?;
    Ok(described(state, principal, run, summary, &folded))
}

/// Returns a direct call that has ended, from its end and the events that were stored meanwhile.
/// Reading the record instead would wait until the disk has it. `None` if the events are not the
/// whole record, or the call waits.
pub(crate) fn ended_call(
    state: &Shared,
    principal: &Principal,
    end: RunEnd,
    record: &[Arc<StoredEvent>],
) -> Option<RunDocument> {
    let (first, last) = (record.first()?, record.last()?);
    let Event::RunStarted { spec } = &first.event else { return None };
    let Task::Call { tool_name, .. } = &spec.task else { return None };
    let Event::RunFinished { status, .. } = &last.event else { return None };
    if last.number != record.len() as u64 {
        return None;
    }
    let mut found = RecordDetails::default();
    record.iter().for_each(|stored| found.visit(stored));
    let summary = RunSummary {
        run_id: end.run_id.to_string(),
        thread_id: end.thread_id.to_string(),
        agent_id: spec.identity.agent_id.to_string(),
        kind: "call".to_owned(),
        title: tool_name.to_string(),
        status: ended(status).0,
        events: last.number,
        started_at_ms: first.at_ms,
        updated_at_ms: last.at_ms,
        is_driven: false,
        queued: false,
        owner: None,
    };
    let visible = VisibleRun { run_id: summary.run_id.clone(), spec: Arc::clone(spec), is_own: true };
    let folded = FoldedRun { end, found, _place: None };
    Some(described(state, principal, &visible, summary, &folded))
}

fn described(
    state: &Shared,
    principal: &Principal,
    run: &VisibleRun,
    summary: RunSummary,
    folded: &FoldedRun,
) -> RunDocument {
    let (status, reason) = match &folded.end.status {
        Some(status) => ended(status),
        None => (summary.shown_status().to_owned(), None),
    };
    let identity = &run.spec.identity;
    RunDocument {
        thread_id: identity.client_thread_id().to_owned(),
        principal: identity.principal.as_ref().map(ToString::to_string),
        agent: identity.agent_id.to_string(),
        status,
        reason,
        text: folded.end.text.clone(),
        outcome: (summary.kind == "call").then(|| outcome(&folded.end)).flatten(),
        questions: questions(state, principal, run, folded),
        children: folded.found.children.clone(),
        parent_run_id: identity.parent_run_id.as_ref().map(ToString::to_string),
        usage: (&folded.end.usage).into(),
        host: summary.owner.map(|owner| owner.name),
        run_id: summary.run_id,
        kind: summary.kind,
        title: summary.title,
        events: summary.events,
        started_at_ms: summary.started_at_ms,
        updated_at_ms: summary.updated_at_ms,
    }
}

/// Returns a run in a list.
pub(crate) async fn run_listing(state: &ServerState, run: RunSummary) -> Result<RunListing, Problem> {
    let spec = state.store().run_spec(&run.run_id).await?;
    let usage = state.ended_usage(&run).await?;
    let principal = spec.and_then(|spec| spec.identity.principal.as_ref().map(ToString::to_string));
    Ok(RunListing {
        status: run.shown_status().to_owned(),
        thread_id: client_thread_id(&run.thread_id, principal.as_deref()).to_owned(),
        host: run.owner.map(|owner| owner.name),
        run_id: run.run_id,
        principal,
        agent: run.agent_id,
        kind: run.kind,
        title: run.title,
        usage: usage.as_ref().map(Into::into),
        events: run.events,
        started_at_ms: run.started_at_ms,
        updated_at_ms: run.updated_at_ms,
    })
}

/// Returns the open questions of a run.
pub(crate) fn questions(
    state: &ServerState,
    principal: &Principal,
    run: &VisibleRun,
    folded: &FoldedRun,
) -> Vec<QuestionDocument> {
    let is_root = run.spec.identity.parent_run_id.is_none();
    let since_ms = |asked: &SuspendedCall| {
        folded.found.asked_at_ms.get(&asked.suspension_id).copied().unwrap_or_default()
    };
    let may_decide = |asked: &SuspendedCall| is_root && state.may_answer(principal, run, asked).is_ok();
    folded.end.waiting.iter().map(|asked| question(run, asked, since_ms(asked), may_decide(asked))).collect()
}

fn question(run: &VisibleRun, asked: &SuspendedCall, since_ms: u64, may_decide: bool) -> QuestionDocument {
    let identity = &run.spec.identity;
    let (agent, tool, arguments) = match &asked.child {
        Some(child) => (child.agent_id.clone(), child.tool_name.to_string(), &child.arguments),
        None => (identity.agent_id.to_string(), asked.tool_name.to_string(), &asked.arguments),
    };
    let ticket = &asked.ticket;
    QuestionDocument {
        run_id: run.run_id.clone(),
        suspension_id: asked.suspension_id.clone(),
        call_id: asked.call_id.to_string(),
        principal: identity.principal.as_ref().map(ToString::to_string),
        thread_id: identity.client_thread_id().to_owned(),
        agent,
        tool,
        gate: asked.gate.as_ref().map(ToString::to_string),
        // As text: parsed values take up to a hundred times as much memory.
        arguments: to_raw_value(arguments).unwrap_or_default(),
        action: ticket.action.clone(),
        message: ticket.message.clone(),
        parameters: to_raw_value(&ticket.parameters).unwrap_or_default(),
        response_schema: ticket.response_schema.clone(),
        since_ms,
        may_decide,
        answer_path: format!("/api/v1/runs/{}/questions/{}", run.run_id, encoded(&asked.suspension_id)),
    }
}

/// Encodes a segment of a path.
fn encoded(segment: &str) -> String {
    let mut path = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                path.push(char::from(byte))
            }
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// Returns the outcome of a direct call that has ended.
pub(crate) fn outcome(end: &RunEnd) -> Option<Outcome> {
    use tollgate_agent::outcome::ToolStatus;
    use tollgate_agent::run::CallEnd;
    let finished = end.last_call.as_ref()?;
    Some(match &finished.end {
        CallEnd::Result(result) => Outcome::Result(ResultDocument {
            is_error: matches!(result.status, ToolStatus::Error),
            data: json!(result.data),
            message: result.message.clone(),
        }),
        CallEnd::Fault(fault) => Outcome::Fault(FaultDocument {
            code: fault.code.as_str().to_owned(),
            message: fault.message.clone(),
        }),
    })
}

fn ended(status: &RunStatus) -> (String, Option<String>) {
    let (status, reason) = match status {
        RunStatus::Completed => ("completed", None),
        RunStatus::Blocked { reason } => ("blocked", Some(reason)),
        RunStatus::Stopped { limit } => ("stopped", Some(limit)),
        RunStatus::Cancelled { reason } => ("cancelled", Some(reason)),
        RunStatus::Failed { error } => ("failed", Some(error)),
    };
    (status.to_owned(), reason.cloned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Scope;
    use crate::access::AccessDatabase;
    use crate::state::ServerOptions;
    use std::time::Duration;
    use tokio::time::timeout;
    use tollgate::config::ServeConfig;
    use tollgate::{CallRequest, FnTool, Host, SqliteStore};
    use tollgate_agent::outcome::Usage;

    /// A backstop for waits that would otherwise hang.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test(flavor = "multi_thread")]
    async fn z3_large_records_are_read_four_at_a_time_and_small_ones_at_once() {
        let echo = FnTool::new("echo", "echo", "Echoes.", |arguments: Value, _| async move { arguments });
        let data = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(data.path()).unwrap());
        let host = Host::builder().tool(echo).store(store).build().unwrap();
        let call = async |bytes: usize| {
            let arguments = json!({"text": "x".repeat(bytes)}).to_string();
            host.call(CallRequest::from_json("echo", arguments)).await.unwrap().run_id
        };
        let (small, large) = (call(10).await, call(300 << 10).await);
        let access = AccessDatabase::open(data.path()).unwrap();
        let state = ServerState::new(host, access, ServeConfig::default(), ServerOptions::default());
        let [ada, eve, ian] = ["ada", "eve", "ian"].map(|name| Principal::new(name, [Scope::Use]));
        let mut held = Vec::new();
        for principal in [&ada, &ada, &eve, &eve] {
            held.push(timeout(PATIENCE, folded(&state, principal, &large)).await.unwrap().unwrap());
        }
        let fifth = timeout(Duration::from_millis(100), folded(&state, &ian, &large)).await;
        assert!(fifth.is_err(), "four are in memory");
        assert!(timeout(PATIENCE, folded(&state, &ian, &small)).await.unwrap().is_ok());
        held.pop();
        assert!(timeout(PATIENCE, folded(&state, &ian, &large)).await.unwrap().is_ok());
    }

    #[test]
    fn z21_the_usage_of_a_call_that_was_cut_is_marked_for_clients() {
        let cut = RunUsage { tools: Usage { at_least: true, ..Usage::default() }, ..RunUsage::default() };
        assert!(UsageDocument::from(&cut).at_least);
        assert!(!UsageDocument::from(&RunUsage::default()).at_least);
    }
}
