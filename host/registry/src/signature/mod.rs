//! Signatures: bundles, the statements in them, and their signers.
//!
//! A bundle holds an envelope (DSSE) with a statement about digests, or a signature of the bytes
//! themselves. It was made with a key, or with a certificate that says which workflow or person
//! signed. Keys are verified with ring alone; certificates and the transparency log by Sigstore's
//! crates, which get their cryptography from ring too. A signature of bytes counts for the manifest of an
//! artifact.

mod bundle;
mod key;
mod keyless;
mod proof;
mod ring_provider;
mod statement;

pub use bundle::MAX_BUNDLE_BYTES;
pub(crate) use key::MAX_KEY_BYTES;
pub use key::{PublicKey, SigningKey};
pub use keyless::TrustedRoot;
pub use proof::{Coverage, Proof, SignerEvidence, Subjects};

use crate::digest::Digest;
use crate::error::{Code, Error, Result};
use bundle::{Bundle, Content, unsupported};

/// Verifies a bundle made with this key, whether a log contains it or not.
pub(crate) fn verify_by_key(bytes: &[u8], subjects: Subjects<'_>, key: &PublicKey) -> Result<()> {
    let bundle = Bundle::read(bytes)?;
    let is_signed = match bundle.content() {
        Content::Envelope(envelope) => {
            statement::covers(envelope, subjects)?;
            key.verify(&envelope.signed_bytes(), &envelope.signature)
        }
        Content::Message => false,
    };
    let broken = || Error::new(Code::InvalidSignature, "the signature does not match its key");
    if bundle.is_by_key() && is_signed { Ok(()) } else { Err(broken()) }
}

/// Verifies a bundle. If it was made with a key, the given keys are tried.
///
/// Verification takes milliseconds of computation and should run on a thread that may block.
///
/// # Errors
/// The bundle cannot be read, is not valid, or is about something else.
pub fn verify(bytes: &[u8], subjects: Subjects<'_>, keys: &[PublicKey], root: &TrustedRoot) -> Result<Proof> {
    let bundle = Bundle::read(bytes)?;
    let covers = match bundle.content() {
        Content::Envelope(envelope) => statement::covers(envelope, subjects)?,
        Content::Message if subjects.manifest.is_some() => Coverage::Manifest,
        Content::Message => {
            let why = "it signs bytes and no statement, which counts only for the manifest of an artifact in a registry";
            return Err(unsupported(why));
        }
    };
    if !bundle.is_by_key() {
        return keyless::verify(&bundle, subjects, covers, root);
    }
    let unknown = || Error::new(Code::UnknownKey, "the signature was made with an unknown key");
    let signed_by = |key: &&PublicKey| match bundle.content() {
        Content::Envelope(envelope) => key.verify(&envelope.signed_bytes(), &envelope.signature),
        Content::Message => {
            subjects.manifest.is_some_and(|manifest| key.verify(manifest, bundle.message_signature()))
        }
    };
    let Some(key) = keys.iter().find(signed_by) else {
        let hints_at = |key: &PublicKey| bundle.key_hint().is_some_and(|hint| key.is_hinted_by(hint));
        let is_hinted = keys.iter().any(hints_at);
        let broken = || Error::new(Code::InvalidSignature, "the signature does not match its key");
        return Err(if is_hinted { broken() } else { unknown() });
    };
    let is_logged = bundle.has_log_entry() && keyless::verify_log(&bundle, subjects, covers, key, root)?;
    let signed = SignerEvidence::Key { key: key.id().clone(), bundle: Digest::of(bytes) };
    Ok(Proof { signed, covers, is_logged })
}

#[cfg(test)]
mod tests;
