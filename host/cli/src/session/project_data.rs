//! The data directory of a project, for commands that name none.
//!
//! A project is a configuration file, or the working directory if there is none. Its runs, threads
//! and audit are in a directory of their own below the user's data directory, so that projects do
//! not mix. The directory is found by the project's path. An id in a file beside the configuration,
//! or in the working directory, finds it again after the project was moved, and keeps it from a new
//! directory at the old path.

use crate::globals::Globals;
use crate::terminal::{Failure, Output};
use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tollgate::config::FILE_NAME;
use uuid::Uuid;

/// The file within a data directory that says to which project it belongs.
const RECORD: &str = "tollgate.project";
/// The end of the name of the file with the id, beside the configuration or in the working directory:
/// `tollgate.id`.
const ID_EXTENSION: &str = "id";
/// The store of earlier versions, which all projects shared.
const SHARED_STORE: &str = "tollgate.db";
/// The maximum number of characters of a project's name in the name of its directory.
const MAX_NAME_CHARS: usize = 40;

/// A project and its data directory.
#[derive(Debug, Clone)]
pub(crate) struct ProjectData {
    pub(crate) dir: PathBuf,
    /// The configuration's path, or that of the directory that has none.
    project: PathBuf,
    /// The file with the project's id; `None` if the named configuration does not exist.
    id_file: Option<PathBuf>,
}

/// The content of [`RECORD`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    path: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The inode of the directory with the id file. It recognizes the project if that file was
    /// removed. `None` in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inode: Option<u64>,
}

/// Returns the user's data directory, below which the directories of all projects are.
///
/// # Errors
/// There is no home directory.
pub(crate) fn data_root() -> Result<PathBuf, Failure> {
    let strategy = etcetera::choose_base_strategy().map_err(|e| {
        Failure::usage(format!("no home directory ({e}); name a data directory with --data DIR"))
    })?;
    Ok(strategy.data_dir().join("tollgate"))
}

impl ProjectData {
    /// Finds the data directory of the project that the options name. It may not exist yet.
    ///
    /// # Errors
    /// There is no home directory or no working directory.
    pub(crate) fn find(globals: &Globals) -> Result<Self, Failure> {
        let file = globals.config.as_deref().unwrap_or(Path::new(FILE_NAME));
        Self::of(file, &data_root()?.join("projects"))
    }

    fn of(config: &Path, projects: &Path) -> Result<Self, Failure> {
        let absolute = std::path::absolute(config)
            .map_err(|e| Failure::usage(format!("cannot determine the working directory: {e}")))?;
        let parent = absolute.parent().unwrap_or(Path::new("/"));
        let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
        let name = absolute.file_name().unwrap_or_default();
        let file = parent.join(name);
        // A directory keeps its data when it gets a configuration.
        let project = if name == FILE_NAME { parent.clone() } else { file.clone() };
        let has_id = name == FILE_NAME || file.is_file();
        let id_file = has_id.then(|| file.with_extension(ID_EXTENSION));
        let found = Self { dir: projects.join(directory_name(&project)), project, id_file };
        found.leave_to_its_project();
        if !found.dir.exists() {
            found.take_along(projects);
        }
        Ok(found)
    }

    /// Sets the data directory aside if it belongs to a project that was at this path before. That
    /// project finds it by its id.
    fn leave_to_its_project(&self) {
        let Some(record) = read_record(&self.dir) else { return };
        let Some(theirs) = record.id else { return };
        let is_ours = match self.id() {
            Some(ours) => ours == theirs,
            // The file alone may have been removed.
            None => record.inode.is_none() || record.inode == self.inode(),
        };
        if is_ours || Uuid::try_parse(&theirs).is_err() {
            return;
        }
        let mut aside = self.dir.clone().into_os_string();
        aside.push(format!("-{theirs}"));
        if let Err(e) = fs::rename(&self.dir, &aside) {
            tracing::warn!(
                "{} holds the data of a project that was moved, and cannot be renamed: {e}",
                self.dir.display()
            );
        }
    }

