//! The manifest: `NAME.toml` beside `NAME.wasm`, which lists the component's requests. It comes
//! from a stranger and grants nothing.

use super::{ManifestError, RequestedGrants};
use serde::Deserialize;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use tollgate_agent::text::clean;
use tollgate_sandbox::open_regular;

/// The maximum size of a manifest, in bytes.
pub const MAX_MANIFEST_BYTES: u64 = 64 << 10;
/// The longest reason that a component may give, in bytes.
const MAX_WHY_BYTES: usize = 500;

/// The file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    #[serde(default)]
    asks: RequestedGrants,
}

/// Returns the path of a component's manifest.
#[must_use]
pub fn manifest_of(component: &Path) -> PathBuf {
    component.with_extension("toml")
}

/// Reads the requests in the component's manifest; `None` if there is no manifest.
///
/// # Errors
/// The manifest exists and cannot be read or is not valid; the message names it.
pub fn read_manifest(component: &Path) -> Result<Option<RequestedGrants>, ManifestError> {
    Ok(read_manifest_with_digest(component)?.map(|(asks, _)| asks))
}

/// Reads the requests like [`read_manifest`], with the SHA-256 of the manifest's text in
/// hexadecimal.
///
/// # Errors
/// Same as [`read_manifest`].
pub(crate) fn read_manifest_with_digest(
    component: &Path,
) -> Result<Option<(RequestedGrants, String)>, ManifestError> {
    let path = manifest_of(component);
    let refused =
        |why: &dyn std::fmt::Display| ManifestError::File { file: path.clone(), why: why.to_string() };
    let text = match text_of(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(refused(&e)),
    };
    let asks = parse_manifest(&text).map_err(|why| refused(&why))?;
    Ok(Some((asks, tollgate_agent::digest::digest(text.as_bytes()))))
}

/// Returns the requests in the text of a manifest.
///
/// # Errors
/// The text is not a valid manifest.
pub fn parse_manifest(text: &str) -> Result<RequestedGrants, ManifestError> {
    let manifest: Manifest =
        toml::from_str(text).map_err(|e| ManifestError::Syntax(e.message().to_owned()))?;
    let mut asks = manifest.asks;
    asks.check()?;
    asks.why = asks.why.map(|why| clean(&why, MAX_WHY_BYTES));
    Ok(asks)
}

fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_regular(path)?.take(MAX_MANIFEST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_MANIFEST_BYTES {
        return Err(io::Error::other(format!("it is larger than {MAX_MANIFEST_BYTES} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_manifest_is_read_beside_its_component() {
        let dir = tempfile::tempdir().unwrap();
        let component = dir.path().join("fetch.wasm");
        assert_eq!(read_manifest(&component), Ok(None));
        let text = "[asks]\nwhy = \"to read\\u001b[31m pages\"\nhttp = [\"https://*\"]\n";
        std::fs::write(manifest_of(&component), text).unwrap();
        let asks = read_manifest(&component).unwrap().unwrap();
        assert_eq!(asks.why.as_deref(), Some("to read[31m pages"));
        assert_eq!(asks.each(), ["send HTTP requests: https://*/ (reading requests to any host)"]);
    }

    #[test]
    fn a_manifest_that_cannot_be_meant_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let component = dir.path().join("it.wasm");
        for (text, words) in [
            ("[asks]\nhttp = [\"example.com\"]", "has no scheme"),
            ("[asks]\nhtpp = []", "htpp"),
            ("[grants]\nhttp = []", "grants"),
            ("[asks]\nsettings = [\"a b\"]", "not a plain name"),
        ] {
            std::fs::write(manifest_of(&component), text).unwrap();
            let why = read_manifest(&component).unwrap_err().to_string();
            assert!(why.contains(words) && why.contains("it.toml"), "{why}");
        }
        std::fs::write(manifest_of(&component), "#".repeat(70_000)).unwrap();
        assert!(read_manifest(&component).unwrap_err().to_string().contains("larger than"));
        std::fs::remove_file(manifest_of(&component)).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", manifest_of(&component)).unwrap();
        assert!(read_manifest(&component).unwrap_err().to_string().contains("not a regular file"));
    }

    /// A pipe or a link may appear in the directory at any moment.
    #[test]
    fn a_manifest_that_changes_into_a_pipe_or_a_link_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let component = at("it.wasm");
        std::fs::write(at("file"), "[asks]\nsettings = [\"a\"]\n").unwrap();
        std::fs::write(at("elsewhere"), "[asks]\nsettings = [\"b\"]\n").unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at("link")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let reads = std::thread::scope(|scope| {
            scope.spawn(|| {
                let stopped = stopped;
                while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                    for what in ["file", "pipe", "file", "link"] {
                        std::fs::hard_link(at(what), at("part")).unwrap();
                        // Renaming one of two links to a file onto the other does nothing, and
                        // the first stays.
                        std::fs::rename(at("part"), manifest_of(&component)).unwrap();
                        let _ = std::fs::remove_file(at("part"));
                    }
                }
            });
            let reads: Vec<_> = (0..20_000).map(|_| read_manifest(&component)).collect();
            stop.send(()).unwrap();
            reads
        });
        for read in reads {
            match read {
                Ok(None) => {}
                Ok(Some(asks)) => assert_eq!(asks.each(), ["read the setting a"], "a link was followed"),
                Err(why) => assert!(why.to_string().contains("not a regular file"), "{why}"),
            }
        }
    }
}
