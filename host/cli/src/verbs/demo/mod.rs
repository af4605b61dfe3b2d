//! `tollgate demo`: the tour. Builds the example tools, and an agent works with them on this
//! repository's own documents. The model's replies are recorded; the tools' results are computed
//! live.

#[cfg(feature = "mcp")]
mod console;
mod tour;

use crate::globals::Globals;
use crate::project;
use crate::render::narrate::{Narrator, outcome};
use crate::session::follow::follow;
use crate::session::{OpenSession, finish, host_with, with_servers};
use crate::terminal::output::{BOLD, DIM};
use crate::terminal::{Exit, Failure, Output, program};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate::RunRequest;
use tour::{recorded, unwritable};

/// Build the example tools and show an agent at work, with a recorded model and no API key
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// Use this checkout of Tollgate [default: the one that contains the working directory]
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
    /// Serve the tour in the console for the browser, with a question to decide
    #[cfg(feature = "mcp")]
    #[arg(long)]
    serve: bool,
    /// Listen at this address of this machine [default: 127.0.0.1:7300, or a free port]
    #[cfg(feature = "mcp")]
    #[arg(long, value_name = "ADDR", requires = "serve")]
    listen: Option<std::net::SocketAddr>,
}

const EXAMPLES: &str = "\
Examples:
  cargo run --release -- demo
  cargo run --release -- demo --serve                the same in the browser

It needs a Rust toolchain, and for the first build a network for cargo.";

impl Demo {
    pub(crate) async fn run(self, globals: &Globals, output: &Output) -> Result<Exit, Failure> {
        let repository = find_repository(self.repository.as_deref())?;
        let place = tempfile::tempdir()
            .map_err(|e| Failure::failed(format!("cannot create a temporary directory: {e}")))?;
        let tools = place.path().join("tools");
        fs::create_dir(&tools).map_err(|e| unwritable(&tools, &e))?;
        build_tools(&repository, &tools, output)?;
        #[cfg(feature = "mcp")]
        if self.serve {
            return console::serve(&repository, place.path(), self.listen, output).await;
        }

        let model = recorded(place.path(), "turns.toml", tour::TURNS)?;
        let opened = OpenSession::load(globals.placed(tour::config(&repository, &tools))?, output).await?;
        opened.warn_of_refused(output);
        let config = opened.config.clone();
        let host =
            host_with(opened, Some((tour::AGENT, Arc::new(model))), |builder| builder.gate(tour::KeepNotes))?;
        output.hint(&format!(
            "\n{BOLD}The tour:{BOLD:#} {}\n{DIM}{}{DIM:#}\n",
            tour::PROMPT,
            tour::EXPLANATION
        ));
        let servers = with_servers(&host, &config, output).await?;
        let work = async {
            let handle = host.run(RunRequest::new(tour::AGENT, tour::PROMPT)).await?;
            let mut narrator = Narrator::new(output);
            let end = follow(handle, &mut narrator).await?;
            narrator.finish(&end);
            say_what_is_next(output);
            Ok(outcome(&end))
        };
        finish(&host, servers, work).await
    }
}

/// Returns the checkout: the nearest directory upwards that has the example tools.
fn find_repository(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let start = named.unwrap_or(Path::new("."));
    let start = start
        .canonicalize()
        .map_err(|e| Failure::usage(format!("{} cannot be opened: {e}", start.display())))?;
    let tools = project::find_upwards(&start, "example-tools").filter(|dir| dir.join("Cargo.toml").is_file());
    tools.as_deref().and_then(Path::parent).map(Path::to_owned).ok_or_else(|| {
        Failure::usage(
            "the tour runs in a checkout of Tollgate, and there are no example-tools here or above. \
             Go to the checkout and type `cargo run --release -- demo`, or name it: tollgate demo --repository DIR",
        )
    })
}

/// Compiles the example tools and copies the components into a tools directory.
fn build_tools(repository: &Path, tools_dir: &Path, output: &Output) -> Result<(), Failure> {
    let project = repository.join("example-tools");
    output.hint(&format!("{BOLD}building the example tools{BOLD:#} {DIM}(cargo build in example-tools; the first time compiles their dependencies and takes about two minutes on two cores, later times take seconds){DIM:#}"));
    for artifact in project::compile(&project, output.is_quiet(), &|words| output.hint(words))? {
        let name = artifact.file.file_name().unwrap_or_default().to_string_lossy().replace('_', "-");
        let file = tools_dir.join(name);
        fs::copy(&artifact.file, &file).map_err(|e| unwritable(&file, &e))?;
    }
    Ok(())
}

fn say_what_is_next(output: &Output) {
    let program = program();
    let mut commands = vec![
        (format!("{program} build example-tools"), "the same tools, for your own use"),
        (format!("{program} call word_count '{{\"text\": \"one two\"}}'"), "one call"),
        (format!("{program} new hello && {program} build hello"), "a tool of your own"),
    ];
    if cfg!(feature = "mcp") {
        commands.insert(
            0,
            (format!("{program} demo --serve"), "this tour in the browser, with a question to decide"),
        );
    }
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    let lines = commands.iter().map(|(command, words)| format!("\n  {command:<width$}   {words}"));
    output.hint(&format!("\n{BOLD}next{BOLD:#}{}", lines.collect::<String>()));
}
