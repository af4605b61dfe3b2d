//! Finds an entry in the text of a configuration, in every notation of TOML: under a header,
//! with dotted keys, in braces. Only that entry is changed; the rest of the text stays the
//! same, byte for byte.

use super::block::{Block, line_end, line_start};
use toml_edit::{Array, Document, InlineTable, Item, Key, Table, TableLike, Value};

/// The existing part of a path, and the tables around it.
pub(super) struct Found<'a> {
    /// The number of its keys that exist.
    depth: usize,
    /// The last key that exists.
    last: Option<(&'a Key, &'a Item)>,
    /// The inline table that would hold the next key, and the number of keys that lead to it.
    braces: Option<(&'a InlineTable, usize)>,
    /// The number of keys in the header under which the next key would go.
    header: usize,
}

impl<'a> Found<'a> {
    /// Follows a path from the root of the text.
    pub(super) fn at<K: AsRef<str>>(document: &'a Document<&str>, path: &[K]) -> Self {
        let mut found = Found { depth: 0, last: None, braces: None, header: 0 };
        let mut table: &dyn TableLike = document.as_table();
        for key in path {
            match found.last {
                None => (),
                Some((_, Item::Table(below))) => {
                    if !below.is_dotted() {
                        found.header = found.depth;
                    }
                    table = below;
                }
                Some((_, Item::Value(Value::InlineTable(below)))) => {
                    if !below.is_dotted() {
                        found.braces = Some((below, found.depth));
                    }
                    table = below;
                }
                Some(_) => return found,
            }
            let Some(pair) = table.get_key_value(key.as_ref()) else { return found };
            found.last = Some(pair);
            found.depth += 1;
        }
        found
    }

    /// Returns the item at the full path.
    pub(super) fn item<K>(&self, path: &[K]) -> Option<&'a Item> {
        self.last.filter(|_| self.depth == path.len()).map(|(_, item)| item)
    }
}

pub(super) fn parsed(text: &str) -> Option<Document<&str>> {
    Document::parse(text).ok()
}

/// Returns whether the path exists.
pub(super) fn has(text: &str, path: &[&str]) -> bool {
    parsed(text).is_some_and(|document| Found::at(&document, path).item(path).is_some())
}

/// Adds a value to the list at the path; `None` if the list already contains it.
pub(super) fn add(text: &str, path: &[&str], value: &str) -> Option<String> {
    let written = Value::from(value).to_string();
    let document = parsed(text)?;
    match Found::at(&document, path).item(path) {
        None => put(text, path, &format!("[{written}]")),
        Some(item) => {
            let list = item.as_array()?;
            let is_in = list.iter().any(|there| there.as_str() == Some(value));
            if is_in { None } else { Some(Block::of_array(list)?.with(text, &written)) }
        }
    }
}

/// Removes a value from the list at the path; `None` if the list does not contain it.
pub(super) fn take(text: &str, path: &[&str], value: &str) -> Option<String> {
    let document = parsed(text)?;
    let list = Found::at(&document, path).item(path)?.as_array()?;
    take_from(text, list, |there| there.as_str() == Some(value))
}

/// Removes the first matching value from a list.
pub(super) fn take_from(text: &str, list: &Array, is_it: impl Fn(&Value) -> bool) -> Option<String> {
    let end = list.iter().find(|there| is_it(there))?.span()?.end;
    Block::of_array(list)?.without(text, end)
}

/// Sets the item at the path to this value, which is already TOML.
pub(super) fn set(text: &str, path: &[&str], written: &str) -> Option<String> {
    let document = parsed(text)?;
    match Found::at(&document, path).item(path) {
        None => put(text, path, written),
        Some(item) => replace(text, item, written),
    }
}

/// Replaces this item with another value.
pub(super) fn replace(text: &str, item: &Item, written: &str) -> Option<String> {
    let span = item.as_value()?.span()?;
    Some(format!("{}{written}{}", &text[..span.start], &text[span.end..]))
}

