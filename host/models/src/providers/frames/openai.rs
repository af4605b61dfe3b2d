//! Frames of `/chat/completions`.

use super::{FramedCall, Frames, arguments_text};
use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_agent::message::TokenUsage;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Usage>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<OpenAiDelta<'a>>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct OpenAiDelta<'a> {
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    index: Option<u64>,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

pub(super) fn read(frames: &mut Frames, data: &str) -> serde_json::Result<()> {
    if data == "[DONE]" {
        frames.finish.get_or_insert_with(|| "stop".to_owned());
        return Ok(());
    }
    frames.last_text.clear();
    let chunk: Chunk<'_> = serde_json::from_str(data)?;
    frames.note_model(chunk.model);
    if let Some(usage) = chunk.usage {
        frames.usage = Some(TokenUsage {
            input_tokens: usage.prompt_tokens.unwrap_or(0),
            output_tokens: usage.completion_tokens.unwrap_or(0),
        });
    }
    // Requests ask for a single choice.
    let Some(choice) = chunk.choices.and_then(|choices| choices.into_iter().next()) else {
        return Ok(());
    };
    if let Some(delta) = choice.delta {
        frames.last_text = text(delta.content);
        frames.echoes_reasoning |= delta.reasoning_content.is_some_and(|raw| raw.get().len() > 4);
        for call in delta.tool_calls.unwrap_or_default() {
            if frames.fault.is_some() {
                return Ok(());
            }
            continue_call(frames, call)?;
        }
    }
    if choice.finish_reason.is_some() {
        frames.finish = choice.finish_reason;
    }
    Ok(())
}

/// Returns the text of a field that is a string; some servers send lists of blocks.
fn text(raw: Option<&RawValue>) -> String {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// Adds to a streamed call. Servers agree only on this much: the pieces of one call share an
/// index, or have none and follow each other. Some number all calls 0, so a new id with a name
/// also begins another call.
fn continue_call(frames: &mut Frames, delta: CallDelta<'_>) -> serde_json::Result<()> {
    let id = delta.id.unwrap_or_default();
    let (name, arguments) = match delta.function {
        Some(function) => (function.name.unwrap_or_default(), arguments_text(function.arguments)?),
        None => (String::new(), String::new()),
    };
    let length = arguments.len();
    let under_way = match delta.index {
        Some(index) => frames.calls.iter_mut().rev().find(|call| call.index == Some(index)),
        None => frames.calls.last_mut(),
    };
    match under_way {
        Some(call) if !begins_another(call, delta.index, &id, &name) => {
            if call.id.is_empty() {
                call.id = id;
            }
            if call.name.is_empty() {
                call.name = name;
            }
            call.arguments.push_str(&arguments);
            frames.keep(length);
        }
        _ => frames.begin_call(FramedCall { index: delta.index, id, name, arguments, signature: None }),
    }
    Ok(())
}

fn begins_another(call: &FramedCall, index: Option<u64>, id: &str, name: &str) -> bool {
    if name.is_empty() {
        return false;
    }
    let has_other_id = !id.is_empty() && !call.id.is_empty() && id != call.id;
    let is_named_again = index.is_none() && !call.name.is_empty() && (id.is_empty() || id != call.id);
    has_other_id || is_named_again
}
