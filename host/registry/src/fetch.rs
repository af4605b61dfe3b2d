//! Fetching a component from any source, with the signatures that there are for it.

use crate::client::{Artifact, Client, FoundBundle, LICENCE, NewArtifact, Session, described_by, licence_in};
use crate::digest::Digest;
use crate::error::{Code, Error, Remedy, Result};
use crate::install::{KeptEvidence, read};
use crate::interfaces::Interfaces;
use crate::lock::Entry;
use crate::metadata::Metadata;
use crate::reference::{Reference, Source};
use crate::signature::{MAX_BUNDLE_BYTES, PublicKey, Subjects, TrustedRoot, verify, verify_by_key};
use crate::trust::{Evidence, RecordedVersion, Trust, Verdict};
use crate::{MAX_ASKS_BYTES, MAX_COMPONENT_BYTES};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::path::Path;

/// The options of a fetch besides the source.
#[derive(Debug, Clone, Default)]
pub struct FetchOptions {
    /// The digest that the manifest or the component has to have.
    pub digest: Option<Digest>,
    /// A bundle of the user's own.
    pub bundle: Option<Vec<u8>>,
    /// The keys that bundles are tried with.
    pub keys: Vec<PublicKey>,
    /// The entries of this origin, with the evidence that is kept about it. That counts if the source
    /// still has these bytes: a web server has no signatures, and a registry may hide them.
    pub recorded: Vec<(Entry, KeptEvidence)>,
}

/// A component that was fetched but not yet approved.
#[derive(Debug, Clone)]
pub struct FetchedComponent {
    /// Its origin, as lock file and policy name it.
    pub origin: String,
    /// The tag that was resolved.
    pub tag: Option<String>,
    /// The manifest; `None` if it does not come from a registry.
    pub artifact: Option<Artifact>,
    /// The component. Copies share the bytes.
    pub wasm: Bytes,
    /// Its digest, a SHA-256.
    pub digest: Digest,
    /// The text of its manifest of asks.
    pub asks: Option<String>,
    /// The component's statements about itself.
    pub metadata: Metadata,
    /// The signatures.
    pub evidence: Evidence,
    bundles: Vec<FoundBundle>,
    keys: Vec<PublicKey>,
}

impl FetchedComponent {
    /// The bytes of a bundle.
    #[must_use]
    pub fn bundle(&self, digest: &Digest) -> Option<&[u8]> {
        self.bundles.iter().find(|found| &found.digest == digest).map(|found| found.bytes.as_ref())
    }

    /// The key that made a signature.
    #[must_use]
    pub fn key(&self, id: &Digest) -> Option<&PublicKey> {
        self.keys.iter().find(|key| key.id() == id)
    }

    /// The licence, by the publisher's own statement: an annotation of the manifest, or else a
    /// section of the component.
    #[must_use]
    pub fn licence(&self) -> Option<String> {
        self.annotated_licence().or_else(|| self.metadata.licence.clone())
    }

    /// The licence in the manifest, which a signature of the component alone does not cover.
    #[must_use]
    pub fn annotated_licence(&self) -> Option<String> {
        self.artifact.as_ref()?.annotation(LICENCE)
    }
}

/// Fetches a component with its signatures.
///
/// # Errors
/// It cannot be fetched, or is not what was asked for.
pub async fn fetch(
    client: &Client,
    source: &Source,
    wanted: FetchOptions,
    root: &TrustedRoot,
) -> Result<FetchedComponent> {
    let origin = source.origin();
    let mut bundles: Vec<_> = wanted.bundle.map(found).into_iter().collect();
    let mut keys = wanted.keys;
    let mut evidence = Evidence::default();
    let (tag, artifact, wasm, asks) = match source {
        Source::Registry(reference) => {
            let reference = with_digest(reference, wanted.digest.as_ref());
            let mut session = client.session(reference);
            let artifact = session.resolve().await?;
            let wasm = session.component(&artifact).await?;
            artifact.check_imports(&Interfaces::of(&wasm)?)?;
            let referrers = session.referrers(&artifact.digest).await?;
            bundles.extend(referrers.bundles);
            evidence.faults = referrers.faults;
            let asks = artifact.asks.clone();
            (session.reference().tag.clone(), Some(artifact), wasm, asks)
        }
        Source::Url(url) => (None, None, client.download(url).await?, None),
        Source::File(path) => {
            let (wasm, asks) = from_file(path).await?;
            (None, None, wasm, asks)
        }
    };
    let wasm = Bytes::from(wasm);
    let digest = Digest::of(&wasm);
    if artifact.is_none() && wanted.digest.is_some_and(|wanted| wanted != digest) {
        let what = format!("{origin} has the digest {digest}, and another one was asked for");
        return Err(Error::new(Code::DigestMismatch, what));
    }
    let manifest_digest = artifact.as_ref().map(|artifact| &artifact.digest);
    for (entry, kept) in wanted.recorded {
        // A new version that is signed with the recorded key is recognized.
        keys.extend(kept.key);
        if entry.wasm == digest && entry.manifest.as_ref() == manifest_digest {
            bundles.push(found(kept.bundle));
        }
    }
    // The same bundle may be given, listed and kept.
    let mut seen = BTreeSet::new();
    bundles.retain(|bundle| seen.insert(bundle.digest.clone()));
    let manifest = artifact.as_ref().map(|artifact| Bytes::copy_from_slice(&artifact.manifest));
    let verified = gather(bundles.clone(), manifest, digest.clone(), keys.clone(), root.clone()).await;
    evidence.proofs = verified.proofs;
    // A signature that is wrong says more than a referrer that cannot be read.
    evidence.faults.splice(0..0, verified.faults);
    let metadata = Metadata::of(&wasm);
    Ok(FetchedComponent { origin, tag, artifact, wasm, digest, asks, metadata, evidence, bundles, keys })
}

