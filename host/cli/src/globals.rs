//! The options that every command takes.

use clap::Args;
use std::path::PathBuf;

/// The options of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Globals {
    /// Read this configuration [default: tollgate.toml in the working directory, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Keep runs and state in this directory [default: the user's data directory]
    #[arg(long, global = true, value_name = "DIR", env = "TOLLGATE_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Keep runs and state in this PostgreSQL database [default: `url` in [store], if it is set]
    #[arg(long, global = true, value_name = "URL", env = "TOLLGATE_STORE")]
    pub(crate) store: Option<String>,
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
