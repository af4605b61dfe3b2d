//! The command line, with one file per command.

pub(crate) mod add;
pub(crate) mod audit;
pub(crate) mod call;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod decide;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod grant;
pub(crate) mod grants;
#[cfg(feature = "postgres")]
pub(crate) mod hosts;
pub(crate) mod inspect;
#[cfg(feature = "mcp")]
pub(crate) mod keys;
pub(crate) mod make;
pub(crate) mod man;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod publish;
pub(crate) mod remove;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod runs;
#[cfg(feature = "mcp")]
pub(crate) mod serve;
pub(crate) mod show;
#[cfg(feature = "mcp")]
pub(crate) mod sign_in;
pub(crate) mod state;
pub(crate) mod store;
pub(crate) mod sync;
pub(crate) mod test;
pub(crate) mod toolchains;
pub(crate) mod tools;
pub(crate) mod update;
pub(crate) mod verify;
#[cfg(feature = "postgres")]
pub(crate) mod work;

use crate::globals::Globals;
use crate::terminal::{Exit, Failure, Output};
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;

/// Run untrusted agent tools.
///
/// A tool is a WebAssembly component in the tools directory. Every call of a tool passes a gate,
/// runs in a fresh sandbox under limits, sees only what it was granted, and changes state only
/// together with its result.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, after_help = EXAMPLES, propagate_version = true, max_term_width = 100)]
#[command(arg_required_else_help = true)]
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
  tollgate doctor                                    check compilers, directories and confinement

Exit codes:
  0  done
  1  the tool or the run failed
  2  wrong usage or configuration
  3  suspended, waiting for a decision";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Demo(demo::Demo),
    Run(run::RunVerb),
    Chat(chat::ChatVerb),
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
    #[cfg(feature = "mcp")]
    Serve(serve::ServeVerb),
    #[cfg(feature = "mcp")]
    Keys(keys::KeysVerb),
    #[cfg(feature = "mcp")]
    SignIn(sign_in::SignInVerb),
    #[cfg(feature = "postgres")]
    Work(work::WorkVerb),
    #[cfg(feature = "postgres")]
    Hosts(hosts::HostsVerb),
    New(make::NewVerb),
    Build(make::BuildVerb),
    Test(test::TestVerb),
    Toolchains(toolchains::ToolchainsVerb),
    Doctor(doctor::DoctorVerb),
    Completions(completions::CompletionsVerb),
    Man(man::ManVerb),
}

/// Runs the command.
pub(crate) async fn run(cli: Cli, output: &Output) -> Result<Exit, Failure> {
    let Cli { globals, verb } = cli;
    // Leave out a path that a variable names: the next command reads the variable as well.
    let typed = |path: &Option<PathBuf>, variable: &str| {
        path.clone().filter(|path| std::env::var_os(variable).as_deref() != Some(path.as_os_str()))
    };
    let (config, data) = (typed(&globals.config, "TOLLGATE_CONFIG"), typed(&globals.data, "TOLLGATE_DATA"));
    crate::terminal::remedy::remember_named(config.as_deref(), data.as_deref());
    match verb {
        Verb::Demo(verb) => verb.run(&globals, output).await,
        Verb::Run(verb) => verb.run(&globals, output).await,
        Verb::Chat(verb) => verb.run(&globals, output).await,
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
        #[cfg(feature = "mcp")]
        Verb::Serve(verb) => verb.run(&globals, output).await,
        #[cfg(feature = "mcp")]
        Verb::Keys(verb) => verb.run(&globals, output).await,
        #[cfg(feature = "mcp")]
        Verb::SignIn(verb) => verb.run(&globals, output).await,
        #[cfg(feature = "postgres")]
        Verb::Work(verb) => verb.run(&globals, output).await,
        #[cfg(feature = "postgres")]
        Verb::Hosts(verb) => verb.run(&globals, output).await,
        Verb::New(verb) => verb.run(output),
        Verb::Build(verb) => verb.run(&globals, output).await,
        Verb::Test(verb) => verb.run(&globals, output),
        Verb::Toolchains(verb) => verb.run(output),
        Verb::Doctor(verb) => verb.run(&globals, output).await,
        Verb::Completions(verb) => verb.run(Cli::command(), output),
        Verb::Man(verb) => verb.run(Cli::command(), output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_program_alone_shows_its_help() {
        let help = Cli::try_parse_from(["tollgate"]).err().map(|help| help.to_string()).unwrap_or_default();
        assert!(help.contains("Commands:") && help.contains("Examples:"), "{help}");
    }

    #[test]
    fn every_verb_shows_an_example() {
        for verb in Cli::command().get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{} has no example", verb.get_name());
        }
    }

    #[test]
    fn every_verb_shows_its_own_options_first_and_the_global_ones_once() {
        let mut program = Cli::command();
        program.build();
        let global = ["--config", "--data", "--store", "--cache", "--json", "--quiet"];
        for verb in program.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
            let name = verb.get_name().to_owned();
            let help = verb.render_help().to_string();
            let (own, others) = help.split_once("\nGlobal options:\n").unwrap_or_default();
            let place =
                |option: &str| others.find(&format!("{option} ")).or(others.find(&format!("{option}\n")));
            let places: Vec<_> = global.iter().map(|option| place(option)).collect();
            assert!(places.is_sorted() && places[0].is_some(), "{name}: {help}");
            for option in global {
                let is_own = own.lines().any(|line| line.trim_start().starts_with(option));
                assert!(!is_own, "{name} repeats {option}: {help}");
            }
        }
    }
}
