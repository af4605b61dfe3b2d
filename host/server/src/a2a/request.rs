//! Reading the parameters of A2A's methods.

use super::error::{A2aError, ErrorKind};
use serde_json::Value;
use tollgate_agent::text::one_line;

/// The maximum number of tasks on one page of a list.
const MAX_PAGE: usize = 100;
/// The number of tasks on one page, unless the client asks for another one.
const DEFAULT_PAGE: usize = 50;

/// A message to an agent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Send {
    pub(super) context: Option<String>,
    pub(super) task: Option<String>,
    pub(super) text: String,
    /// The message as it was sent, which a repeated request has too.
    pub(super) message: String,
    pub(super) answers: Vec<QuestionAnswer>,
    pub(super) history_length: Option<usize>,
    pub(super) return_immediately: bool,
}

/// An answer to a question, in a part with data.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QuestionAnswer {
    pub(super) suspension: String,
    /// The answer; `None` cancels the call.
    pub(super) value: Option<Value>,
}

fn invalid(why: impl Into<String>) -> A2aError {
    A2aError::new(ErrorKind::InvalidParams, why)
}

/// Returns a text member; an empty text counts as absent, as it does in Protobuf.
fn text(params: &Value, name: &str) -> Option<String> {
    params[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns a length or a size, which JSON of Protobuf may write as text.
fn number(params: &Value, name: &str) -> Result<Option<usize>, A2aError> {
    let number = match &params[name] {
        Value::Null => return Ok(None),
        Value::String(text) => text.parse().ok(),
        number => number.as_u64().and_then(|number| usize::try_from(number).ok()),
    };
    number.map(Some).ok_or_else(|| invalid(format!("`{name}` must be a number of at least 0")))
}

impl Send {
    /// Reads the parameters of `SendMessage` and `SendStreamingMessage`.
    pub(super) fn read(params: &Value) -> Result<Self, A2aError> {
        let message = &params["message"];
        if !message.is_object() {
            return Err(invalid("`message` is missing"));
        }
        if text(message, "messageId").is_none() {
            return Err(invalid("`message.messageId` is missing"));
        }
        if message["role"] != "ROLE_USER" {
            return Err(invalid("`message.role` must be ROLE_USER"));
        }
        let configuration = &params["configuration"];
        if configuration["taskPushNotificationConfig"].is_object() {
            let why = "push notifications are not supported; subscribe to the task";
            return Err(A2aError::new(ErrorKind::PushNotificationNotSupported, why));
        }
        let modes = configuration["acceptedOutputModes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_text = |mode: &Value| matches!(mode.as_str(), Some("text/plain" | "text/*" | "*/*" | "text"));
        if !modes.is_empty() && !modes.iter().any(is_text) {
            let why = "an agent answers with text/plain; accept it in `acceptedOutputModes`";
            return Err(A2aError::new(ErrorKind::ContentTypeNotSupported, why));
        }
        let (mut texts, mut answers) = (Vec::new(), Vec::new());
        for part in message["parts"].as_array().map(Vec::as_slice).unwrap_or_default() {
            match (part["text"].as_str(), &part["data"]) {
                (Some(text), _) => texts.push(text),
                (None, data @ Value::Object(_)) => answers.push(read_answer(data)?),
                _ => {
                    let why = "an agent reads text, and data that answers questions; leave out other parts";
                    return Err(A2aError::new(ErrorKind::ContentTypeNotSupported, why));
                }
            }
        }
        if texts.is_empty() && answers.is_empty() {
            return Err(invalid("`message.parts` is missing or empty"));
        }
        Ok(Self {
            context: text(message, "contextId"),
            task: text(message, "taskId"),
            text: texts.join("\n"),
            message: message.to_string(),
            answers,
            history_length: number(configuration, "historyLength")?,
            return_immediately: configuration["returnImmediately"].as_bool().unwrap_or_default(),
        })
    }
}

/// Returns the state that listed tasks must have. A state that no task of this server has is no error;
/// a name that is not a state is one.
fn state(params: &Value) -> Result<Option<String>, A2aError> {
    let Some(state) = text(params, "status") else { return Ok(None) };
    match state.as_str() {
        "TASK_STATE_UNSPECIFIED" => Ok(None),
        "TASK_STATE_SUBMITTED"
        | "TASK_STATE_WORKING"
        | "TASK_STATE_INPUT_REQUIRED"
        | "TASK_STATE_AUTH_REQUIRED"
        | "TASK_STATE_COMPLETED"
        | "TASK_STATE_FAILED"
        | "TASK_STATE_CANCELED"
        | "TASK_STATE_REJECTED" => Ok(Some(state)),
        _ => Err(invalid(format!("`status` is not the name of a state: {}", one_line(&state, 60)))),
    }
}

fn read_answer(data: &Value) -> Result<QuestionAnswer, A2aError> {
    let why = "data must be {\"suspension_id\", \"answer\"}, or {\"suspension_id\", \"cancel\": true}";
    let suspension = text(data, "suspension_id").ok_or_else(|| invalid(why))?;
    match (data.get("answer"), data["cancel"].as_bool()) {
        (Some(answer), None) => Ok(QuestionAnswer { suspension, value: Some(answer.clone()) }),
        (None, Some(true)) => Ok(QuestionAnswer { suspension, value: None }),
        _ => Err(invalid(why)),
    }
}

/// The id of a task, and how much of its history is wanted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TaskRef {
    pub(super) id: String,
    pub(super) history_length: Option<usize>,
}

impl TaskRef {
    /// Reads the parameters of `GetTask`, `CancelTask` and `SubscribeToTask`.
    pub(super) fn read(params: &Value) -> Result<Self, A2aError> {
        let id = text(params, "id").ok_or_else(|| invalid("`id` is missing"))?;
        Ok(Self { id, history_length: number(params, "historyLength")? })
    }
}

/// The parameters of `ListTasks`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct List {
    pub(super) context: Option<String>,
    pub(super) state: Option<String>,
    /// Only tasks that changed at this time or later, in milliseconds since the Unix epoch.
    pub(super) changed_from_ms: u64,
    pub(super) page_size: usize,
    /// The number of tasks on earlier pages.
    pub(super) skipped: usize,
    pub(super) history_length: Option<usize>,
    pub(super) has_artifacts: bool,
}

impl List {
    /// Reads the parameters.
    pub(super) fn read(params: &Value) -> Result<Self, A2aError> {
        let page_size = number(params, "pageSize")?.filter(|size| *size > 0).unwrap_or(DEFAULT_PAGE);
        if page_size > MAX_PAGE {
            return Err(invalid(format!("`pageSize` is at most {MAX_PAGE}")));
        }
        let skipped = match text(params, "pageToken") {
            None => 0,
            Some(token) => token.parse().map_err(|_| invalid("`pageToken` is not one of this list"))?,
        };
        let changed_from_ms = match text(params, "statusTimestampAfter") {
            None => 0,
            Some(time) => {
                let wrong =
                    || invalid(format!("`statusTimestampAfter` is not a time: {}", one_line(&time, 60)));
                let time: jiff::Timestamp = time.parse().map_err(|_| wrong())?;
                u64::try_from(time.as_millisecond()).unwrap_or(0)
            }
        };
        Ok(Self {
            context: text(params, "contextId"),
            state: state(params)?,
            changed_from_ms,
            page_size,
            skipped,
            history_length: number(params, "historyLength")?,
            has_artifacts: match &params["includeArtifacts"] {
                Value::String(text) => text == "true",
                flag => flag.as_bool().unwrap_or_default(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn send(message: Value) -> Result<Send, Value> {
        let mut whole = json!({"messageId": "m", "role": "ROLE_USER"});
        whole.as_object_mut().unwrap().extend(message.as_object().unwrap().clone());
        Send::read(&json!({"message": whole})).map_err(|why| why.rpc(&Value::Null)["error"]["code"].clone())
    }

    #[test]
    fn messages_have_text_or_answers() {
        let read = send(json!({"taskId": "t", "contextId": "", "parts": [
            {"text": "a"}, {"data": {"suspension_id": "c/1", "answer": false}}, {"text": "b"},
            {"data": {"suspension_id": "c/2", "cancel": true}},
        ]}));
        let read = read.unwrap();
        assert_eq!((read.task.as_deref(), read.context, read.text.as_str()), (Some("t"), None, "a\nb"));
        let answer = |suspension: &str, value| QuestionAnswer { suspension: suspension.to_owned(), value };
        assert_eq!(read.answers, [answer("c/1", Some(json!(false))), answer("c/2", None)]);
        assert_eq!(send(json!({"parts": []})), Err(json!(-32602)));
        assert_eq!(send(json!({"parts": [{"url": "https://example.com"}]})), Err(json!(-32005)));
        assert_eq!(send(json!({"parts": [{"data": {"answer": 1}}]})), Err(json!(-32602)));
        assert_eq!(send(json!({"role": "ROLE_AGENT", "parts": [{"text": "a"}]})), Err(json!(-32602)));
    }

    #[test]
    fn configuration_is_checked() {
        let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}]});
        let read = |configuration| Send::read(&json!({"message": message, "configuration": configuration}));
        assert_eq!(read(json!({"historyLength": 3})).unwrap().history_length, Some(3));
        assert!(read(json!({"returnImmediately": true})).unwrap().return_immediately);
        for wrong in [
            json!({"historyLength": -1}),
            json!({"acceptedOutputModes": ["image/png"]}),
            json!({"taskPushNotificationConfig": {"url": "https://example.com"}}),
        ] {
            assert!(read(wrong).is_err());
        }
    }

    #[test]
    fn lists_have_pages() {
        let list = List::read(&json!({"pageSize": "10", "pageToken": "20", "status": "TASK_STATE_WORKING"}));
        let list = list.unwrap();
        assert_eq!((list.page_size, list.skipped), (10, 20));
        assert_eq!(List::read(&json!({})).unwrap().page_size, DEFAULT_PAGE);
        for wrong in [
            json!({"pageSize": 101}),
            json!({"pageToken": "x"}),
            json!({"statusTimestampAfter": "x"}),
            json!({"status": "done"}),
        ] {
            assert!(List::read(&wrong).is_err());
        }
    }
}
