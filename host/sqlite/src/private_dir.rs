//! Keeps the data directory private to this user: mode 0700, its files 0600. An existing directory
//! that others may enter is made private if that harms no one, and refused otherwise.

use super::explain::refused;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, chmodat, fchmod, fstat, open, openat, statat};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use tollgate_store::{Remedy, StoreError};

/// The prefix of the names of the host's own files.
const OWN: &str = "tollgate.";
/// Directories with a file for each process, and for each caller that waits for a thread.
const OWN_DIRECTORIES: [&[u8]; 2] = [b"processes", b"waiting"];
/// The permission bits of group and others.
const OF_OTHERS: u32 = 0o077;
/// The sticky bit of shared directories such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Creates the data directory, or makes an existing one private, including its files. Links in
/// its path are followed.
///
/// # Errors
/// It cannot be created, belongs to another user, or is open to others and holds more than the
/// host's files: `/tmp`, the home directory, the working directory of this program.
pub(crate) fn make(directory: &Path) -> Result<(), StoreError> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let lived_in = [home, std::env::current_dir().ok()];
    make_beside(directory, &lived_in.into_iter().flatten().collect::<Vec<_>>())
}

fn make_beside(directory: &Path, lived_in: &[PathBuf]) -> Result<(), StoreError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let shown = directory.display();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|e| refused(&format!("cannot create the data directory {shown}"), &e))?;
    let unreadable = |why: Errno| refused(&format!("cannot open the data directory {shown}"), &why.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = open(directory, flags, Mode::empty()).map_err(unreadable)?;
    let found = fstat(&handle).map_err(unreadable)?;
    check_owner(&found, "the data directory", directory)?;
    if found.st_mode & (OF_OTHERS | STICKY) != 0 {
        let holds = |inner: &PathBuf| is_within(inner, directory);
        let holds_more = || Ok(lived_in.iter().any(holds) && !holds_own_files_alone(&handle)?);
        if found.st_mode & STICKY != 0 || holds_more().map_err(unreadable)? {
            let message = format!(
                "the data directory {shown} is open to other users (mode {:04o}) and holds other files than \
                 Tollgate's; close it: chmod 700 {shown}",
                found.st_mode & 0o7777
            );
            return Err(StoreError::unusable(message).with_remedy(Remedy::OtherDirectory));
        }
        fchmod(&handle, Mode::RWXU).map_err(|why| unchangeable(directory, why, "700"))?;
        tracing::warn!("the data directory {shown} was open to other users; its mode is 700 now");
    }
    close_files(&handle, directory)
}

/// Creates an empty, private file in the data directory, unless it exists.
pub(crate) fn make_file(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    match std::fs::File::options().write(true).create_new(true).mode(0o600).open(path) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists => Err(why),
        _ => Ok(()),
    }
}

fn is_within(inner: &Path, directory: &Path) -> bool {
    let real = [inner, directory].map(Path::canonicalize);
    matches!(&real, [Ok(inner), Ok(directory)] if inner.starts_with(directory))
}

fn check_owner(found: &Stat, what: &str, path: &Path) -> Result<(), StoreError> {
    let user = rustix::process::geteuid().as_raw();
    if found.st_uid == user {
        return Ok(());
    }
    let shown = path.display();
    let message = format!(
        "{what} {shown} belongs to another user (number {}); check its owner, or take it over: \
         sudo chown -R {user} {shown}",
        found.st_uid
    );
    Err(StoreError::unusable(message).with_remedy(Remedy::OtherDirectory))
}

