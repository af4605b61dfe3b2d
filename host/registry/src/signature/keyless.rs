//! Signatures with a Sigstore certificate, and entries in Sigstore's transparency log.

use super::bundle::{Bundle, Content};
use super::key::PublicKey;
use super::proof::{Coverage, Proof, SignerEvidence, Subjects};
use super::ring_provider;
use crate::digest::Digest;
use crate::error::{Code, Error, Result};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sigstore_verify::crypto::{CertificateInfo, FulcioCiClaims};
use sigstore_verify::trust_root::{SigstoreInstance, TrustedRoot as Root};
use sigstore_verify::types::{ArtifactDigest, Bundle as SigstoreBundle, DerPublicKey, HashAlgorithm};
use sigstore_verify::{
    Error as SigstoreError, Policy, PublicKeyVerificationPolicy, VerificationPolicy, VerificationResult,
    Verifier,
};
use std::fmt;
use std::sync::Arc;
use tollgate_agent::text::clean;

/// The issuer of the identities of GitHub workflows.
const GITHUB_ISSUER: &str = "https://token.actions.githubusercontent.com";
/// The age from which a root is old.
const OLD: SignedDuration = SignedDuration::from_hours(365 * 24);
const GITHUB: &str = "https://github.com/";

/// The certificate authorities and logs that are trusted.
#[derive(Clone)]
pub struct TrustedRoot {
    verifier: Arc<Verifier>,
    /// When the newest of its keys and certificates became valid.
    newest: Option<Timestamp>,
}

impl fmt::Debug for TrustedRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrustedRoot")
    }
}

impl TrustedRoot {
    /// Returns the root of Sigstore's public instance, as of the build of this program.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn embedded() -> Result<Self> {
        Self::from_json(SigstoreInstance::PublicGood.embedded_trusted_root_json())
    }

    /// Reads a root from the text of a `trusted_root.json`.
    ///
    /// # Errors
    /// The text is not a trusted root.
    pub fn from_json(text: &str) -> Result<Self> {
        ring_provider::install();
        let invalid = |e: &dyn fmt::Display| {
            Error::new(Code::InvalidTrust, format!("the trusted root cannot be used: {e}"))
        };
        let root = Root::from_json(text).map_err(|e| invalid(&e))?;
        let verifier = Arc::new(Verifier::new(&root).map_err(|e| invalid(&e))?);
        Ok(Self { verifier, newest: newest(text) })
    }

    /// Returns whether all its keys and certificates are older than a year. Newer signatures may then
    /// have been made with keys that it does not have.
    #[must_use]
    pub fn is_old(&self, now: Timestamp) -> bool {
        self.newest.is_some_and(|newest| now.duration_since(newest) > OLD)
    }

    fn verify(
        &self,
        bundle: &Bundle<'_>,
        subjects: Subjects<'_>,
        covers: Coverage,
        policy: &dyn Policy,
    ) -> Result<VerificationResult> {
        let parsed = SigstoreBundle::from_json(bundle.text());
        let parsed =
            parsed.map_err(|e| Error::new(Code::InvalidBundle, format!("the bundle cannot be read: {e}")))?;
        let manifest = subjects.manifest.unwrap_or_default();
        let verified = match (bundle.content(), covers) {
            (Content::Message, _) => {
                ring_provider::with_bytes(manifest, || self.verifier.verify(manifest, &parsed, policy))
            }
            (Content::Envelope(_), Coverage::Manifest) => {
                self.verifier.verify(artifact_digest(&Digest::of(manifest))?, &parsed, policy)
            }
            (Content::Envelope(_), Coverage::Component) => {
                self.verifier.verify(artifact_digest(subjects.component)?, &parsed, policy)
            }
        };
        verified.map_err(refusal)
    }
}

/// Returns a digest as Sigstore's crates write it.
fn artifact_digest(digest: &Digest) -> Result<ArtifactDigest> {
    let hex = digest.hex();
    let byte = |at| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    let algorithm = if digest.is_sha256() { HashAlgorithm::Sha2256 } else { HashAlgorithm::Sha2512 };
    let read = ArtifactDigest::new(algorithm, bytes.unwrap_or_default());
    read.map_err(|e| Error::new(Code::UnsupportedDigest, e))
}

