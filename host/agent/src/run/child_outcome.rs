//! The outcome of a child for the call that requested it: its status, its answer, the keys that it
//! returns, and the question for which it waits.

use super::child_plan::ChildEnd;
use super::facts::RunStatus;
use super::{Phase, Run};
use crate::child::{ChildOutcome, ChildStatus, MAX_CHILD_TEXT_BYTES};
use crate::json::{self, JsonError};
use crate::question::ChildQuestion;
use crate::schema::{Schema, SchemaError, Violation, describe};
use crate::state::{KeyDefinition, KeyScope, KeySet};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The reason why a run's answer does not have the shape that its agent promises.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OutputError {
    /// The answer is not JSON.
    #[error("its answer is not the JSON asked for: {0}")]
    NotJson(#[from] JsonError),
    /// The schema of the agent is refused.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The answer violates the schema.
    #[error("its answer does not fit its schema:\n{}", describe(.0))]
    DoesNotFit(Vec<Violation>),
}

impl Run {
    /// Returns the status of a run that ended or waits, for its requester.
    #[must_use]
    pub fn child_status(&self) -> ChildStatus {
        match &self.phase {
            Phase::Finished(RunStatus::Completed) => ChildStatus::Completed,
            Phase::Finished(RunStatus::Stopped { limit }) => match limit.as_str() {
                "stop_on_tools" | "stop_on_texts" => ChildStatus::Completed,
                "wall_ms" => ChildStatus::Timeout,
                limit => ChildStatus::Failed(format!("it reached its limit {limit}")),
            },
            Phase::Finished(RunStatus::Cancelled { .. }) => ChildStatus::Cancelled,
            Phase::Finished(RunStatus::Blocked { reason }) => {
                ChildStatus::Failed(format!("it was blocked: {reason}"))
            }
            Phase::Finished(RunStatus::Failed { error }) => ChildStatus::Failed(error.clone()),
            Phase::Waiting => {
                let first = self.open_questions().next();
                ChildStatus::Suspended(first.map(|question| question.ticket.message.clone()))
            }
            Phase::New | Phase::Asking | Phase::Calling => ChildStatus::Failed("it did not end".to_owned()),
        }
    }

    /// Returns the outcome for the requester of this run, now that it ended or waits.
    #[must_use]
    pub fn child_outcome(&self, keys: &KeySet, exports: &[String]) -> ChildOutcome {
        let mut status = self.child_status();
        let output = if matches!(status, ChildStatus::Completed) { self.output() } else { Ok(None) };
        let output = output.unwrap_or_else(|why| {
            status = ChildStatus::Failed(why.to_string());
            None
        });
        let mut response = self.last_text.clone();
        if response.len() > MAX_CHILD_TEXT_BYTES {
            crate::text::cut(&mut response, MAX_CHILD_TEXT_BYTES);
        }
        let snapshot = self.state.snapshot();
        // The values are shared: a request may name a key of many megabytes a thousand times.
        let exported = |scope: KeyScope| -> BTreeMap<String, Arc<Value>> {
            let wanted = exports.iter().filter_map(|key| Some((key, keys.get(key)?)));
            let of_scope = wanted.filter(|(_, definition)| definition.scope == scope);
            let value_of = |(key, definition): (&String, &KeyDefinition)| {
                (key.clone(), Arc::clone(snapshot.shared(key).unwrap_or(&definition.initial)))
            };
            of_scope.map(value_of).collect()
        };
        let has_state = self.spec.agent.backend.state;
        ChildOutcome {
            run_id: self.spec.identity.run_id.to_string(),
            status,
            response: Some(response).filter(|text| !text.is_empty()),
            streamed: self.streamed_text.clone(),
            output,
            steps: self.usage.all_steps(),
            state: has_state.then(|| exported(KeyScope::Run)),
            thread_state: has_state.then(|| exported(KeyScope::Thread)),
            escalated: self.escalated,
        }
    }

    /// Returns the end of this run for its parent's record.
    #[must_use]
    pub fn child_end(&self, status: ChildStatus) -> ChildEnd {
        let question = self.open_questions().next().map(|asked| {
            Box::new(ChildQuestion {
                run_id: self.spec.identity.run_id.to_string(),
                agent_id: self.spec.identity.agent_id.to_string(),
                call_id: asked.call_id.clone(),
                suspension_id: asked.suspension_id.clone(),
                gate: asked.asking_gate().cloned(),
                tool_name: asked.tool_name.clone(),
                arguments: asked.arguments.clone(),
                ticket: asked.ticket.clone(),
            })
        });
        match question.filter(|_| self.phase == Phase::Waiting) {
            Some(question) => ChildEnd::Waiting(question),
            None => {
                ChildEnd::Ended { status, steps: self.usage.all_steps(), tokens: self.usage.all_tokens() }
            }
        }
    }

    /// Returns the memory in bytes that [`child_outcome`](Self::child_outcome) takes at most to parse the
    /// answer; 0 if it does not parse it.
    #[must_use]
    pub fn output_bytes(&self) -> u64 {
        if self.spec.agent.output.is_none() || !matches!(self.child_status(), ChildStatus::Completed) {
            return 0;
        }
        let measure = json::measure(self.last_text.as_bytes());
        // An answer of more values is refused.
        if measure.nodes > json::MAX_NODES { 0 } else { measure.parsed_bytes }
    }

    /// Returns the run's answer in the shape of its agent's schema, if there is one.
    ///
    /// # Errors
    /// The answer is not valid JSON, or does not fit the schema.
    pub fn output(&self) -> Result<Option<Value>, OutputError> {
        let Some(schema) = &self.spec.agent.output else { return Ok(None) };
        let text = self.last_text.trim();
        let fenced = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
        let text = fenced.map_or(text, |inner| inner.trim_start_matches("json").trim());
        let value = json::parse(text)?;
        let compiled = Schema::compile(schema)?;
        let violations = compiled.violations(&value);
        match violations.is_empty() {
            true => Ok(Some(value)),
            false => Err(OutputError::DoesNotFit(violations)),
        }
    }
}
