//! Referrers of an artifact: the signatures that a registry has for it.
//!
//! Registries list them in two places, and some answer wrongly in one of them, so both are read.
//! A list is a hint: each bundle is fetched by its digest and counts by its content.

use super::artifact::check;
use super::manifest::{BUNDLE, Descriptor, INDEX, Index, MANIFEST, MAX_MANIFEST_BYTES, Manifest, read};
use super::transport::{Reply, Request, Session};
use crate::digest::Digest;
use crate::error::{Code, Error, Result};
use crate::signature::MAX_BUNDLE_BYTES;
use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::LINK;
use url::Url;

/// The most referrers of one artifact that are read.
const MAX_REFERRERS: usize = 64;
/// The most pages into which a registry may divide the list of referrers.
const MAX_PAGES: usize = 16;
/// The type of signatures that cosign 2 attached as referrers.
const OLD_SIGNATURE: &str = "application/vnd.dev.cosign.artifact.sig.v1+json";

/// A bundle that a registry has for an artifact; nothing of it was verified.
#[derive(Debug, Clone)]
pub struct FoundBundle {
    /// The digest of the bundle.
    pub digest: Digest,
    /// Its bytes. Copies share them.
    pub bytes: Bytes,
}

/// The signatures that a registry has for an artifact.
#[derive(Debug, Clone, Default)]
pub struct Referrers {
    /// The bundles.
    pub bundles: Vec<FoundBundle>,
    /// Why other referrers do not count.
    pub faults: Vec<Error>,
}

impl Session {
    /// Fetches the signatures of an artifact.
    ///
    /// # Errors
    /// The registry cannot be asked, or lists more than 64 referrers. A single referrer that cannot
    /// be read is among the faults of the result.
    pub async fn referrers(&mut self, subject: &Digest) -> Result<Referrers> {
        let mut listed = self.listed(subject).await?;
        for entry in self.fallback(subject).await? {
            if !listed.iter().any(|known| known.digest == entry.digest) {
                listed.push(entry);
            }
        }
        if listed.len() > MAX_REFERRERS {
            let host = &self.reference.host;
            let what = format!(
                "{host} lists {} referrers of one artifact; the limit is {MAX_REFERRERS}",
                listed.len()
            );
            return Err(Error::new(Code::TooManyReferrers, what));
        }
        let mut found = Referrers::default();
        for entry in listed {
            match self.bundle(&entry, subject).await {
                Ok(Some(bundle)) if found.bundles.iter().any(|known| known.digest == bundle.digest) => {}
                Ok(Some(bundle)) => found.bundles.push(bundle),
                Ok(None) => {}
                Err(error) if matches!(error.code, Code::TimedOut | Code::Unreachable) => return Err(error),
                Err(error) => found.faults.push(error),
            }
        }
        if found.bundles.is_empty() && found.faults.is_empty() && self.has_old_signature(subject).await? {
            found.faults.push(old_signature());
        }
        Ok(found)
    }

    /// Fetches the registry's own list, page by page.
    async fn listed(&mut self, subject: &Digest) -> Result<Vec<Descriptor>> {
        let first = self.url(&format!("referrers/{subject}"))?;
        let (mut next, mut listed) = (Some(first.clone()), Vec::new());
        for _ in 0..MAX_PAGES {
            let Some(url) = next.take() else { return Ok(listed) };
            let reply = self.send(Request::get(url, INDEX, MAX_MANIFEST_BYTES)).await?;
            match reply.status {
                // Registries without this part of the protocol answer so.
                StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => return Ok(listed),
                status if status.is_success() => {
                    let index: Index = read("the list of referrers", &reply.body)?;
                    listed.extend(index.manifests);
                    if listed.len() > MAX_REFERRERS {
                        return Ok(listed);
                    }
                    next = self.next_page(&reply, &first)?;
                }
                _ => return Err(self.failure(&reply)),
            }
        }
        if next.is_none() {
            return Ok(listed);
        }
        let what = format!(
            "{} divides the referrers of one artifact into more than {MAX_PAGES} pages",
            self.reference.host
        );
        Err(Error::new(Code::TooManyReferrers, what))
    }

    /// The URL of the next page, which has to be at the same registry: it gets the authorization.
    fn next_page(&self, reply: &Reply, first: &Url) -> Result<Option<Url>> {
        let links = reply.headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
        let next = links.flat_map(|value| value.split(',')).find_map(|link| {
            let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
            let is_next = |parameter: &str| matches!(parameter.trim(), "rel=\"next\"" | "rel=next");
            parameters.split(';').any(is_next).then_some(target)
        });
        let Some(target) = next else { return Ok(None) };
        let refused = |why: &str| {
            let what = format!("{} names a next page of referrers that {why}", self.reference.host);
            Error::new(Code::RedirectRefused, what)
        };
        let url = reply.url.join(target).map_err(|_| refused("is not a valid URL"))?;
        match url.origin() == first.origin() && url.path() == first.path() {
            true => Ok(Some(url)),
            false => Err(refused("is elsewhere")),
        }
    }

