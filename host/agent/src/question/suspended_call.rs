//! A question to a person as the host records it, and the schema of its answer.

use crate::catalog::ToolVersion;
use crate::outcome::{Ticket, Usage};
use crate::proposal::Arguments;
use crate::schema::{Schema, SchemaError, Violation};
use crate::state::StateChange;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;
use std::sync::{Arc, OnceLock};

/// A question to a person, stamped by the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SuspendedCall {
    /// The call.
    pub call_id: SmolStr,
    /// The id of the suspension, unique within the run.
    pub suspension_id: String,
    /// The tool's name, stamped by the host.
    pub tool_name: SmolStr,
    /// The call's arguments, stamped by the host. The record holds them in the event that proposed
    /// the call or decided about it.
    #[serde(skip)]
    pub arguments: Option<Arguments>,
    /// The question.
    pub ticket: Ticket,
    /// The version of the tool that is to continue. A tool of another version asks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ToolVersion>,
    /// The gate that asks; `None` if the tool itself asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<SmolStr>,
    /// The child that asks and receives the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Box<ChildQuestion>>,
    /// Changes that the call made before it asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<StateChange>,
    /// Resources used by the last attempt.
    #[serde(default)]
    pub usage: Usage,
    /// The compiled schema of the answer. It is not part of the record.
    #[serde(skip)]
    pub answer: AnswerSchema,
}

impl SuspendedCall {
    /// Returns the gate that asks, in this run or in a run below it; `None` if a tool asks.
    #[must_use]
    pub fn asking_gate(&self) -> Option<&SmolStr> {
        self.gate.as_ref().or_else(|| self.child.as_ref()?.gate.as_ref())
    }

    /// Returns the arguments of the call that asks, in this run or in a run below it; `None` if they are not
    /// acceptable JSON.
    #[must_use]
    pub fn asking_arguments(&self) -> Option<&Arguments> {
        match &self.child {
            Some(child) => child.arguments.as_ref(),
            None => self.arguments.as_ref(),
        }
    }

    /// Returns the schema that an answer has to fit; `None` if any answer fits. The schema is
    /// compiled at most once per process.
    ///
    /// # Errors
    /// The schema comes from a record of another version and is rejected.
    pub fn answer_schema(&self) -> Result<Option<&Schema>, &SchemaError> {
        let Some(schema) = &self.ticket.response_schema else { return Ok(None) };
        self.answer.compiled.get_or_init(|| Schema::compile(schema)).as_ref().map(Some)
    }

    /// Returns the violations of that schema by an answer. Compiling the schema and checking the answer
    /// may take a second.
    ///
    /// # Errors
    /// Same as [`answer_schema`](Self::answer_schema).
    pub fn violations(&self, answer: &Value) -> Result<Vec<Violation>, &SchemaError> {
        Ok(self.answer_schema()?.map(|schema| schema.violations(answer)).unwrap_or_default())
    }
}

/// A question that a child run asks a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildQuestion {
    /// The child's run.
    pub run_id: String,
    /// The child's agent.
    pub agent_id: String,
    /// The child's waiting call.
    pub call_id: SmolStr,
    /// The id of the suspension in the child's run.
    pub suspension_id: String,
    /// The gate that asks in the child, or below it; `None` if a tool asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<SmolStr>,
    /// The name of the waiting tool, stamped by the host.
    pub tool_name: SmolStr,
    /// The arguments of that tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arguments>,
    /// The question.
    pub ticket: Ticket,
}

/// The schema of the answer to a question, compiled on first use.
#[derive(Debug, Clone, Default)]
pub struct AnswerSchema {
    compiled: Arc<OnceLock<Result<Schema, SchemaError>>>,
}

impl From<Schema> for AnswerSchema {
    fn from(schema: Schema) -> Self {
        Self { compiled: Arc::new(OnceLock::from(Ok(schema))) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn asks(response_schema: Value) -> SuspendedCall {
        serde_json::from_value(json!({
            "call_id": "c", "suspension_id": "c/1", "tool_name": "t",
            "ticket": {"action": "a", "message": "m", "response_schema": response_schema, "resume_mode": "replay-tool-call"},
        }))
        .unwrap()
    }

    #[test]
    fn z2_the_schema_of_a_ticket_is_compiled_once() {
        let asked = asks(json!({"pattern": "^yes$"}));
        let first = asked.answer_schema().unwrap().unwrap();
        assert!(first.violations(&json!("yes")).is_empty());
        let again = asked.clone();
        assert!(std::ptr::eq(first, again.answer_schema().unwrap().unwrap()));
        assert!(asks(json!({"pattern": "(a{1000}){1000}"})).answer_schema().is_err());
    }
}
