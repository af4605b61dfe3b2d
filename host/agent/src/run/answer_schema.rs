//! The schema of the answer to a question, compiled once.

use super::event::Suspended;
use crate::schema::{Schema, SchemaError};
use std::sync::{Arc, OnceLock};

impl Suspended {
    /// Returns the schema that an answer has to fit; `None` if any answer fits. The schema is
    /// compiled at most once per process.
    ///
    /// # Errors
    /// The schema comes from a record of another version and is rejected.
    pub fn answer_schema(&self) -> Result<Option<&Schema>, &SchemaError> {
        let Some(schema) = &self.ticket.response_schema else { return Ok(None) };
        self.answer.compiled.get_or_init(|| Schema::compile(schema)).as_ref().map(Some)
    }
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
    use serde_json::{Value, json};

    fn asks(response_schema: Value) -> Suspended {
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