/// Verifies a bundle with a certificate, for any signer.
pub(super) fn verify(
    bundle: &Bundle<'_>,
    subjects: Subjects<'_>,
    covers: Coverage,
    root: &TrustedRoot,
) -> Result<Proof> {
    if !bundle.has_log_entry() {
        let what = "the bundle holds no entry of a transparency log, which a certificate needs; GitHub's \
                    attestations of private repositories have none, and are not supported";
        return Err(Error::new(Code::InvalidLogEntry, what));
    }
    let result = root.verify(bundle, subjects, covers, &VerificationPolicy::any_identity())?;
    let complete = result.certificate_verified() && result.sct_verified() && result.tlog_verified();
    let certificate = result.certificate().filter(|_| complete);
    let certificate = certificate
        .ok_or_else(|| Error::new(Code::InvalidCertificate, "the certificate was not verified"))?;
    let at = result.verified_timestamps().iter().min().or(result.integrated_time().as_ref()).copied();
    let at =
        at.ok_or_else(|| Error::new(Code::InvalidTimestamp, "the time of the signature cannot be proven"))?;
    let digest = Digest::of(bundle.text().as_bytes());
    let signed = signer(certificate, at.to_string(), digest)?;
    Ok(Proof { signed, covers, is_logged: true })
}

/// Verifies that the transparency log contains a signature made with a key.
pub(super) fn verify_log(
    bundle: &Bundle<'_>,
    subjects: Subjects<'_>,
    covers: Coverage,
    key: &PublicKey,
    root: &TrustedRoot,
) -> Result<bool> {
    let key = DerPublicKey::new(key.der().to_vec());
    let policy = PublicKeyVerificationPolicy::new(key);
    root.verify(bundle, subjects, covers, &policy).map(|result| result.tlog_verified())
}

/// Returns the signer that the certificate names.
fn signer(certificate: &CertificateInfo, at: String, bundle: Digest) -> Result<SignerEvidence> {
    let invalid = |why: &str| Error::new(Code::InvalidCertificate, format!("the certificate {why}"));
    let issuer = certificate.issuer.clone().ok_or_else(|| invalid("does not name an issuer"))?;
    let identity = certificate.identity.as_ref().ok_or_else(|| invalid("does not name a signer"))?;
    let other = || SignerEvidence::Identity {
        identity: clean(identity.as_str(), 1_000),
        issuer: clean(&issuer, 1_000),
        at: at.clone(),
        bundle: bundle.clone(),
    };
    if issuer != GITHUB_ISSUER {
        return Ok(other());
    }
    // Early certificates lack the claims that identify a workflow.
    Ok(github(&certificate.ci_claims, &at, &bundle).unwrap_or_else(other))
}

fn github(claims: &FulcioCiClaims, at: &str, bundle: &Digest) -> Option<SignerEvidence> {
    let repository = claims.source_repository_uri.as_deref()?.strip_prefix(GITHUB)?;
    // The repository's own workflow, even if it runs steps of another repository's workflow.
    let config = claims.build_config_uri.as_deref()?.strip_prefix(GITHUB)?;
    let (path, git_ref) = config.strip_prefix(repository)?.strip_prefix('/')?.split_once('@')?;
    Some(SignerEvidence::Github {
        repository: clean(repository, 200),
        repository_id: clean(claims.source_repository_identifier.as_deref()?, 40),
        workflow: clean(path, 500),
        git_ref: clean(claims.source_repository_ref.as_deref().unwrap_or(git_ref), 500),
        commit: clean(claims.source_repository_digest.as_deref()?, 100),
        at: at.to_owned(),
        bundle: bundle.clone(),
    })
}

/// When the newest key or certificate of a root became valid.
fn newest(text: &str) -> Option<Timestamp> {
    let root: Value = serde_json::from_str(text).ok()?;
    let lists = ["tlogs", "ctlogs", "certificateAuthorities", "timestampAuthorities"];
    let all = lists.iter().filter_map(|list| root.get(list)?.as_array()).flatten();
    let start = |one: &Value| {
        let valid_for = one.pointer("/publicKey/validFor").or_else(|| one.get("validFor"))?;
        valid_for.get("start")?.as_str()?.parse().ok()
    };
    all.filter_map(start).max()
}

fn refusal(error: SigstoreError) -> Error {
    let code = match &error {
        SigstoreError::SignatureInvalid(_) => Code::InvalidSignature,
        SigstoreError::ArtifactMismatch(_) => Code::OtherSubject,
        SigstoreError::Certificate(_) => Code::InvalidCertificate,
        SigstoreError::TransparencyLog(_) => Code::InvalidLogEntry,
        SigstoreError::Timestamp(_) => Code::InvalidTimestamp,
        SigstoreError::UnsupportedBundle(_) | SigstoreError::UnsupportedArtifact(_) => {
            Code::UnsupportedBundle
        }
        _ => Code::InvalidBundle,
    };
    Error::new(code, format!("the signature is not valid: {error}"))
}
