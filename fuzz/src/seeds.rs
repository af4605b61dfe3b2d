//! The seeds of the fuzz targets: small inputs that get far, and all findings so far.

use std::path::{Path, PathBuf};

/// Returns the folder with the seeds of a target.
#[must_use]
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target)
}

/// Returns the seeds of a target with their names, sorted.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn of(target: &str) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder(target)).unwrap();
    let mut seeds: Vec<_> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
        })
        .collect();
    seeds.sort();
    seeds
}
