//! Lines of Ollama's `/api/chat`.

use super::{FramedCall, Frames, arguments_text};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    message: Option<OllamaMessage<'a>>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    error: Option<String>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OllamaMessage<'a> {
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(default)]
    id: String,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(default)]
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

pub(super) fn read(frames: &mut Frames, data: &str) -> serde_json::Result<()> {
    let line: Line<'_> = serde_json::from_str(data)?;
    if let Some(words) = line.error {
        frames.break_off(&words);
        return Ok(());
    }
    frames.note_model(line.model);
    for call in line.message.and_then(|message| message.tool_calls).unwrap_or_default() {
        if frames.fault.is_some() {
            return Ok(());
        }
        frames.begin_call(FramedCall {
            index: None,
            id: call.id,
            name: call.function.name,
            arguments: arguments_text(call.function.arguments)?,
            signature: None,
        });
    }
    if line.done {
        frames.finish = Some(line.done_reason.unwrap_or_else(|| "stop".to_owned()));
    }
    Ok(())
}
