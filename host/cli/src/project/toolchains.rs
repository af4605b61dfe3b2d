//! The compilers of languages other than Rust, installed below the user's data directory by the
//! script `scripts/toolchains`, which is embedded in the program.

use super::error::BuildError;
use crate::session::project_data::data_root;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("../../../../scripts/toolchains");

/// Returns the directory that the compilers are installed into; `None` without a home directory.
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
