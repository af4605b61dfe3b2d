//! The guest libraries, which are embedded in the program. Projects outside a checkout of Tollgate
//! share a copy of them in the user's data directory.

use super::error::BuildError;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

include!(concat!(env!("OUT_DIR"), "/sdk.rs"));

/// The directory below the user's data directory that holds one directory for each version.
const SDK_DIR: &str = "sdk";

/// Returns the directory `guest-sdk` of this version below the user's data directory. Writes it if
/// it is missing.
///
/// # Errors
/// It cannot be written.
pub(super) fn shared(data_root: &Path) -> Result<PathBuf, BuildError> {
    let all = data_root.join(SDK_DIR);
    let dir = all.join(version());
    if !dir.is_dir() {
        fs::create_dir_all(&all).map_err(BuildError::file(&all, "created"))?;
        let part = tempfile::Builder::new().prefix(".part-").tempdir_in(&all);
        let part = part.map_err(BuildError::file(&all, "written to"))?;
        for (path, content) in FILES {
            let file = part.path().join(path);
            if let Some(parent) = file.parent() {
                fs::create_dir_all(parent).map_err(BuildError::file(parent, "created"))?;
            }
            fs::write(&file, content).map_err(BuildError::file(&file, "written"))?;
        }
        // Another process may have written the same files meanwhile.
        if let Err(e) = fs::rename(part.path(), &dir)
            && !dir.is_dir()
        {
            return Err(BuildError::file(&dir, "written")(e));
        }
    }
    Ok(dir.join("guest-sdk"))
}

/// Returns the version of the embedded libraries: that of the program, and a digest of the files.
fn version() -> String {
    let mut hash = Sha256::new();
    for (path, content) in FILES {
        hash.update((path.len() as u64).to_be_bytes());
        hash.update(path);
        hash.update((content.len() as u64).to_be_bytes());
        hash.update(content);
    }
    let digest: String = hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{digest}", env!("CARGO_PKG_VERSION"))
}

/// Returns the target directory that all Rust tools with the shared libraries use, so that only the
/// first of them compiles these. `None` if the project is not such a tool.
pub(super) fn target_dir(project: &Path, data_root: &Path, cache_root: &Path) -> Option<PathBuf> {
    let manifest = fs::read_to_string(project.join("Cargo.toml")).ok()?;
    let sdk = data_root.join(SDK_DIR);
    manifest.contains(sdk.to_str()?).then(|| cache_root.join("target"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_embedded_libraries_are_written_once_and_are_whole() {
        let root = tempfile::tempdir().unwrap();
        let sdk = shared(root.path()).unwrap();
        let place = sdk.parent().unwrap();
        for file in [
            "Cargo.toml",
            "guest-sdk/src/lib.rs",
            "guest-sdk/macros/Cargo.toml",
            "wit/world.wit",
            "guest-sdk/python/tollgate/__init__.py",
            "guest-sdk/js/describe/main.js",
            "guest-sdk/go/go.mod",
            "guest-sdk/c/tollgate.h",
        ] {
            assert!(place.join(file).is_file(), "{file} is missing");
        }
        let manifest: toml::Table = fs::read_to_string(place.join("Cargo.toml")).unwrap().parse().unwrap();
        assert!(manifest["workspace"]["dependencies"].get("wit-bindgen").is_some());
        assert!(manifest.get("profile").is_none());
        fs::write(place.join("mark"), "").unwrap();
        assert_eq!(shared(root.path()).unwrap(), sdk);
        assert!(place.join("mark").exists(), "it was not written again");
        assert_eq!(fs::read_dir(place.parent().unwrap()).unwrap().count(), 1, "no part is left");
    }
}
