//! The components of these examples, in a directory as `tollgate build` leaves them.

use std::io;
use tempfile::TempDir;
use tollgate_artifacts::rust_guest;

/// A directory with these tools of `example-tools`, which are built when they are first
/// asked for. It is there until it is dropped.
pub(crate) fn in_a_directory(names: &[&str]) -> io::Result<TempDir> {
    eprintln!("the example tools are built where they are not yet; the first time takes a minute");
    let dir = tempfile::tempdir()?;
    for name in names {
        std::fs::copy(rust_guest(name), dir.path().join(name).with_extension("wasm"))?;
    }
    Ok(dir)
}
