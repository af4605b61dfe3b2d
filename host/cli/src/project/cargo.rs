//! Compiling with cargo, which prints its own progress to standard error.

use super::error::BuildError;
use super::shared_target::{self, TargetLock};
use super::statements;
use super::toolchains::WASM_TARGET;
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// A component that cargo built.
#[derive(Debug, Clone)]
pub(crate) struct Artifact {
    /// The `.wasm` file.
    pub(crate) file: PathBuf,
    /// Whether it existed already and none of its sources had changed.
    pub(crate) fresh: bool,
    /// The project's directory, if cargo reports it.
    pub(crate) project: Option<PathBuf>,
    /// Custom sections to append to the component: its licence, its source, and the packages that it
    /// was built from. Empty for languages other than Rust.
    pub(crate) statements: Vec<u8>,
    /// Keeps other projects from replacing the file; `None` if no other project writes it.
    pub(crate) target_lock: Option<Arc<TargetLock>>,
}

impl Artifact {
    /// Returns an artifact without statements and without a lock.
    pub(super) fn new(file: PathBuf, fresh: bool, project: Option<PathBuf>) -> Self {
        Self { file, fresh, project, statements: Vec::new(), target_lock: None }
    }
}

/// Compiles the project, or every tool of the workspace, in `dir`.
///
/// # Errors
/// Cargo cannot be run, the code does not compile, or none of it produces a component.
pub(crate) fn compile(
    dir: &Path,
    target_dir: Option<&Path>,
    quiet: bool,
    say: &dyn Fn(&str),
) -> Result<Vec<Artifact>, BuildError> {
    let target_lock = lock_target(dir, target_dir, say)?.map(Arc::new);
    let mut cargo = cargo(target_dir)
        .args(["build", "--release", "--target", WASM_TARGET, "--message-format", "json-render-diagnostics"])
        .args(quiet.then_some("--quiet"))
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| BuildError::no_cargo(&e))?;
    let mut artifacts = artifacts(&mut cargo);
    artifacts.iter_mut().for_each(|artifact| artifact.target_lock = target_lock.clone());
    let status = cargo.wait().map_err(|e| BuildError::Failed(format!("cargo failed: {e}")))?;
    if !status.success() {
        return Err(BuildError::Failed(format!(
            "{} does not compile ({status}); see cargo's output above; if a download failed, check the network and try again",
            dir.display()
        )));
    }
    if artifacts.is_empty() {
        return Err(BuildError::Failed(format!(
            "no component was built in {}; add to {}:\n\n  [lib]\n  crate-type = [\"cdylib\", \"lib\"]",
            dir.display(),
            dir.join("Cargo.toml").display()
        )));
    }
    match statements::of(dir) {
        Ok(by_project) => {
            for artifact in &mut artifacts {
                let statements = artifact.project.as_ref().and_then(|project| by_project.get(project));
                artifact.statements = statements.cloned().unwrap_or_default();
            }
        }
        // The component is complete without them.
        Err(why) => say(&format!("the component will not list its packages: {why}")),
    }
    Ok(artifacts)
}

/// Locks the target directory that the project shares with others. `None` if it has one of its own.
///
/// # Errors
/// See [`shared_target::lock`].
pub(super) fn lock_target(
    dir: &Path,
    target_dir: Option<&Path>,
    say: &dyn Fn(&str),
) -> Result<Option<TargetLock>, BuildError> {
    // Cargo runs in the project's directory, so a relative path starts there.
    let from_environment = std::env::var_os("CARGO_TARGET_DIR").map(|named| dir.join(named));
    let target = from_environment.as_deref().or(target_dir);
    target.map(|target| shared_target::lock(dir, target, say)).transpose()
}

/// Returns a command that runs cargo for a tool's project.
pub(super) fn cargo(target_dir: Option<&Path>) -> Command {
    let mut cargo = Command::new("cargo");
    // Flags for other builds do not suit wasm, and would replace the project's own.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTC_WORKSPACE_WRAPPER");
    if let Some(target_dir) = target_dir.filter(|_| std::env::var_os("CARGO_TARGET_DIR").is_none()) {
        cargo.env("CARGO_TARGET_DIR", target_dir);
    }
    cargo
}

/// The fields of cargo's messages that are used here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    #[serde(default)]
    fresh: bool,
    manifest_path: Option<PathBuf>,
}

/// Returns the components that cargo reports, sorted by file. Reads until cargo closes its output.
fn artifacts(cargo: &mut Child) -> Vec<Artifact> {
    let lines =
        cargo.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok);
    let messages = lines.filter_map(|line| serde_json::from_str::<Message>(&line).ok());
    let mut artifacts: Vec<Artifact> =
        messages.filter(|message| message.reason == "compiler-artifact").filter_map(artifact).collect();
    artifacts.sort_by(|a, b| a.file.cmp(&b.file));
    artifacts
}

fn artifact(message: Message) -> Option<Artifact> {
    let fresh = message.fresh;
    let project = message.manifest_path.as_deref().and_then(Path::parent).map(Path::to_owned);
    let file =
        message.filenames.into_iter().find(|file| file.extension().is_some_and(|end| end == "wasm"))?;
    Some(Artifact::new(file, fresh, project))
}
