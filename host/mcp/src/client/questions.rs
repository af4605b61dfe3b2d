//! Questions of a server to a person during a call. The call is suspended with the question and
//! made again with the answer. The server then asks the same question again, and is answered.

use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequiredResult, InputResponses,
};
use serde_json::Value;
use tollgate::blocking::block_in_place;
use tollgate_agent::context::Resumption;
use tollgate_agent::outcome::{ResumeMode, Ticket};
use tollgate_agent::schema::Schema;
use tollgate_agent::text::clean;

/// The action of a server's question.
const ACTION: &str = "elicit";

/// A person's answer to a server, and its question.
#[derive(Debug, Clone, Default)]
pub(super) enum AnsweredQuestion {
    /// No question was asked.
    #[default]
    None,
    /// The answer waits for its question.
    Waiting { message: String, value: Value },
    /// The answer was given, or the server asked something else. It gets no further answer.
    Given,
}

impl AnsweredQuestion {
    /// Returns the decision; `None` if it was about something other than a question of this
    /// server, such as whether the call may run at all.
    pub(super) fn of(server: &str, resumption: &Resumption) -> Self {
        if resumption.action != ACTION || !resumption.message.starts_with(&opening(server)) {
            return Self::None;
        }
        Self::Waiting { message: resumption.message.clone(), value: resumption.value.clone() }
    }
}

/// Returns the beginning of every question of a server.
fn opening(server: &str) -> String {
    format!("The server '{server}' asks: ")
}

/// The result of a question.
#[derive(Debug)]
pub(super) enum QuestionMatch {
    /// It was answered before.
    Answered(Value),
    /// It is new: the call is suspended with this.
    New(Ticket),
    /// A person answered another question than this.
    Other,
    /// A person cannot be asked this here.
    NotAForm,
}

/// Resolves a question of the server against the decision. An answer is given once, and only to
/// its own question: one with the same text, for which it is valid. Later questions get no
/// answer.
pub(super) fn asked(
    server: &str,
    params: &ElicitRequestParams,
    decided: &mut AnsweredQuestion,
) -> QuestionMatch {
    let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = params else {
        return QuestionMatch::NotAForm;
    };
    // A question that is too long is refused when the call is suspended.
    let message = opening(server) + &clean(message, usize::MAX);
    let response_schema = serde_json::to_value(requested_schema).ok();
    if let AnsweredQuestion::None = decided {
        return QuestionMatch::New(Ticket {
            action: ACTION.to_owned(),
            message,
            parameters: Value::Null,
            response_schema,
            resume_mode: ResumeMode::ReplayToolCall,
        });
    }
    match std::mem::replace(decided, AnsweredQuestion::Given) {
        AnsweredQuestion::Waiting { message: decided, value }
            if decided == message && fits(response_schema.as_ref(), &value) =>
        {
            QuestionMatch::Answered(value)
        }
        _ => QuestionMatch::Other,
    }
}

fn fits(schema: Option<&Value>, value: &Value) -> bool {
    let check = |schema| Schema::compile(schema).is_ok_and(|schema| schema.violations(value).is_empty());
    schema.is_none_or(|schema| block_in_place(|| check(schema)))
}

/// The next step of a call whose answer lists required input.
#[derive(Debug)]
pub(super) enum InputStep {
    /// Wait for a person.
    Suspend(Ticket),
    /// Repeat the call with these inputs.
    Again(Option<InputResponses>, Option<String>),
    /// Fail, with a reason as a clause without a period.
    Fail(String),
}

/// Returns the next step after an answer that lists required input.
pub(super) fn next(server: &str, required: InputRequiredResult, decided: &mut AnsweredQuestion) -> InputStep {
    let mut requests = required.input_requests.unwrap_or_default().into_iter();
    let Some((id, request)) = requests.next() else {
        return InputStep::Again(None, required.request_state);
    };
    let InputRequest::Elicitation(request) = request else {
        return InputStep::Fail(
            "it asked for input that only a model or a client's files can provide".to_owned(),
        );
    };
    if requests.next().is_some() {
        return InputStep::Fail(
            "it asked a person several questions at once; only one is supported".to_owned(),
        );
    }
    match asked(server, &request.params, decided) {
        QuestionMatch::New(ticket) => InputStep::Suspend(ticket),
        QuestionMatch::Other => InputStep::Fail(OTHER.to_owned()),
        QuestionMatch::NotAForm => {
            InputStep::Fail("it asked a person for something other than a form".to_owned())
        }
        QuestionMatch::Answered(value) => {
            let answer = ElicitResult::new(ElicitationAction::Accept).with_content(value);
            match serde_json::to_value(answer) {
                Ok(answer) => InputStep::Again(Some([(id, answer)].into()), required.request_state),
                Err(e) => InputStep::Fail(format!("the answer cannot be sent: {e}")),
            }
        }
    }
}

/// The reason why a call fails if its server asks something else than before, or more: a clause
/// without a period.
pub(super) const OTHER: &str = "its call was made again with a person's answer, and it asked something else, or once more; it may ask one question in a call";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use serde_json::json;

    fn form_of(message: &str, schema: Value) -> ElicitRequestParams {
        serde_json::from_value(json!({"mode": "form", "message": message, "requestedSchema": schema}))
            .unwrap()
    }

    fn form(message: &str) -> ElicitRequestParams {
        form_of(message, json!({"type": "object", "properties": {}}))
    }

    fn resumption(action: &str, message: &str) -> Resumption {
        serde_json::from_value(json!({
            "suspension_id": "c/1", "action": action, "message": message, "decision_id": "d",
            "value": {"ok": true}, "decided_at_ms": 0,
        }))
        .unwrap()
    }

    #[test]
    fn an_answer_is_given_once_and_to_its_question() {
        let QuestionMatch::New(ticket) = asked("s", &form("One?"), &mut AnsweredQuestion::None) else {
            panic!("no person answered")
        };
        let given = || AnsweredQuestion::of("s", &resumption(&ticket.action, &ticket.message));
        let mut decided = given();
        let first = asked("s", &form("One?"), &mut decided);
        assert!(matches!(first, QuestionMatch::Answered(value) if value == json!({"ok": true})));
        for next in ["One?", "Two?"] {
            assert!(
                matches!(asked("s", &form(next), &mut decided), QuestionMatch::Other),
                "{next}: it was given"
            );
        }
        let mut decided = given();
        for next in ["Two?", "One?"] {
            assert!(matches!(asked("s", &form(next), &mut decided), QuestionMatch::Other), "{next}");
        }
        let number = json!({"type": "object", "properties": {"ok": {"type": "number"}}, "required": ["ok"]});
        let other = asked("s", &form_of("One?", number), &mut given());
        assert!(matches!(other, QuestionMatch::Other), "it does not answer this");
    }

    #[test]
    fn what_was_decided_about_something_else_is_no_answer() {
        for (action, message) in
            [("confirm", "May it run?"), ("elicit", "May it run?"), ("confirm", "The server 's' asks: One?")]
        {
            let decided = AnsweredQuestion::of("s", &resumption(action, message));
            assert!(matches!(decided, AnsweredQuestion::None), "{action}: {message}");
        }
        let decided = AnsweredQuestion::of("t", &resumption("elicit", "The server 's' asks: One?"));
        assert!(matches!(decided, AnsweredQuestion::None));
    }
}
