//! Pulling an artifact: the manifest, its configuration, and its one layer.

use super::manifest::{
    Descriptor, EMPTY, EMPTY_CONTENT, INDEX, Index, MANIFEST, MAX_MANIFEST_BYTES, Manifest, WASM_CONFIG,
    WASM_CONFIG_V1, WASM_LAYER, WASM_LAYER_V1, WasmConfig, media_type, read,
};
use super::transport::{Reply, Request, Session};
use crate::digest::Digest;
use crate::error::{Code, Error, Result};
use crate::interfaces::Interfaces;
use crate::{MAX_ASKS_BYTES, MAX_COMPONENT_BYTES};
use std::collections::BTreeMap;
use tollgate_agent::text::clean;

/// The annotation that holds the text of the component's manifest.
pub(super) const ASKS: &str = "dev.tollgate.asks";
const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";
/// The annotation that holds the licence.
pub(crate) const LICENCE: &str = "licenses";
/// The longest configuration, in bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// The longest annotation that is shown, in bytes.
const MAX_SHOWN_BYTES: usize = 500;

/// An artifact that a registry described: what it would be, before its component was fetched.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// The digest of the manifest, by which the artifact is pinned.
    pub digest: Digest,
    /// The bytes of the manifest.
    pub manifest: Vec<u8>,
    /// The text of the component's manifest; `None` if the artifact has none.
    pub asks: Option<String>,
    /// The imports that the configuration lists; `None` if it lists none.
    pub imports: Option<Vec<String>>,
    /// The digest of the component.
    pub wasm: Digest,
    /// The size of the component, in bytes.
    pub wasm_bytes: u64,
    annotations: BTreeMap<String, String>,
}

impl Artifact {
    /// An annotation of the Open Container Initiative, such as `licenses`: a statement of the
    /// publisher, cleaned and cut.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<String> {
        annotation(&self.annotations, name)
    }

    /// Compares the imports of the component with those that the configuration lists.
    ///
    /// # Errors
    /// They differ.
    pub fn check_imports(&self, found: &Interfaces) -> Result<()> {
        let Some(listed) = &self.imports else { return Ok(()) };
        let mut listed: Vec<_> = listed.iter().map(String::as_str).collect();
        let mut found: Vec<_> = found.imports.iter().map(String::as_str).collect();
        listed.sort_unstable();
        found.sort_unstable();
        listed.dedup();
        found.dedup();
        if listed == found {
            return Ok(());
        }
        let differ = |one: &[&str], other: &[&str]| {
            let only: Vec<_> = one.iter().filter(|name| !other.contains(name)).copied().collect();
            clean(&only.join(", "), 500)
        };
        let what = format!(
            "the configuration of the artifact lists other imports than the component has (only listed: {}; not \
             listed: {})",
            differ(&listed, &found),
            differ(&found, &listed)
        );
        Err(Error::new(Code::ImportsMismatch, what))
    }
}

fn annotation(annotations: &BTreeMap<String, String>, name: &str) -> Option<String> {
    let value = annotations.get(&format!("org.opencontainers.image.{name}"))?;
    Some(clean(value, MAX_SHOWN_BYTES)).filter(|value| !value.is_empty())
}

/// The licence that a manifest states.
pub(crate) fn licence_in(manifest: &[u8]) -> Result<Option<String>> {
    let manifest: Manifest = read("the manifest", manifest)?;
    Ok(manifest.annotations.and_then(|annotations| annotation(&annotations, LICENCE)))
}

/// The component that a manifest describes, and the text of its manifest of asks.
///
/// # Errors
/// It is not the manifest of one component.
pub fn described_by(manifest: &[u8]) -> Result<(Digest, Option<String>)> {
    let what = "the manifest";
    let manifest: Manifest = read(what, manifest)?;
    let layer = layer_of(what, &manifest)?;
    Ok((layer.digest()?, asks_of(what, &manifest)?))
}

