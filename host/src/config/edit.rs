//! Changes `tollgate.toml` as a person would: what is not meant stays as it was, with
//! its comments. Nothing is written that could not be read back.

use super::{Config, in_dir};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use tollgate_sandbox::FileAccess;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// A configuration file that is being changed.
#[derive(Debug)]
pub struct Edit {
    path: PathBuf,
    document: DocumentMut,
}

/// Grants of one component, as they are typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Powers {
    /// Directories.
    pub files: Vec<FileValue>,
    /// Values of the lists, each with its key: `http`, `addresses`, `secrets`,
    /// `environment`, `actions`.
    pub lists: Vec<(&'static str, String)>,
    /// Settings with their values.
    pub settings: Vec<(String, String)>,
    /// Other components' state keys, each behind `read` or `write`.
    pub state: Vec<(&'static str, String)>,
}

/// A directory as it is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileValue {
    /// The directory of the host; empty where only the guest's path is meant.
    pub host: PathBuf,
    /// Where the component sees it.
    pub guest: String,
    /// Whether it may be changed.
    pub access: FileAccess,
}

impl Edit {
    /// Reads the file that a configuration came from, or begins the one that it
    /// would come from.
    ///
    /// # Errors
    /// It cannot be read, or is no configuration.
    pub fn open(path: &Path) -> Result<Self, String> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(format!("{} cannot be read: {e}", path.display())),
        };
        Config::parse(path, &text).map_err(|e| e.to_string())?;
        let document = text.parse().map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self { path: path.to_owned(), document })
    }

    /// Adds to what a component was granted. What is there already is left alone; a
    /// directory or setting of the same name is replaced.
    pub fn grant(&mut self, component_id: &str, powers: &Powers) {
        let Some(grants) = self.grants_of(component_id) else { return };
        for (key, value) in &powers.lists {
            add(list(grants, key), value);
        }
        for file in &powers.files {
            remove_file(grants, &file.guest);
            add_file(grants, file);
        }
        for (name, value) in &powers.settings {
            if let Some(settings) = below(grants, "settings") {
                settings.insert(name, Item::Value(value.as_str().into()));
            }
        }
        for (key, value) in &powers.state {
            if let Some(state) = below(grants, "state") {
                add(list(state, key), value);
            }
        }
    }

    /// Whether the file says where this secret is.
    #[must_use]
    pub fn has_secret(&self, name: &str) -> bool {
        let secrets = self.document.get("secrets").and_then(Item::as_table_like);
        secrets.is_some_and(|secrets| secrets.contains_key(name))
    }

    /// Takes away from what a component was granted. The answer says what of it was
    /// not there.
    pub fn revoke(&mut self, component_id: &str, powers: &Powers) -> Vec<String> {
        let mut absent = Vec::new();
        let Some(grants) = self.grants_of(component_id) else { return absent };
        let mut note = |was_there: bool, what: &str| absent.extend((!was_there).then(|| what.to_owned()));
        for (key, value) in &powers.lists {
            note(remove(grants, key, value), value);
        }
        for file in &powers.files {
            note(remove_file(grants, &file.guest), &file.guest);
        }
        for (name, _) in &powers.settings {
            let settings = grants.get_mut("settings").and_then(Item::as_table_like_mut);
            note(settings.is_some_and(|settings| settings.remove(name).is_some()), name);
        }
        for (key, value) in &powers.state {
            let state = grants.get_mut("state").and_then(Item::as_table_like_mut);
            note(state.is_some_and(|state| remove(state, key, value)), value);
        }
        absent
    }

    /// Takes everything away from a component; false where it had nothing.
    pub fn revoke_all(&mut self, component_id: &str) -> bool {
        let grants = self.document.get_mut("grants").and_then(Item::as_table_like_mut);
        grants.is_some_and(|grants| grants.remove(component_id).is_some())
    }

    /// Writes the file, if it still is a configuration; whoever reads it meanwhile
    /// reads the old one.
    ///
    /// # Errors
    /// What was added cannot be meant, or the file cannot be written. Then nothing
    /// has changed.
    pub fn save(self) -> Result<Config, String> {
        let text = self.document.to_string();
        let config = Config::parse(&self.path, &text).map_err(|e| e.to_string())?;
        write_atomically(&self.path, &text)
            .map_err(|e| format!("{} cannot be written: {e}", self.path.display()))?;
        Ok(config)
    }

    fn grants_of(&mut self, component_id: &str) -> Option<&mut dyn TableLike> {
        let mut parent = Table::new();
        parent.set_implicit(true);
        let grants = self.document.entry("grants").or_insert(Item::Table(parent)).as_table_like_mut()?;
        grants.entry(component_id).or_insert(Item::Table(Table::new())).as_table_like_mut()
    }
}

