//! The components of these examples, in a directory as `tollgate build` creates it.

use std::io;
use tempfile::TempDir;
use tollgate_artifacts::rust_guest;

/// Returns a directory with these tools of `example-tools`, which are built on first use. It is
/// removed when the value is dropped.
pub(crate) fn in_a_directory(names: &[&str]) -> io::Result<TempDir> {
    eprintln!("building the example tools if they are missing; the first build takes a minute");
    let dir = tempfile::tempdir()?;
    for name in names {
        std::fs::copy(rust_guest(name), dir.path().join(name).with_extension("wasm"))?;
    }
    Ok(dir)
}
