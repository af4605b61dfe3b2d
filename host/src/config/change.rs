//! Changes files that people and other processes change as well: `tollgate.toml` and the record
//! of approvals beside it.
//!
//! A change applies to the file's current content, under a lock on its directory that keeps out
//! other changes. The new text replaces the old one atomically, so that readers always see a
//! complete version. Symbolic links are never followed: only the file of this name is written.
//!
//! Every new text is on disk before the first one takes effect. If a process is killed, its new
//! texts stay behind; the next change in the directory removes them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use tollgate_registry::directory;

/// The reason why a file was not changed.
#[derive(Debug, thiserror::Error)]
#[error("{} {what}", file.display())]
pub struct ConfigChangeError {
    pub(crate) file: PathBuf,
    /// The problem, worded to follow the file's name.
    pub(crate) what: String,
}

/// Changes a file; a missing file counts as empty. `change` receives the text and returns the
/// new one, along with a value for the caller.
///
/// # Errors
/// The change is refused, or the file cannot be read or written. The file is then unchanged.
pub(crate) fn change<T, E: From<ConfigChangeError>>(
    file: &Path,
    change: impl FnOnce(&str) -> Result<(String, T), E>,
) -> Result<T, E> {
    let mut changes = Changes::begin(file)?;
    let answer = changes.prepare(file, change)?;
    changes.commit()?;
    Ok(answer)
}

/// Changes to files of one directory that take effect together, such as a grant and its
/// approval. Other processes change nothing there in the meantime. Dropping it discards the
/// changes.
#[derive(Debug)]
pub struct Changes {
    directory: PathBuf,
    prepared: Vec<PreparedChange>,
    /// Released when this is dropped.
    _lock: File,
}

/// A file's new text, written but not yet in effect.
#[derive(Debug)]
struct PreparedChange {
    file: PathBuf,
    before: Option<String>,
    part: NamedTempFile,
}

impl Changes {
    /// Locks the file's directory and removes the temporary files of killed processes.
    ///
    /// # Errors
    /// The directory cannot be opened, or other processes hold the lock for too long.
    pub fn begin(file: &Path) -> Result<Self, ConfigChangeError> {
        let directory = directory_of(file).to_owned();
        let lock = directory::lock(&directory).map_err(|why| unwritable(file, &why))?;
        directory::sweep_parts(&directory);
        Ok(Self { directory, prepared: Vec::new(), _lock: lock })
    }

    /// Writes a file's new text to a temporary file beside it.
    pub(crate) fn prepare<T, E: From<ConfigChangeError>>(
        &mut self,
        file: &Path,
        change: impl FnOnce(&str) -> Result<(String, T), E>,
    ) -> Result<T, E> {
        let before = read(file).map_err(|what| ConfigChangeError { file: file.to_owned(), what })?;
        let (after, answer) = change(before.as_deref().unwrap_or_default())?;
        if before.as_deref().unwrap_or_default() != after {
            let part = self.part_of(file, &after).map_err(|why| unwritable(file, &why))?;
            self.prepared.push(PreparedChange { file: file.to_owned(), before, part });
        }
        Ok(answer)
    }

    /// Puts the changes into effect, in the order in which they were prepared.
    ///
    /// # Errors
    /// A file cannot be replaced. The files replaced before it are restored.
    pub fn commit(mut self) -> Result<(), ConfigChangeError> {
        let mut replaced = Vec::new();
        for PreparedChange { file, before, part } in std::mem::take(&mut self.prepared) {
            if let Err(why) = part.persist(&file) {
                return Err(self.undo(replaced, unwritable(&file, &why.error)));
            }
            replaced.push((file, before));
        }
        match (File::open(&self.directory).and_then(|directory| directory.sync_all()), replaced.last()) {
            (Err(why), Some((file, _))) => {
                let why = unwritable(file, &why);
                Err(self.undo(replaced, why))
            }
            _ => Ok(()),
        }
    }

    /// Restores the old texts of replaced files. Returns the error that made this necessary, with the
    /// files that cannot be restored.
    fn undo(
        &self,
        replaced: Vec<(PathBuf, Option<String>)>,
        mut why: ConfigChangeError,
    ) -> ConfigChangeError {
        for (file, before) in replaced.into_iter().rev() {
            let restored = match before {
                Some(before) => self
                    .part_of(&file, &before)
                    .and_then(|part| part.persist(&file).map(drop).map_err(|why| why.error)),
                None => std::fs::remove_file(&file),
            };
            if let Err(also) = restored {
                why.what.push_str(&format!("; {} cannot be restored: {also}", file.display()));
            }
        }
        why
    }

    /// Writes a new text for a file, with the file's permissions.
    fn part_of(&self, file: &Path, text: &str) -> io::Result<NamedTempFile> {
        // The permissions of a link are irrelevant: anyone may follow it.
        let replaced = std::fs::symlink_metadata(file).ok().filter(|replaced| replaced.is_file());
        let permissions = replaced.map(|replaced| replaced.permissions());
        directory::write_part(&self.directory, text.as_bytes(), permissions)
    }
}

