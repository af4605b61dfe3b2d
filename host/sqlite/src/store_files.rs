//! The location of the store: which links on its path are followed, and whether its files are
//! still the ones that were opened.

use super::explain::{refused, sibling_path};
use super::lock::DatabaseTurn;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;
use tollgate_store::{Remedy, StoreError};

/// The system's own limit.
const MAX_LINKS: usize = 40;
const STICKY: u32 = 0o1000;
const WRITABLE_BY_ALL: u32 = 0o002;

/// Resolves the links in the directory's path. A link is followed only if no one but this user
/// and the system's administrator could have placed it.
///
/// # Errors
/// Another user could have placed a link, or the path cannot be examined.
pub(super) fn without_links(directory: &Path) -> Result<PathBuf, StoreError> {
    let failed = |path: &Path, why: &io::Error| {
        let what = format!("cannot use the data directory {}: {}", directory.display(), path.display());
        refused(&what, why)
    };
    let absolute = std::path::absolute(directory).map_err(|e| failed(directory, &e))?;
    let mut left: VecDeque<OsString> = parts(&absolute);
    let mut resolved = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = left.pop_front() {
        if part == ".." {
            resolved.pop();
            continue;
        }
        let path = resolved.join(&part);
        match std::fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                links += 1;
                if links > MAX_LINKS {
                    let message = format!(
                        "cannot use the data directory {}: symbolic links on its path lead in a circle",
                        directory.display()
                    );
                    return Err(StoreError::unusable(message).with_remedy(Remedy::OtherDirectory));
                }
                check_link(directory, &path, &metadata, &resolved)?;
                let target = std::fs::read_link(&path).map_err(|e| failed(&path, &e))?;
                if target.is_absolute() {
                    resolved = PathBuf::from("/");
                }
                for part in parts(&target).into_iter().rev() {
                    left.push_front(part);
                }
            }
            Ok(_) => resolved = path,
            // The rest is created when the store is opened.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                resolved = path;
                resolved.extend(left.drain(..));
            }
            Err(e) => return Err(failed(&path, &e)),
        }
    }
    Ok(resolved)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    };
    path.components().filter_map(part).collect()
}

fn check_link(directory: &Path, link: &Path, metadata: &Metadata, parent: &Path) -> Result<(), StoreError> {
    let is_trusted = |owner: u32| owner == 0 || owner == rustix::process::geteuid().as_raw();
    let parent = std::fs::metadata(parent).map(|parent| parent.mode()).unwrap_or_default();
    let open_to_all = parent & WRITABLE_BY_ALL != 0 && parent & STICKY == 0;
    if is_trusted(metadata.uid()) && !open_to_all {
        return Ok(());
    }
    let message = format!(
        "cannot use the data directory {}: {} is a symbolic link that another user could have placed; use the real \
         directory",
        directory.display(),
        link.display()
    );
    Err(StoreError::unusable(message).with_remedy(Remedy::OtherDirectory))
}

/// The identity of the opened files, to notice when they are gone: the system writes to a removed
/// or moved file as if nothing had happened.
#[derive(Debug)]
pub struct StoreFiles {
    pub(super) file: PathBuf,
    database: (u64, u64),
    /// SQLite creates them with the first transaction.
    beside: [(PathBuf, OnceLock<(u64, u64)>); 2],
}

impl StoreFiles {
    /// Returns the place of a database that was just opened.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn of(file: &Path) -> Result<Self, StoreError> {
        let database = identity(file).ok_or_else(|| lost(file, file))?;
        let beside = ["-wal", "-shm"].map(|ending| (sibling_path(file, ending), OnceLock::new()));
        let place = Self { file: file.to_owned(), database, beside };
        place.check()?;
        Ok(place)
    }

    /// Checks that the files are still where they were opened.
    ///
    /// # Errors
    /// A file was moved, removed or replaced.
    pub fn check(&self) -> Result<(), StoreError> {
        if identity(&self.file) != Some(self.database) {
            return Err(lost(&self.file, &self.file));
        }
        for (path, known) in &self.beside {
            match (identity(path), known.get()) {
                (Some(now), None) => drop(known.set(now)),
                (now, Some(known)) if now != Some(*known) => return Err(lost(&self.file, path)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes the last turn on the database. While it is held, a connection that closes may move the
    /// log into the database. `None` if a file was lost, so that what this process knows of the log
    /// may be outdated, or if another process does not end its turn; then the log has to stay.
    #[must_use]
    pub fn last_turn(&self) -> Option<DatabaseTurn> {
        let turn = DatabaseTurn::last(&self.file)?;
        match self.check() {
            Ok(()) => Some(turn),
            Err(lost) => {
                tracing::warn!("{lost}");
                None
            }
        }
    }
}

fn identity(file: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(file).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

pub(super) fn lost(store: &Path, file: &Path) -> StoreError {
    let words = if store == file {
        "was moved or removed while it was in use; put it back, or restart to begin a new one".to_owned()
    } else {
        format!(
            "lost {} while it was in use; end every process that uses it, then start again",
            file.display()
        )
    };
    StoreError::unusable(format!("the store {} {words}", store.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn s9_links_that_only_the_user_could_place_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/data")).unwrap();
        symlink("real", root.join("home")).unwrap();
        symlink(root.join("home/data"), root.join("last")).unwrap();
        let data = root.join("real/data");
        assert_eq!(without_links(&root.join("home/data")).unwrap(), data);
        assert_eq!(without_links(&root.join("last")).unwrap(), data);
        assert_eq!(without_links(&root.join("last/../data/./new")).unwrap(), data.join("new"));
        symlink("circle", root.join("circle")).unwrap();
        let why = without_links(&root.join("circle/data")).unwrap_err().to_string();
        assert!(why.contains("circle"), "{why}");
    }

    #[test]
    fn s9_a_link_that_others_could_place_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("open")).unwrap();
        std::fs::create_dir_all(root.join("real")).unwrap();
        symlink(root.join("real"), root.join("open/data")).unwrap();
        assert!(without_links(&root.join("open/data")).is_ok());
        mode(&root.join("open"), 0o777);
        let why = without_links(&root.join("open/data")).unwrap_err().to_string();
        assert!(why.contains("another user could have placed"), "{why}");
        mode(&root.join("open"), 0o1777);
        assert!(without_links(&root.join("open/data")).is_ok(), "it is this user's own link");
    }

    #[test]
    fn a_file_in_the_place_of_a_directory_is_said() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "x").unwrap();
        let why = without_links(&folder.path().join("file/data")).unwrap_err().to_string();
        assert!(why.contains("a part of its path is a file"), "{why}");
    }
}
