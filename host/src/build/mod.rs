//! Starting a tool and compiling one: `new` writes a project, `build` turns it into
//! a component in the tools directory.

mod cargo;
mod install;
mod project;
mod toolchain;

pub(crate) use cargo::{Artifact, compile};
pub(crate) use install::{Installed, install};
pub(crate) use project::{NewProject, find_upwards};
pub(crate) use toolchain::add_wasm_target;

use std::io;
use std::path::{Path, PathBuf};

/// The target for which tools are compiled.
pub(crate) const WASM_TARGET: &str = "wasm32-wasip2";

/// Why a tool was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// What was asked for cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// It was tried and did not work.
    #[error("{0}")]
    Failed(String),
    /// A file could not be read or written.
    #[error("{} cannot be {what}: {source}", path.display())]
    File {
        /// Which file or directory.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl BuildError {
    fn file(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, what, source }
    }
}
