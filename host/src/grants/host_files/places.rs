//! Resolves a path to its location, whichever name it goes by.
//!
//! A path may go through links, each of which is a file that could be replaced. A mount gives a
//! directory a second path. A hard link gives a file a second name.

use super::protected_path::from_here;
use std::collections::{HashSet, VecDeque};
use std::fs::{Metadata, ReadDir};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// The maximum number of links that are followed in one path, as in the kernel.
const MAX_LINKS: usize = 40;
/// The maximum number of entries of a directory that are searched for other names of files.
const MAX_SEARCHED: usize = 100_000;

/// The current mounts.
pub(super) struct Places {
    mounts: Vec<Mount>,
}

/// A part of a file system, and the path at which it is mounted.
struct Mount {
    device: String,
    root: PathBuf,
    point: PathBuf,
}

/// The location to which a path leads.
pub(super) struct FileLocation {
    /// The path without links. The last part need not exist yet.
    real: PathBuf,
    /// The links on the way, each by the real path of the link itself.
    links: Vec<PathBuf>,
    /// The path on its device.
    on_device: Option<(String, PathBuf)>,
}

impl Places {
    /// Reads the current mounts. If the system does not list them, mounts are detected by file
    /// numbers alone.
    pub(super) fn now() -> Self {
        Self::read(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    fn read(mountinfo: &str) -> Self {
        let mount = |line: &str| {
            let mut fields = line.split(' ').skip(2);
            let device = fields.next()?.to_owned();
            let (root, point) = (unescaped(fields.next()?), unescaped(fields.next()?));
            Some(Mount { device, root, point })
        };
        Self { mounts: mountinfo.lines().filter_map(mount).collect() }
    }

    /// Resolves a path.
    pub(super) fn of(&self, path: &Path) -> FileLocation {
        let (real, links) = followed(path);
        let on_device = self.on_device(&real);
        FileLocation { real, links, on_device }
    }

    fn on_device(&self, real: &Path) -> Option<(String, PathBuf)> {
        let above = self.mounts.iter().filter(|mount| real.starts_with(&mount.point));
        // Of several mounts at one point, the last one is visible.
        let mount = above.max_by_key(|mount| mount.point.as_os_str().len())?;
        let below = real.strip_prefix(&mount.point).ok()?;
        Some((mount.device.clone(), mount.root.join(below)))
    }
}

impl FileLocation {
    /// Returns whether a granted directory contains this place, is within it, or contains a
    /// link on the way to it.
    pub(super) fn is_held_by(&self, granted: &FileLocation) -> bool {
        self.is_below(granted)
            || granted.is_below(self)
            || self.links.iter().filter_map(|link| link.parent()).any(|at| is_above(&granted.real, at))
            || has_another_name(&self.real, &granted.real)
    }

    fn is_below(&self, above: &Self) -> bool {
        let on_device = |here: &(String, PathBuf), above: &(String, PathBuf)| {
            here.0 == above.0 && here.1.starts_with(&above.1)
        };
        is_above(&above.real, &self.real)
            || self.on_device.as_ref().zip(above.on_device.as_ref()).is_some_and(|(a, b)| on_device(a, b))
    }
}

/// Returns whether the first path is the second or one of its ancestors, by any name: a mount,
/// or a case-insensitive file system, gives one directory two names.
fn is_above(above: &Path, below: &Path) -> bool {
    if below.starts_with(above) {
        return true;
    }
    let Some(above) = identity(above) else { return false };
    below.ancestors().any(|directory| identity(directory) == Some(above))
}

/// Returns the file's identity: its device and its number there.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|found| id(&found))
}

fn id(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// Returns whether the granted directory contains another hard link to a file of the host, or to a
/// file in a directory of the host. If it has more entries than are searched, the answer is `true`
/// for a file of the host.
fn has_another_name(own: &Path, granted: &Path) -> bool {
    let Ok(found) = std::fs::metadata(own) else { return false };
    let directory = if found.is_dir() { own } else { own.parent().unwrap_or(own) };
    let Some((device, _)) = identity(directory) else { return false };
    let linked: HashSet<_> = match found.is_dir() {
        // A hard link is on the device of its file.
        true if identity(granted).is_none_or(|(other, _)| other != device) => return false,
        true => {
            entries_below(own, device).take(MAX_SEARCHED).filter(is_linked).map(|file| id(&file)).collect()
        }
        false => Some(&found).filter(|file| is_linked(file)).map(id).into_iter().collect(),
    };
    if linked.is_empty() {
        return false;
    }
    let mut entries = entries_below(granted, device);
    entries.by_ref().take(MAX_SEARCHED).any(|found| linked.contains(&id(&found)))
        || (found.is_file() && entries.next().is_some())
}

fn is_linked(found: &Metadata) -> bool {
    found.is_file() && found.nlink() > 1
}

/// Returns the entries below a directory, its own first. Directories on other devices are not
/// entered.
fn entries_below(directory: &Path, device: u64) -> impl Iterator<Item = Metadata> {
    let mut directories = VecDeque::from([directory.to_owned()]);
    let mut current: Option<ReadDir> = None;
    std::iter::from_fn(move || {
        loop {
            let Some(entry) = current.as_mut().and_then(Iterator::next) else {
                current = std::fs::read_dir(directories.pop_front()?).ok();
                continue;
            };
            let Ok((path, found)) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) else {
                continue;
            };
            if found.is_dir() && found.dev() == device {
                directories.push_back(path);
            }
            return Some(found);
        }
    })
}

/// Returns the path with its links resolved, and those links.
fn followed(path: &Path) -> (PathBuf, Vec<PathBuf>) {
    let (mut real, mut links) = (PathBuf::from("/"), Vec::new());
    let path = from_here(path);
    let mut left: VecDeque<PathBuf> = parts(&path);
    while let Some(part) = left.pop_front() {
        if part == Path::new("..") {
            real.pop();
            continue;
        }
        let next = real.join(part);
        match std::fs::read_link(&next) {
            Ok(target) if links.len() < MAX_LINKS => {
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                let mut target = parts(&target);
                target.append(&mut left);
                left = target;
                links.push(next);
            }
            _ => real = next,
        }
    }
    (real, links)
}

fn parts(path: &Path) -> VecDeque<PathBuf> {
    let named = |part: Component<'_>| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(named).collect()
}

/// Decodes a path as the kernel writes it, where `\040` is a space.
fn unescaped(written: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    let mut bytes = Vec::with_capacity(written.len());
    let mut left = written.as_bytes();
    while let Some((&byte, rest)) = left.split_first() {
        let octal = rest
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(byte));
        left = if octal.is_some() { &rest[3..] } else { rest };
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_directory_is_known_by_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("host/tools")).unwrap();
        std::fs::create_dir_all(root.join("notes")).unwrap();
        std::os::unix::fs::symlink(root.join("host"), root.join("other")).unwrap();
        let (tools, again) = (root.join("host/tools"), root.join("other/tools"));
        assert!(!again.starts_with(&tools) && !tools.starts_with(&again), "the texts differ");
        assert!(is_above(&again, &tools) && is_above(&again, &tools.join("a.wasm")));
        assert!(is_above(&root.join("other"), &tools) && is_above(&tools, &again.join("yet/to/be/made")));
        assert!(!is_above(&tools, &root.join("other")) && !is_above(&root.join("notes"), &again));
        // A directory that does not exist yet is compared by its path alone.
        assert!(is_above(&root.join("absent"), &root.join("absent/too")));
        assert!(!is_above(&root.join("absent"), &root.join("other/too")));
    }

    #[test]
    fn z19_a_part_of_a_device_is_known_wherever_it_is_mounted() {
        let places = Places::read(
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
             30 22 8:2 / /srv rw - ext4 /dev/sdb1 rw\n\
             31 22 8:2 /tool\\040box /opt/ada/tools rw - ext4 /dev/sdb1 rw\n",
        );
        let at = |path: &str| FileLocation {
            real: path.into(),
            links: Vec::new(),
            on_device: places.on_device(Path::new(path)),
        };
        let tools = at("/opt/ada/tools");
        assert!(tools.is_held_by(&at("/srv")), "it is /srv/tool box");
        assert!(tools.is_held_by(&at("/srv/tool box/inner")));
        assert!(tools.is_held_by(&at("/opt")));
        assert!(!tools.is_held_by(&at("/srv/other")) && !tools.is_held_by(&at("/tool box")));
    }

    #[test]
    fn z19_the_links_on_a_way_are_part_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for directory in ["granted", "beside", "tools"] {
            std::fs::create_dir(root.join(directory)).unwrap();
        }
        std::os::unix::fs::symlink("../tools", root.join("granted/link")).unwrap();
        let places = Places::now();
        let held =
            |own: &str, granted: &str| places.of(&root.join(own)).is_held_by(&places.of(&root.join(granted)));
        assert!(held("granted/link", "granted") && held("granted/link", "tools"));
        assert!(held("granted/link/yet/to/come", "granted"));
        assert!(!held("tools", "granted") && !held("granted/link", "beside"));
        // Resolving a link to itself ends, too.
        std::os::unix::fs::symlink("loop", root.join("beside/loop")).unwrap();
        assert!(held("beside/loop", "beside"));
    }

    #[test]
    fn z19_a_second_name_of_a_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("granted/deep")).unwrap();
        std::fs::write(root.join("tollgate.toml"), "").unwrap();
        let places = Places::now();
        let held = || places.of(&root.join("tollgate.toml")).is_held_by(&places.of(&root.join("granted")));
        assert!(!held());
        std::fs::hard_link(root.join("tollgate.toml"), root.join("granted/deep/other")).unwrap();
        assert!(held());
    }

    #[test]
    fn z19_a_second_name_of_a_file_in_a_directory_of_the_host_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("granted/deep")).unwrap();
        std::fs::create_dir_all(root.join("data/within")).unwrap();
        std::fs::write(root.join("data/within/it.wasm"), "").unwrap();
        let places = Places::now();
        let held = || places.of(&root.join("data")).is_held_by(&places.of(&root.join("granted")));
        std::fs::hard_link(root.join("data/within/it.wasm"), root.join("data/again")).unwrap();
        assert!(!held(), "both names are in the directory of the host");
        std::fs::hard_link(root.join("data/again"), root.join("granted/deep/other")).unwrap();
        assert!(held());
    }
}
