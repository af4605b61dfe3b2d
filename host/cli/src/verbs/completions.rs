//! `tollgate completions`: shell completion scripts.

use crate::terminal::{Exit, Failure, Output};
use clap::{Args, Command};
use clap_complete::Shell;

/// Print the completion script of a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsVerb {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  tollgate completions bash > ~/.local/share/bash-completion/completions/tollgate
  tollgate completions zsh > ~/.zfunc/_tollgate
  tollgate completions fish > ~/.config/fish/completions/tollgate.fish";

impl CompletionsVerb {
    pub(crate) fn run(self, mut command: Command, output: &Output) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "tollgate", &mut script);
        output.write(&String::from_utf8_lossy(&script));
        Ok(Exit::Done)
    }
}
