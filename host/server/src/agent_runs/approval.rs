//! Approvals: decisions of clients that know only yes and no.

use super::fits;
use crate::problem::Problem;
use serde_json::{Value, json};
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Decision, DecisionAnswer};

/// A yes or no to a question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Approval {
    /// The suspension id.
    pub(crate) question: String,
    pub(crate) approves: bool,
    pub(crate) reason: Option<String>,
}

/// Returns the decision that means yes or no to this question. A yes is `true`, or
/// `{"approved": true}` if the question's schema accepts only that. A no cancels the call.
///
/// # Errors
/// The question needs another answer than a yes.
pub(crate) fn approval(
    asked: &SuspendedCall,
    approves: bool,
    reason: Option<String>,
) -> Result<Decision, Problem> {
    let decision = match approves {
        false => Decision::cancel(&asked.suspension_id),
        true => {
            let answers = [Value::Bool(true), json!({"approved": true})];
            let answer = answers.into_iter().find(|answer| fits(asked, answer).is_ok());
            let Some(answer) = answer else {
                fits(asked, &Value::Bool(true))?;
                return Err(Problem::not_found("answer"));
            };
            Decision::resume(&asked.suspension_id, answer)
        }
    };
    Ok(Decision { reason, ..decision })
}

/// Returns the same decision with an id that depends on its content, so that a repeated request
/// changes nothing.
pub(crate) fn repeatable(decision: Decision, run_id: &str) -> Decision {
    use sha2::{Digest, Sha256};
    let answer = match &decision.answer {
        DecisionAnswer::Resume(value) => value.to_string(),
        DecisionAnswer::Cancel => "cancel".to_owned(),
    };
    let mut digest = Sha256::new();
    for part in [run_id, &decision.target, &answer] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let id = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>();
    Decision { id, ..decision }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(schema: Value) -> SuspendedCall {
        let ticket = json!({
            "action": "a", "message": "m", "response_schema": schema, "resume_mode": "replay-tool-call",
        });
        let asked = json!({"call_id": "c", "suspension_id": "c/1", "tool_name": "t", "ticket": ticket});
        serde_json::from_value(asked).expect("it is a question")
    }

    #[test]
    fn a_yes_is_what_the_schema_accepts() {
        let answer = |schema| approval(&asks(schema), true, None).map(|decision| decision.answer);
        assert_eq!(answer(json!(true)), Ok(DecisionAnswer::Resume(json!(true))));
        let object = json!({"type": "object", "required": ["approved"]});
        assert_eq!(answer(object), Ok(DecisionAnswer::Resume(json!({"approved": true}))));
        let refused = answer(json!({"type": "string"})).expect_err("a yes is no text");
        assert_eq!(refused.code, "does_not_fit");
        let no = approval(&asks(json!({"type": "string"})), false, Some("no".to_owned()));
        assert_eq!(no.map(|no| (no.answer, no.reason)), Ok((DecisionAnswer::Cancel, Some("no".to_owned()))));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn z1_checking_an_answer_does_not_hold_up_other_requests() {
        // Each element is compared with each number before it fits.
        let numbers = (1..40).map(|number| json!({"const": number}));
        let schema = json!({"items": {"anyOf": numbers.chain([json!({})]).collect::<Vec<_>>()}});
        let (asked, answer) = (asks(schema), json!(vec![0; 100_000]));
        let (sender, receiver) = std::sync::mpsc::channel();
        let checking = tokio::spawn(async move {
            drop(tokio::spawn(async move { sender.send(()) }));
            drop(fits(&asked, &answer));
            receiver.try_recv()
        });
        assert_eq!(checking.await.expect("it does not panic"), Ok(()), "the other request ran meanwhile");
    }

    #[test]
    fn repeated_decisions_have_one_id() {
        let yes = |target: &str| repeatable(Decision::resume(target, true), "run").id;
        assert_eq!(yes("a"), yes("a"));
        assert_ne!(yes("a"), yes("b"));
        assert_ne!(yes("a"), repeatable(Decision::cancel("a"), "run").id);
    }
}
