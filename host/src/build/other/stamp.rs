//! Whether a component is still what its sources say: a digest of all of them, kept
//! beside it.

use super::super::{BuildError, install};
use super::CONTRACT;
use crate::build::recipe::Recipe;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Directories that hold no sources.
const PASSED_OVER: [&str; 4] = ["build", "node_modules", "__pycache__", "target"];
/// How deep a project's directories are followed.
const MAX_DEPTH: usize = 16;

/// A digest of the project's files, its library's, the contract and this program's
/// version.
///
/// # Errors
/// A file cannot be read.
pub(super) fn of(recipe: &Recipe) -> Result<String, BuildError> {
    let mut digest = Sha256::new();
    digest.update(env!("CARGO_PKG_VERSION"));
    for (name, text) in CONTRACT {
        digest.update(name);
        digest.update(text);
    }
    for root in [Some(recipe.dir.as_path()), recipe.sdk.as_deref()].into_iter().flatten() {
        let mut files = Vec::new();
        collect(root, 0, &mut files)?;
        files.sort();
        for file in files {
            let bytes = fs::read(&file).map_err(BuildError::file(&file, "read"))?;
            digest.update(file.strip_prefix(root).unwrap_or(&file).to_string_lossy().as_bytes());
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether the component is there and was made of what the stamp says.
pub(super) fn stands(component: &Path, stamp: &str) -> bool {
    component.is_file() && fs::read_to_string(beside(component)).is_ok_and(|kept| kept == stamp)
}

/// Takes the stamp away before there is another component.
///
/// # Errors
/// It is there and cannot be removed.
pub(super) fn remove(component: &Path) -> Result<(), BuildError> {
    let file = beside(component);
    match fs::remove_file(&file) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(BuildError::file(&file, "removed")(e)),
        _ => Ok(()),
    }
}

/// Keeps the stamp beside the component, in this directory, whole or not at all.
///
/// # Errors
/// It cannot be written.
pub(super) fn set(component: &Path, stamp: &str, dir: &Path) -> Result<(), BuildError> {
    install::put(stamp.as_bytes(), &beside(component), dir)
}

fn beside(component: &Path) -> PathBuf {
    component.with_extension("stamp")
}

fn collect(dir: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), BuildError> {
    for entry in fs::read_dir(dir).map_err(BuildError::file(dir, "listed"))? {
        let entry = entry.map_err(BuildError::file(dir, "listed"))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(BuildError::file(dir, "listed"))?);
        if kind.is_file() {
            files.push(path);
        } else if kind.is_dir() && depth < MAX_DEPTH && !is_passed_over(&path) {
            collect(&path, depth + 1, files)?;
        }
    }
    Ok(())
}

fn is_passed_over(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with('.') || PASSED_OVER.contains(&name)
}
