//! Stamps of components: a digest of everything that goes into a component, and its compilers,
//! stored beside it so that a later build can tell whether it is up to date.
//!
//! Compilers report the files that they read outside the project and the library, such as a header
//! beside it. Each such file is stored with its own digest.
//!
//! Checking a stamp runs no program. A compiler is identified by its file's size and time, so
//! another version is noticed. A compiler that was removed is no reason to rebuild.

use super::super::error::BuildError;
use super::super::install;
use super::program::Program;
use super::sources;
use super::work_dir::CONTRACT;
use crate::project::recipe::{Language, Recipe};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;

/// The inputs of a component, as digests and identities.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// A digest of the project's files, its library's, the contract, and this program's own part.
    /// `None` if not all of it can be read; the project is then rebuilt each time.
    digest: Option<String>,
    /// The installed compilers among those it needs.
    compilers: Vec<String>,
}

impl Stamp {
    /// Returns the stamp of the project's present inputs.
    pub(super) fn of(recipe: &Recipe, compilers: &[Program]) -> Self {
        Self { digest: digest(recipe), compilers: compilers.iter().filter_map(Program::identity).collect() }
    }

    /// Returns whether the component exists and was made from these inputs.
    pub(super) fn is_current(&self, component: &Path) -> bool {
        let (Some(digest), Ok(stored)) = (&self.digest, fs::read_to_string(stamp_file(component))) else {
            return false;
        };
        let mut lines = stored.lines();
        let is_same = lines.next() == Some(digest.as_str());
        let (files, compilers): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with(READ));
        is_same
            && component.is_file()
            && self.compilers.iter().all(|compiler| compilers.contains(&compiler.as_str()))
            && files.into_iter().all(is_unchanged)
    }

    /// Stores the stamp atomically beside the component, in the directory `dir`, with the files outside
    /// of the project that its compilers read. Stores nothing if one of these files cannot be read.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn store(
        &self,
        component: &Path,
        dir: &Path,
        outside: &BTreeSet<PathBuf>,
    ) -> Result<(), BuildError> {
        let read: Option<Vec<String>> = outside.iter().map(|file| read_line(file)).collect();
        let (Some(digest), Some(read)) = (&self.digest, read) else { return Ok(()) };
        let lines = [std::slice::from_ref(digest), &self.compilers, &read].concat().join("\n");
        install::put(lines.as_bytes(), &stamp_file(component), dir)
    }
}

/// The prefix of the line of a file that a compiler read.
const READ: &str = "read ";

/// Returns a file's line: its digest and path. `None` if it cannot be read, or its path cannot be
/// stored.
fn read_line(file: &Path) -> Option<String> {
    let path = file.to_str().filter(|path| !path.contains('\n'))?;
    Some(format!("{READ}{} {path}", hex(Sha256::digest(fs::read(file).ok()?).as_slice())))
}

/// Returns whether the file of a line still has the digest of the line.
fn is_unchanged(line: &str) -> bool {
    let path = line.strip_prefix(READ).and_then(|rest| rest.split_once(' '));
    path.is_some_and(|(_, path)| read_line(Path::new(path)).as_deref() == Some(line))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
    Some(hex(digest.finalize().as_slice()))
}

/// Removes the stamp before the component is replaced.
///
/// # Errors
/// It exists and cannot be removed.
pub(super) fn remove(component: &Path) -> Result<(), BuildError> {
    let file = stamp_file(component);
    match fs::remove_file(&file) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(BuildError::file(&file, "removed")(e)),
        _ => Ok(()),
    }
}

fn stamp_file(component: &Path) -> PathBuf {
    component.with_extension("stamp")
}

/// Returns this program's source for compiling a language, with all flags: a change there
/// recompiles every project.
fn recipe_text(language: Language) -> &'static str {
    match language {
        Language::C => concat!(include_str!("c.rs"), include_str!("component.rs")),
        Language::Go => concat!(include_str!("go.rs"), include_str!("component.rs")),
        Language::JavaScript | Language::TypeScript => {
            concat!(include_str!("javascript.rs"), include_str!("lines.rs"))
        }
        Language::Python => concat!(include_str!("python.rs"), include_str!("entry.py")),
        Language::Wat => include_str!("component.rs"),
    }
}