fn holds_own_files_alone(directory: &OwnedFd) -> Result<bool, Errno> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let is_own = name.starts_with(OWN.as_bytes()) || OWN_DIRECTORIES.contains(&name);
        if !is_own && name != b"." && name != b".." {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes group and other permissions from the host's own files, and from those of its
/// processes.
///
/// The files are not opened: closing one would release the locks that SQLite holds on it
/// elsewhere in this process.
fn close_files(directory: &OwnedFd, path: &Path) -> Result<(), StoreError> {
    let unreadable =
        |why: Errno| refused(&format!("cannot read the data directory {}", path.display()), &why.into());
    for entry in Dir::read_from(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let shown = path.join(name.to_string_lossy().as_ref());
        if name.to_bytes().starts_with(OWN.as_bytes()) {
            close(directory, name, &shown, FileType::RegularFile)?;
        } else if OWN_DIRECTORIES.contains(&name.to_bytes())
            && close(directory, name, &shown, FileType::Directory)?
        {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let inner = openat(directory, name, flags, Mode::empty()).map_err(unreadable)?;
            for entry in Dir::read_from(&inner).map_err(unreadable)? {
                let entry = entry.map_err(unreadable)?;
                let shown = shown.join(entry.file_name().to_string_lossy().as_ref());
                close(&inner, entry.file_name(), &shown, FileType::RegularFile)?;
            }
        }
    }
    Ok(())
}

/// Removes group and other permissions from a file of this kind. Returns whether it is one.
fn close(
    directory: impl AsFd,
    name: &std::ffi::CStr,
    path: &Path,
    kind: FileType,
) -> Result<bool, StoreError> {
    let found = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        // Files of other processes come and go.
        Err(Errno::NOENT) => return Ok(false),
        Err(why) => return Err(refused(&format!("cannot examine {}", path.display()), &why.into())),
    };
    if FileType::from_raw_mode(found.st_mode) != kind {
        return Ok(false);
    }
    check_owner(&found, "the file", path)?;
    if found.st_mode & OF_OTHERS != 0 {
        let (mode, shown) = match kind {
            FileType::Directory => (Mode::RWXU, "700"),
            _ => (Mode::RUSR | Mode::WUSR, "600"),
        };
        match chmodat(&directory, name, mode, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(why) => return Err(unchangeable(path, why, shown)),
        }
    }
    Ok(true)
}

fn unchangeable(path: &Path, why: Errno, mode: &str) -> StoreError {
    let (shown, why) = (path.display(), io::Error::from(why));
    StoreError::unusable(format!(
        "{shown} is open to other users and cannot be made private ({why}): chmod {mode} {shown}"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn set(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn z17_what_is_open_to_others_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let directories = ["processes", "waiting"].map(|name| data.join(name));
        directories.iter().for_each(|directory| std::fs::create_dir_all(directory).unwrap());
        let files = [
            "tollgate.db",
            "tollgate.db-wal",
            "tollgate.db-shm",
            "tollgate.lock",
            "processes/one",
            "waiting/one",
        ];
        for file in files {
            std::fs::write(data.join(file), "").unwrap();
            set(&data.join(file), 0o666);
        }
        directories.iter().chain([&data]).for_each(|directory| set(directory, 0o777));
        make(&data).unwrap();
        assert_eq!([&data, &directories[0], &directories[1]].map(|path| mode(path)), [0o700; 3]);
        assert_eq!(files.map(|file| mode(&data.join(file))), [0o600; 6]);
        make(&data).unwrap();
    }

    #[test]
    fn z17_a_directory_in_which_somebody_works_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        std::fs::write(data.join("page.html"), "").unwrap();
        std::fs::create_dir(data.join("inner")).unwrap();
        set(data, 0o755);
        let why = make_beside(data, &[data.join("inner")]).unwrap_err().to_string();
        assert!(why.contains("(mode 0755)"), "{why}");
        assert!(why.ends_with(&format!("chmod 700 {}", data.display())), "{why}");
        assert_eq!(mode(data), 0o755, "nothing was changed");
        make_beside(data, &[]).unwrap();
        assert_eq!(mode(data), 0o700);
        assert_ne!(mode(&data.join("page.html")), 0o600, "what is not the host's is left alone");
    }

    #[test]
    fn z17_a_directory_of_everybody_or_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        set(folder.path(), 0o1777);
        assert!(make(folder.path()).unwrap_err().to_string().contains("(mode 1777)"));
        // A test that runs as root can create another user's directory; otherwise `/` is one.
        let of_another = match rustix::process::geteuid().is_root() {
            true => {
                let path = folder.path().join("another");
                std::fs::create_dir(&path).unwrap();
                std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
                path
            }
            false => "/".into(),
        };
        let why = make(&of_another).unwrap_err().to_string();
        assert!(why.contains("belongs to another user") && why.contains("sudo chown -R"), "{why}");
    }

    #[test]
    fn z17_a_link_to_the_directory_is_followed_and_links_in_it_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (data, link) = (folder.path().join("data"), folder.path().join("link"));
        std::fs::create_dir(&data).unwrap();
        set(&data, 0o755);
        std::os::unix::fs::symlink(&data, &link).unwrap();
        let outside = folder.path().join("outside");
        std::fs::write(&outside, "").unwrap();
        set(&outside, 0o644);
        std::os::unix::fs::symlink(&outside, data.join("tollgate.db")).unwrap();
        make(&link).unwrap();
        assert_eq!((mode(&data), mode(&outside)), (0o700, 0o644));
    }
}
