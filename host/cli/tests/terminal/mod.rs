//! A terminal of its own for a program under test.

use std::process::Command;

/// Returns the command that runs the program with these words of a shell on a new terminal. It ends with
/// the program's exit code. `exec` keeps no shell beside the program: most shells die of the Ctrl-C that
/// the program handles, and their code would be reported instead.
pub(crate) fn on_terminal(words: &str) -> Command {
    let line = format!("exec {} {words}", env!("CARGO_BIN_EXE_tollgate"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"]);
    script
}
