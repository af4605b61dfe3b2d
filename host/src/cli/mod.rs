//! The command line, with one file per command.

mod add;
mod always;
mod approve;
mod ask;
mod audit;
mod call;
mod completions;
mod data;
mod decide;
mod example;
mod exit;
mod gates;
mod grant;
mod grant_audit;
mod grants;
mod inspect;
mod limits;
mod make;
#[cfg(feature = "mcp")]
mod mcp;
pub(crate) mod narrate;
mod offer;
mod open;
mod origin;
pub(crate) mod output;
mod place;
mod powers;
pub(crate) mod progress;
mod publish;
pub(crate) mod quantity;
mod remove;
mod replay;
mod resume;
mod run;
mod runs;
mod show;
pub(crate) mod shutdown;
mod state;
mod store;
mod sync;
mod table;
mod timeline;
mod tools;
mod update;
mod verify;

pub(crate) use call::follow;
pub(crate) use exit::{Exit, Failure};
pub(crate) use open::{Opened, Servers, host_with, with_servers};
pub(crate) use output::{Output, program};
pub(crate) use place::as_child;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Run untrusted agent tools.
///
/// A tool is a WebAssembly component in the tools directory. Every call of a tool passes a gate,
/// runs in a fresh sandbox under limits, sees only what it was granted, and changes state only
/// together with its result.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, after_help = EXAMPLES, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  tollgate demo                                      the tour, without a key
  tollgate new hello && tollgate build hello         start a tool and compile it
  tollgate call hello '{\"name\": \"Ada\"}'              one call, without a model
  tollgate run \"How long is our README?\"             an agent, with the model of tollgate.toml

Exit codes:
  0  done
  1  the tool or the run failed
  2  wrong usage or configuration
  3  suspended, waiting for a decision";

/// The options of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Globals {
    /// Read this configuration [default: tollgate.toml in the working directory, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Keep runs and state in this directory [default: the user's data directory]
    #[arg(long, global = true, value_name = "DIR", env = "TOLLGATE_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Keep compiled tools in this directory [default: the user's cache directory]
    #[arg(long, global = true, value_name = "DIR", env = "TOLLGATE_CACHE")]
    pub(crate) cache: Option<PathBuf>,
    /// Print only machine-readable output on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The environment variable with the token, if an option of the command names one
    #[arg(skip)]
    pub(crate) token_variable: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Demo(crate::demo::Demo),
    Run(run::RunVerb),
    Call(call::CallVerb),
    Tools(tools::ToolsVerb),
    Inspect(inspect::InspectVerb),
    Add(add::AddVerb),
    Update(update::UpdateVerb),
    Remove(remove::RemoveVerb),
    Sync(sync::SyncVerb),
    Verify(verify::VerifyVerb),
    Publish(publish::PublishVerb),
    Audit(audit::AuditVerb),
    Enable(audit::EnableVerb),
    Grant(grant::GrantVerb),
    Revoke(grant::RevokeVerb),
    Grants(grants::GrantsVerb),
    Runs(runs::RunsVerb),
    Show(show::ShowVerb),
    Replay(replay::ReplayVerb),
    Decide(decide::DecideVerb),
    Resume(resume::ResumeVerb),
    State(state::StateVerb),
    Store(store::StoreVerb),
    Prune(store::PruneVerb),
    #[cfg(feature = "mcp")]
    Mcp(mcp::McpVerb),
    New(make::NewVerb),
    Build(make::BuildVerb),
    Completions(completions::CompletionsVerb),
}

/// Runs the command.
pub(crate) async fn run(cli: Cli, output: &Output) -> Result<Exit, Failure> {
    let Cli { globals, verb } = cli;
    // Leave out a directory that the variable names: the next command reads the variable as well.
    let of_variable = std::env::var_os("TOLLGATE_DATA");
    let data = globals.data.as_deref().filter(|data| of_variable.as_deref() != Some(data.as_os_str()));
    output::remember_named(globals.config.as_deref(), data);
    match verb {
        Verb::Demo(verb) => verb.run(&globals, output).await,
        Verb::Run(verb) => verb.run(&globals, output).await,
        Verb::Call(verb) => verb.run(&globals, output).await,
        Verb::Tools(verb) => verb.run(&globals, output).await,
        Verb::Inspect(verb) => verb.run(&globals, output).await,
        Verb::Add(verb) => verb.run(&globals, output).await,
        Verb::Update(verb) => verb.run(&globals, output).await,
        Verb::Remove(verb) => verb.run(&globals, output).await,
        Verb::Sync(verb) => verb.run(&globals, output).await,
        Verb::Verify(verb) => verb.run(&globals, output).await,
        Verb::Publish(verb) => verb.run(&globals, output).await,
        Verb::Audit(verb) => verb.run(&globals, output).await,
        Verb::Enable(verb) => verb.run(&globals, output).await,
        Verb::Grant(verb) => verb.run(&globals, output).await,
        Verb::Revoke(verb) => verb.run(&globals, output).await,
        Verb::Grants(verb) => verb.run(&globals, output).await,
        Verb::Runs(verb) => verb.run(&globals, output).await,
        Verb::Show(verb) => verb.run(&globals, output).await,
        Verb::Replay(verb) => verb.run(&globals, output).await,
        Verb::Decide(verb) => verb.run(&globals, output).await,
        Verb::Resume(verb) => verb.run(&globals, output).await,
        Verb::State(verb) => verb.run(&globals, output).await,
        Verb::Store(verb) => verb.run(&globals, output).await,
        Verb::Prune(verb) => verb.run(&globals, output).await,
        #[cfg(feature = "mcp")]
        Verb::Mcp(verb) => verb.run(&globals, output).await,
        Verb::New(verb) => verb.run(output),
        Verb::Build(verb) => verb.run(&globals, output).await,
        Verb::Completions(verb) => verb.run(output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_shows_an_example() {
        for verb in Cli::command().get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{} has no example", verb.get_name());
        }
    }
}
