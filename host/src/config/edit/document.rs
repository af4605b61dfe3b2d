//! Changes to a TOML document that keep its comments, its order and its notation.

use toml_edit::{Array, Decor, DocumentMut, InlineTable, Item, RawString, Table, TableLike, Value};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Returns the text of a changed document that was parsed from `before`. toml_edit writes neither
/// the byte order mark nor the carriage returns of the original; they are restored here.
pub(in crate::config) fn to_text(document: &DocumentMut, before: &str) -> String {
    let text = document.to_string();
    if before.parse::<DocumentMut>().is_ok_and(|before| before.to_string() == text) {
        return before.to_owned();
    }
    let is_crlf = before.split_once('\n').is_some_and(|(line, _)| line.ends_with('\r'));
    let text = text.trim_start_matches('\n').replace('\n', if is_crlf { "\r\n" } else { "\n" });
    let mark = before.starts_with(BYTE_ORDER_MARK).then_some(BYTE_ORDER_MARK);
    mark.into_iter().chain(text.chars()).collect()
}

/// Adds a name to the list at a path. With a `name_key`, the list consists of tables; `values` go
/// into the table with this name, which is added if it is missing.
pub(super) fn add(
    document: &mut DocumentMut,
    path: &[&str],
    name_key: Option<&str>,
    name: &str,
    values: &[(&str, Value)],
) -> Option<()> {
    let (key, parents) = path.split_last()?;
    let list = entry(table(document, parents)?, key, Item::Value(Array::new().into()));
    let tables: Vec<&mut dyn TableLike> = match list {
        Item::ArrayOfTables(tables) => tables.iter_mut().map(|table| table as _).collect(),
        Item::Value(Value::Array(list)) => {
            if list.iter().any(|value| value.as_str() == Some(name)) {
                return Some(());
            }
            list.iter_mut().filter_map(Value::as_inline_table_mut).map(|table| table as _).collect()
        }
        _ => return None,
    };
    if let Some(table) = tables.into_iter().find(|table| is_named(&**table, name_key, name)) {
        values.iter().for_each(|(key, value)| set(table, key, value));
        return Some(());
    }
    let mut new = InlineTable::new();
    name_key
        .filter(|key| values.iter().all(|(other, _)| other != key))
        .map(|key| new.insert(key, name.into()));
    new.extend(values.iter().cloned());
    match list {
        Item::ArrayOfTables(tables) => tables.push(new.into_table()),
        _ => push(list.as_array_mut()?, name_key.map_or_else(|| name.into(), |_| new.into())),
    }
    Some(())
}

/// Sets a value in a table. The comments around an existing value stay.
pub(super) fn set(table: &mut dyn TableLike, key: &str, value: &Value) {
    let item = entry(table, key, Item::Value(value.clone()));
    let texts = |list: &Array| list.iter().map(|text| text.as_str().map(str::to_owned)).collect::<Vec<_>>();
    let is_same = item.as_str() == value.as_str()
        && item.as_integer() == value.as_integer()
        && item.as_array().map(texts) == value.as_array().map(texts);
    if let Some(old) = item.as_value_mut().filter(|_| !is_same) {
        let decor = old.decor().clone();
        *old = value.clone();
        *old.decor_mut() = decor;
    }
}

/// Returns the table at a path, which begins with `grants` and a component. A missing table is
/// written as its neighbors are: with dotted keys, in braces, or under a header.
pub(super) fn table<'a>(document: &'a mut DocumentMut, path: &[&str]) -> Option<&'a mut dyn TableLike> {
    let mut item = document.as_item_mut();
    for (depth, key) in path.iter().enumerate() {
        let mut missing = Table::new();
        missing.set_implicit(true);
        missing.set_dotted(item.as_table().is_some_and(Table::is_dotted));
        let missing = match item {
            Item::Table(_) if depth < 2 => Item::Table(missing),
            _ => Item::Value(InlineTable::new().into()),
        };
        item = entry(item.as_table_like_mut()?, key, missing);
    }
    item.as_table_like_mut()
}

