//! Digests of content.

use crate::error::{Code, Error};
use ring::digest::{self, Context, SHA256, SHA512};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Write as _};
use std::io::{self, Read};
use std::str::FromStr;
use tollgate_agent::text::clean;

/// A SHA-256 or SHA-512 digest, written `sha256:...` in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// Hashes the bytes with SHA-256.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::finished("sha256", digest::digest(&SHA256, bytes))
    }

    /// Hashes everything that the reader returns with SHA-256, in chunks. Also returns the number of
    /// bytes.
    ///
    /// # Errors
    /// The reader fails.
    pub(crate) fn of_all(mut from: impl Read) -> io::Result<(Self, u64)> {
        let (mut hasher, mut length) = (Context::new(&SHA256), 0);
        let mut chunk = vec![0; 64 << 10];
        loop {
            match from.read(&mut chunk) {
                Ok(0) => return Ok((Self::finished("sha256", hasher.finish()), length)),
                Ok(read) => {
                    hasher.update(chunk.get(..read).unwrap_or_default());
                    length += read as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Creates a digest from a SHA-256 in hexadecimal.
    ///
    /// # Errors
    /// The text is not 64 characters of lower-case hexadecimal.
    pub fn from_sha256_hex(hex: &str) -> Result<Self, Error> {
        format!("sha256:{hex}").parse()
    }

    /// Returns the hexadecimal part.
    #[must_use]
    pub fn hex(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, hex)| hex)
    }

    /// Returns whether the algorithm is SHA-256.
    #[must_use]
    pub fn is_sha256(&self) -> bool {
        self.0.starts_with("sha256:")
    }

    /// Returns the digest as text, such as `sha256:...`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the bytes have this digest.
    #[must_use]
    pub fn matches(&self, bytes: &[u8]) -> bool {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        self.is_result(hasher)
    }

    /// Returns a hasher for the algorithm of this digest.
    pub(crate) fn hasher(&self) -> Context {
        Context::new(if self.is_sha256() { &SHA256 } else { &SHA512 })
    }

    /// Returns whether the hasher's result is this digest.
    pub(crate) fn is_result(&self, hasher: Context) -> bool {
        let name = if self.is_sha256() { "sha256" } else { "sha512" };
        Self::finished(name, hasher.finish()) == *self
    }

    fn finished(name: &str, digest: digest::Digest) -> Self {
        let mut text = format!("{name}:");
        for byte in digest.as_ref() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || {
            let shown = clean(text, 100);
            Error::new(
                Code::UnsupportedDigest,
                format!(
                    "the digest \"{shown}\" is not supported; use sha256 or sha512 in lower-case hexadecimal"
                ),
            )
        };
        let (algorithm, hex) = text.split_once(':').ok_or_else(invalid)?;
        let length = match algorithm {
            "sha256" => 64,
            "sha512" => 128,
            _ => return Err(invalid()),
        };
        let is_hex = hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if hex.len() == length && is_hex { Ok(Self(text.to_owned())) } else { Err(invalid()) }
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