    /// Moves the data directory of a project that was moved here.
    fn take_along(&self, projects: &Path) {
        let Some(id) = self.id() else { return };
        for entry in fs::read_dir(projects).into_iter().flatten().flatten() {
            let Some(record) = read_record(&entry.path()) else { continue };
            // A copy beside the original, such as a second checkout, is a project of its own.
            if record.id.as_deref() == Some(&id) && id_in(&id_file_of(&record.path)).as_deref() != Some(&id) {
                match fs::rename(entry.path(), &self.dir) {
                    Ok(()) => {
                        // The record follows when the directory is claimed.
                        let _ = fs::remove_file(self.dir.join(RECORD));
                    }
                    Err(e) => tracing::warn!(
                        "the data of this project is in {} and cannot be moved: {e}",
                        entry.path().display()
                    ),
                }
                return;
            }
        }
    }

    fn id(&self) -> Option<String> {
        id_in(self.id_file.as_deref()?)
    }

    fn inode(&self) -> Option<u64> {
        Some(fs::metadata(self.id_file.as_deref()?.parent()?).ok()?.ino())
    }

    /// Writes to which project the directory belongs, once it is used. Reports an older store that
    /// all projects shared.
    pub(crate) fn claim(&self, output: &Output) -> Result<(), Failure> {
        let before = read_record(&self.dir);
        let known = before.as_ref().and_then(|record| record.id.clone());
        let id = self.id_or_new(known.as_deref()).or(known);
        let now = Record { path: self.project.clone(), id, inode: self.inode() };
        if before.as_ref() == Some(&now) {
            return Ok(());
        }
        let unwritable = |e: std::io::Error| {
            Failure::failed(format!("cannot create the data directory {}: {e}", self.dir.display()))
        };
        private_dir(&self.dir).map_err(unwritable)?;
        fs::write(self.dir.join(RECORD), toml::to_string(&now).unwrap_or_default()).map_err(unwritable)?;
        if before.is_some() {
            return Ok(());
        }
        if let Some(shared) = shared_store() {
            output.say(&format!(
                "the runs of this project are now in a directory of their own; older ones, which all projects \
                 shared, are listed by: tollgate --data {} runs",
                tollgate_agent::text::quoted(&shared.display().to_string())
            ));
        }
        Ok(())
    }

    /// Returns the project's id. Writes the known or a new one to its file if there is none and that is
    /// possible.
    fn id_or_new(&self, known: Option<&str>) -> Option<String> {
        if let Some(id) = self.id() {
            return Some(id);
        }
        let file = self.id_file.as_deref()?;
        let id = known.map_or_else(|| Uuid::now_v7().to_string(), str::to_owned);
        let text = format!(
            "# Finds this project's runs again after it was moved. Keep it out of version control.\n{id}\n"
        );
        match fs::File::create_new(file)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
        {
            Ok(()) => Some(id),
            Err(e) => {
                tracing::debug!("{} cannot be written: {e}", file.display());
                None
            }
        }
    }
}

/// Returns the directory with the store that all projects shared, if it exists.
pub(crate) fn shared_store() -> Option<PathBuf> {
    data_root().ok().filter(|root| root.join(SHARED_STORE).is_file())
}

/// Reads the id in a file.
fn id_in(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let id = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    Uuid::try_parse(id).ok().map(|id| id.to_string())
}

/// Returns the file with the id of a project, which is a directory or a configuration of another name.
fn id_file_of(project: &Path) -> PathBuf {
    let config = if project.is_dir() { project.join(FILE_NAME) } else { project.to_owned() };
    config.with_extension(ID_EXTENSION)
}

fn read_record(dir: &Path) -> Option<Record> {
    toml::from_str(&fs::read_to_string(dir.join(RECORD)).ok()?).ok()
}

