//! Publishing an artifact with its signature.

use super::artifact::ASKS;
use super::manifest::{
    BUNDLE, Descriptor, EMPTY, EMPTY_CONTENT, INDEX, Index, MANIFEST, MAX_MANIFEST_BYTES, Manifest,
    WASM_CONFIG, WASM_LAYER, WasmComponent, WasmConfig,
};
use super::referrers::fallback_tag;
use super::transport::{Request, Session};
use crate::digest::Digest;
use crate::error::{Code, Error, Remedy, Result};
use crate::interfaces::Interfaces;
use crate::{MAX_ASKS_BYTES, MAX_COMPONENT_BYTES};
use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use serde::Serialize;
use std::collections::BTreeMap;
use url::Url;

/// The most that is read of the response to an upload, in bytes.
const MAX_REPLY_BYTES: u64 = 64 << 10;
/// How often the list of referrers is written before another publisher is blamed.
const MAX_TRIES: usize = 5;

/// An artifact to publish. The same input always makes the same manifest.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    wasm: Bytes,
    config: Bytes,
    manifest: Bytes,
}

/// A published artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedArtifact {
    /// The digest of the manifest.
    pub digest: Digest,
    /// The number of blobs that were uploaded; the others were there.
    pub uploaded: usize,
}

impl NewArtifact {
    /// Makes the manifest of a component.
    ///
    /// # Errors
    /// The file is not a component, or it or its manifest of asks is too large.
    pub fn new(
        wasm: Bytes,
        asks: Option<&str>,
        annotations: &BTreeMap<String, String>,
        created: &str,
    ) -> Result<Self> {
        if wasm.len() as u64 > MAX_COMPONENT_BYTES {
            let what = format!("the component has {} bytes; the limit is {MAX_COMPONENT_BYTES}", wasm.len());
            return Err(Error::new(Code::TooLarge, what));
        }
        if asks.is_some_and(|asks| asks.len() > MAX_ASKS_BYTES) {
            let what = format!("the manifest of asks is larger than {MAX_ASKS_BYTES} bytes");
            return Err(Error::new(Code::AsksTooLarge, what));
        }
        let Interfaces { imports, exports } = Interfaces::of(&wasm)?;
        let layer = Descriptor::new(WASM_LAYER, &wasm);
        let config = written(&WasmConfig {
            created: created.to_owned(),
            architecture: "wasm".to_owned(),
            os: "wasip2".to_owned(),
            layer_digests: vec![layer.digest.clone()],
            component: Some(WasmComponent { exports, imports }),
        })?;
        let named =
            |(name, value): (&String, &String)| (format!("org.opencontainers.image.{name}"), value.clone());
        let asks = asks.map(|asks| (ASKS.to_owned(), asks.to_owned()));
        let annotations: BTreeMap<_, _> = annotations.iter().map(named).chain(asks).collect();
        let manifest = written(&Manifest {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            artifact_type: None,
            config: Descriptor::new(WASM_CONFIG, &config),
            layers: vec![layer],
            subject: None,
            annotations: (!annotations.is_empty()).then_some(annotations),
        })?;
        Ok(Self { wasm, config: config.into(), manifest: manifest.into() })
    }

    /// The digest of the manifest, which a signature is about.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }

    /// The digest of the component.
    #[must_use]
    pub fn component(&self) -> Digest {
        Digest::of(&self.wasm)
    }

    /// The bytes of the manifest.
    #[must_use]
    pub fn manifest(&self) -> &[u8] {
        &self.manifest
    }
}

impl Session {
    /// Publishes an artifact, with its signature if there is one, and sets the tag last.
    ///
    /// # Errors
    /// The registry refuses it, or the tag points elsewhere and `replace` is not set.
    pub async fn publish(
        &mut self,
        artifact: &NewArtifact,
        bundle: Option<&[u8]>,
        replace: bool,
    ) -> Result<PublishedArtifact> {
        self.begin_to_write();
        let digest = artifact.digest();
        let tag = self.reference.tag.clone();
        let is_tagged = match &tag {
            Some(tag) => self.is_at(tag, &digest, replace).await?,
            None => true,
        };
        let mut uploaded = 0;
        for content in [&artifact.config, &artifact.wasm] {
            uploaded += usize::from(self.push_blob(content.clone()).await?);
        }
        self.push_manifest(digest.as_str(), MANIFEST, artifact.manifest.clone()).await?;
        if let Some(bundle) = bundle {
            uploaded += self.push_bundle(artifact, bundle).await?;
        }
        if let Some(tag) = tag.filter(|_| !is_tagged) {
            self.push_manifest(&tag, MANIFEST, artifact.manifest.clone()).await?;
        }
        Ok(PublishedArtifact { digest, uploaded })
    }

    /// Returns whether the tag points to this manifest already.
    async fn is_at(&mut self, tag: &str, digest: &Digest, replace: bool) -> Result<bool> {
        let url = self.url(&format!("manifests/{tag}"))?;
        let accept =
            "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, */*";
        let reply = self.send(Request::get(url, accept, MAX_MANIFEST_BYTES)).await?;
        match reply.status {
            StatusCode::NOT_FOUND => Ok(false),
            status if !status.is_success() => Err(self.failure(&reply)),
            _ if digest.matches(&reply.body) => Ok(true),
            _ if replace => Ok(false),
            _ => {
                let what = format!(
                    "{} exists and is another artifact; use another tag, or move this one",
                    self.reference
                );
                Err(Error::new(Code::TagExists, what).with_remedy(Remedy::MoveTag))
            }
        }
    }

