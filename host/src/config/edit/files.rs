//! Lists whose entries are tables, `files` and `delegates`: in braces within a list, or each
//! under a header of its own.

use super::FileValue;
use super::block::Block;
use super::text::{Found, cut_section, leaf_end, parsed, put, replace, take_from, with_line};
use tollgate_sandbox::FileAccess;
use toml_edit::{Item, TableLike, Value};

/// A list of tables, and the key that names its entries.
#[derive(Clone, Copy)]
pub(super) struct Entries {
    list: &'static str,
    name: &'static str,
}

/// Directories, named by the guest's path.
pub(super) const FILES: Entries = Entries { list: "files", name: "guest" };
/// Agents that the component may run.
pub(super) const DELEGATES: Entries = Entries { list: "delegates", name: "agent" };

/// Returns the keys and values of a directory, as TOML.
pub(super) fn pairs(file: &FileValue) -> Vec<(&'static str, String)> {
    let access = if file.access == FileAccess::Read { "read" } else { "read-write" };
    let text = |value: &str| Value::from(value).to_string();
    let host = file.host.to_string_lossy();
    let mut pairs = vec![("host", text(&host)), ("guest", text(&file.guest)), ("access", text(access))];
    pairs.extend(file.quota_bytes.map(|bytes| ("quota_bytes", bytes.to_string())));
    pairs
}

/// Changes one key of a granted directory; grants the whole directory if it is not granted yet.
pub(super) fn set(text: &str, id: &str, file: &FileValue, key: &str, written: &str) -> Option<String> {
    match FILES.set(text, id, &file.guest, key, written) {
        Some(changed) => Some(changed),
        None => FILES.add(text, id, &file.guest, &pairs(file)),
    }
}

/// Grants an agent if it is not granted yet.
pub(super) fn add_delegate(text: &str, id: &str, agent: &str) -> Option<String> {
    DELEGATES.add(text, id, agent, &[("agent", Value::from(agent).to_string())])
}

/// Removes an entry; `None` if it does not exist.
pub(super) fn remove(text: &str, id: &str, entries: Entries, name: &str) -> Option<String> {
    let path = ["grants", id, entries.list];
    let document = parsed(text)?;
    match Found::at(&document, &path).item(&path)? {
        Item::ArrayOfTables(tables) => {
            cut_section(text, tables.iter().find(|table| entries.is(*table, name))?)
        }
        item => take_from(text, item.as_array()?, |there| {
            there.as_inline_table().is_some_and(|table| entries.is(table, name))
        }),
    }
}

impl Entries {
    fn is(self, entry: &dyn TableLike, name: &str) -> bool {
        entry.get(self.name).and_then(Item::as_str) == Some(name)
    }

    /// Adds an entry; `None` if it already exists.
    fn add(self, text: &str, id: &str, name: &str, pairs: &[(&str, String)]) -> Option<String> {
        let path = ["grants", id, self.list];
        let written = |separator: &str| {
            let pairs = pairs.iter().map(|(key, value)| format!("{key} = {value}"));
            pairs.collect::<Vec<_>>().join(separator)
        };
        let braces = || format!("{{ {} }}", written(", "));
        let document = parsed(text)?;
        match Found::at(&document, &path).item(&path) {
            None => put(text, &path, &format!("[{}]", braces())),
            Some(Item::ArrayOfTables(tables)) => {
                let is_there = tables.iter().any(|table| self.is(table, name));
                let last = tables.iter().last().filter(|_| !is_there)?;
                let section = format!("\n[[grants.{id}.{}]]\n{}", self.list, written("\n"));
                Some(with_line(text, leaf_end(last)?, &section))
            }
            Some(item) => {
                let list = item.as_array()?;
                let mut there = list.iter().filter_map(Value::as_inline_table);
                let is_there = there.any(|table| self.is(table, name));
                if is_there { None } else { Some(Block::of_array(list)?.with(text, &braces())) }
            }
        }
    }

    /// Changes one key of an entry; `None` if the entry does not exist.
    fn set(self, text: &str, id: &str, name: &str, key: &str, written: &str) -> Option<String> {
        let path = ["grants", id, self.list];
        let pair = format!("{key} = {written}");
        let document = parsed(text)?;
        match Found::at(&document, &path).item(&path)? {
            Item::ArrayOfTables(tables) => {
                let table = tables.iter().find(|table| self.is(*table, name))?;
                match table.get(key) {
                    Some(there) => replace(text, there, written),
                    None => Some(with_line(text, leaf_end(table)?, &pair)),
                }
            }
            item => {
                let mut tables = item.as_array()?.iter().filter_map(Value::as_inline_table);
                let table = tables.find(|table| self.is(*table, name))?;
                match TableLike::get(table, key) {
                    Some(there) => replace(text, there, written),
                    None => Some(Block::of_braces(table)?.with(text, &pair)),
                }
            }
        }
    }
}
