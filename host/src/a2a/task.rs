//! A remote task as the server describes it, cleaned and bounded.

use crate::blocking::block_in_place;
use serde_json::{Value, json};
use tollgate_agent::context::Resumption;
use tollgate_agent::json::written_bytes;
use tollgate_agent::outcome::{ResumeMode, Ticket};
use tollgate_agent::schema::Schema;
use tollgate_agent::text::{clean, one_line};

/// The longest id that a remote server may give a task, a context or a tenant, in bytes.
pub(super) const MAX_ID_BYTES: usize = 256;
/// The longest answer of a remote agent, in bytes. It always fits the result of a call.
pub(super) const MAX_TEXT_BYTES: usize = 32 * 1024;
/// The most artifacts of one task.
const MAX_ARTIFACTS: usize = 64;
/// The longest status message, in bytes.
const MAX_WORDS_BYTES: usize = 2_000;
/// The largest schema of an answer, as JSON, in bytes.
const MAX_SCHEMA_BYTES: usize = 16 * 1024;
/// The action of a question that a person answers here.
const INPUT: &str = "remote-input";
/// The action of a question that is decided at the remote server.
const AUTHORIZATION: &str = "remote-authorization";

/// The state of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum TaskState {
    #[default]
    Working,
    InputRequired,
    AuthRequired,
    Completed,
    Failed,
    Cancelled,
    Rejected,
}

/// A task as its updates have described it so far.
#[derive(Debug, Clone, Default)]
pub(super) struct RemoteState {
    pub(super) task_id: String,
    pub(super) context_id: Option<String>,
    pub(super) state: TaskState,
    /// The message of its status, cleaned.
    words: String,
    /// The first question of a server that lists its questions as Tollgate does.
    listed: Option<Value>,
    /// Ids and texts, in the order in which they came.
    artifacts: Vec<(String, String)>,
    /// Whether text was left out.
    is_cut: bool,
}

/// New output to show while the task works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Progress(String),
}

impl RemoteState {
    /// Returns whether the task has ended or waits.
    pub(super) fn is_at_rest(&self) -> bool {
        self.state != TaskState::Working
    }