/// The one layer of the manifest of a component.
fn layer_of<'a>(what: &str, manifest: &'a Manifest) -> Result<&'a Descriptor> {
    let layer = match manifest.layers.as_slice() {
        [layer] => layer,
        [] => return Err(not_wasm(what, "a manifest without a layer")),
        _ => {
            let words = format!("{what} has several layers; a component has exactly one");
            return Err(Error::new(Code::SeveralLayers, words));
        }
    };
    match (manifest.config.media_type.as_str(), layer.media_type.as_str()) {
        (WASM_CONFIG | EMPTY, WASM_LAYER) | (WASM_CONFIG_V1, WASM_LAYER_V1) => {}
        (WASM_CONFIG | WASM_CONFIG_V1 | EMPTY, other) | (other, _) => return Err(not_wasm(what, other)),
    }
    if !layer.urls.is_empty() || !manifest.config.urls.is_empty() {
        let words = format!("{what} keeps its component on other servers, which is not supported");
        return Err(Error::new(Code::ForeignLayer, words));
    }
    if layer.size > MAX_COMPONENT_BYTES {
        let words = format!(
            "the component of {what} has {} bytes; the limit is {MAX_COMPONENT_BYTES} bytes",
            layer.size
        );
        return Err(Error::new(Code::TooLarge, words));
    }
    Ok(layer)
}

/// The text of the component's manifest in the annotations.
fn asks_of(what: &str, manifest: &Manifest) -> Result<Option<String>> {
    let asks = manifest.annotations.as_ref().and_then(|annotations| annotations.get(ASKS));
    if asks.is_some_and(|asks| asks.len() > MAX_ASKS_BYTES) {
        let words = format!("the manifest of asks of {what} is larger than {MAX_ASKS_BYTES} bytes");
        return Err(Error::new(Code::AsksTooLarge, words));
    }
    Ok(asks.cloned())
}

impl Session {
    /// Resolves the reference: fetches the manifest and its configuration, and checks both.
    ///
    /// # Errors
    /// The artifact cannot be fetched, or is not one Wasm component.
    pub async fn resolve(&mut self) -> Result<Artifact> {
        let name = self.reference.name().to_owned();
        let what = self.reference.to_string();
        let reply = self.get_manifest(&name).await?;
        let header = reply.text_header("content-type");
        let (digest, body) = match media_type(&what, &reply.body, header)?.as_str() {
            MANIFEST => (self.digest_of(&reply.body)?, reply.body),
            INDEX => {
                self.digest_of(&reply.body)?;
                self.wasm_of_index(&what, &reply.body).await?
            }
            other => return Err(not_wasm(&what, other)),
        };
        let manifest: Manifest = read(&what, &body)?;
        self.artifact(&what, digest, body, manifest).await
    }

    /// Fetches what the reference names, and hashes it.
    ///
    /// # Errors
    /// It cannot be fetched.
    pub async fn manifest_digest(&mut self) -> Result<Digest> {
        let name = self.reference.name().to_owned();
        let body = self.get_manifest(&name).await?.body;
        self.digest_of(&body)
    }

    /// Fetches the component of an artifact.
    ///
    /// # Errors
    /// It cannot be fetched, or is not what the manifest names.
    pub async fn component(&mut self, artifact: &Artifact) -> Result<Vec<u8>> {
        self.blob("the component", &artifact.wasm, artifact.wasm_bytes).await
    }

    pub(super) async fn get_manifest(&mut self, name: &str) -> Result<Reply> {
        let url = self.url(&format!("manifests/{name}"))?;
        let reply = self.send(Request::get(url, ACCEPT, MAX_MANIFEST_BYTES)).await?;
        if reply.status.is_success() { Ok(reply) } else { Err(self.failure(&reply)) }
    }

    /// The digest of what the reference resolved to. A digest in a header is not believed.
    fn digest_of(&self, body: &[u8]) -> Result<Digest> {
        let Some(expected) = &self.reference.digest else { return Ok(Digest::of(body)) };
        if expected.matches(body) { Ok(expected.clone()) } else { Err(mismatch("the manifest", expected)) }
    }

