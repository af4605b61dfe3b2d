//! Components that a store keeps for the runs that called them, and the source of their bytes.

use std::path::Path;
use std::sync::Arc;

/// A component's file and the digest it had when it was loaded. A store that keeps components
/// reads the file once, when the first run refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentFile {
    /// The SHA-256 of its bytes, in hexadecimal.
    pub digest: Arc<str>,
    /// The path it was loaded from.
    pub file: Arc<Path>,
}

impl ComponentFile {
    /// Returns the bytes that were loaded; `None` if the file is gone or has changed. Then a call
    /// of it cannot be run again, and a replay reports that.
    #[must_use]
    pub fn read(&self) -> Option<Vec<u8>> {
        let bytes = tollgate_sandbox::read_file(&self.file).ok()?;
        (tollgate_sandbox::digest(&bytes) == *self.digest).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_that_changed_is_not_taken_for_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool.wasm");
        std::fs::write(&path, "abc").unwrap();
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let file = ComponentFile { digest: Arc::from(digest), file: Arc::from(path.as_path()) };
        assert_eq!(file.read().as_deref(), Some(&b"abc"[..]));
        std::fs::write(&path, "abd").unwrap();
        assert_eq!(file.read(), None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.read(), None);
    }
}