/// Returns whether a source still leads to the version of an entry. This costs one request, or none
/// if the source names a digest.
///
/// # Errors
/// The registry cannot be asked.
pub async fn is_current(client: &Client, source: &Source, entry: &Entry) -> Result<bool> {
    let (Source::Registry(reference), Some(manifest)) = (source, &entry.manifest) else { return Ok(false) };
    if source.origin() != entry.from {
        return Ok(false);
    }
    match &reference.digest {
        Some(digest) => Ok(digest == manifest),
        None => Ok(&client.session(reference.clone()).manifest_digest().await? == manifest),
    }
}

/// Checks a bundle of the user's own before it is published. A key that is not known here is no
/// objection, if the bundle is about this artifact.
///
/// # Errors
/// The bundle does not verify, or is about something else.
pub async fn check_bundle(bytes: &[u8], artifact: &NewArtifact, trust: &Trust) -> Result<()> {
    let (manifest, bundle) = (Bytes::copy_from_slice(artifact.manifest()), found(bytes.to_vec()));
    let evidence =
        gather(vec![bundle], Some(manifest), artifact.component(), trust.keys(), trust.root()?).await;
    match evidence.faults.into_iter().next() {
        Some(fault) if fault.code != Code::UnknownKey => Err(fault),
        _ => Ok(()),
    }
}

/// Returns whether a registry already has a signature of this artifact by this key, before it is published.
///
/// # Errors
/// The registry cannot be asked.
pub async fn is_signed(session: &mut Session, artifact: &NewArtifact, key: &PublicKey) -> Result<bool> {
    // The artifact is published next, with the same token.
    session.begin_to_write();
    let digest = artifact.digest();
    let bundles = session.referrers(&digest).await?.bundles;
    let component = artifact.component();
    let verified = bundles.iter().any(|bundle| {
        let subjects = Subjects { manifest: Some(artifact.manifest()), component: &component };
        verify_by_key(&bundle.bytes, subjects, key).is_ok()
    });
    Ok(verified)
}

/// Verifies bundles, on a thread that may block.
async fn gather(
    bundles: Vec<FoundBundle>,
    manifest: Option<Bytes>,
    component: Digest,
    keys: Vec<PublicKey>,
    root: TrustedRoot,
) -> Evidence {
    let mut evidence = Evidence::default();
    for bundle in bundles {
        let (manifest, component, keys, root) =
            (manifest.clone(), component.clone(), keys.clone(), root.clone());
        let verified = tokio::task::spawn_blocking(move || {
            let subjects = Subjects { manifest: manifest.as_deref(), component: &component };
            verify(&bundle.bytes, subjects, &keys, &root)
        });
        match verified.await {
            Ok(Ok(proof)) => evidence.proofs.push(proof),
            Ok(Err(fault)) => evidence.faults.push(fault),
            Err(_) => evidence.faults.push(Error::new(Code::InvalidBundle, "the bundle cannot be verified")),
        }
    }
    evidence
}