    /// Returns the list under the fallback tag, which replaces the protocol's own list.
    async fn fallback(&mut self, subject: &Digest) -> Result<Vec<Descriptor>> {
        let index = self.fallback_index(&fallback_tag(subject)).await?;
        Ok(index.map(|index| index.manifests).unwrap_or_default())
    }

    pub(super) async fn fallback_index(&mut self, tag: &str) -> Result<Option<Index>> {
        let url = self.url(&format!("manifests/{tag}"))?;
        let reply = self.send(Request::get(url, INDEX, MAX_MANIFEST_BYTES)).await?;
        match reply.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => read("the list of referrers", &reply.body).map(Some),
            _ => Err(self.failure(&reply)),
        }
    }

    /// The bundle of a referrer; `None` if it is something else than a signature.
    async fn bundle(&mut self, entry: &Descriptor, subject: &Digest) -> Result<Option<FoundBundle>> {
        let invalid = |why: &str| {
            let what = format!("the referrer {} {why}", tollgate_agent::text::clean(&entry.digest, 80));
            Error::new(Code::InvalidReferrer, what)
        };
        if entry.artifact_type.as_deref() == Some(OLD_SIGNATURE) {
            return Err(old_signature());
        }
        if entry.media_type != MANIFEST {
            return Ok(None);
        }
        let digest = entry.digest()?;
        if entry.size > MAX_MANIFEST_BYTES {
            return Err(invalid("is too large"));
        }
        let body = self.get_manifest(digest.as_str()).await?.body;
        check("a referrer", &body, &digest, entry.size)?;
        let Some(layer) = bundle_layer(&body, subject, &invalid)? else { return Ok(None) };
        let digest = layer.digest()?;
        let bytes = self.blob("a bundle", &digest, layer.size).await?;
        Ok(Some(FoundBundle { digest: Digest::of(&bytes), bytes: bytes.into() }))
    }

    /// Returns whether there is a signature in the format of cosign 2.
    async fn has_old_signature(&mut self, subject: &Digest) -> Result<bool> {
        let url = self.url(&format!("manifests/{}.sig", fallback_tag(subject)))?;
        let reply = self.send(Request::get(url, MANIFEST, MAX_MANIFEST_BYTES)).await?;
        Ok(reply.status.is_success())
    }
}

/// The digests of the manifests that a list of referrers names.
///
/// # Errors
/// The text is not a list, or names something by another digest than sha256 or sha512.
pub fn listed_in(index: &[u8]) -> Result<Vec<Digest>> {
    let index: Index = read("the list of referrers", index)?;
    index.manifests.iter().map(Descriptor::digest).collect()
}

/// The digest of the bundle in a referrer of this subject; `None` if it is something else than a
/// signature.
///
/// # Errors
/// It is the signature of another artifact, or does not hold one bundle.
pub fn bundle_in(referrer: &[u8], subject: &Digest) -> Result<Option<Digest>> {
    let invalid = |why: &str| Error::new(Code::InvalidReferrer, format!("the referrer {why}"));
    bundle_layer(referrer, subject, &invalid)?.map(|layer| layer.digest()).transpose()
}

fn bundle_layer(
    referrer: &[u8],
    subject: &Digest,
    invalid: &dyn Fn(&str) -> Error,
) -> Result<Option<Descriptor>> {
    let manifest: Manifest = read("a referrer", referrer)?;
    if manifest.artifact_type.as_deref() != Some(BUNDLE) {
        return Ok(None);
    }
    if manifest.subject.is_none_or(|found| found.digest != subject.as_str()) {
        return Err(invalid("is about another artifact"));
    }
    let Ok([layer]) = <[Descriptor; 1]>::try_from(manifest.layers) else {
        return Err(invalid("does not have exactly one layer"));
    };
    if layer.media_type != BUNDLE {
        return Err(invalid("does not hold a bundle"));
    }
    if layer.size > MAX_BUNDLE_BYTES as u64 {
        return Err(invalid("holds a bundle that is too large"));
    }
    Ok(Some(layer))
}

/// The tag under which the referrers of an artifact are listed.
pub(super) fn fallback_tag(subject: &Digest) -> String {
    subject.as_str().replace(':', "-")
}

fn old_signature() -> Error {
    Error::new(Code::OldSignature, "the signature has the format of cosign 2, which is not supported")
}
