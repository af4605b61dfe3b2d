//! A target directory that several projects share, so that their libraries are compiled once.
//!
//! Cargo does not distinguish two packages with the same name and version, wherever they are: the
//! second project named `hello` would get the component of the first. Therefore only one project at
//! a time uses the directory, and a package that was last built from elsewhere is compiled again.

use super::error::BuildError;
use super::toolchains::cargo_metadata;
use serde::Deserialize;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// The directory inside a target directory with one file for each package, which holds the path of
/// the manifest that it was last built from.
const OWNERS: &str = ".tollgate-owners";
/// The length of the hash at the end of a fingerprint's name.
const HASH_CHARS: usize = 16;

/// The exclusive use of a target directory, until it is dropped.
#[derive(Debug)]
pub(crate) struct TargetLock(#[expect(dead_code, reason = "closing the file releases the lock")] File);

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

/// Waits until no other build uses the target directory, and locks it. Removes what other projects
/// built there under the names of this one's packages.
///
/// # Errors
/// The directory cannot be written, or cargo cannot be run.
pub(super) fn lock(project: &Path, target: &Path, say: &dyn Fn(&str)) -> Result<TargetLock, BuildError> {
    let owners = target.join(OWNERS);
    fs::create_dir_all(&owners).map_err(BuildError::file(&owners, "created"))?;
    let lock = File::create(owners.join(".lock")).map_err(BuildError::file(&owners, "written to"))?;
    if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
        say("waiting for another build");
        lock.lock().map_err(BuildError::file(&owners, "locked"))?;
    }
    for Package { name, manifest_path } in cargo_metadata::<Metadata>(project, &["--no-deps"])?.packages {
        let (owner, manifest) = (owners.join(&name), manifest_path.to_string_lossy());
        if fs::read(&owner).is_ok_and(|known| known == manifest.as_bytes()) {
            continue;
        }
        for built in fingerprints(target, &name) {
            fs::remove_dir_all(&built).map_err(BuildError::file(&built, "removed"))?;
        }
        fs::write(&owner, manifest.as_bytes()).map_err(BuildError::file(&owner, "written"))?;
    }
    Ok(TargetLock(lock))
}

/// Returns the fingerprint directories of a package. Without them, cargo compiles it again.
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
