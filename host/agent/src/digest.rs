//! SHA-256, as the host shows and compares it.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Returns the hexadecimal SHA-256 of bytes, such as those of a component.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
