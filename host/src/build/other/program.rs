//! The compilers that others make: found on the path, or the line that installs them.

use super::super::BuildError;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that a language needs.
pub(super) struct Program {
    /// The names under which it is looked for, in this order.
    pub(super) names: &'static [&'static str],
    /// What a person types to have it.
    pub(super) install: &'static str,
}

impl Program {
    /// A command that runs it in `dir`, its own words on standard error.
    ///
    /// # Errors
    /// It is not installed; the error says how to.
    pub(super) fn command(&self, dir: &Path) -> Result<Command, BuildError> {
        let path = self.find().ok_or_else(|| {
            BuildError::Failed(format!("{} is not installed. Type: {}", self.names[0], self.install))
        })?;
        let mut command = Command::new(path);
        command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr()));
        Ok(command)
    }

    fn find(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        self.names
            .iter()
            .find_map(|name| folders.iter().map(|dir| dir.join(name)).find(|file| file.is_file()))
    }
}

/// Runs a compiler to its end.
///
/// # Errors
/// It cannot be run, or ends with a failure; its own words are on standard error.
pub(super) fn run(mut command: Command, source: &Path) -> Result<(), BuildError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|e| BuildError::Failed(format!("{program} cannot be run: {e}")))?;
    if !status.success() {
        return Err(BuildError::Failed(format!(
            "{} does not compile ({status}); {program} says why above",
            source.display()
        )));
    }
    Ok(())
}
