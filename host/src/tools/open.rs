//! Loads a toolbox from a directory, or with one archived component from a store.

use super::Toolbox;
use super::directory::{self, CheckedComponent, DirectoryError, LoadedTools};
use crate::config::Config;
use std::io;
use std::path::{Path, PathBuf};
use tollgate_sandbox::{Sandbox, SandboxError};

/// The reason why there is no toolbox at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The directory does not exist.
    #[error("no tools in {}: {source}; create the directory and copy components into it", dir.display())]
    NoDirectory {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The directory cannot be read.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The sandbox cannot run on this machine.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

impl Toolbox {
    /// Loads every component in a directory, with the default limits and without any grants:
    /// they only compute. Use [`load_with`](Self::load_with) for grants.
    ///
    /// A file that cannot be served is left out, and [`refused`](Self::refused) says
    /// why. Components are compiled in this process, each time. A program that loads
    /// untrusted components should configure a [`Compiler::Child`](tollgate_sandbox::Compiler)
    /// and a cache.
    ///
    /// ```no_run
    /// # async fn tools() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate::{Host, Toolbox};
    ///
    /// let tools = Toolbox::load("tools").await?;
    /// for refused in tools.refused() {
    ///     eprintln!("{}: {}", refused.file.display(), refused.reason);
    /// }
    /// let host = Host::builder().toolbox(tools).build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The directory does not exist or cannot be read.
    pub async fn load(dir: impl AsRef<Path>) -> Result<Self, LoadError> {
        let dir = dir.as_ref();
        if let Err(source) = std::fs::metadata(dir) {
            return Err(LoadError::NoDirectory { dir: dir.to_owned(), source });
        }
        Self::load_with(&Config { tools_dir: dir.to_owned(), ..Config::default() }).await
    }

    /// Loads the tools directory of a configuration, with its limits and grants.
    ///
    /// ```no_run
    /// # async fn tools() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate::{Host, Toolbox, config::Config};
    ///
    /// let config = Config::load(None)?; // tollgate.toml
    /// let host = Host::builder().toolbox(Toolbox::load_with(&config).await?).build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The directory exists and cannot be read.
    pub async fn load_with(config: &Config) -> Result<Self, LoadError> {
        let sandbox = Sandbox::new(config.limits.sandbox.clone())?;
        Ok(directory::load(&sandbox, config, &|_, _, _| {}).await?.toolbox)
    }
}

/// Loads archived components from a store under the current configuration. A replay runs them if the
/// tools directory now holds another version.
pub struct ArchivedTools {
    sandbox: Sandbox,
    config: Config,
}

impl ArchivedTools {
    /// Creates a loader for this sandbox, with the grants and limits of this configuration.
    #[must_use]
    pub fn new(sandbox: Sandbox, config: Config) -> Self {
        Self { sandbox, config }
    }

    /// Returns a toolbox that holds one component, which had this id. A plain component's id
    /// comes from its file's name alone.
    pub(crate) async fn load(&self, id: &str, digest: &str, bytes: Vec<u8>) -> Result<Toolbox, String> {
        let name = format!("the kept component {}/{id}.wasm", &digest[..digest.len().min(12)]);
        let component = self.sandbox.load_bytes(&name, bytes).await.map_err(|e| e.to_string())?;
        let mut loaded = LoadedTools::default();
        let served = loaded.serve(CheckedComponent::of(component).await?, Path::new(&name), &self.config);
        served.map_err(|refusal| refusal.reason)?;
        Ok(loaded.toolbox)
    }
}