/// The list under this key; made where there is none.
fn list<'a>(table: &'a mut dyn TableLike, key: &str) -> Option<&'a mut Array> {
    table.entry(key).or_insert(Item::Value(Array::new().into())).as_array_mut()
}

/// The table under this key; made, within one line, where there is none.
fn below<'a>(table: &'a mut dyn TableLike, key: &str) -> Option<&'a mut dyn TableLike> {
    table.entry(key).or_insert(Item::Value(InlineTable::new().into())).as_table_like_mut()
}

fn add(list: Option<&mut Array>, value: &str) {
    let Some(list) = list else { return };
    if !list.iter().any(|there| there.as_str() == Some(value)) {
        push(list, value.into());
    }
}

/// Adds a value behind the last one, on a line of its own where that is.
fn push(list: &mut Array, mut value: Value) {
    let last = list.iter().last().and_then(|last| last.decor().prefix()?.as_str().map(str::to_owned));
    match last.filter(|prefix| prefix.contains('\n')) {
        Some(prefix) => {
            let indent = prefix.rsplit('\n').next().unwrap_or_default();
            value.decor_mut().set_prefix(format!("\n{indent}"));
            list.push_formatted(value);
        }
        None => list.push(value),
    }
}

fn remove(table: &mut dyn TableLike, key: &str, value: &str) -> bool {
    let Some(list) = table.get_mut(key).and_then(Item::as_array_mut) else { return false };
    let before = list.len();
    list.retain(|there| there.as_str() != Some(value));
    list.len() < before
}

fn add_file(grants: &mut dyn TableLike, file: &FileValue) {
    let access = if file.access == FileAccess::Read { "read" } else { "read-write" };
    let host = file.host.to_string_lossy().into_owned();
    let pairs = [("host", host.as_str()), ("guest", &file.guest), ("access", access)];
    if let Some(tables) = grants.get_mut("files").and_then(Item::as_array_of_tables_mut) {
        tables.push(pairs.into_iter().map(|(key, value)| (key, Item::Value(value.into()))).collect());
    } else if let Some(list) = list(grants, "files") {
        push(list, pairs.into_iter().collect::<InlineTable>().into());
    }
}

fn remove_file(grants: &mut dyn TableLike, guest: &str) -> bool {
    let is_it = |there: Option<&Item>| there.and_then(Item::as_str) == Some(guest);
    let Some(files) = grants.get_mut("files") else { return false };
    if let Some(tables) = files.as_array_of_tables_mut() {
        let before = tables.len();
        tables.retain(|table| !is_it(table.get("guest")));
        return tables.len() < before;
    }
    let Some(list) = files.as_array_mut() else { return false };
    let before = list.len();
    list.retain(|there| {
        let there = there.as_inline_table().and_then(|table| table.get("guest"));
        there.and_then(Value::as_str) != Some(guest)
    });
    list.len() < before
}

/// The directory of a grant, as the configuration is to have it: a relative path is
/// typed where the person is, and read from where the configuration is.
#[must_use]
pub fn granted_path(typed: &Path, base_dir: &Path) -> PathBuf {
    if in_dir(base_dir, typed) == typed {
        return typed.to_owned();
    }
    std::path::absolute(typed).unwrap_or_else(|_| typed.to_owned())
}

