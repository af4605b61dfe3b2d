//! Starting and compiling tools: `new` writes a project, `build` compiles it into a component in
//! the tools directory.

mod cargo;
mod error;
mod install;
pub(crate) mod languages;
mod names;
mod new_project;
mod recipe;
mod sdk;
mod shared_target;
mod sources;
mod statements;
mod templates;
mod testing;
pub(crate) mod toolchains;
mod watched_files;
mod workflow;

pub(crate) use cargo::Artifact;
pub(crate) use error::BuildError;
pub(crate) use install::{Dirs, InstalledComponent, install};
pub(crate) use new_project::{NewProject, find_upwards};
pub(crate) use sources::of as sources;
pub(crate) use templates::Template;
pub(crate) use testing::test;
pub(crate) use watched_files::WatchedFiles;

use crate::session::place::user_cache;
use crate::session::project_data::{data_root, private_dir};
use recipe::RECIPE;
use std::path::{Path, PathBuf};

/// Compiles the project in `dir`: with cargo if it has a `Cargo.toml`, and otherwise as its
/// `tool.toml` states. `quiet` leaves out cargo's progress; errors and warnings of compilers are always shown.
///
/// # Errors
/// There is no project, a compiler is missing, or the code does not compile.
pub(crate) fn compile(dir: &Path, quiet: bool, say: &dyn Fn(&str)) -> Result<Vec<Artifact>, BuildError> {
    if dir.join("Cargo.toml").is_file() {
        toolchains::add_wasm_target(dir, say)?;
        return cargo::compile(dir, target_dir(dir).as_deref(), quiet, say);
    }
    if dir.join(RECIPE).is_file() {
        return Ok(vec![languages::compile(dir, say)?]);
    }
    Err(BuildError::Usage(format!(
        "no project in {}: it has no Cargo.toml and no {RECIPE}; name its directory, or start one: tollgate new hello",
        dir.display()
    )))
}

/// Returns the target directory that all Rust tools on the embedded libraries share; `None` for
/// other projects.
fn target_dir(project: &Path) -> Option<PathBuf> {
    let cache = user_cache()?;
    let dir = sdk::target_dir(project, &data_root().ok()?, &cache)?;
    // Create the cache before cargo does, which would make it accessible to other users: the sandbox
    // stores no code in such a directory. If this fails, cargo reports the reason.
    let _ = private_dir(&cache);
    Some(dir)
}