    async fn push_bundle(&mut self, artifact: &NewArtifact, bundle: &[u8]) -> Result<usize> {
        let mut uploaded = usize::from(self.push_blob(Bytes::from_static(EMPTY_CONTENT)).await?);
        uploaded += usize::from(self.push_blob(Bytes::copy_from_slice(bundle)).await?);
        let referrer = Bytes::from(written(&Manifest {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            artifact_type: Some(BUNDLE.to_owned()),
            config: Descriptor::new(EMPTY, EMPTY_CONTENT),
            layers: vec![Descriptor::new(BUNDLE, bundle)],
            subject: Some(Descriptor::new(MANIFEST, &artifact.manifest)),
            annotations: None,
        })?);
        let name = Digest::of(&referrer);
        let lists_itself = self.push_manifest(name.as_str(), MANIFEST, referrer.clone()).await?;
        if !lists_itself {
            let entry =
                Descriptor { artifact_type: Some(BUNDLE.to_owned()), ..Descriptor::new(MANIFEST, &referrer) };
            self.list(&artifact.digest(), entry).await?;
        }
        Ok(uploaded)
    }

    /// Adds a referrer to the list that is kept under a tag, for registries that keep none
    /// themselves. Two publishers may do so at the same time, so the list is read again.
    async fn list(&mut self, subject: &Digest, entry: Descriptor) -> Result<()> {
        let tag = fallback_tag(subject);
        for attempt in 0..=MAX_TRIES {
            let index = self.fallback_index(&tag).await?;
            let mut index = index.unwrap_or(Index {
                schema_version: 2,
                media_type: Some(INDEX.to_owned()),
                manifests: Vec::new(),
            });
            if index.manifests.iter().any(|known| known.digest == entry.digest) {
                return Ok(());
            }
            if attempt == MAX_TRIES {
                break;
            }
            index.manifests.push(entry.clone());
            self.push_manifest(&tag, INDEX, written(&index)?.into()).await?;
        }
        let what = format!("{} does not keep the list of signatures; try again", self.reference.host);
        Err(Error::new(Code::RegistryFailed, what))
    }

    /// Uploads a blob unless the registry has it. Returns whether it was uploaded.
    async fn push_blob(&mut self, content: Bytes) -> Result<bool> {
        let digest = Digest::of(&content);
        let url = self.url(&format!("blobs/{digest}"))?;
        let head = Request {
            method: Method::HEAD,
            url,
            headers: HeaderMap::new(),
            body: None,
            limit: 0,
            is_repeatable: true,
        };
        if self.send(head).await?.status.is_success() {
            return Ok(false);
        }
        let begin = Request {
            method: Method::POST,
            url: self.url("blobs/uploads/")?,
            headers: HeaderMap::new(),
            body: Some(Bytes::new()),
            limit: MAX_REPLY_BYTES,
            // An upload that was begun and is not used is forgotten by the registry.
            is_repeatable: true,
        };
        let reply = self.send(begin).await?;
        if reply.status != StatusCode::ACCEPTED {
            return Err(self.write_failure(&reply));
        }
        let mut url = self.upload_url(reply.text_header("location"), &reply.url)?;
        url.query_pairs_mut().append_pair("digest", digest.as_str());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        // The place of an upload may be gone after a failure.
        let put = Request {
            method: Method::PUT,
            url,
            headers,
            body: Some(content),
            limit: MAX_REPLY_BYTES,
            is_repeatable: false,
        };
        let reply = self.send(put).await?;
        if reply.status.is_success() { Ok(true) } else { Err(self.write_failure(&reply)) }
    }

    /// Returns the URL to which the content of an upload is sent. It must be on the registry itself,
    /// because only the registry may receive the authorization.
    fn upload_url(&self, location: Option<&str>, from: &Url) -> Result<Url> {
        let host = &self.reference.host;
        let refused = |why: &str| Error::new(Code::RedirectRefused, format!("{host} {why}"));
        let location = location.ok_or_else(|| refused("does not say where an upload goes"))?;
        let mut url = from.join(location).map_err(|_| refused("sent an invalid place for an upload"))?;
        // Behind a proxy, registries name themselves by http.
        let is_same = url.host_str() == from.host_str();
        if url.scheme() == "http" && from.scheme() == "https" && is_same {
            let failed = || refused("sent an invalid place for an upload");
            url.set_scheme("https").map_err(|()| failed())?;
        }
        if url.scheme() != "https" && !self.allows_http(&url) {
            return Err(refused("wants an upload sent without https"));
        }
        if url.origin() != from.origin() {
            return Err(refused("wants an upload sent to another host, which is not supported"));
        }
        Ok(url)
    }

    /// Pushes a manifest. Whether the registry lists it among the referrers of its subject.
    async fn push_manifest(&mut self, name: &str, media_type: &'static str, content: Bytes) -> Result<bool> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        let url = self.url(&format!("manifests/{name}"))?;
        // The same content under the same name twice is the same as once.
        let put = Request {
            method: Method::PUT,
            url,
            headers,
            body: Some(content),
            limit: MAX_REPLY_BYTES,
            is_repeatable: true,
        };
        let reply = self.send(put).await?;
        if !reply.status.is_success() {
            return Err(self.write_failure(&reply));
        }
        Ok(reply.headers.contains_key("oci-subject"))
    }

    fn write_failure(&self, reply: &super::transport::Reply) -> Error {
        let error = self.failure(reply);
        if error.code != Code::UnexpectedStatus {
            return error;
        }
        let host = &self.reference.host;
        Error::new(error.code, format!("{host} does not accept the artifact: {}", error.message()))
    }
}

fn written(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| Error::new(Code::Io, format!("a manifest cannot be written: {e}")))
}
