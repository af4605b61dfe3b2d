//! Frames of Anthropic's Messages API.

use super::{FramedCall, Frames, arguments_text};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(default, rename = "type")]
    kind: String,
    index: Option<u64>,
    #[serde(borrow)]
    content_block: Option<Block<'a>>,
    delta: Option<AnthropicDelta>,
    #[serde(borrow)]
    message: Option<AnthropicMessage<'a>>,
}

#[derive(Deserialize)]
struct AnthropicMessage<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct AnthropicDelta {
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

pub(super) fn read(frames: &mut Frames, data: &str) -> serde_json::Result<()> {
    let event: Event<'_> = serde_json::from_str(data)?;
    frames.note_model(event.message.and_then(|message| message.model));
    match (event.kind.as_str(), event.content_block, event.delta) {
        ("content_block_start", Some(block), _) if block.kind == "tool_use" => {
            // The block starts with `{}` and its input follows; some gateways send the whole
            // input here instead.
            let input = arguments_text(block.input)?;
            frames.begin_call(FramedCall {
                index: event.index,
                id: block.id,
                name: block.name,
                arguments: if input.trim() == "{}" { String::new() } else { input },
                signature: None,
            });
        }
        ("content_block_delta", _, Some(delta)) => {
            let call = frames.calls.iter_mut().rev().find(|call| call.index == event.index);
            if let (Some(call), Some(piece)) = (call, delta.partial_json) {
                call.arguments.push_str(&piece);
                frames.keep(piece.len());
            }
        }
        ("message_delta", _, Some(AnthropicDelta { stop_reason, .. })) if stop_reason.is_some() => {
            frames.finish = stop_reason;
        }
        ("message_stop", ..) => {
            frames.finish.get_or_insert_with(|| "end_turn".to_owned());
        }
        _ => {}
    }
    Ok(())
}
