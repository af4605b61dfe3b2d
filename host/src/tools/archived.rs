//! Archived components from a store, loaded under the current configuration. A replay runs them
//! if the tools directory now holds another version.

use super::Toolbox;
use super::directory::{CheckedComponent, LoadedTools};
use crate::config::Config;
use std::path::Path;
use tollgate_sandbox::Sandbox;

/// Loads archived components.
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
