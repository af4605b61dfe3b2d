//! The proof of a signature: its signer, and the part of an artifact that it covers.

use crate::digest::Digest;
use serde::{Deserialize, Serialize};
use std::fmt;
use tollgate_agent::text::clean;

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
    pub(super) fn digests(&self) -> impl Iterator<Item = (Coverage, Digest)> {
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
