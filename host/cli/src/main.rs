//! The `tollgate` program: parses the command line, runs one command, and exits with a code that
//! reports the outcome.

mod globals;
mod project;
mod render;
mod session;
#[cfg(feature = "otel")]
mod telemetry;
mod terminal;
mod verbs;

use crate::terminal::{Exit, Failure, Output};
use crate::verbs::Cli;
use clap::Parser;
use clap::error::{ContextKind, ContextValue};
use std::process::ExitCode;
use std::time::Duration;
#[cfg(feature = "otel")]
use telemetry::Export;
use tokio::runtime::Runtime;
use tokio::signal::unix::SignalKind;
use tracing::Subscriber;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

/// The time that the program waits at its end for abandoned file operations. Those on a hung mount
/// never end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    if let Some(exit) = session::as_child() {
        return exit;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return show_usage(error),
    };
    let output = Output::new(cli.globals.json, cli.globals.quiet);
    tollgate_sandbox::return_freed_memory();
    tollgate_sandbox::raise_open_files_limit();
    let runtime = tollgate_sandbox::runtime();
    let exit = match &runtime {
        Ok(runtime) => logged(runtime, &output, || runtime.block_on(work(cli, &output))),
        Err(e) => Err(Failure::failed(format!("cannot start worker threads: {e}"))),
    };
    let exit = exit.unwrap_or_else(|failure| {
        output.error(&failure);
        failure.exit()
    });
    let code = output.close(exit);
    if let Ok(runtime) = runtime {
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    }
    ExitCode::from(code)
}

/// Runs the command. A file that exceeds the size limit fails the write instead of ending the
/// program.
async fn work(cli: Cli, output: &Output) -> Result<Exit, Failure> {
    let too_long = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    // tokio's handler stays installed until the process ends.
    if let Err(e) = tokio::signal::unix::signal(too_long) {
        tracing::warn!("the limit on file sizes may end this program: {e}");
    }
    verbs::run(cli, output).await
}

/// Puts those suggested commands first that are nearest to the typed one.
fn sort_suggestions(error: &mut clap::Error) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let Some(ContextValue::Strings(similar)) = error.get(ContextKind::SuggestedSubcommand) else { return };
    let near = tollgate_agent::name::nearest(typed, similar.iter().map(String::as_str));
    let mut sorted: Vec<String> = near.into_iter().map(str::to_owned).collect();
    sorted.extend(similar.iter().filter(|name| !sorted.contains(name)).cloned().collect::<Vec<_>>());
    error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(sorted));
}

/// Prints clap's message, and returns the exit code: help and versions were asked for, everything else
/// is a usage error.
fn show_usage(mut error: clap::Error) -> ExitCode {
    sort_suggestions(&mut error);
    // If the stream is closed, there is no other place for the message.
    let _ = error.print();
    let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
    ExitCode::from(exit.code())
}

/// Runs the work with its log on standard error, and exports its spans if the environment names a
/// collector.
#[cfg(feature = "otel")]
fn logged(
    runtime: &Runtime,
    output: &Output,
    work: impl FnOnce() -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let export = Export::from_environment(runtime.handle()).map_err(|e| Failure::usage(e.to_string()))?;
    tracing_subscriber::registry().with(export.as_ref().map(Export::layer)).with(log()).init();
    let done = work();
    if let Some(Err(why)) = export.map(Export::shutdown) {
        output.warn(&why.to_string());
    }
    done
}

/// Runs the work with its log on standard error.
#[cfg(not(feature = "otel"))]
fn logged(
    _runtime: &Runtime,
    _output: &Output,
    work: impl FnOnce() -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    tracing_subscriber::registry().with(log()).init();
    work()
}

/// Returns the log layer: warnings, or the filter in `TOLLGATE_LOG`. The MCP client logs nothing by
/// default, because its server could make it log without bound. The span exporter logs only errors.
/// The pool of database connections names neither address nor cause; the store logs both.
fn log<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    let default = || EnvFilter::new("warn,rmcp=off,deadpool=off,opentelemetry=error");
    let filter = EnvFilter::try_from_env("TOLLGATE_LOG").unwrap_or_else(|_| default());
    tracing_subscriber::fmt::layer()
        .with_writer(terminal::output::LogLine::default)
        .with_target(false)
        .with_ansi(terminal::output::stderr_has_colours())
        .compact()
        .with_filter(filter)
}
