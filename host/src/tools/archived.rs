//! Components that a store kept, loaded again under the configuration of today: what
//! a replay runs where the tools directory holds another version by now.

use super::Toolbox;
use super::directory::{Checked, Loaded};
use crate::config::Config;
use std::path::Path;
use tollgate_sandbox::Sandbox;

/// Loads kept components.
pub struct ArchivedTools {
    sandbox: Sandbox,
    config: Config,
}

impl ArchivedTools {
    /// In this sandbox, with the grants and limits of this configuration.
    #[must_use]
    pub fn new(sandbox: Sandbox, config: Config) -> Self {
        Self { sandbox, config }
    }

    /// A toolbox that holds one component, which had this id. A plain component has it
    /// from its file's name alone.
    pub(crate) async fn load(&self, id: &str, digest: &str, bytes: Vec<u8>) -> Result<Toolbox, String> {
        let name = format!("the kept component {}/{id}.wasm", &digest[..digest.len().min(12)]);
        let component = self.sandbox.load_bytes(&name, bytes).await.map_err(|e| e.to_string())?;
        let mut loaded = Loaded::default();
        loaded.serve(Checked::of(component).await?, Path::new(&name), &self.config)?;
        Ok(loaded.toolbox)
    }
}