/// Verifies what is recorded about a component again, from the evidence that is kept about it, and
/// judges it by the policy. This needs no network. `is_accepted` is whether a person accepted this
/// version here, which counts where the policy asks.
///
/// # Errors
/// The evidence differs from the entry, or the policy does not accept it.
pub async fn recheck(
    entry: &Entry,
    kept: Option<KeptEvidence>,
    trust: &Trust,
    is_accepted: bool,
) -> Result<()> {
    let differs = |what: &str| {
        let what =
            format!("{what} of {} differs from the record in tollgate.lock; restore tollgate.lock", entry.id);
        Error::new(Code::LockMismatch, what)
    };
    let mut evidence = Evidence::default();
    if let Some(KeptEvidence { bundle, key, manifest }) = kept {
        // The signature may be of the manifest alone, which then says what the component is.
        if let Some(manifest) = &manifest {
            let (wasm, asks) = described_by(manifest)?;
            let asks = asks.map(|asks| Digest::of(asks.as_bytes()));
            if wasm != entry.wasm || asks != entry.asks {
                return Err(differs("the signed manifest"));
            }
        }
        let keys = key.into_iter().collect();
        evidence =
            gather(vec![found(bundle)], manifest.map(Bytes::from), entry.wasm.clone(), keys, trust.root()?)
                .await;
    }
    if let Some(fault) = evidence.faults.pop() {
        return Err(fault);
    }
    if evidence.proofs.first().map(|proof| &proof.signed) != entry.signed.as_ref() {
        return Err(differs("the signer"));
    }
    let recorded = RecordedVersion { signed: entry.signed.as_ref(), is_accepted };
    match trust.judge(&entry.from, &evidence, None, Some(recorded))? {
        Verdict::Accepted { .. } => Ok(()),
        Verdict::Ask { why, .. } => {
            let what = format!(
                "{why}, and tollgate.approved.toml does not say that a person accepted this version; restore that \
                 file, or look at the component and accept it"
            );
            let remedy = Remedy::Accept { source: entry.source() };
            Err(Error::new(Code::NotAccepted, what).with_remedy(remedy))
        }
    }
}

/// Compares what the lock file records about a component, for those who read it, with the component.
/// `surface` is the digest of its surface. `wasm` is the component.
///
/// # Errors
/// They differ.
pub fn check_statements(
    entry: &Entry,
    kept: Option<&KeptEvidence>,
    wasm: &[u8],
    surface: &Digest,
) -> Result<()> {
    let differs = |what: &str| {
        let id = entry.id.clone();
        let what = format!(
            "{what} of {id} in tollgate.lock is not that of the component; restore tollgate.lock, or record it again"
        );
        let remedy = Remedy::AddAgain { id, source: entry.source() };
        Error::new(Code::LockMismatch, what).with_remedy(remedy)
    };
    if &entry.surface != surface {
        return Err(differs("`surface`"));
    }
    let annotated = match (kept.and_then(|kept| kept.manifest.as_ref()), &entry.manifest) {
        (Some(manifest), _) => licence_in(manifest)?,
        (None, None) => None,
        // The manifest of a component that is not signed is not kept.
        (None, Some(_)) => return Ok(()),
    };
    if entry.licence == annotated.or_else(|| Metadata::of(wasm).licence) {
        Ok(())
    } else {
        Err(differs("`licence`"))
    }
}

fn with_digest(reference: &Reference, digest: Option<&Digest>) -> Reference {
    digest.map_or_else(|| reference.clone(), |digest| reference.at(digest.clone()))
}

fn found(bytes: Vec<u8>) -> FoundBundle {
    FoundBundle { digest: Digest::of(&bytes), bytes: bytes.into() }
}

/// Reads a component and the manifest beside it.
async fn from_file(path: &Path) -> Result<(Vec<u8>, Option<String>)> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let not_found =
            || Error::new(Code::NotFound, format!("{} does not exist; check its path", path.display()));
        let wasm = read(&path, MAX_COMPONENT_BYTES)?.ok_or_else(not_found)?;
        let asks = read(&path.with_extension("toml"), MAX_ASKS_BYTES as u64)?;
        let invalid = |_| Error::new(Code::Io, format!("the manifest beside {} is not text", path.display()));
        Ok((wasm, asks.map(String::from_utf8).transpose().map_err(invalid)?))
    });
    read.await.map_err(|e| Error::new(Code::Io, format!("the file cannot be read: {e}")))?
}

/// Reads a bundle of the user's own from a file.
///
/// # Errors
/// The file cannot be read.
pub fn read_bundle(path: &Path) -> Result<Vec<u8>> {
    let not_found =
        || Error::new(Code::NotFound, format!("{} does not exist; check its path", path.display()));
    read(path, MAX_BUNDLE_BYTES as u64)?.ok_or_else(not_found)
}