    /// Applies a task, or an update of one. Returns what is new.
    pub(super) fn apply(&mut self, update: &Value) -> Option<Piece> {
        if let Some(task) = update.get("task") {
            let shown = self.text();
            self.task_id = task["id"].as_str().unwrap_or_default().to_owned();
            self.context_id = task["contextId"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
            self.artifacts.clear();
            self.is_cut = false;
            for artifact in task["artifacts"].as_array().map(Vec::as_slice).unwrap_or_default() {
                self.add(artifact, false);
            }
            self.status(&task["status"]);
            let text = self.text();
            let new = text.strip_prefix(shown.as_str()).unwrap_or(&text);
            return Some(Piece::Text(new.to_owned())).filter(|_| !new.is_empty());
        }
        if let Some(update) = update.get("artifactUpdate") {
            return self.add(&update["artifact"], update["append"] == true).map(Piece::Text);
        }
        let update = update.get("statusUpdate")?;
        self.status(&update["status"]);
        let is_progress = self.state == TaskState::Working && !self.words.is_empty();
        is_progress.then(|| Piece::Progress(one_line(&self.words, MAX_WORDS_BYTES)))
    }

    fn status(&mut self, status: &Value) {
        self.state = match status["state"].as_str().unwrap_or_default() {
            "TASK_STATE_INPUT_REQUIRED" => TaskState::InputRequired,
            "TASK_STATE_AUTH_REQUIRED" => TaskState::AuthRequired,
            "TASK_STATE_COMPLETED" => TaskState::Completed,
            "TASK_STATE_FAILED" => TaskState::Failed,
            "TASK_STATE_CANCELED" => TaskState::Cancelled,
            "TASK_STATE_REJECTED" => TaskState::Rejected,
            _ => TaskState::Working,
        };
        self.words = clean(&text_of(&status["message"]), MAX_WORDS_BYTES);
        let parts = status["message"]["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        let questions = parts.iter().find_map(|part| part["data"]["questions"].as_array());
        let is_input =
            |question: &&Value| question["gate"].is_null() && question["suspension_id"].is_string();
        self.listed = questions.and_then(|questions| questions.iter().find(is_input)).and_then(listed);
    }

    /// Adds an artifact, or more of one. Returns the new text.
    fn add(&mut self, artifact: &Value, append: bool) -> Option<String> {
        let id = one_line(artifact["artifactId"].as_str().unwrap_or_default(), MAX_ID_BYTES);
        let mut text = text_of(artifact);
        let known = self.artifacts.iter().position(|(known, _)| *known == id);
        if let Some(at) = known
            && !append
        {
            self.artifacts[at].1.clear();
        }
        let room = match known {
            None if self.artifacts.len() >= MAX_ARTIFACTS => 0,
            _ => MAX_TEXT_BYTES.saturating_sub(self.artifacts.iter().map(|(_, text)| text.len() + 2).sum()),
        };
        if text.len() > room {
            self.is_cut = true;
            let end = text.floor_char_boundary(room);
            text.truncate(end);
        }
        if text.is_empty() {
            return None;
        }
        let is_first = self.artifacts.iter().all(|(_, text)| text.is_empty());
        match known {
            Some(at) => self.artifacts[at].1.push_str(&text),
            None => self.artifacts.push((id, text.clone())),
        }
        Some(if (known.is_some() && append) || is_first { text } else { format!("\n\n{text}") })
    }

    /// Returns the text of all artifacts.
    pub(super) fn text(&self) -> String {
        let texts = self.artifacts.iter().map(|(_, text)| text.as_str()).filter(|text| !text.is_empty());
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the answer of a task that is complete. A cut is marked.
    pub(super) fn response(&self) -> String {
        let mut text = self.text();
        if text.is_empty() {
            return self.words.clone();
        }
        if self.is_cut {
            text.push_str("\n[the rest of the answer was too long]");
        }
        text
    }

    /// Returns how the task ended without an answer, as a clause.
    pub(super) fn failure(&self) -> String {
        let end = match self.state {
            TaskState::Cancelled => "cancelled the task",
            TaskState::Rejected => "refused the task",
            _ => "failed",
        };
        let (task, words) = (one_line(&self.task_id, MAX_ID_BYTES), one_line(&self.words, MAX_WORDS_BYTES));
        match words.is_empty() {
            true => format!("{end} (remote task {task})"),
            false => format!("{end}: {words} (remote task {task})"),
        }
    }

    /// Returns the question of a task that waits.
    pub(super) fn question(&self, agent: &str) -> Ticket {
        let (action, message, response_schema) = match (self.state, &self.listed) {
            (TaskState::AuthRequired, _) => {
                let words = format!(
                    "The remote agent '{agent}' waits for an authorization that only its own server accepts: {}\n\
                     Decide it there, then answer true here to look again; this answer approves nothing.",
                    self.words
                );
                (AUTHORIZATION, words, Some(json!({"const": true})))
            }
            (_, Some(listed)) => {
                let asked = clean(listed["message"].as_str().unwrap_or(&self.words), MAX_WORDS_BYTES);
                let schema = usable(&listed["response_schema"]);
                (INPUT, format!("The remote agent '{agent}' asks: {asked}"), schema)
            }
            _ => {
                let words = format!("The remote agent '{agent}' asks: {}", self.words);
                (INPUT, words, Some(json!({"type": "string"})))
            }
        };
        Ticket {
            action: action.to_owned(),
            message,
            parameters: json!({"task_id": one_line(&self.task_id, MAX_ID_BYTES)}),
            response_schema,
            resume_mode: ResumeMode::ReplayToolCall,
        }
    }

    /// Returns the part with which a person's answer is sent; `None` if the answer was given to
    /// another question, or to one that is decided at the remote server.
    pub(super) fn answer(&self, agent: &str, resumption: &Resumption) -> Option<Value> {
        if self.state != TaskState::InputRequired {
            return None;
        }
        let ticket = self.question(agent);
        if resumption.action != ticket.action || resumption.message != ticket.message {
            return None;
        }
        Some(match (&self.listed, &resumption.value) {
            (Some(listed), value) => {
                json!({"data": {"suspension_id": listed["suspension_id"], "answer": value}})
            }
            (None, Value::String(text)) => json!({"text": text}),
            (None, value) => json!({"text": value.to_string()}),
        })
    }
}

/// Returns the text of a message or an artifact. Parts of other kinds are left out.
pub(super) fn text_of(message: &Value) -> String {
    let parts = message["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text = String::new();
    for part in parts.iter().filter_map(|part| part["text"].as_str()) {
        if text.len() > 2 * MAX_TEXT_BYTES {
            break;
        }
        text.push_str(part);
    }
    clean(&text, 2 * MAX_TEXT_BYTES)
}

/// Returns the parts of a listed question that are needed, which are small; `None` if its id is too long. The
/// rest of the question could take as much memory as the whole answer.
fn listed(question: &Value) -> Option<Value> {
    let id = question["suspension_id"].as_str().filter(|id| id.len() <= MAX_ID_BYTES)?;
    let message = question["message"].as_str().map(|message| clean(message, MAX_WORDS_BYTES));
    let schema =
        Some(&question["response_schema"]).filter(|schema| written_bytes(schema) <= MAX_SCHEMA_BYTES);
    Some(json!({"suspension_id": id, "message": message, "response_schema": schema}))
}

/// Returns a schema that this host can check; without one, the remote server alone checks.
fn usable(schema: &Value) -> Option<Value> {
    (schema.is_object() && block_in_place(|| Schema::compile(schema)).is_ok()).then(|| schema.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn artifact(id: &str, text: &str, append: bool) -> Value {
        json!({"artifactUpdate": {"artifact": {"artifactId": id, "parts": [{"text": text}]}, "append": append}})
    }

    fn status(state: &str, parts: Value) -> Value {
        json!({"statusUpdate": {"status": {"state": format!("TASK_STATE_{state}"), "message": {"parts": parts}}}})
    }

    fn resumption(ticket: &Ticket, value: Value) -> Resumption {
        serde_json::from_value(json!({
            "suspension_id": "c/1", "action": ticket.action, "message": ticket.message, "decision_id": "d",
            "value": value, "decided_at_ms": 1,
        }))
        .unwrap()
    }

    #[test]
    fn artifacts_are_joined_and_shown_once() {
        let mut state = RemoteState::default();
        assert_eq!(state.apply(&artifact("a", "One ", false)), Some(Piece::Text("One ".to_owned())));
        assert_eq!(state.apply(&artifact("a", "two.", true)), Some(Piece::Text("two.".to_owned())));
        assert_eq!(state.apply(&artifact("b", "Three.", false)), Some(Piece::Text("\n\nThree.".to_owned())));
        assert_eq!(state.text(), "One two.\n\nThree.");
        let task = json!({"task": {"id": "t", "contextId": "x", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [
            {"artifactId": "a", "parts": [{"text": "One two."}]},
            {"artifactId": "b", "parts": [{"text": "Three."}]},
            {"artifactId": "c", "parts": [{"text": "Four."}, {"url": "https://x"}]},
        ]}});
        assert_eq!(state.apply(&task), Some(Piece::Text("\n\nFour.".to_owned())));
        assert_eq!(state.apply(&task), None);
        assert_eq!((state.state, state.task_id.as_str()), (TaskState::Completed, "t"));
    }

    #[test]
    fn a_task_is_bounded_and_cleaned() {
        let mut state = RemoteState::default();
        for n in 0..200 {
            state.apply(&artifact(&n.to_string(), &"x".repeat(1024), false));
            state.apply(&artifact("0", &"y".repeat(1024), true));
        }
        assert!(state.response().len() <= MAX_TEXT_BYTES + 64);
        assert!(state.response().ends_with("too long]"));
        let mut state = RemoteState::default();
        (0..MAX_ARTIFACTS).for_each(|n| drop(state.apply(&artifact(&n.to_string(), "x", false))));
        state.apply(&artifact("0", "y", true));
        assert!(!state.response().contains("too long"), "nothing of the most artifacts was left out");
        state.apply(&artifact("another", "x", false));
        assert!(state.response().ends_with("too long]"));
        let mut state = RemoteState::default();
        state.apply(&status("FAILED", json!([{"text": "\u{1b}[31mred\u{202e}\nline"}])));
        assert_eq!(state.failure(), "failed: [31mred line (remote task )");
        for odd in [json!({}), json!({"task": 1}), json!({"statusUpdate": []}), json!(null)] {
            assert_eq!(RemoteState::default().apply(&odd), None);
        }
    }

    #[test]
    fn what_is_kept_of_a_listed_question_is_small() {
        let question = |id: &str, more: Value| {
            json!([{"data": {"questions": [{"suspension_id": id, "message": "Which?", "more": more,
                "response_schema": {"description": "x".repeat(MAX_SCHEMA_BYTES)}}]}}])
        };
        let mut state = RemoteState::default();
        state.apply(&status("INPUT_REQUIRED", question("s", json!(vec![0; 100_000]))));
        assert_eq!(
            state.listed,
            Some(json!({"suspension_id": "s", "message": "Which?", "response_schema": null}))
        );
        state.apply(&status("INPUT_REQUIRED", question(&"s".repeat(MAX_ID_BYTES + 1), json!(0))));
        assert_eq!(state.listed, None);
    }

    #[test]
    fn a_plain_question_is_answered_by_text() {
        let mut state = RemoteState::default();
        state.apply(&status("INPUT_REQUIRED", json!([{"text": "Which city?"}])));
        let ticket = state.question("guide");
        assert_eq!(ticket.message, "The remote agent 'guide' asks: Which city?");
        let given = resumption(&ticket, json!("Lisbon"));
        assert_eq!(state.answer("guide", &given), Some(json!({"text": "Lisbon"})));
        state.apply(&status("INPUT_REQUIRED", json!([{"text": "Which country?"}])));
        assert_eq!(state.answer("guide", &given), None, "the answer was to another question");
    }

    #[test]
    fn a_listed_question_has_a_schema() {
        let mut state = RemoteState::default();
        let question = json!({"suspension_id": "c/1", "gate": null, "message": "Publish?",
            "response_schema": {"type": "boolean"}});
        state.apply(&status("INPUT_REQUIRED", json!([{"text": "x"}, {"data": {"questions": [question]}}])));
        let ticket = state.question("guide");
        assert_eq!(ticket.response_schema, Some(json!({"type": "boolean"})));
        let part = state.answer("guide", &resumption(&ticket, json!(true))).unwrap();
        assert_eq!(part, json!({"data": {"suspension_id": "c/1", "answer": true}}));
    }

    #[test]
    fn an_authorization_is_never_answered_from_here() {
        let mut state = RemoteState::default();
        state.apply(&status("AUTH_REQUIRED", json!([{"text": "Sign in at https://x"}])));
        let ticket = state.question("guide");
        assert!(ticket.message.contains("this answer approves nothing"));
        assert_eq!(state.answer("guide", &resumption(&ticket, json!(true))), None);
        let mut forged = ticket.clone();
        forged.action = INPUT.to_owned();
        assert_eq!(state.answer("guide", &resumption(&forged, json!(true))), None);
    }
}