/// Inserts a new entry in the notation of its neighbors. The path begins with `grants` and a
/// component.
pub(super) fn put(text: &str, path: &[&str], written: &str) -> Option<String> {
    let document = parsed(text)?;
    let found = Found::at(&document, path);
    let below = |from: usize| pair(&path[from..=found.depth], &path[found.depth + 1..], written);
    if let Some((braces, depth)) = found.braces {
        return Some(Block::of_braces(braces)?.with(text, &below(depth)));
    }
    match found.last {
        Some((_, Item::Table(table))) if table.is_dotted() => {
            // Where neighbors use dotted keys, the entry does too: down to the key of the
            // grant.
            let dots = path.len().min(3).max(found.depth + 1);
            let line = pair(&path[found.header..dots], &path[dots..], written);
            Some(with_line(text, leaf_end(table)?, &line))
        }
        Some((_, Item::Table(table))) if !table.is_implicit() && found.depth > 1 => {
            let end = leaf_end(table).or_else(|| Some(table.span()?.end))?;
            Some(with_line(text, end, &below(found.depth)))
        }
        Some((_, Item::Table(_))) | None => {
            let header = path[..2].iter().map(|key| key_of(key)).collect::<Vec<_>>().join(".");
            Some(with_section(text, &format!("[{header}]\n{}\n", pair(&path[2..3], &path[3..], written))))
        }
        Some(_) => None,
    }
}

/// Returns the text with a new line after the one at this offset.
pub(super) fn with_line(text: &str, at: usize, line: &str) -> String {
    let (before, behind) = text.split_at(line_end(text, at));
    format!("{before}\n{line}{}{behind}", if behind.is_empty() { "\n" } else { "" })
}

fn with_section(text: &str, section: &str) -> String {
    let gap = match text {
        "" => "",
        _ if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{text}{gap}{section}")
}

/// `a.b = { c = value }`
fn pair(dotted: &[&str], below: &[&str], written: &str) -> String {
    let keys = dotted.iter().map(|key| key_of(key)).collect::<Vec<_>>().join(".");
    let value =
        below.iter().rev().fold(written.to_owned(), |value, key| format!("{{ {} = {value} }}", key_of(key)));
    format!("{keys} = {value}")
}

fn key_of(key: &str) -> String {
    Key::new(key).display_repr().into_owned()
}

/// Removes the item at the path, or one part of it if it occurs in several places; `None` if it
/// does not exist.
pub(super) fn cut(text: &str, path: &[&str]) -> Option<String> {
    let document = parsed(text)?;
    let mut path: Vec<&str> = path.to_vec();
    loop {
        let found = Found::at(&document, &path);
        let (key, item) = found.last.filter(|_| found.depth == path.len())?;
        let inner: &dyn TableLike = match item {
            Item::Table(table) if !table.is_dotted() && !table.is_implicit() => {
                return cut_section(text, table);
            }
            Item::ArrayOfTables(tables) => return cut_section(text, tables.get(0)?),
            Item::Table(table) => table,
            Item::Value(Value::InlineTable(table)) if table.is_dotted() => table,
            Item::Value(value) => {
                let end = value.span()?.end;
                return match found.braces {
                    Some((braces, _)) => Block::of_braces(braces)?.without(text, end),
                    None => Some(without_lines(text, key.span()?.start, end)),
                };
            }
            Item::None => return None,
        };
        path.push(inner.iter().next()?.0);
    }
}

/// Removes a table from its header to its last line. Comments above it stay.
pub(super) fn cut_section(text: &str, table: &Table) -> Option<String> {
    let header = table.span()?;
    Some(without_lines(text, header.start, leaf_end(table).unwrap_or(header.end).max(header.end)))
}

fn without_lines(text: &str, start: usize, end: usize) -> String {
    let before = &text[..line_start(text, start)];
    let behind = text.get(line_end(text, end) + 1..).unwrap_or_default();
    // One of the empty lines around it stays.
    let one = before.is_empty() || before.ends_with("\n\n");
    let behind = if one { behind.strip_prefix('\n').unwrap_or(behind) } else { behind };
    let before =
        if behind.is_empty() && before.ends_with("\n\n") { &before[..before.len() - 1] } else { before };
    format!("{before}{behind}")
}

/// Returns the end of the last value under the table's own header.
pub(super) fn leaf_end(table: &Table) -> Option<usize> {
    let ends = table.iter().filter_map(|(_, item)| match item {
        Item::Value(value) => Some(value.span()?.end),
        Item::Table(below) if below.is_dotted() => leaf_end(below),
        _ => None,
    });
    ends.max()
}
