//! Tables without frames. On a terminal, a table fits into its width: texts are shortened at a
//! word, then the least important columns are left out. An id is never broken.

use crate::terminal::output::BOLD;
use crate::terminal::text::shown_line;
use anstyle::Style;
use rustix::termios::tcgetwinsize;
use std::io::IsTerminal;
use unicode_width::UnicodeWidthStr;

/// The space between two columns.
const GAP: usize = 2;
/// A shortened text has at least this many columns.
const MIN_TEXT: usize = 16;
/// The width if the terminal does not report one.
const DEFAULT_WIDTH: usize = 80;

/// A column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    heading: &'static str,
    /// The column with the highest number is left out first; 0 is never left out.
    rank: u8,
    is_text: bool,
}

impl Column {
    /// A column of ids, names or amounts, which are shown whole.
    pub(crate) const fn whole(heading: &'static str, rank: u8) -> Self {
        Self { heading, rank, is_text: false }
    }

    /// A column of texts, which may be shortened.
    pub(crate) const fn text(heading: &'static str, rank: u8) -> Self {
        Self { heading, rank, is_text: true }
    }
}

/// A table.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// The maximum width; `None` if standard output is not a terminal.
    width: Option<usize>,
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Self {
        let width = std::io::stdout().is_terminal().then(terminal_width);
        Self { columns: columns.to_vec(), rows: Vec::new(), width }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table as lines without trailing spaces.
    pub(crate) fn text(&self) -> String {
        let style = if self.width.is_some() { BOLD } else { Style::new() };
        let widths = self.widths();
        let headings = self.columns.iter().map(|column| column.heading);
        let mut lines = vec![line(headings, &widths, style)];
        lines.extend(self.rows.iter().map(|row| line(row.iter().map(String::as_str), &widths, Style::new())));
        lines.join("\n")
    }

    /// Returns the width of each column; `None` for one that is left out.
    fn widths(&self) -> Vec<Option<usize>> {
        let natural = |at: usize, column: &Column| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.width());
            cells.chain([column.heading.width()]).max().unwrap_or_default()
        };
        let mut widths: Vec<_> =
            self.columns.iter().enumerate().map(|(at, column)| Some(natural(at, column))).collect();
        let Some(limit) = self.width else { return widths };
        while total(&widths) > limit {
            let excess = total(&widths) - limit;
            // Shorten the widest text as far as it goes.
            let texts = widths.iter_mut().zip(&self.columns).filter(|(_, column)| column.is_text);
            let widest = texts.filter_map(|(width, _)| width.as_mut()).max_by_key(|width| **width);
            match widest.filter(|width| **width > MIN_TEXT) {
                Some(width) => *width = width.saturating_sub(excess.min(8)).max(MIN_TEXT),
                None => {
                    let shown = self.columns.iter().enumerate().filter(|(at, _)| widths[*at].is_some());
                    let Some((at, _)) =
                        shown.filter(|(_, column)| column.rank > 0).max_by_key(|(_, column)| column.rank)
                    else {
                        break;
                    };
                    widths[at] = None;
                    // The space may suffice for the texts again.
                    for (other, column) in
                        self.columns.iter().enumerate().filter(|(_, column)| column.is_text)
                    {
                        widths[other] = widths[other].map(|_| natural(other, column));
                    }
                }
            }
        }
        widths
    }
}

fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

fn line<'a>(cells: impl Iterator<Item = &'a str>, widths: &[Option<usize>], style: Style) -> String {
    let mut line = String::new();
    for (cell, width) in cells.zip(widths) {
        let Some(width) = *width else { continue };
        let cell = shortened(cell, width);
        line.push_str(&cell);
        line.extend(std::iter::repeat_n(' ', (width + GAP).saturating_sub(cell.width())));
    }
    format!("{style}{}{style:#}", line.trim_end())
}

/// Returns a text of at most this width, cut after a word if one ends in its second half.
fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        let mut longer = cut.clone();
        longer.push(c);
        if longer.width() >= width {
            break;
        }
        cut = longer;
    }
    let word = cut.rfind(' ').filter(|at| *at >= cut.len() / 2);
    format!("{}…", cut[..word.unwrap_or(cut.len())].trim_end())
}

/// Returns the number of columns of the terminal that standard output or standard error is.
pub(crate) fn terminal_width() -> usize {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let reported = || {
        let size = tcgetwinsize(std::io::stdout()).or_else(|_| tcgetwinsize(std::io::stderr()));
        size.ok().map(|size| usize::from(size.ws_col))
    };
    named.or_else(reported).filter(|columns| *columns > 0).unwrap_or(DEFAULT_WIDTH)
}

/// Returns a stranger's text as a cell.
pub(crate) fn cell(text: &str) -> String {
    shown_line(text, 400)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::whole("RUN", 0),
        Column::whole("STATUS", 0),
        Column::whole("THREAD", 2),
        Column::text("WHAT", 1),
    ];

    fn table(width: Option<usize>) -> String {
        let mut table = Table { columns: COLUMNS.to_vec(), rows: Vec::new(), width };
        let thread = "0192f0a1-7c3e-7b61-9d5a-3b1e9f3c2a71";
        table.row(
            ["9f3c2a71", "failed (not_found)", thread, "Count the words of every document"]
                .map(str::to_owned),
        );
        table.row(["0a5b7c11", "completed", "notes", "Hello"].map(str::to_owned));
        anstream::adapter::strip_str(&table.text()).to_string()
    }

    #[test]
    fn a_table_without_a_terminal_shows_everything() {
        assert_eq!(
            table(None),
            "RUN       STATUS              THREAD                                WHAT\n\
             9f3c2a71  failed (not_found)  0192f0a1-7c3e-7b61-9d5a-3b1e9f3c2a71  Count the words of every document\n\
             0a5b7c11  completed           notes                                 Hello"
        );
    }

    #[test]
    fn a_narrow_table_shortens_texts_at_a_word_and_drops_columns_but_breaks_no_id() {
        let wide = table(Some(96));
        assert!(wide.contains("3b1e9f3c2a71  Count the words of every…"), "{wide}");
        let narrow = table(Some(64));
        assert!(
            !narrow.contains("THREAD") && narrow.contains("Count the words of every document"),
            "{narrow}"
        );
        let least = table(Some(30));
        assert_eq!(least, "RUN       STATUS\n9f3c2a71  failed (not_found)\n0a5b7c11  completed");
        for (columns, text) in [(96, wide), (64, narrow), (30, least)] {
            assert!(text.lines().all(|line| line.width() <= columns), "{columns}: {text}");
        }
    }
}
