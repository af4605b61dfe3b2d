//! `tollgate man`: manual pages, for packages.

use crate::terminal::{Exit, Failure, Output};
use clap::{Args, Command};
use std::path::PathBuf;

/// Write the manual pages into a directory, for packages
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, hide = true)]
pub(crate) struct ManVerb {
    /// The directory, which must exist
    dir: PathBuf,
}

const EXAMPLES: &str = "\
Example:
  tollgate man ~/.local/share/man/man1";

impl ManVerb {
    pub(crate) fn run(self, command: Command, output: &Output) -> Result<Exit, Failure> {
        clap_mangen::generate_to(command, &self.dir).map_err(|e| {
            Failure::failed(format!("cannot write manual pages into {}: {e}", self.dir.display()))
        })?;
        output.hint(&format!("manual pages are in {}", self.dir.display()));
        Ok(Exit::Done)
    }
}
