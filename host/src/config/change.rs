//! Changing a file that people and other processes change as well: `tollgate.toml`, and
//! the record of approvals beside it.
//!
//! A change is made to what the file holds at that moment, while a lock on its directory
//! keeps other changes out. The new text takes the old one's place in one step, so that
//! whoever reads the file reads all of one of them. No link is followed: what is written
//! is the file of this name, and nothing elsewhere.

use rustix::fs::OFlags;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long a change waits for those of other processes, each of which takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);
/// What is locked where the file system has no locks for directories.
const LOCK: &str = ".tollgate.lock";

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
#[error("{} {what}", file.display())]
pub(crate) struct NotChanged {
    pub(crate) file: PathBuf,
    /// Goes on after the file's name.
    pub(crate) what: String,
}

impl From<NotChanged> for String {
    fn from(why: NotChanged) -> Self {
        why.to_string()
    }
}

/// Changes a file; one that is not there is as an empty one. The change is given the text
/// and returns the new one, with what the caller wants to know of it.
///
/// # Errors
/// The change is refused, or the file cannot be read or written. Then it is as it was.
pub(crate) fn change<T, E: From<NotChanged>>(
    file: &Path,
    change: impl FnOnce(&str) -> Result<(String, T), E>,
) -> Result<T, E> {
    let failed = |what: String| E::from(NotChanged { file: file.to_owned(), what });
    let unwritable = |why: &io::Error| failed(format!("cannot be written: {why}"));
    let directory = directory_of(file);
    let _lock = lock(directory).map_err(|why| unwritable(&why))?;
    let before = read(file).map_err(&failed)?;
    let (after, answer) = change(before.as_deref().unwrap_or_default())?;
    if before.as_deref() != Some(after.as_str()) {
        replace(file, directory, &after).map_err(|why| unwritable(&why))?;
    }
    Ok(answer)
}

/// The text of a file that is to be changed; `None` if it is not there. Otherwise the
/// error goes on after the file's name.
pub(crate) fn read(file: &Path) -> Result<Option<String>, String> {
    if let Ok(target) = std::fs::read_link(file) {
        let target = directory_of(file).join(target);
        let (target, link) = (target.display(), file.display());
        return Err(format!(
            "is a symbolic link, and is not changed through it; name the file itself with --config, or put \
             it in the link's place: cp --remove-destination {target} {link}"
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

/// Keeps other processes from changing files of this directory, until it is dropped.
fn lock(directory: &Path) -> io::Result<File> {
    let of_directory = File::open(directory)?;
    match wait_for(&of_directory) {
        Ok(()) => Ok(of_directory),
        Err(why) if why.kind() == io::ErrorKind::TimedOut => Err(why),
        Err(_) => {
            let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
            let mut options = File::options();
            options.create(true).append(true).mode(0o600).custom_flags(no_link);
            let file = options.open(directory.join(LOCK))?;
            wait_for(&file)?;
            Ok(file)
        }
    }
}

fn wait_for(file: &File) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(why)) => return Err(why),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                let why = "another process is changing it all the time; end that one, then try again";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
    }
}

/// Puts the text in the file's place, whole or not at all.
fn replace(file: &Path, directory: &Path, text: &str) -> io::Result<()> {
    let mut part = tempfile::NamedTempFile::new_in(directory)?;
    part.write_all(text.as_bytes())?;
    // Those of a link say nothing: everybody may follow it.
    if let Ok(there) = std::fs::symlink_metadata(file)
        && there.is_file()
    {
        part.as_file().set_permissions(there.permissions())?;
    }
    part.as_file().sync_all()?;
    part.persist(file).map_err(|why| why.error)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn append(file: &Path, line: &str) -> Result<(), NotChanged> {
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
        let changed: Result<(), NotChanged> = change(&file, |_| {
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
        let same: Result<(), NotChanged> = change(&file, |text| Ok((text.to_owned(), ())));
        same.unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    }
}
