//! Whether a component is still what it was made of: a digest of all that goes into it,
//! kept beside it, and the compilers that made it.
//!
//! Nothing is run to find out. A compiler is known by its file's size and time, so that
//! another version is seen, and one that is gone is no reason to compile what stands.

use super::super::{BuildError, install};
use super::program::Program;
use super::sources;
use super::{CONTRACT, recipe_text};
use crate::build::recipe::Recipe;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;

/// What a component is made of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// A digest of the project's files, its library's, the contract, and this program's
    /// own part; none where not all of it can be looked at: then it is compiled each time.
    digest: Option<String>,
    /// Its compilers, as far as they are installed.
    compilers: Vec<String>,
}

impl Stamp {
    /// What a project would be compiled from now.
    pub(super) fn of(recipe: &Recipe, compilers: &[Program]) -> Self {
        Self { digest: digest(recipe), compilers: compilers.iter().filter_map(Program::identity).collect() }
    }

    /// Whether the component is there and was made of this.
    pub(super) fn stands(&self, component: &Path) -> bool {
        let (Some(digest), Ok(kept)) = (&self.digest, fs::read_to_string(beside(component))) else {
            return false;
        };
        let mut kept = kept.lines();
        let is_same = kept.next() == Some(digest.as_str());
        let made_by: Vec<&str> = kept.collect();
        is_same && component.is_file() && self.compilers.iter().all(|one| made_by.contains(&one.as_str()))
    }

    /// Keeps it beside the component, in this directory, whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn keep(&self, component: &Path, dir: &Path) -> Result<(), BuildError> {
        let Some(digest) = &self.digest else { return Ok(()) };
        let lines = [std::slice::from_ref(digest), &self.compilers].concat().join("\n");
        install::put(lines.as_bytes(), &beside(component), dir)
    }
}

fn digest(recipe: &Recipe) -> Option<String> {
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    };
    add(env!("CARGO_PKG_VERSION").as_bytes());
    add(recipe_text(recipe.language).as_bytes());
    add(WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER);
    for (name, text) in CONTRACT {
        add(name.as_bytes());
        add(text.as_bytes());
    }
    for root in [Some(recipe.dir.as_path()), recipe.sdk.as_deref()].into_iter().flatten() {
        for file in sources::of(root)? {
            add(file.strip_prefix(root).unwrap_or(&file).as_os_str().as_encoded_bytes());
            add(&fs::read(&file).ok()?);
        }
    }
    Some(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
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

fn beside(component: &Path) -> PathBuf {
    component.with_extension("stamp")
}
