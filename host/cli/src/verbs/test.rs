//! `tollgate test`: runs a project's own tests.

use crate::globals::Globals;
use crate::project;
use crate::terminal::output::{BAD, GOOD};
use crate::terminal::{Exit, Failure, Output};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Run the tests of a tool's project, with the tools of its language
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TestVerb {
    /// The project's directory
    #[arg(default_value = ".")]
    dir: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  tollgate test hello
  cd hello && tollgate test

This runs `cargo test`, `go test`, `python3 -m unittest` or `npm test`, or compiles and runs test.c. If package.json
has a script `check`, `npm run check` runs too; in new TypeScript projects it checks types.
The tests call the tool as a plain function, on this machine and outside the sandbox, so run only
tests that you trust. The exit code is 0 if they pass, else 1.";

impl TestVerb {
    pub(crate) fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let config = globals.read_config()?;
        tollgate::grants::check_sources(&project::sources(&self.dir), &config)?;
        let passed = project::test(&self.dir, &|words| output.hint(words))?;
        match (output.is_json(), passed) {
            (true, _) => output.json(&json!({"passed": passed})),
            (false, true) => output.line(&format!("{GOOD}passed{GOOD:#}")),
            (false, false) => output.say(&format!("{BAD}failed{BAD:#}: the reason is above")),
        }
        Ok(if passed { Exit::Done } else { Exit::Failed })
    }
}
