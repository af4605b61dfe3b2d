//! A target directory that several projects share, so that their libraries are compiled once.
//!
//! Cargo takes two packages of one name and version for the same package, wherever they are: the
//! second project named `hello` would get the component of the first. Therefore one project at a
//! time uses the directory, and a package that was last built from elsewhere is compiled again.

use super::error::BuildError;
use super::metadata::metadata;
use serde::Deserialize;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// The directory inside a target directory that names the last project of each package.
const OWNERS: &str = ".tollgate-owners";
/// The length of the hash at the end of a fingerprint's name.
const HASH_CHARS: usize = 16;

/// The right to use a target directory, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "the lock ends with the file")] File);

/// The packages of a project, or of its workspace.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

/// Waits for the target directory, and forgets what other projects built under the names of this
/// one's packages.
///
/// # Errors
/// The directory cannot be written, or cargo cannot be run.
pub(super) fn take_turn(project: &Path, target: &Path, say: &dyn Fn(&str)) -> Result<Turn, BuildError> {
    let owners = target.join(OWNERS);
    fs::create_dir_all(&owners).map_err(BuildError::file(&owners, "made"))?;
    let lock = File::create(owners.join(".lock")).map_err(BuildError::file(&owners, "written to"))?;
    if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
        say("waiting for another build");
        lock.lock().map_err(BuildError::file(&owners, "locked"))?;
    }
    for Package { name, manifest_path } in metadata::<Metadata>(project, &["--no-deps"])?.packages {
        let (owner, manifest) = (owners.join(&name), manifest_path.to_string_lossy());
        if fs::read(&owner).is_ok_and(|known| known == manifest.as_bytes()) {
            continue;
        }
        fingerprints(target, &name)
            .iter()
            .try_for_each(|found| fs::remove_dir_all(found).map_err(BuildError::file(found, "removed")))?;
        fs::write(&owner, manifest.as_bytes()).map_err(BuildError::file(&owner, "written"))?;
    }
    Ok(Turn(lock))
}

/// Returns the directories by which cargo knows that a package of this name is built.
fn fingerprints(target: &Path, name: &str) -> Vec<PathBuf> {
    let within = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let profiles = within(target).flat_map(|dir| within(&dir).chain([dir]));
    let found = profiles.flat_map(|profile| within(&profile.join(".fingerprint")));
    let is_of_package = |found: &PathBuf| {
        let hash = found.file_name().and_then(|file| file.to_str()?.strip_prefix(name)?.strip_prefix('-'));
        hash.is_some_and(|hash| hash.len() == HASH_CHARS && hash.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    found.filter(is_of_package).collect()
}
