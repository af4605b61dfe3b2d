//! The timeline of a past run: each line with the time since the run began.

use crate::render::run_lines::{Line, RunLines, View};
use crate::terminal::output::DIM;
use std::sync::Arc;
use tollgate_agent::run::StoredEvent;

/// Returns the lines of a run's events, without the questions that are open at its end.
pub(crate) fn timeline(events: &[Arc<StoredEvent>]) -> String {
    let began_ms = events.first().map_or(0, |event| event.at_ms);
    let (mut lines, mut timeline) = (RunLines::new(View::Record), Timeline::default());
    for event in events {
        let since = stamp(event.at_ms.saturating_sub(began_ms));
        for line in lines.of(&event.event) {
            timeline.add(&since, &line);
        }
    }
    timeline.text
}

#[derive(Default)]
struct Timeline {
    text: String,
    /// The time of the last line.
    stamped: String,
}

impl Timeline {
    /// Adds a line, with its time if that differs from the previous line's.
    fn add(&mut self, since: &str, line: &Line) {
        let words = match line {
            Line::Heading(words) => {
                self.text.push('\n');
                words
            }
            Line::Below(words) => words,
        };
        for words in words.lines() {
            let shown = if self.stamped == since { "" } else { since };
            self.text.push_str(format!("{DIM}{shown:>9}{DIM:#}  {words}").trim_end());
            self.text.push('\n');
            since.clone_into(&mut self.stamped);
        }
    }
}

/// Formats the time since the run began: `1.240 s`, and from a minute on `1:02:03`.
fn stamp(since_ms: u64) -> String {
    let (seconds, ms) = (since_ms / 1_000, since_ms % 1_000);
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}.{ms:03} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
