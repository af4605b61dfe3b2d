//! Secrets of clients: keys, session cookies and sign-in codes. Only their SHA-256 is stored.

use sha2::{Digest, Sha256};

/// The characters of base62, in the order of their values.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The characters of a sign-in code: those of Crockford's base32, which are hard to confuse.
const BASE32: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// The number of base62 characters that hold 32 random bytes.
const SECRET_CHARS: usize = 43;
/// The number of characters of the id of a key or session.
const ID_CHARS: usize = 10;
/// The number of characters of a sign-in code, without its dashes: 60 bits.
const CODE_CHARS: usize = 12;
/// The number of characters between the dashes of a sign-in code.
const CODE_GROUP: usize = 4;
/// The prefix of every key, by which scanners for leaked secrets find it.
const PREFIX: &str = "tg_";

/// The SHA-256 of a secret.
pub type SecretDigest = [u8; 32];

/// Returns the digest of a secret, which is all that is stored of it.
#[must_use]
pub fn digest(secret: &str) -> SecretDigest {
    Sha256::digest(secret.as_bytes()).into()
}

/// Generates a key with its id: `tg_<id>_<32 random bytes in base62>`.
///
/// # Errors
/// The system provides no random numbers.
pub(super) fn new_key() -> Result<(String, String), getrandom::Error> {
    let id = random(BASE62, ID_CHARS)?;
    let key = format!("{PREFIX}{id}_{}", random(BASE62, SECRET_CHARS)?);
    Ok((id, key))
}

/// Generates the cookie of a session with the session's public id.
///
/// # Errors
/// The system provides no random numbers.
pub(super) fn new_session() -> Result<(String, String), getrandom::Error> {
    Ok((random(BASE62, ID_CHARS)?, random(BASE62, SECRET_CHARS)?))
}

/// Generates a sign-in code in groups of four characters.
///
/// # Errors
/// The system provides no random numbers.
pub(super) fn new_code() -> Result<String, getrandom::Error> {
    let code = random(BASE32, CODE_CHARS)?;
    let groups: Vec<&str> =
        (0..CODE_CHARS).step_by(CODE_GROUP).filter_map(|at| code.get(at..at + CODE_GROUP)).collect();
    Ok(groups.join("-"))
}

/// Returns whether a text has the form of a key.
pub(super) fn is_key(typed: &str) -> bool {
    typed.starts_with(PREFIX)
}

/// Returns the digest of a typed sign-in code. Case, dashes and spaces do not matter.
pub(super) fn code_digest(typed: &str) -> SecretDigest {
    let characters = typed.chars().filter(char::is_ascii_alphanumeric).take(4 * CODE_CHARS);
    digest(&characters.map(|c| c.to_ascii_uppercase()).collect::<String>())
}

/// Draws characters evenly from an alphabet of at most 64.
fn random(alphabet: &[u8], length: usize) -> Result<String, getrandom::Error> {
    let mut drawn = String::with_capacity(length);
    let mut bytes = [0; 64];
    while drawn.len() < length {
        getrandom::fill(&mut bytes)?;
        // Six bits of each byte; values beyond the alphabet are drawn again.
        let characters = bytes.iter().filter_map(|byte| alphabet.get(usize::from(byte & 63)));
        drawn.extend(characters.take(length - drawn.len()).map(|&c| char::from(c)));
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_have_their_documented_form() {
        let (id, key) = new_key().unwrap();
        let parts: Vec<&str> = key.split('_').collect();
        assert_eq!((parts[0], parts[1], parts[2].len()), ("tg", id.as_str(), 43));
        assert!(parts[2].bytes().all(|b| b.is_ascii_alphanumeric()));
        assert_ne!(new_key().unwrap().1, key);
    }

    #[test]
    fn a_code_is_recognised_however_it_is_typed() {
        let code = new_code().unwrap();
        assert_eq!(code.len(), 14);
        let typed = format!(" {} ", code.to_lowercase().replace('-', " "));
        assert_eq!(code_digest(&code), code_digest(&typed));
    }
}