fn unwritable(file: &Path, why: &io::Error) -> ConfigChangeError {
    // The words of an error about a temporary file contain its name.
    let words = match why.raw_os_error() {
        None if why.kind() != io::ErrorKind::Other => why.kind().to_string(),
        _ => why.to_string(),
    };
    ConfigChangeError { file: file.to_owned(), what: format!("cannot be written: {words}") }
}

/// Reads the text of a file that is to be changed; `None` if it does not exist. The error is
/// worded to follow the file's name.
pub(crate) fn read(file: &Path) -> Result<Option<String>, String> {
    if let Ok(target) = std::fs::read_link(file) {
        let target = directory_of(file).join(target);
        let (target, link) = (target.display(), file.display());
        return Err(format!(
            "is a symbolic link, and is not changed through it; name the file itself, or put it in the link's \
             place: cp --remove-destination {target} {link}"
        ));
    }
    let mut text = String::new();
    match tollgate_sandbox::open_regular(file).and_then(|mut open| open.read_to_string(&mut text)) {
        Ok(_) => Ok(Some(text)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(format!("cannot be read: {why}")),
    }
}

fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::thread;

    fn append(file: &Path, line: &str) -> Result<(), ConfigChangeError> {
        change(file, |text| Ok((format!("{text}{line}\n"), ())))
    }

    #[test]
    fn z24_no_change_is_lost_whoever_makes_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tollgate.toml");
        thread::scope(|scope| {
            for thread in 0..8 {
                let file = &file;
                scope.spawn(move || {
                    (0..10).for_each(|line| append(file, &format!("{thread}-{line}")).unwrap())
                });
            }
        });
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 80);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn z24_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, elsewhere) = (folder.path().join("tollgate.toml"), folder.path().join("elsewhere"));
        std::fs::write(&elsewhere, "").unwrap();
        for target in ["elsewhere", "nowhere"] {
            symlink(target, &file).unwrap();
            let why = append(&file, "more").unwrap_err().to_string();
            assert!(why.contains("tollgate.toml is a symbolic link"), "{why}");
            assert!(why.contains(&folder.path().join(target).display().to_string()), "{why}");
            std::fs::remove_file(&file).unwrap();
        }
        assert_eq!(std::fs::read(&elsewhere).unwrap(), b"");
        assert!(!folder.path().join("nowhere").exists());
    }

    #[test]
    fn z24_what_takes_the_files_place_meanwhile_is_replaced_and_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (file, elsewhere) = (folder.path().join("tollgate.toml"), folder.path().join("elsewhere"));
        std::fs::write(&elsewhere, "kept").unwrap();
        let changed: Result<(), ConfigChangeError> = change(&file, |_| {
            symlink(&elsewhere, &file).unwrap();
            Ok(("new".to_owned(), ()))
        });
        changed.unwrap();
        assert_eq!(std::fs::read(&elsewhere).unwrap(), b"kept");
        assert!(std::fs::symlink_metadata(&file).unwrap().is_file());
    }

    #[test]
    fn a_file_keeps_its_permissions_and_one_that_is_not_changed_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tollgate.toml");
        append(&file, "one").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        append(&file, "two").unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
        let same: Result<(), ConfigChangeError> = change(&file, |text| Ok((text.to_owned(), ())));
        same.unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    }

    fn replaced(changes: &mut Changes, file: &Path, text: &str) {
        changes.prepare(file, |_| Ok::<_, ConfigChangeError>((text.to_owned(), ()))).unwrap();
    }

    #[test]
    fn z24_several_files_change_together_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let [one, new, two] = ["one", "new", "two"].map(|name| folder.path().join(name));
        std::fs::write(&one, "before").unwrap();
        let prepared = || {
            let mut changes = Changes::begin(&one).unwrap();
            [&one, &new, &two].iter().for_each(|file| replaced(&mut changes, file, "after"));
            changes
        };
        drop(prepared());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "dropping it changes nothing");
        let changes = prepared();
        std::fs::create_dir(&two).unwrap();
        let why = changes.commit().unwrap_err().to_string();
        assert!(why.contains("two cannot be written"), "{why}");
        assert_eq!(std::fs::read_to_string(&one).unwrap(), "before");
        assert!(!new.exists());
        std::fs::remove_dir(&two).unwrap();
        prepared().commit().unwrap();
        assert!([&one, &new, &two].iter().all(|file| std::fs::read(file).unwrap() == b"after"));
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let left = directory::write_part(folder.path(), b"text", None).unwrap().keep().unwrap().1;
        let others =
            [".tollgate-mine", "notes.part", ".tollgate-dir.part"].map(|name| folder.path().join(name));
        others[..2].iter().for_each(|file| std::fs::write(file, "").unwrap());
        std::fs::create_dir(&others[2]).unwrap();
        append(&folder.path().join("tollgate.toml"), "one").unwrap();
        assert!(!left.exists());
        assert!(others.iter().all(|other| other.exists()));
    }
}
