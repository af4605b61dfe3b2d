//! The output of `cargo metadata`.

use super::error::BuildError;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the fields that `cargo metadata` prints about a project with these options.
///
/// # Errors
/// Cargo cannot be run, refuses the project, or prints something else.
pub(super) fn metadata<T: DeserializeOwned>(dir: &Path, options: &[&str]) -> Result<T, BuildError> {
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