/// Writes a file whole or not at all.
pub(crate) fn write_atomically(path: &Path, text: &str) -> io::Result<()> {
    // What a link leads to is changed, not the link.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(text.as_bytes())?;
    if let Ok(there) = std::fs::metadata(&path) {
        file.as_file().set_permissions(there.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|e| e.error)?;
    std::fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn edited(text: &str, edit: impl FnOnce(&mut Edit)) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tollgate.toml");
        std::fs::write(&path, text).unwrap();
        let mut opened = Edit::open(&path).unwrap();
        edit(&mut opened);
        opened.save().unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    fn http(pattern: &str) -> Powers {
        Powers { lists: vec![("http", pattern.to_owned())], ..Powers::default() }
    }

    #[test]
    fn comments_and_order_are_kept() {
        let text = "# ours\n[tools]\ndir = \"t\" # there\n\n[grants.fetch] # the web\nhttp = [\n  # search\n  \"https://a.test/\",\n]\n\n[limits]\nfuel = 7\n";
        let after = edited(text, |edit| edit.grant("fetch", &http("https://b.test/")));
        assert_eq!(
            after,
            text.replace("\"https://a.test/\",\n", "\"https://a.test/\",\n  \"https://b.test/\",\n")
        );
        assert_eq!(
            edited(&after, |edit| edit.grant("fetch", &http("https://b.test/"))),
            after,
            "twice is once"
        );
        assert_eq!(
            edited(&after, |edit| assert!(edit.revoke("fetch", &http("https://b.test/")).is_empty())),
            text
        );
    }

    #[test]
    fn what_is_missing_is_made() {
        let powers = Powers {
            files: vec![FileValue {
                host: "docs".into(),
                guest: "/docs".to_owned(),
                access: FileAccess::Read,
            }],
            settings: vec![("units".to_owned(), "metric".to_owned())],
            state: vec![("read", "notes.items".to_owned())],
            ..http("https://a.test/")
        };
        assert_eq!(
            edited("", |edit| edit.grant("fetch", &powers)),
            "[grants.fetch]\nhttp = [\"https://a.test/\"]\n\
             files = [{ host = \"docs\", guest = \"/docs\", access = \"read\" }]\n\
             settings = { units = \"metric\" }\nstate = { read = [\"notes.items\"] }\n"
        );
    }

    #[test]
    fn a_directory_of_the_same_name_is_replaced() {
        for text in [
            "[grants.it]\nfiles = [{ host = \"a\", guest = \"/x\" }, { host = \"b\", guest = \"/y\" }]\n",
            "[[grants.it.files]]\nhost = \"a\"\nguest = \"/x\"\n\n[[grants.it.files]]\nhost = \"b\"\nguest = \"/y\"\n",
        ] {
            let file = FileValue { host: "c".into(), guest: "/x".to_owned(), access: FileAccess::ReadWrite };
            let powers = Powers { files: vec![file], ..Powers::default() };
            let after = edited(text, |edit| edit.grant("it", &powers));
            let config = Config::parse(Path::new("tollgate.toml"), &after).unwrap();
            let hosts: Vec<_> = config.grants_of("it").files.into_iter().map(|file| file.host).collect();
            assert_eq!(hosts, [Path::new("b"), Path::new("c")]);
            let none = edited(&after, |edit| assert!(edit.revoke("it", &powers).is_empty()));
            assert!(!none.contains("/x") && none.contains("/y"));
        }
    }

    #[test]
    fn what_cannot_be_meant_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tollgate.toml");
        std::fs::write(&path, "# ours\n").unwrap();
        let mut edit = Edit::open(&path).unwrap();
        edit.grant("fetch", &http("example.com"));
        assert!(edit.save().unwrap_err().contains("has no scheme"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "# ours\n");
    }

    #[test]
    fn what_was_not_there_is_said() {
        let text = "[grants.it]\nhttp = [\"https://a.test/\"]\n";
        edited(text, |edit| {
            assert_eq!(edit.revoke("it", &http("https://b.test/")), ["https://b.test/"]);
            assert!(!edit.revoke_all("other"));
            assert!(edit.revoke_all("it"));
        });
    }
}
