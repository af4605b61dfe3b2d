//! Runs agent tools as WebAssembly components that nobody has to trust: the only
//! crate of the host that knows wasmtime.

mod attempt;
mod component;
mod config;
mod error;
mod grants;
mod import;
mod limits;
mod report;
mod runtime;
mod sandbox;

pub use attempt::{Attempt, Call, Console};
pub use component::Component;
pub use config::SandboxConfig;
pub use error::{Refusal, SandboxError};
pub use grants::{FileAccess, FileGrant, Grants, Power};
pub use import::Import;
pub use limits::{LimitOverrides, Limits};
pub use report::{Level, ProgressStatus, Report, ReportSink};
pub use runtime::runtime;
pub use sandbox::Sandbox;
