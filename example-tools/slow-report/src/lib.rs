//! `slow_report`: a slow report with progress.
//!
//! It shows the events of a long call: activity and its changes, progress, and the
//! report itself as it grows. It pauses after each part, like a tool that waits for
//! something slow, and stops early when cancelled.

pub mod report;

use document::Directories;
use report::Part;
use std::thread;
use std::time::Duration;
use tollgate_sdk::{CodedError, Context, Level, ProgressStatus, ToolResult, component, json, tool};

/// The most parts.
const MAX_PARTS: u32 = 20;

/// The longest pause after each part, in milliseconds.
const MAX_PAUSE_MS: u32 = 10_000;

/// The interval at which a pause checks for cancellation.
const CANCEL_CHECK: Duration = Duration::from_millis(20);

/// Writes a report on a text, part by part: words, sentences, the longest
/// sentence and keywords of each. Takes its time, and streams the report as it
/// grows. Give the text itself, or the path of a file.
///
/// Args:
///     text: The text to report on.
///     path: A text file in a granted directory, such as `/docs/guide.md`.
///     parts: Into how many parts to cut it; 1 to 20.
///     pause_ms: How long to pause after each part; at most 10000.
#[tool(category = "demo", idempotent, timeout = "4m", max_retries = 0)]
pub fn slow_report(
    text: Option<String>,
    path: Option<String>,
    #[default = 4] parts: u32,
    #[default = 300] pause_ms: u32,
    ctx: &Context,
) -> Result<ToolResult, CodedError> {
    let directories = Directories::granted("slow-report");
    let text = document::fetch(text, path.as_deref(), &directories)?;
    let chunks = report::split(&text, parts.clamp(1, MAX_PARTS) as usize);
    if chunks.is_empty() {
        return Err(CodedError::new("no_text", "The text is empty."));
    }
    let pause = Duration::from_millis(u64::from(pause_ms.min(MAX_PAUSE_MS)));
    write(&chunks, pause, ctx)
}

fn write(chunks: &[(usize, Vec<&str>)], pause: Duration, ctx: &Context) -> Result<ToolResult, CodedError> {
    let mut parts: Vec<Part> = Vec::new();
    let mut markdown = String::new();
    ctx.activity("report", json!({"done": 0, "of": chunks.len()}).to_string());
    for (first_line, lines) in chunks {
        let part = report::read(*first_line, lines);
        let paragraph = part.markdown();
        ctx.stream_output(&paragraph);
        markdown.push_str(&paragraph);
        parts.push(part);
        tell(parts.len(), chunks.len(), ctx);
        if !paused(pause, ctx) {
            return Err(stopped(parts.len(), ctx));
        }
    }
    ctx.progress_status(ProgressStatus::Done, None, Some(1.0));
    Ok(ToolResult::success(json!({"report": markdown, "parts": parts})))
}

fn tell(done: usize, of: usize, ctx: &Context) {
    ctx.activity_delta("report", json!([{"op": "replace", "path": "/done", "value": done}]));
    ctx.progress(done as f64 / of as f64, format!("part {done} of {of}"));
}

/// Sleeps in short pieces. Returns false if the run is being cancelled.
fn paused(pause: Duration, ctx: &Context) -> bool {
    let mut left = pause;
    while !left.is_zero() && !ctx.is_cancelled() {
        let piece = left.min(CANCEL_CHECK);
        thread::sleep(piece);
        left -= piece;
    }
    !ctx.is_cancelled()
}

fn stopped(done: usize, ctx: &Context) -> CodedError {
    let message = format!("The run was cancelled after {done} parts.");
    ctx.progress_status(ProgressStatus::Cancelled, Some(message.clone()), None);
    ctx.log(Level::Info, message.clone());
    CodedError::new("cancelled", message)
}

component! { id: "slow-report", tools: [slow_report] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Instant;
    use tollgate_sdk::{Component, Report};

    const TEXT: &str = "One sentence here.\nAnother sentence there.\n";

    fn report(parts: u32, pause_ms: u32, ctx: &Context) -> Result<ToolResult, CodedError> {
        slow_report(Some(TEXT.to_owned()), None, parts, pause_ms, ctx)
    }

    #[test]
    fn what_is_streamed_is_the_report() {
        let ctx = Context::for_test();
        let result = report(2, 0, &ctx).unwrap();
        let streamed: String = ctx
            .reports()
            .into_iter()
            .filter_map(|report| match report {
                Report::Output(delta) => Some(delta),
                _ => None,
            })
            .collect();
        assert_eq!(result.data()["report"], streamed);
        assert_eq!(result.data()["parts"].as_array().unwrap().len(), 2);
        assert_eq!(result.data()["parts"][1]["first_line"], 2);
    }

    #[test]
    fn progress_and_activity_follow_the_parts() {
        let ctx = Context::for_test();
        report(2, 0, &ctx).unwrap();
        let told = ctx.reports();
        let progress: Vec<_> = told
            .iter()
            .filter_map(|report| match report {
                Report::Progress { status, progress, .. } => Some((*status, *progress)),
                _ => None,
            })
            .collect();
        let running = ProgressStatus::Running;
        let expected = [(running, Some(0.5)), (running, Some(1.0)), (ProgressStatus::Done, Some(1.0))];
        assert_eq!(progress, expected);
        assert!(matches!(&told[0], Report::Activity { content, .. } if content == r#"{"done":0,"of":2}"#));
        let patch = json!([{"op": "replace", "path": "/done", "value": 1}]);
        assert!(told.contains(&Report::ActivityDelta { kind: "report".into(), patch }));
    }

    #[test]
    fn it_pauses_after_each_part() {
        let began = Instant::now();
        report(2, 30, &Context::for_test()).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(60));
    }

    #[test]
    fn a_cancelled_run_stops_it_after_the_first_part() {
        let ctx = Context::for_test().cancelled();
        let error = report(2, MAX_PAUSE_MS, &ctx).unwrap_err();
        assert_eq!(error.code(), "cancelled");
        let outputs = ctx.reports().iter().filter(|told| matches!(told, Report::Output(_))).count();
        assert_eq!(outputs, 1);
    }

    #[test]
    fn an_empty_text_is_the_tools_own_error() {
        let mut ctx = Context::for_test().with_tool_name("slow_report");
        let result = Exported::execute(r#"{"text":""}"#, &mut ctx).unwrap().result;
        assert_eq!(result.data()["error"]["code"], "no_text");
    }
}
