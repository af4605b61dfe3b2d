//! The compilers that projects need: cargo and the WebAssembly target of the Rust compiler, which is
//! added if it is missing, and the compilers of other languages. The script `scripts/toolchains`, which
//! is embedded in the program, installs the latter below the user's data directory.

use super::error::BuildError;
use crate::session::project_data::data_root;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The compile target of tools.
pub(super) const WASM_TARGET: &str = "wasm32-wasip2";

/// Ensures that the compiler used in `dir` has the wasm target. Returns whether it had to be added.
///
/// # Errors
/// There is no compiler, or the target is missing and cannot be added.
pub(crate) fn add_wasm_target(dir: &Path, say: &dyn Fn(&str)) -> Result<bool, BuildError> {
    if is_installed(dir)? {
        return Ok(false);
    }
    say(&format!("adding the target {WASM_TARGET}: rustup target add {WASM_TARGET}"));
    let added = Command::new("rustup")
        .args(["target", "add", WASM_TARGET])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    let advice = match added {
        Ok(status) if status.success() && is_installed(dir)? => return Ok(true),
        Ok(_) => format!("Run `rustup target add {WASM_TARGET}` with network access"),
        Err(_) => format!(
            "Install it with your system's packages for Rust, or install rustup and type `rustup target add {WASM_TARGET}`"
        ),
    };
    Err(BuildError::Failed(format!(
        "the Rust compiler has no target {WASM_TARGET}. {advice}, then try again."
    )))
}

/// Returns whether the standard library of the target is installed.
fn is_installed(dir: &Path) -> Result<bool, BuildError> {
    let answer = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", WASM_TARGET])
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| {
            BuildError::Failed(format!(
                "the Rust compiler cannot be run: {e}. Install it from https://rustup.rs, then try again."
            ))
        })?;
    let lib_dir = String::from_utf8_lossy(&answer.stdout);
    let lib_dir = Path::new(lib_dir.trim());
    Ok(answer.status.success() && std::fs::read_dir(lib_dir).is_ok_and(|mut files| files.next().is_some()))
}

/// Returns the fields that `cargo metadata` prints about a project with these options.
///
/// # Errors
/// Cargo cannot be run, refuses the project, or prints something else.
pub(super) fn cargo_metadata<T: DeserializeOwned>(dir: &Path, options: &[&str]) -> Result<T, BuildError> {
    let failed = |why: &str| BuildError::Failed(format!("cargo metadata failed: {why}"));
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1"])
        .args(options)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| BuildError::no_cargo(&e))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| failed(&e.to_string()))
}

const SCRIPT: &str = include_str!("../../../../scripts/toolchains");

/// Returns the directory that the compilers of other languages are installed into; `None` without a
/// home directory.
pub(crate) fn dir() -> Option<PathBuf> {
    Some(data_root().ok()?.join("toolchains"))
}

/// Installs the compilers of these languages, which are names of the script.
///
/// # Errors
/// The script cannot be run or fails; its own output is on standard error.
pub(crate) fn install(languages: &[&str]) -> Result<PathBuf, BuildError> {
    let dir =
        dir().ok_or_else(|| BuildError::Usage("there is no home directory to install into".to_owned()))?;
    let failed = |e: std::io::Error| BuildError::Failed(format!("bash cannot be run: {e}"));
    let mut bash = Command::new("bash");
    bash.args(["-s", "--"])
        .arg(&dir)
        .args(languages)
        .stdin(Stdio::piped())
        .stdout(Stdio::from(std::io::stderr()));
    let mut script = bash.spawn().map_err(failed)?;
    if let Some(mut input) = script.stdin.take() {
        input.write_all(SCRIPT.as_bytes()).map_err(failed)?;
    }
    let ended = script.wait().map_err(failed)?;
    match ended.success() {
        true => Ok(dir),
        false => Err(BuildError::Failed(format!(
            "the compilers of {} were not installed ({ended}); the reason is above",
            languages.join(", ")
        ))),
    }
}
