//! SHA-256, as the host shows and compares it.

use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io;

/// Returns the hexadecimal SHA-256 of bytes, such as those of a component.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Returns the hexadecimal SHA-256 of everything that can be read from the source, without keeping it
/// in memory.
///
/// # Errors
/// Reading fails.
pub fn digest_of(mut source: impl io::Read) -> io::Result<String> {
    let mut hashed = HashWriter(Sha256::new());
    io::copy(&mut source, &mut hashed)?;
    Ok(hexadecimal(&hashed.0.finalize()))
}

/// Returns the hexadecimal SHA-256 of a value's JSON, without keeping the JSON in memory.
///
/// # Errors
/// The value cannot be written as JSON.
pub fn digest_of_json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut hashed = HashWriter(Sha256::new());
    serde_json::to_writer(&mut hashed, value)?;
    Ok(hexadecimal(&hashed.0.finalize()))
}

/// Hashes the bytes that are written to it.
struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
