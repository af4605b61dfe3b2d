//! The WebAssembly target of the Rust compiler, which is added if it is missing.

use super::error::BuildError;
use std::path::Path;
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
