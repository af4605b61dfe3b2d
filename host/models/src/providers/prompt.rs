//! Conversations in a provider's format.

use crate::provider::Provider;
use genai::chat::{
    ChatMessage, ChatRequest, ChatRole, ContentPart, MessageContent, Tool, ToolCall, ToolResponse,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_agent::json;
use tollgate_agent::message::{Answer, AssistantMessage, Message, ModelCall, ModelRequest, ToolSpec};

/// The prefix of a message from the host, so that a model does not take it for the user's.
const NOTE: &str = "[Note from the host, not from the user]\n";

/// The formats of images that every provider reads.
const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The key under which arguments that were not a JSON object are sent back.
const UNREADABLE: &str = "unreadable_arguments";

/// Returns the request, without its tools if those go into the body (see [`tools_in_body`]).
/// If `images` is set, the images of answers follow them.
pub(super) fn chat_request(provider: Provider, images: bool, request: &ModelRequest) -> ChatRequest {
    let mut chat = ChatRequest::new(messages(provider, images, &request.messages));
    if !request.system.is_empty() {
        chat = chat.with_system(&*request.system);
    }
    let goes_into_body = tools_in_body(provider, &request.tools).is_some();
    if !request.tools.is_empty() && !goes_into_body {
        chat = chat.with_tools(request.tools.iter().map(tool));
    }
    chat
}

/// Returns the tools in the provider's format, for the two providers where the library would take
/// some names (`web_search`, `googleSearch`) for the provider's built-in tools. The name of an
/// untrusted tool must not enable those.
pub(super) fn tools_in_body(provider: Provider, tools: &[ToolSpec]) -> Option<Value> {
    if tools.is_empty() {
        return None;
    }
    match provider {
        Provider::Openai | Provider::Ollama => None,
        Provider::Anthropic => Some(tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
        }).collect()),
        Provider::Gemini => {
            let declared: Value = tools.iter().map(|tool| {
                json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters})
            }).collect();
            Some(json!([{"functionDeclarations": declared}]))
        }
    }
}

fn tool(spec: &ToolSpec) -> Tool {
    Tool::new(spec.name.as_str()).with_description(&spec.description).with_schema(spec.parameters.clone())
}

fn messages(provider: Provider, images: bool, messages: &[Message]) -> Vec<ChatMessage> {
    let mut chat: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    // All answers of a turn come before the images of any: providers expect them together.
    let mut seen: Vec<ContentPart> = Vec::new();
    for message in messages {
        if !matches!(message, Message::Answer(_)) {
            chat.extend(shown(&mut seen));
        }
        match message {
            Message::User(text) => chat.push(ChatMessage::user(text.as_str())),
            Message::Note(text) => chat.push(ChatMessage::user(format!("{NOTE}{text}"))),
            Message::Assistant(message) => chat.extend(assistant(provider, message)),
            Message::Answer(answer) => {
                let part = answered(provider, answer);
                if images {
                    seen.extend(images_of(answer));
                }
                match chat.last_mut() {
                    // The answers to one turn belong in one message, except where the library
                    // would send only the last of them.
                    Some(last) if last.role == ChatRole::Tool && provider != Provider::Ollama => {
                        last.content.push(part);
                    }
                    _ => chat.push(ChatMessage::tool(MessageContent::from_parts(vec![part]))),
                }
            }
        }
    }
    chat.extend(shown(&mut seen));
    chat
}

/// Returns the message with the images of a turn's answers. Most providers take no images in an
/// answer itself.
fn shown(seen: &mut Vec<ContentPart>) -> Option<ChatMessage> {
    (!seen.is_empty()).then(|| ChatMessage::user(MessageContent::from_parts(std::mem::take(seen))))
}

/// Returns an answer's images in formats that every provider reads, after a line that names them.
fn images_of(answer: &Answer) -> Vec<ContentPart> {
    let images = answer.images.iter().filter_map(tollgate_agent::content::ContentPart::image);
    let images: Vec<_> = images.filter(|(mime_type, _)| IMAGE_TYPES.contains(mime_type)).collect();
    if images.is_empty() {
        return Vec::new();
    }
    let words =
        format!("{NOTE}The images in the result of the call {} of {}:", answer.call_id, answer.tool_name);
    let images = images.into_iter().map(|(mime_type, data)| {
        ContentPart::from_binary_base64(mime_type, std::sync::Arc::clone(data), None)
    });
    std::iter::once(ContentPart::Text(words)).chain(images).collect()
}

/// Returns `None` if the model wrote nothing: providers reject an empty message.
fn assistant(provider: Provider, message: &AssistantMessage) -> Option<ChatMessage> {
    let mut parts: Vec<ContentPart> =
        message.calls.first().map(|call| kept_parts(provider, call)).unwrap_or_default();
    if !message.text.trim().is_empty() {
        parts.push(ContentPart::Text(message.text.clone()));
    }
    parts.extend(message.calls.iter().map(|call| ContentPart::ToolCall(called(provider, call))));
    (!parts.is_empty()).then(|| ChatMessage::assistant(MessageContent::from_parts(parts)))
}

fn called(provider: Provider, call: &ModelCall) -> ToolCall {
    ToolCall {
        call_id: call.id.clone(),
        fn_name: call.name.clone(),
        fn_arguments: arguments(&call.arguments),
        thought_signatures: kept(provider, call, "signature")
            .and_then(Value::as_str)
            .map(|signature| vec![signature.to_owned()]),
    }
}

/// Returns arguments as an object. Providers accept only objects, so anything else a model wrote
/// is wrapped in one.
fn arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match json::parse(text) {
        Ok(object @ Value::Object(_)) => object,
        Ok(Value::Null) => Value::Object(Map::new()),
        _ => json!({ UNREADABLE: text }),
    }
}

fn answered(provider: Provider, answer: &Answer) -> ContentPart {
    if answer.is_error && provider == Provider::Anthropic {
        // The library cannot represent a failed call.
        let result = json!({
            "type": "tool_result",
            "tool_use_id": answer.call_id,
            "content": &*answer.content,
            "is_error": true,
        });
        return ContentPart::from_custom(result, None);
    }
    ContentPart::ToolResponse(
        ToolResponse::new(answer.call_id.as_str(), &*answer.content).with_fn_name(answer.tool_name.as_str()),
    )
}

/// Stores the parts of a reply that the provider expects to be sent back, as data of the calls. A
/// conversation may continue with another provider, which must not receive them.
pub(super) fn keep(provider: Provider, calls: &mut [ModelCall], parts: &[ContentPart]) {
    if parts.is_empty() {
        return;
    }
    if let (Some(first), Ok(parts)) = (calls.first_mut(), serde_json::to_value(parts)) {
        keep_in(provider, first, "parts", parts);
    }
}

/// Stores one value with a call.
pub(super) fn keep_in(provider: Provider, call: &mut ModelCall, key: &str, value: Value) {
    let data = call.provider_data.get_or_insert_with(|| json!({ "provider": provider.word() }));
    data[key] = value;
}

fn kept<'a>(provider: Provider, call: &'a ModelCall, key: &str) -> Option<&'a Value> {
    let data = call.provider_data.as_ref()?;
    if data.get("provider")?.as_str()? != provider.word() {
        return None;
    }
    data.get(key)
}

fn kept_parts(provider: Provider, call: &ModelCall) -> Vec<ContentPart> {
    kept(provider, call, "parts")
        .and_then(|parts| Vec::<ContentPart>::deserialize(parts).ok())
        .unwrap_or_default()
}
