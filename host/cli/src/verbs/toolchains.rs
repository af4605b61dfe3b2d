//! `tollgate toolchains`: installs the compilers of languages other than Rust.

use crate::project::{languages, toolchains};
use crate::terminal::output::{BAD, GOOD};
use crate::terminal::table::{Column, Table};
use crate::terminal::{Exit, Failure, Output};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

/// Install the compilers for tools in languages other than Rust, or list them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ToolchainsVerb {
    #[command(subcommand)]
    way: ToolchainsSubcommand,
}

#[derive(Debug, Subcommand)]
enum ToolchainsSubcommand {
    /// Install the compilers of these languages from the package registries
    Install {
        /// The languages
        #[arg(required = true)]
        languages: Vec<Toolchain>,
    },
    /// List the compilers and where they were found
    List,
}

/// A language whose compilers can be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Toolchain {
    C,
    Go,
    /// JavaScript and TypeScript
    #[value(alias = "js", alias = "typescript", alias = "ts")]
    Javascript,
    #[value(alias = "py")]
    Python,
}

const EXAMPLES: &str = "\
Examples:
  tollgate toolchains list
  tollgate toolchains install python
  tollgate toolchains install c go javascript

They go into the user's data directory, where `tollgate build` finds them, and change nothing else.
C, Go and Python need python3 with venv; JavaScript needs node and npm. Rust comes from
https://rustup.rs.";

impl ToolchainsVerb {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, Failure> {
        match self.way {
            ToolchainsSubcommand::Install { languages } => {
                let names: Vec<&str> = languages.iter().map(|language| language.name()).collect();
                output.say(&format!(
                    "installing the compilers of {}; this takes a minute or more",
                    names.join(", ")
                ));
                let dir = toolchains::install(&names)?;
                if output.is_json() {
                    output.json(&json!({"installed": names, "dir": dir}));
                } else {
                    output.line(&format!("{GOOD}installed{GOOD:#} in {}", dir.display()));
                }
            }
            ToolchainsSubcommand::List => list(output),
        }
        Ok(Exit::Done)
    }
}

impl Toolchain {
    fn name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Go => "go",
            Self::Javascript => "javascript",
            Self::Python => "python",
        }
    }
}

fn list(output: &Output) {
    let all = languages::toolchains();
    let programs =
        all.iter().flat_map(|(language, programs)| programs.iter().map(move |program| (*language, program)));
    if output.is_json() {
        let each = programs.map(|(language, program)| {
            json!({"language": language, "program": program.names[0], "path": program.find()})
        });
        return output.json(&each.collect::<Vec<_>>());
    }
    let mut table =
        Table::new(&[Column::whole("LANGUAGE", 0), Column::whole("PROGRAM", 0), Column::text("FOUND", 0)]);
    for (language, program) in programs {
        let found = program.find().map_or_else(
            || format!("{BAD}missing{BAD:#}: {}", remedy(language, program)),
            |path| path.display().to_string(),
        );
        table.row([language.to_owned(), program.names[0].to_owned(), found]);
    }
    output.line(&table.text());
}

/// Returns the command that installs a missing program of a language.
pub(crate) fn remedy(language: &str, program: &languages::Program) -> String {
    match program.names[0] {
        "node" | "npm" => program.install.to_owned(),
        _ => format!("tollgate toolchains install {language}"),
    }
}
