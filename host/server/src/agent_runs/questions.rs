//! The calls of a run and their open questions, folded from its record.

use serde_json::Value;
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::json;
use tollgate_agent::proposal::Arguments;
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{DecisionAnswer, Event};

/// The maximum number of values in arguments that are sent as JSON.
const MAX_SENT_VALUES: usize = 1_000;

/// Returns the arguments of a call as clients receive them. Those of many values are sent as text: parsed, they
/// would take up to a hundred times their memory.
pub(crate) fn sent_arguments(arguments: Option<&Arguments>) -> Value {
    match arguments {
        None => Value::Null,
        Some(arguments) if json::measure(arguments.text().as_bytes()).nodes <= MAX_SENT_VALUES => {
            arguments.to_value().into_owned()
        }
        Some(arguments) => Value::from(arguments.text()),
    }
}

/// A call of the current turn.
#[derive(Debug, Clone)]
pub(crate) struct KnownCall {
    /// The call's id, unique in its run.
    pub(crate) id: SmolStr,
    /// The tool's name.
    pub(crate) tool_name: SmolStr,
    /// The id of the tool's owner; `None` if the tool is unknown.
    pub(crate) owner: Option<SmolStr>,
    /// The arguments; `None` if they are not acceptable JSON.
    pub(crate) arguments: Option<Arguments>,
    /// The question that waits for a person.
    pub(crate) question: Option<Arc<SuspendedCall>>,
    /// The id of the last suspension that a person answered.
    pub(crate) answered: Option<SmolStr>,
    /// Whether that person cancelled the call.
    pub(crate) is_refused: bool,
    ended: bool,
}

impl KnownCall {
    /// Returns the arguments as JSON text; `{}` if there are none.
    pub(crate) fn arguments_text(&self) -> &str {
        self.arguments.as_ref().map_or("{}", Arguments::text)
    }
}

/// The calls of the current turn, in the order in which the model asked for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Vec<KnownCall>);

impl Calls {
    /// Folds in one event.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::CallProposed(proposed) => {
                // Calls of earlier turns have ended and are no longer needed.
                if self.0.iter().all(|call| call.ended) {
                    self.0.clear();
                }
                self.0.push(KnownCall {
                    id: proposed.call_id.clone(),
                    tool_name: proposed.tool_name.clone(),
                    owner: proposed.owner.as_ref().map(|owner| owner.id.clone()),
                    arguments: proposed.arguments.clone(),
                    question: None,
                    answered: None,
                    is_refused: false,
                    ended: false,
                });
            }
            Event::CallSuspended(asked) => {
                if let Some(call) = self.get_mut(&asked.call_id) {
                    call.question = Some(Arc::new((**asked).clone()));
                }
            }
            Event::CallDecided { call_id, decision, .. } => {
                if let Some(call) = self.get_mut(call_id) {
                    let asked = call.question.take();
                    call.is_refused = decision.answer == DecisionAnswer::Cancel;
                    call.answered = asked.map(|asked| SmolStr::new(&asked.suspension_id));
                }
            }
            Event::CallFinished(finished) => {
                if let Some(call) = self.get_mut(&finished.call_id) {
                    (call.question, call.ended) = (None, true);
                }
            }
            _ => {}
        }
    }

    /// Returns a call of the current turn.
    pub(crate) fn get(&self, call_id: &str) -> Option<&KnownCall> {
        self.0.iter().find(|call| call.id == call_id)
    }

    fn get_mut(&mut self, call_id: &str) -> Option<&mut KnownCall> {
        self.0.iter_mut().find(|call| call.id == call_id)
    }

    /// Returns the calls that wait for a person, each with its question.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&KnownCall, &Arc<SuspendedCall>)> {
        self.0.iter().filter_map(|call| Some((call, call.question.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn z3_arguments_of_many_values_are_sent_as_text() {
        let text = |values: usize| format!(r#"{{"a":[{}0]}}"#, "0,".repeat(values));
        let sent = |text: &str| sent_arguments(Some(&Arguments::read(text).unwrap()));
        assert_eq!(sent(&text(100))["a"][100], 0);
        assert_eq!(sent(&text(MAX_SENT_VALUES)), Value::from(text(MAX_SENT_VALUES)));
        assert_eq!(sent_arguments(None), Value::Null);
    }
}
