//! Progress of long work, on standard error and only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::time::Duration;

/// A line that shows the work in progress; it disappears when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Starts to show this work.
    pub(crate) fn new(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar }
    }

    /// Shows that `done` of `total` files are done.
    pub(crate) fn file(&self, done: usize, total: usize, file: &Path) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        self.bar.set_message(format!("{done} of {total}  {}", crate::terminal::text::shown_line(&name, 60)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
