//! The identity of a component's bytes: a digest for people, and a fingerprint for the cache.

use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;
use tollgate_agent::digest::digest;

/// The identity of a component's bytes.
#[derive(Clone)]
pub(crate) struct Identity {
    /// Their hexadecimal SHA-256, used by approvals, records and people.
    pub(crate) digest: String,
    /// The key in the cache.
    pub(crate) fingerprint: Fingerprint,
}

/// The BLAKE3 hash of a component's bytes. It is as hard to forge as their SHA-256 and much
/// faster to compute. Hashing is most of the time of a start with many tools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint(blake3::Hash);

impl Identity {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { digest: digest(bytes), fingerprint: Fingerprint::of(bytes) }
    }
}

impl Fingerprint {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes))
    }

    /// Hashes everything that can be read, keeping nothing.
    pub(super) fn of_all(from: impl Read) -> io::Result<Self> {
        Ok(Self(blake3::Hasher::new().update_reader(from)?.finalize()))
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_hex())
    }
}

/// The bytes that a component consists of, and where they came from.
#[derive(Clone)]
pub(crate) struct Origin {
    /// Its name in messages.
    pub(crate) name: String,
    /// The identity of its bytes.
    pub(crate) identity: Identity,
    /// The file; `None` if it was loaded from bytes.
    pub(crate) file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_digest_is_sha_256() {
        assert_eq!(digest(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn a_fingerprint_is_the_same_in_one_piece_and_in_many() {
        let bytes: Vec<u8> = (0..(3 << 16) + 1).map(|at| u8::try_from(at % 251).unwrap()).collect();
        assert!(Fingerprint::of(&bytes) == Fingerprint::of_all(bytes.as_slice()).unwrap());
        assert!(Fingerprint::of(&bytes) != Fingerprint::of(&bytes[1..]));
        assert_eq!(Fingerprint::of(b"").to_string(), blake3::hash(b"").to_string());
    }
}