/// Returns the name of a project's directory: its last words, and a digest of its path.
fn directory_name(project: &Path) -> String {
    let last = project.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = last.trim_end_matches(".toml").chars().map(plain).take(MAX_NAME_CHARS).collect();
    let name = if name.trim_matches(['.', '-']).is_empty() { "project" } else { name.trim_matches('.') };
    let digest = Sha256::digest(project.as_os_str().as_encoded_bytes());
    let digest: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{name}-{digest}")
}

/// Creates a directory, and its missing parents, that this user alone can read.
pub(crate) fn private_dir(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn output() -> Output {
        Output::new(true, true)
    }

    #[test]
    fn each_configuration_has_a_directory_and_one_that_moves_takes_it_along() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (one, other, projects) = (root.join("one"), root.join("other"), root.join("projects"));
        for dir in [&one, &other] {
            fs::create_dir(dir).unwrap();
        }
        let find = |file: &Path| ProjectData::of(file, &projects).unwrap();
        let before = find(&one.join("tollgate.toml"));
        fs::write(one.join("tollgate.toml"), "").unwrap();
        let first = find(&one.join("tollgate.toml"));
        assert_eq!(first.dir, before.dir, "a directory keeps its data when it gets a configuration");
        assert_ne!(first.dir, find(&other.join("tollgate.toml")).dir);
        assert_ne!(first.dir, find(&one.join("strict.toml")).dir);
        first.claim(&output()).unwrap();
        fs::write(first.dir.join("tollgate.db"), "runs").unwrap();

        // A copy beside the original starts without runs.
        let copy = root.join("copy");
        fs::create_dir(&copy).unwrap();
        for file in ["tollgate.toml", "tollgate.id"] {
            fs::copy(one.join(file), copy.join(file)).unwrap();
        }
        let copied = find(&copy.join("tollgate.toml"));
        assert!(!copied.dir.exists());
        copied.claim(&output()).unwrap();

        // A project that was moved keeps them.
        let moved = root.join("moved");
        fs::rename(&one, &moved).unwrap();
        let found = find(&moved.join("tollgate.toml"));
        found.claim(&output()).unwrap();
        assert_eq!(fs::read_to_string(found.dir.join("tollgate.db")).unwrap(), "runs");
        assert!(!first.dir.exists());
        assert_eq!(read_record(&found.dir).unwrap().path, moved);
    }
    #[test]
    fn a_directory_without_a_configuration_takes_its_data_along_and_leaves_none_behind() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (one, moved, projects) = (root.join("one"), root.join("moved"), root.join("projects"));
        fs::create_dir(&one).unwrap();
        let find = |dir: &Path| ProjectData::of(&dir.join("tollgate.toml"), &projects).unwrap();
        let first = find(&one);
        first.claim(&output()).unwrap();
        fs::write(first.dir.join("tollgate.db"), "runs").unwrap();
        // The id is written again if its file alone was removed.
        fs::remove_file(one.join("tollgate.id")).unwrap();
        let again = find(&one);
        again.claim(&output()).unwrap();
        assert!(again.dir.join("tollgate.db").exists() && one.join("tollgate.id").exists());

        // A new directory at the old path is another project, also if it is used first.
        fs::rename(&one, &moved).unwrap();
        fs::create_dir(&one).unwrap();
        let new = find(&one);
        assert!(!new.dir.exists());
        new.claim(&output()).unwrap();
        let found = find(&moved);
        found.claim(&output()).unwrap();
        assert_eq!(fs::read_to_string(found.dir.join("tollgate.db")).unwrap(), "runs");
        assert!(!find(&one).dir.join("tollgate.db").exists());
    }

    #[test]
    fn a_data_directory_without_an_id_gets_one() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let found = ProjectData::of(&root.join("tollgate.toml"), &root.join("projects")).unwrap();
        fs::create_dir_all(&found.dir).unwrap();
        fs::write(found.dir.join(RECORD), format!("path = {root:?}\n")).unwrap();
        found.claim(&output()).unwrap();
        let id = read_record(&found.dir).unwrap().id;
        assert!(id.is_some() && id == id_in(&root.join("tollgate.id")));
    }
}
