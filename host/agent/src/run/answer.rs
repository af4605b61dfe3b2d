//! The model's view of a call's result.

use super::facts::CallEnd;
use crate::code::Code;
use crate::content::ContentPart;
use crate::message::Answer;
use crate::outcome::ToolResult;
use crate::text;
use std::borrow::Cow;
use std::sync::Arc;

/// Maximum length of an answer that the model reads, in bytes. A longer answer is cut.
pub const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// Maximum length of an error's code that the model reads, in bytes.
const MAX_CODE_BYTES: usize = 64;

/// Returns the single answer to a call, under the names that the host gives it.
#[must_use]
pub fn answer(call_id: &str, tool_name: &str, end: &CallEnd) -> Answer {
    let (mut content, is_error) = unbounded_text(end);
    let parts = parts(end);
    for part in parts {
        let text = content.to_mut();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&part.words());
    }
    Answer {
        call_id: call_id.into(),
        tool_name: tool_name.into(),
        content: bounded(content),
        is_error,
        images: parts.iter().filter(|part| part.is_image()).cloned().collect(),
    }
}

/// Returns the answer's text without its parts, bounded, and whether the call failed.
#[must_use]
pub fn own_text(end: &CallEnd) -> (Arc<str>, bool) {
    let (content, is_error) = unbounded_text(end);
    (bounded(content), is_error)
}

/// Returns the images, files and links of the answer.
#[must_use]
pub fn parts(end: &CallEnd) -> &[ContentPart] {
    match end {
        CallEnd::Result(result) => &result.content,
        CallEnd::Fault(_) => &[],
    }
}

fn unbounded_text(end: &CallEnd) -> (Cow<'_, str>, bool) {
    match end {
        CallEnd::Result(result) => (of_result(result), !result.is_success()),
        CallEnd::Fault(fault) if fault.code == Code::ToolInternal => {
            (Cow::Borrowed("The tool had an internal error."), true)
        }
        CallEnd::Fault(fault) => (Cow::Borrowed(fault.message.as_str()), true),
    }
}

fn of_result(result: &ToolResult) -> Cow<'_, str> {
    match &result.message {
        Some(message) if result.is_error() => match code_of(result) {
            Some(code) => Cow::Owned(format!("[{code}] {message}")),
            None => Cow::Borrowed(message),
        },
        Some(message) if result.data.is_null() => Cow::Borrowed(message),
        Some(message) => Cow::Owned(format!("{message}\n{}", result.data.words())),
        None if result.data.is_null() && !result.content.is_empty() => Cow::Borrowed(""),
        None => result.data.words(),
    }
}

/// Returns the code of an error that has one, sanitized.
fn code_of(result: &ToolResult) -> Option<String> {
    let code = result.data["error"]["code"].as_str()?;
    Some(text::one_line(code, MAX_CODE_BYTES)).filter(|code| !code.is_empty())
}

fn bounded(content: Cow<'_, str>) -> Arc<str> {
    if content.len() <= MAX_ANSWER_BYTES {
        return Arc::from(content);
    }
    let mut content = content.into_owned();
    text::cut(&mut content, MAX_ANSWER_BYTES);
    Arc::from(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Fault;
    use serde_json::{Value, json};

    fn read(result: ToolResult) -> (String, bool) {
        let answer = answer("c1", "tool", &CallEnd::Result(Arc::new(result)));
        (answer.content.to_string(), answer.is_error)
    }

    #[test]
    fn l6_the_model_reads_data_message_or_both() {
        assert_eq!(read(ToolResult::success(json!({"a": 1}))), (r#"{"a":1}"#.to_owned(), false));
        assert_eq!(read(ToolResult::success("plain")), ("plain".to_owned(), false));
        assert_eq!(
            read(ToolResult::success_with_message(json!([1]), "One.")),
            ("One.\n[1]".to_owned(), false)
        );
        assert_eq!(read(ToolResult::success_with_message(Value::Null, "Done.")), ("Done.".to_owned(), false));
        assert_eq!(read(ToolResult::error("It broke.")), ("It broke.".to_owned(), true));
    }

    #[test]
    fn l11_the_model_reads_the_code_of_an_error() {
        let error = ToolResult::error_with_code("not_there", "It is not there.");
        assert_eq!(read(error), ("[not_there] It is not there.".to_owned(), true));
        let long = ToolResult::error_with_code("x\u{202e}\n".repeat(100), "No.");
        let (content, _) = read(long);
        assert!(content.len() < 100 && content.ends_with("] No.") && !content.contains('\n'), "{content}");
        for data in [json!({"error": {"code": 1}}), json!({"error": "code"}), json!([])] {
            let result = ToolResult { data: data.into(), ..ToolResult::error("No.") };
            assert_eq!(read(result).0, "No.");
        }
    }

    #[test]
    fn l6_the_model_reads_about_images_and_links_and_sees_the_images() {
        let image = ContentPart::Image { mime_type: "image/png".to_owned(), data: "aaaa".into() };
        let file =
            ContentPart::TextFile { uri: "file:///a.txt".to_owned(), mime_type: None, text: "Hello".into() };
        let result = ToolResult::success("Drawn.").with_content(image.clone()).with_content(file);
        let end = CallEnd::Result(Arc::new(result));
        let answered = answer("c1", "draw", &end);
        let expected = "Drawn.\n[an image, image/png, 3 bytes]\n[the file file:///a.txt, 5 bytes]\nHello";
        assert_eq!(&*answered.content, expected);
        assert_eq!(answered.images, std::slice::from_ref(&image));
        assert_eq!(&*own_text(&end).0, "Drawn.");
        let alone = ToolResult::success(Value::Null).with_content(image);
        assert_eq!(read(alone).0, "[an image, image/png, 3 bytes]");
    }

    #[test]
    fn l6_long_answers_are_cut_with_a_mark() {
        let (content, _) = read(ToolResult::success("ä".repeat(MAX_ANSWER_BYTES)));
        assert!(content.len() <= MAX_ANSWER_BYTES && content.ends_with(" [cut]"));
    }

    #[test]
    fn l4_of_an_internal_error_the_model_reads_the_kind_alone() {
        let end = CallEnd::Fault(Fault::new(Code::ToolInternal, "password is hunter2"));
        assert!(!answer("c", "t", &end).content.contains("hunter2"));
    }
}
