//! `text-stats` in Rust: the figures of a text.

use serde::Serialize;
use std::collections::HashMap;
use tollgate_sdk::{
    Context, Key, Level, ProgressStatus, RunIdentity, Ticket, ToolError, ToolResult, component, json,
    reducer::Add, tool,
};

/// The number of words counted by calls of this thread.
static WORDS_SEEN: Key<u64, Add> = Key::thread("text-stats-rust.words-seen").add().persistent();

#[derive(Serialize)]
struct Statistics<'a> {
    bytes: usize,
    characters: usize,
    words: u64,
    lines: usize,
    top: Vec<Frequency<'a>>,
    seen: u64,
}

#[derive(Serialize)]
struct Frequency<'a> {
    word: &'a str,
    count: u64,
}

/// Counts the bytes, characters, words and lines of a text, and lists its most frequent words.
///
/// Args:
///     text: The text.
///     top: How many of the most frequent words to list.
///     rounds: How often to measure it.
///     confirm: Whether to ask a person first.
#[tool(category = "text", idempotent, state(WORDS_SEEN))]
pub fn text_stats_rust(
    text: String,
    #[default = 3]
    #[schemars(range(min = 0, max = 20))]
    top: u32,
    #[default = 1]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    rounds: u32,
    #[default] confirm: bool,
    ctx: &Context,
) -> Result<ToolResult, ToolError> {
    if text.is_empty() {
        return Ok(ToolResult::error_with_code("empty_text", "There is no text to measure."));
    }
    if text.contains('\0') {
        return Err(ToolError::ExecutionFailed("The text holds a NUL character.".to_owned()));
    }
    match ctx.resume() {
        None if confirm => return Ok(question(text.len())),
        Some(answer) if !answer.value::<bool>()? => {
            return Ok(ToolResult::error_with_code("declined", "The person said no."));
        }
        _ => {}
    }
    ctx.log(Level::Debug, surroundings(ctx));
    ctx.progress(0.0, "measuring");
    let lower = text.to_ascii_lowercase();
    let mut counts = HashMap::new();
    for _ in 0..rounds {
        if ctx.is_cancelled() {
            return Ok(ToolResult::error_with_code("cancelled", "The run was cancelled."));
        }
        counts = count_words(&lower);
    }
    let words = counts.values().sum();
    let seen = ctx.get(&WORDS_SEEN)?;
    ctx.add(&WORDS_SEEN, words)?;
    let top = most_frequent(&counts, top);
    for Frequency { word, count } in &top {
        ctx.stream_output(format!("{count} {word}\n"));
    }
    ctx.progress_status(ProgressStatus::Done, Some(format!("measured {words} words")), Some(1.0));
    let lines = text.matches('\n').count() + usize::from(!text.ends_with('\n'));
    let characters = text.chars().count();
    Ok(ToolResult::success(Statistics { bytes: text.len(), characters, words, lines, top, seen }))
}

/// Describes the caller, for the operator.
fn surroundings(ctx: &Context) -> String {
    let (call, attempt) = (ctx.call_id(), ctx.attempt());
    let RunIdentity { run_id, thread_id, agent_id, .. } = ctx.identity();
    format!("call {call}, attempt {attempt}: agent {agent_id}, run {run_id}, thread {thread_id}")
}

fn question(bytes: usize) -> ToolResult {
    ToolResult::suspended_with(
        Ticket::new("measure", format!("Measure {bytes} bytes?"))
            .with_parameters(json!({ "bytes": bytes }))
            .with_response::<bool>(),
    )
}

fn count_words(text: &str) -> HashMap<&str, u64> {
    let mut counts = HashMap::new();
    let is_blank = |c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    for word in text.split(is_blank).filter(|word| !word.is_empty()) {
        *counts.entry(word).or_insert(0) += 1;
    }
    counts
}

fn most_frequent<'a>(counts: &HashMap<&'a str, u64>, top: u32) -> Vec<Frequency<'a>> {
    let mut entries: Vec<Frequency<'a>> =
        counts.iter().map(|(word, count)| Frequency { word, count: *count }).collect();
    entries.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.word.cmp(b.word)));
    entries.truncate(top as usize);
    entries
}

component! { id: "text-stats-rust", tools: [text_stats_rust] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn it_measures_characters_and_not_bytes() {
        let ctx = Context::for_test();
        let result = text_stats_rust("Grüezi 😀 grüezi\n".to_owned(), 1, 1, false, &ctx).unwrap();
        let data = result.data();
        assert_eq!(
            (&data["bytes"], &data["characters"], &data["words"]),
            (&json!(21), &json!(16), &json!(3))
        );
        assert_eq!(data["top"], json!([{"word": "grüezi", "count": 2}]));
    }

    #[test]
    fn it_asks_before_it_measures() {
        let result = text_stats_rust("a".to_owned(), 3, 1, true, &Context::for_test()).unwrap();
        assert!(result.is_pending());
    }
}
