//! Frames of Google's `streamGenerateContent`.

use super::{FramedCall, Frames, arguments_text};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    prompt_feedback: Option<PromptFeedback>,
    #[serde(borrow)]
    model_version: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow)]
    function_call: Option<FunctionCall<'a>>,
    thought_signature: Option<String>,
}

#[derive(Deserialize)]
struct FunctionCall<'a> {
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
}

pub(super) fn read(frames: &mut Frames, data: &str) -> serde_json::Result<()> {
    let response: Response<'_> = serde_json::from_str(data)?;
    frames.note_model(response.model_version);
    if response.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
        frames.finish = Some("SAFETY".to_owned());
    }
    let Some(candidate) = response.candidates.and_then(|all| all.into_iter().next()) else {
        return Ok(());
    };
    for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
        if frames.fault.is_some() {
            return Ok(());
        }
        if let Some(call) = part.function_call {
            frames.begin_call(FramedCall {
                index: None,
                id: call.id,
                name: call.name,
                arguments: arguments_text(call.args)?,
                signature: part.thought_signature,
            });
        }
    }
    match candidate.finish_reason {
        // The model wrote a call that the provider itself could not parse. There is nothing to
        // answer, and a retry is likely to succeed.
        Some(reason) if matches!(reason.as_str(), "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL") => {
            let words = candidate.finish_message.unwrap_or_default();
            frames.break_off(&format!(
                "The model wrote a call that the provider could not read ({reason}). {words}"
            ));
        }
        Some(reason) => frames.finish = Some(reason),
        None => {}
    }
    Ok(())
}
