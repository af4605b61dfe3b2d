//! The sandbox of components: its limits, its compiler and what it reports.
//!
//! [`Toolbox::load`](crate::Toolbox::load) makes a sandbox of its own. A program that loads gates as
//! well, or that watches the tools directory, creates one [`Sandbox`] for all:
//!
//! ```no_run
//! # async fn tools() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use tollgate::config::Config;
//! use tollgate::sandbox::Sandbox;
//! use tollgate::{Host, tools};
//!
//! let config = Config::load(None)?;
//! let sandbox = Sandbox::new(config.limits.sandbox.clone())?;
//! let loaded = tools::directory::load(&sandbox, &config, &|_, _, _| {}).await?;
//! let host = Host::builder().toolbox(loaded.toolbox.clone()).build()?;
//! let (_watch, unwatched) = host.watch(sandbox, Arc::new(config), &loaded);
//! assert!(unwatched.is_none(), "the system cannot watch the directory");
//! # Ok(())
//! # }
//! ```

pub use tollgate_agent::limit_places::{LimitPlaces, LimitScope};
pub use tollgate_sandbox::{
    Allocation, Compiler, Component, FileAccess, GateComponent, GateLimits, Guest, Import, Level,
    LimitOverrides, Limits, Occupancy, OmittedFunction, Power, ProgressStatus, Refusal, Report, Sandbox,
    SandboxConfig, SandboxError, compile_child,
};