    /// The one Wasm manifest of an index.
    async fn wasm_of_index(&mut self, what: &str, body: &[u8]) -> Result<(Digest, Vec<u8>)> {
        let index: Index = read(what, body)?;
        let is_wasm = |entry: &&Descriptor| {
            let of_type = entry.artifact_type.as_deref();
            entry.media_type == MANIFEST
                && (entry.platform.as_ref().is_some_and(|platform| platform.architecture == "wasm")
                    || of_type == Some(WASM_CONFIG)
                    || of_type == Some(WASM_LAYER))
        };
        let mut found = index.manifests.iter().filter(is_wasm);
        let Some(entry) = found.next() else {
            return Err(not_wasm(what, "an index without a Wasm manifest"));
        };
        if found.next().is_some() {
            let words = format!("{what} is an index with several Wasm manifests; name one by its digest");
            return Err(Error::new(Code::SeveralManifests, words));
        }
        let digest = entry.digest()?;
        let body = self.get_manifest(digest.as_str()).await?.body;
        check("the manifest", &body, &digest, entry.size)?;
        Ok((digest, body))
    }

    async fn artifact(
        &mut self,
        what: &str,
        digest: Digest,
        body: Vec<u8>,
        manifest: Manifest,
    ) -> Result<Artifact> {
        let (wasm, wasm_bytes) = {
            let layer = layer_of(what, &manifest)?;
            (layer.digest()?, layer.size)
        };
        let asks = asks_of(what, &manifest)?;
        let imports = self.imports(what, &manifest.config, &wasm).await?;
        let annotations = manifest.annotations.unwrap_or_default();
        Ok(Artifact { digest, manifest: body, asks, imports, wasm, wasm_bytes, annotations })
    }

    /// Fetches the configuration and returns the imports that it lists.
    async fn imports(
        &mut self,
        what: &str,
        config: &Descriptor,
        wasm: &Digest,
    ) -> Result<Option<Vec<String>>> {
        let digest = config.digest()?;
        if config.media_type == EMPTY {
            check("the configuration", EMPTY_CONTENT, &digest, config.size)?;
            return Ok(None);
        }
        if config.size > MAX_CONFIG_BYTES {
            let words = format!("the configuration of {what} is larger than {MAX_CONFIG_BYTES} bytes");
            return Err(Error::new(Code::TooLarge, words));
        }
        let body = self.blob("the configuration", &digest, config.size).await?;
        let read: WasmConfig = read(&format!("the configuration of {what}"), &body)?;
        if !read.layer_digests.iter().any(|listed| listed == wasm.as_str()) {
            let words = format!("the configuration of {what} does not list its layer");
            return Err(Error::new(Code::UnlistedLayer, words));
        }
        Ok(read.component.map(|component| component.imports))
    }

    /// Fetches content of a known size and digest.
    pub(super) async fn blob(&mut self, what: &str, digest: &Digest, size: u64) -> Result<Vec<u8>> {
        let url = self.url(&format!("blobs/{digest}"))?;
        let reply = self.send(Request::get(url, "*/*", size)).await?;
        if !reply.status.is_success() {
            return Err(self.failure(&reply));
        }
        check(what, &reply.body, digest, size)?;
        Ok(reply.body)
    }
}

/// Compares content with its description.
pub(super) fn check(what: &str, body: &[u8], digest: &Digest, size: u64) -> Result<()> {
    if body.len() as u64 != size {
        let words = format!("{what} has {} bytes, and {size} were declared; try again", body.len());
        return Err(Error::new(Code::SizeMismatch, words));
    }
    let mut hasher = digest.hasher();
    hasher.update(body);
    if digest.is_result(hasher) { Ok(()) } else { Err(mismatch(what, digest)) }
}

fn mismatch(what: &str, digest: &Digest) -> Error {
    let words = format!("{what} does not have the digest {digest}: the registry sent other content");
    Error::new(Code::DigestMismatch, words)
}

fn not_wasm(what: &str, found: &str) -> Error {
    let found = clean(found, 200);
    Error::new(Code::NotWasm, format!("{what} is not a Wasm artifact, but {found}"))
}
