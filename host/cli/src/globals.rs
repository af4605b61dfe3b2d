//! The options that every command takes.

use clap::Args;
use std::path::PathBuf;

const HEADING: &str = "Global options";

/// The options of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Globals {
    /// Read this configuration [default: tollgate.toml in the working directory, if it exists]
    #[arg(long, global = true, value_name = "FILE", env = "TOLLGATE_CONFIG", help_heading = HEADING)]
    pub(crate) config: Option<PathBuf>,
    /// Keep runs and state in this directory [default: one of the project, in the user's data directory]
    #[arg(long, global = true, value_name = "DIR", env = "TOLLGATE_DATA", help_heading = HEADING)]
    pub(crate) data: Option<PathBuf>,
    /// Keep runs and state in this PostgreSQL database [default: `url` in [store], if it is set]
    #[arg(long, global = true, value_name = "URL", env = "TOLLGATE_STORE", help_heading = HEADING)]
    #[arg(hide_env_values = true)]
    pub(crate) store: Option<String>,
    /// Keep compiled tools in this directory [default: the user's cache directory]
    #[arg(long, global = true, value_name = "DIR", env = "TOLLGATE_CACHE", help_heading = HEADING)]
    pub(crate) cache: Option<PathBuf>,
    /// Print only machine-readable output on standard output
    #[arg(long, global = true, help_heading = HEADING)]
    pub(crate) json: bool,
    /// Print only the answer, warnings and errors: no progress and no hints
    #[arg(long, short, global = true, help_heading = HEADING)]
    pub(crate) quiet: bool,
    /// The environment variable with the token, if an option of the command names one
    #[arg(skip)]
    pub(crate) token_variable: Option<String>,
}
