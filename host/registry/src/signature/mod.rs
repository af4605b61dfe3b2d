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
mod ring_provider;
mod statement;

pub(crate) use key::MAX_KEY_BYTES;
pub use key::{PublicKey, SigningKey};
pub use keyless::TrustedRoot;

use crate::digest::Digest;
use crate::error::{Code, Error, Result};
use bundle::{Bundle, Content, unsupported};
use serde::{Deserialize, Serialize};
use std::fmt;
use tollgate_agent::text::clean;

/// The longest bundle, in bytes.
pub const MAX_BUNDLE_BYTES: usize = 1 << 20;

/// The signer of a component, with the evidence that is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "lowercase", deny_unknown_fields)]
pub enum SignerEvidence {
    /// A GitHub workflow.
    Github {
        /// The repository, such as `acme/tools`.
        repository: String,
        /// GitHub's numeric id of the repository. A new repository with the same name has another
        /// id.
        repository_id: String,
        /// The file of the workflow, such as `.github/workflows/release.yml`.
        workflow: String,
        /// The branch or tag that was built, such as `refs/tags/v1.2`.
        #[serde(rename = "ref")]
        git_ref: String,
        /// The commit that was built.
        commit: String,
        /// When it was signed, as RFC 3339.
        at: String,
        /// The digest of the bundle.
        bundle: Digest,
    },
    /// Another identity named by a certificate.
    Identity {
        /// The identity: an address or a URI.
        identity: String,
        /// The issuer that vouches for the identity.
        issuer: String,
        /// When it was signed, as RFC 3339.
        at: String,
        /// The digest of the bundle.
        bundle: Digest,
    },
    /// A key.
    Key {
        /// The SHA-256 of the public key.
        key: Digest,
        /// The digest of the bundle.
        bundle: Digest,
    },
}

impl SignerEvidence {
    /// Returns the digest of the bundle.
    #[must_use]
    pub fn bundle(&self) -> &Digest {
        match self {
            Self::Github { bundle, .. } | Self::Identity { bundle, .. } | Self::Key { bundle, .. } => bundle,
        }
    }

    /// Returns whether both are the same signer: the same workflow of the same repository, the same
    /// identity, or the same key.
    #[must_use]
    pub fn is_same_signer(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Github { repository, repository_id, workflow, .. },
                Self::Github { repository: r, repository_id: id, workflow: w, .. },
            ) => (repository, repository_id, workflow) == (r, id, w),
            (Self::Identity { identity, issuer, .. }, Self::Identity { identity: i, issuer: by, .. }) => {
                (identity, issuer) == (i, by)
            }
            (Self::Key { key, .. }, Self::Key { key: other, .. }) => key == other,
            _ => false,
        }
    }

    /// Returns the time of the signature, if it is proven.
    #[must_use]
    pub fn at(&self) -> Option<&str> {
        match self {
            Self::Github { at, .. } | Self::Identity { at, .. } => Some(at),
            Self::Key { .. } => None,
        }
    }
}

impl fmt::Display for SignerEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Github { repository, workflow, git_ref, commit, .. } => {
                let workflow = workflow.rsplit('/').next().unwrap_or_default();
                let kind = if git_ref.starts_with("refs/tags/") { "tag" } else { "branch" };
                let name = git_ref.trim_start_matches("refs/tags/").trim_start_matches("refs/heads/");
                let commit: String = commit.chars().take(12).collect();
                let text =
                    format!("repository {repository}, workflow {workflow}, {kind} {name}, commit {commit}");
                f.write_str(&clean(&text, 500))
            }
            Self::Identity { identity, issuer, .. } => {
                f.write_str(&clean(&format!("{identity} (vouched for by {issuer})"), 500))
            }
            Self::Key { key, .. } => write!(f, "key {key}"),
        }
    }
}

/// The part of an artifact that a signature covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// The manifest, and through its digests the asks, the licence and the component.
    Manifest,
    /// The component alone.
    Component,
}

/// The possible subjects of a signature. This program computes the digests itself.
#[derive(Debug, Clone, Copy)]
pub struct Subjects<'a> {
    /// The bytes of the manifest; `None` if the component does not come from a registry.
    pub manifest: Option<&'a [u8]>,
    /// The digest of the component.
    pub component: &'a Digest,
}

impl Subjects<'_> {
    fn digests(&self) -> impl Iterator<Item = (Coverage, Digest)> {
        let manifest = self.manifest.map(|manifest| (Coverage::Manifest, Digest::of(manifest)));
        manifest.into_iter().chain([(Coverage::Component, self.component.clone())])
    }
}

/// A verified signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The signer.
    pub signed: SignerEvidence,
    /// The part of the artifact that the signature covers.
    pub covers: Coverage,
    /// Whether the transparency log contains it.
    pub is_logged: bool,
}

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
