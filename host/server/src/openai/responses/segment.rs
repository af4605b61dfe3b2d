//! Responses as segments of runs: from the start of a run or a decision to the next rest.

use super::output::{Output, ResponseStatus};
use crate::agent_runs::OwnRun;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use tollgate_agent::run::{Event, StoredEvent};

/// The id of a response: `resp_<run id>_<number of its first event>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResponseId {
    pub(super) run_id: String,
    /// The number of the first event.
    pub(super) first: u64,
}

impl ResponseId {
    /// Reads an id; `None` if it is malformed.
    pub(super) fn read(id: &str) -> Option<Self> {
        let (run_id, first) = id.strip_prefix("resp_")?.rsplit_once('_')?;
        let first = first.parse().ok().filter(|first| *first > 0)?;
        Some(Self { run_id: run_id.to_owned(), first })
    }
}

impl fmt::Display for ResponseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resp_{}_{}", self.run_id, self.first)
    }
}

/// Returns the numbers of the events with which the segments of a run begin, in order.
pub(super) fn starts(events: &[Arc<StoredEvent>]) -> Vec<u64> {
    let follows_wait = |pair: &&[Arc<StoredEvent>]| matches!(pair[0].event, Event::RunWaiting);
    let later = events.windows(2).filter(follows_wait).map(|pair| pair[1].number);
    events.first().map(|first| first.number).into_iter().chain(later).collect()
}

/// Returns the events of the segment that begins with this number; `None` if there is none.
pub(super) fn segment(events: &[Arc<StoredEvent>], first: u64) -> Option<&[Arc<StoredEvent>]> {
    let starts = starts(events);
    let at = starts.iter().position(|start| *start == first)?;
    let index = |number: u64| events.iter().position(|event| event.number == number);
    let begin = index(first)?;
    let end = starts.get(at + 1).and_then(|next| index(*next)).unwrap_or(events.len());
    events.get(begin..end)
}

/// The parts of a response that are not folded from its segment.
#[derive(Debug, Clone)]
pub(super) struct ResponseInfo {
    pub(super) id: ResponseId,
    /// The agent's id.
    pub(super) model: String,
    /// The client's name of the thread.
    pub(super) thread: String,
    pub(super) previous: Option<String>,
    /// The response that continued this one after a decision, if it is read from the record.
    pub(super) next: Option<String>,
    pub(super) background: bool,
}

/// Returns the stored response of a segment; `None` if the run has no such segment.
pub(super) fn stored(run: &OwnRun, about: &ResponseInfo, decide_url: &str) -> Option<Value> {
    let events = segment(&run.events, about.id.first)?;
    let earlier = run.events.iter().take_while(|event| event.number < about.id.first);
    let mut output = Output::after(&run.run_id, decide_url, earlier);
    events.iter().for_each(|event| drop(output.apply(event)));
    Some(response(about, &output))
}

/// Returns the JSON of a response.
pub(super) fn response(about: &ResponseInfo, output: &Output) -> Value {
    let (mut error, mut incomplete, mut failed) = (Value::Null, Value::Null, Value::Null);
    match &output.status {
        ResponseStatus::Failed { code, message } => error = json!({"code": code, "message": message}),
        ResponseStatus::Incomplete { reason, message } => {
            incomplete = json!({"reason": reason});
            if let Some(message) = message {
                failed = json!({"message": message});
            }
        }
        ResponseStatus::InProgress | ResponseStatus::Completed | ResponseStatus::Cancelled => {}
    }
    let tokens = output.tokens;
    let seconds = |ms: u64| ms / 1_000;
    let mut response = json!({
        "id": about.id.to_string(),
        "object": "response",
        "created_at": seconds(output.created_at_ms),
        "completed_at": output.completed_at_ms.map(seconds),
        "status": output.status.as_str(),
        "background": about.background,
        "error": error,
        "incomplete_details": incomplete,
        "instructions": null,
        "max_output_tokens": null,
        "max_tool_calls": null,
        "metadata": {},
        "model": about.model,
        "output": output.items,
        "parallel_tool_calls": true,
        "previous_response_id": about.previous,
        "reasoning": {"effort": null, "summary": null},
        "service_tier": "default",
        "store": true,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "prompt_cache_key": null,
        "safety_identifier": null,
        "truncation": "disabled",
        "usage": {
            "input_tokens": tokens.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens.total(),
        },
        "user": null,
        "tollgate": {
            "run_id": about.id.run_id,
            "thread_id": about.thread,
            "next_response_id": about.next,
        },
    });
    if !failed.is_null() {
        response["tollgate"]["failed"] = failed;
    }
    response
}

/// Returns the input items of a segment: messages, and answers to requests for approval.
pub(super) fn input_items(about: &ResponseInfo, events: &[Arc<StoredEvent>]) -> Vec<Value> {
    let mut items = Vec::new();
    for stored in events {
        let id = format!("in_{}_{}", about.id.run_id, stored.number);
        match &stored.event {
            Event::MessageAdded { text } => items.push(json!({
                "id": id, "type": "message", "role": "user", "status": "completed",
                "content": [{"type": "input_text", "text": text}],
            })),
            Event::CallDecided { decision, .. } => items.push(json!({
                "id": id,
                "type": "mcp_approval_response",
                "approval_request_id": decision.target,
                "approve": matches!(decision.answer, tollgate_agent::run::DecisionAnswer::Resume(_)),
                "reason": decision.reason,
            })),
            _ => {}
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back() {
        let id = ResponseId { run_id: "0199-a".to_owned(), first: 7 };
        assert_eq!(ResponseId::read(&id.to_string()), Some(id));
        for wrong in ["", "resp_", "resp_a", "resp_a_", "resp_a_x", "resp_a_0", "resp_a_-1", "run_a_1"] {
            assert_eq!(ResponseId::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_run_has_a_segment_for_each_rest() {
        let step = |step| Event::StepStarted { step };
        let events = [step(1), Event::RunWaiting, step(2), step(3), Event::RunWaiting];
        let events = StoredEvent::list(&Arc::from("r"), 0, 1, events);
        let events: Vec<_> = events.iter().cloned().map(Arc::new).collect();
        assert_eq!(starts(&events), [1, 3]);
        let numbers = |first| segment(&events, first).map(|s| s.iter().map(|e| e.number).collect::<Vec<_>>());
        assert_eq!(numbers(1), Some(vec![1, 2]));
        assert_eq!(numbers(3), Some(vec![3, 4, 5]));
        assert_eq!(numbers(2), None);
        assert_eq!(numbers(6), None);
    }
}
