//! Components that a store keeps for the runs that called them, and the source of their bytes.

use super::StoreError;
use async_trait::async_trait;
use std::fmt::Debug;
use std::sync::Arc;
use tollgate_agent::digest::digest;

/// The place from which a component was loaded.
pub trait ComponentSource: Debug + Send + Sync {
    /// Returns the bytes that are there now; `None` if they cannot be read. Blocks.
    fn read(&self) -> Option<Vec<u8>>;
}

/// A component's source and the digest it had when it was loaded. A store that keeps components
/// reads the source once, when the first run refers to it.
#[derive(Debug, Clone)]
pub struct ComponentFile {
    /// The SHA-256 of its bytes, in hexadecimal.
    pub digest: Arc<str>,
    /// The place it was loaded from.
    pub source: Arc<dyn ComponentSource>,
}

impl ComponentFile {
    /// Returns the bytes that were loaded; `None` if the file is gone or has changed. Then a call
    /// of it cannot be run again, and a replay reports that. Blocks.
    #[must_use]
    pub fn read(&self) -> Option<Vec<u8>> {
        let bytes = self.source.read()?;
        (digest(&bytes) == *self.digest).then_some(bytes)
    }
}

/// The components that runs called, so that their calls can be run again.
/// [Commits](super::RunStore::commit) name them.
#[async_trait]
pub trait ComponentStore: Send + Sync {
    /// Returns the bytes of a component that a run called, by their digest; `None` if they are
    /// not stored.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns whether the store keeps components. If so, commits list the components that a run
    /// refers to.
    fn archives(&self) -> bool;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::path::PathBuf;

    #[derive(Debug)]
    struct File(PathBuf);

    impl ComponentSource for File {
        fn read(&self) -> Option<Vec<u8>> {
            std::fs::read(&self.0).ok()
        }
    }

    #[test]
    fn a_file_that_changed_is_not_taken_for_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool.wasm");
        std::fs::write(&path, "abc").unwrap();
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let file = ComponentFile { digest: Arc::from(digest), source: Arc::new(File(path.clone())) };
        assert_eq!(file.read().as_deref(), Some(&b"abc"[..]));
        std::fs::write(&path, "abd").unwrap();
        assert_eq!(file.read(), None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.read(), None);
    }
}