fn entry<'a>(table: &'a mut dyn TableLike, key: &str, missing: Item) -> &'a mut Item {
    // The space before a closing brace belongs to the last value.
    if !table.contains_key(key)
        && let Some((_, Item::Value(last))) = table.iter_mut().last()
        && text_of(last.decor().suffix()).trim().is_empty()
    {
        last.decor_mut().set_suffix("");
    }
    table.entry(key).or_insert(missing)
}

/// Gives the table at a path a header at the end of the file, if it has values now and the file
/// had only tables below it before.
pub(super) fn add_header(document: &mut DocumentMut, path: &[&str]) {
    // Comments at the end of the file belong to the table before.
    let end = text_of(Some(document.trailing())).trim_end().to_owned();
    let table = find(document, path).and_then(|(item, _)| item.as_table_mut());
    if let Some(table) = table.filter(|table| table.is_implicit() && !table.is_dotted())
        && !table.get_values().is_empty()
    {
        table.set_implicit(false);
        table.set_position(Some(isize::MAX));
        table.decor_mut().set_prefix(if end.is_empty() { "\n".to_owned() } else { format!("{end}\n\n") });
        document.set_trailing("");
    }
}

/// Appends a value to a list, on a line of its own if the list is written so. It follows the
/// comment at the end of the last value's line.
pub(in crate::config) fn push(list: &mut Array, mut value: Value) {
    let (is_empty, has_comma) = (list.is_empty(), list.trailing_comma());
    let (mut before, mut behind) = (String::new(), text_of(Some(list.trailing())).to_owned());
    if let Some(last) = list.iter_mut().last() {
        before.push_str(text_of(last.decor().prefix()));
        if !has_comma {
            behind.insert_str(0, text_of(last.decor().suffix()));
            last.decor_mut().set_suffix("");
        }
    }
    let indent = before.rsplit_once('\n').map(|(_, indent)| indent);
    let line_end = behind.find('\n').unwrap_or(if indent.is_some() { behind.len() } else { 0 });
    let (line, rest) = behind.split_at(line_end);
    *value.decor_mut() = match indent.or_else(|| rest.contains('\n').then_some("  ")) {
        Some(indent) => Decor::new(format!("{line}\n{indent}"), ""),
        None => Decor::new(if is_empty { "" } else { " " }, ""),
    };
    list.set_trailing(rest);
    list.push_formatted(value);
}

/// Removes a name from a list, or the table whose `name_key` has it; `None` if there is none.
pub(super) fn take(
    document: &mut DocumentMut,
    path: &[&str],
    name_key: Option<&str>,
    name: &str,
) -> Option<()> {
    match find(document, path)?.0 {
        Item::ArrayOfTables(tables) => {
            let index = tables.iter().position(|table| is_named(table, name_key, name))?;
            let mut comments = Vec::new();
            collect(&tables.remove(index), 0, &mut comments);
            keep(document, comments);
        }
        list => {
            let list = list.as_array_mut()?;
            let mut values = list.iter();
            let index = values.position(|value| match value {
                Value::InlineTable(table) => is_named(table, name_key, name),
                value => value.as_str() == Some(name),
            });
            drop(values);
            take_at(list, index?);
        }
    }
    Some(())
}

/// Removes a value from a list, and the rest of its line if it begins one. Other comments stay.
fn take_at(list: &mut Array, index: usize) {
    let value = list.remove(index);
    let before = text_of(value.decor().prefix());
    let next = list.get(index).and_then(|next| next.decor().prefix()).unwrap_or(list.trailing());
    let behind = format!("{}{}", text_of(value.decor().suffix()), text_of(Some(next)));
    let kept = match (before.rfind('\n'), behind.find('\n')) {
        (Some(start), Some(end)) => format!("{}{}", &before[..start], &behind[end..]),
        (None, Some(_)) => behind,
        (None, None) if index == list.len() => behind,
        (_, None) => before.to_owned(),
    };
    match list.get_mut(index) {
        Some(next) => next.decor_mut().set_prefix(kept),
        None => list.set_trailing(kept),
    }
}

