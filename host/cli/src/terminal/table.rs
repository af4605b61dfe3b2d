//! Frameless tables, cut to the terminal's width.

use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use std::io::IsTerminal;

/// Creates a table with these headings.
pub(crate) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if std::io::stdout().is_terminal() {
        table.set_header(headings.iter().map(|heading| Cell::new(heading).add_attribute(Attribute::Bold)));
    } else {
        table.set_header(headings);
    }
    table
}

/// Returns the table's text without trailing spaces.
pub(crate) fn text_of(table: &Table) -> String {
    table.trim_fmt()
}
