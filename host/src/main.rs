//! The program `tollgate`: reads what was typed, does the one thing that it asks
//! for, and leaves with an exit code that says how that went.

mod build;
mod cli;
mod demo;

use clap::Parser;
use cli::{Cli, Exit, Output};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(exit) = cli::as_compile_child() {
        return exit;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(words) => return usage(&words),
    };
    start_logging();
    let output = Output::new(cli.globals.json);
    let exit = match tollgate_sandbox::runtime() {
        Ok(runtime) => runtime.block_on(cli::run(cli, &output)),
        Err(e) => Err(cli::Failure::failed(format!("there are no threads to work with: {e}"))),
    };
    let exit = exit.unwrap_or_else(|failure| {
        output.error(&failure);
        failure.exit()
    });
    ExitCode::from(output.close(exit))
}

/// Help and versions are answers; everything else that clap says is a mistake in
/// what was typed.
fn usage(words: &clap::Error) -> ExitCode {
    // Where nobody reads it any more there is nothing left to do.
    let _ = words.print();
    let exit = if words.use_stderr() { Exit::Usage } else { Exit::Done };
    ExitCode::from(exit.code())
}

/// Logs go to standard error: warnings, or what `TOLLGATE_LOG` asks for. Of a
/// protocol's client nothing, for it could make that as much as it likes.
fn start_logging() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("TOLLGATE_LOG").unwrap_or_else(|_| EnvFilter::new("warn,rmcp=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(cli::output::stderr_has_colours())
        .compact()
        .init();
}