/// Removes the item at a path; `None` if it does not exist. The comments above it stay.
pub(super) fn remove(document: &mut DocumentMut, path: &[&str]) -> Option<()> {
    let (key, parents) = path.split_last()?;
    let (item, position) = find(document, parents)?;
    let table = item.as_table_like_mut()?;
    let mut comments = vec![(position, comment_above(table, key))];
    let is_last = table.iter().last().is_some_and(|(last, _)| last == *key);
    let removed = table.remove(key)?;
    tables_in(&removed).for_each(|table| collect(table, position, &mut comments));
    // Comments and space before a closing brace belong to the last value, and stay.
    if let (Item::Value(Value::InlineTable(table)), Item::Value(value), true) = (item, &removed, is_last) {
        let end = text_of(value.decor().suffix());
        match table.iter_mut().last() {
            Some((_, last)) => {
                let end = format!("{}{end}", text_of(last.decor().suffix()));
                last.decor_mut().set_suffix(end);
            }
            None => table.set_trailing(format!("{end}{}", text_of(Some(table.trailing())))),
        }
    }
    keep(document, comments);
    Some(())
}

/// Returns the item at a path, with the position of the header above it.
fn find<'a>(document: &'a mut DocumentMut, path: &[&str]) -> Option<(&'a mut Item, isize)> {
    path.iter().try_fold((document.as_item_mut(), 0), |(item, position), key| {
        let item = item.as_table_like_mut()?.get_mut(key)?;
        let position = item.as_table().and_then(Table::position).unwrap_or(position);
        Some((item, position))
    })
}

/// Adds the comments above headers and dotted keys, each with the position of its table. Comments
/// within a table belong to it.
fn collect(table: &Table, position: isize, comments: &mut Vec<(isize, String)>) {
    let position = table.position().unwrap_or(position);
    comments.push((position, text_of(table.decor().prefix()).to_owned()));
    for (key, item) in table.iter() {
        comments.extend(table.is_dotted().then(|| (position, comment_above(table, key))));
        tables_in(item).for_each(|table| collect(table, position, comments));
    }
}

fn tables_in(item: &Item) -> impl Iterator<Item = &Table> {
    item.as_table().into_iter().chain(item.as_array_of_tables().into_iter().flat_map(|all| all.iter()))
}

fn comment_above(table: &dyn TableLike, key: &str) -> String {
    text_of(table.key(key).and_then(|key| key.leaf_decor().prefix())).to_owned()
}

/// Puts comments above the next table after their position, or at the end of the file.
fn keep(document: &mut DocumentMut, comments: Vec<(isize, String)>) {
    for (position, comment) in comments.iter().rev().filter(|(_, comment)| !comment.trim().is_empty()) {
        let above = |behind: &str| format!("{}\n{behind}", comment.trim_end());
        match next_table(document.as_table_mut(), *position).map(Table::decor_mut) {
            Some(decor) => decor.set_prefix(above(text_of(decor.prefix()))),
            None => document.set_trailing(above(text_of(Some(document.trailing())))),
        }
    }
}

fn next_table(table: &mut Table, after: isize) -> Option<&mut Table> {
    if table.position().is_some_and(|position| position > after) {
        return Some(table);
    }
    let below = table.iter_mut().flat_map(|(_, item)| match item {
        Item::Table(table) => vec![table],
        Item::ArrayOfTables(tables) => tables.iter_mut().collect(),
        _ => Vec::new(),
    });
    below.filter_map(|table| next_table(table, after)).min_by_key(|table| table.position())
}

fn is_named(table: &dyn TableLike, name_key: Option<&str>, name: &str) -> bool {
    name_key.is_some_and(|key| table.get(key).and_then(Item::as_str) == Some(name))
}

fn text_of(raw: Option<&RawString>) -> &str {
    raw.and_then(RawString::as_str).unwrap_or_default()
}
