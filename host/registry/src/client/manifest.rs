//! Manifests, indexes and configurations, to send and to read.

use crate::digest::Digest;
use crate::error::{Code, Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
pub(super) const WASM_CONFIG_V1: &str = "application/vnd.wasm.config.v1+json";
pub(super) const WASM_LAYER: &str = "application/wasm";
pub(super) const WASM_LAYER_V1: &str = "application/vnd.wasm.content.layer.v1+wasm";
pub(super) const EMPTY: &str = "application/vnd.oci.empty.v1+json";
pub(super) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The content of an empty configuration.
pub(super) const EMPTY_CONTENT: &[u8] = b"{}";

/// The longest manifest or index, in bytes.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 4 << 20;

/// A descriptor: the media type, digest and size of some content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) urls: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Platform {
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) os: String,
}

impl Descriptor {
    pub(super) fn new(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(content).to_string(),
            size: content.len() as u64,
            artifact_type: None,
            urls: Vec::new(),
            platform: None,
            annotations: None,
        }
    }

    pub(super) fn digest(&self) -> Result<Digest> {
        self.digest.parse()
    }
}

/// An image manifest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) artifact_type: Option<String>,
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) subject: Option<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

/// An image index.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    pub(super) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) media_type: Option<String>,
    pub(super) manifests: Vec<Descriptor>,
}

/// The configuration of a Wasm artifact.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WasmConfig {
    #[serde(default)]
    pub(super) created: String,
    pub(super) architecture: String,
    pub(super) os: String,
    pub(super) layer_digests: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) component: Option<WasmComponent>,
}

/// The imports and exports of a component.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct WasmComponent {
    #[serde(default)]
    pub(super) exports: Vec<String>,
    #[serde(default)]
    pub(super) imports: Vec<String>,
}

/// Parses JSON that a registry sent.
pub(super) fn read<T: DeserializeOwned>(what: &str, body: &[u8]) -> Result<T> {
    let invalid =
        |why: serde_json::Error| Error::new(Code::InvalidJson, format!("{what} cannot be read: {why}"));
    serde_json::from_slice(body).map_err(invalid)
}

/// Returns the media type of a manifest or index, from its body or the response header.
pub(super) fn media_type(what: &str, body: &[u8], header: Option<&str>) -> Result<String> {
    #[derive(Deserialize)]
    struct WithMediaType {
        #[serde(rename = "mediaType")]
        media_type: Option<String>,
    }
    let header = header.map(|value| value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    let is_json = header.as_deref().is_none_or(|value| value.ends_with("json"));
    if !is_json {
        let shown = header.unwrap_or_default();
        return Err(Error::new(Code::NotWasm, format!("{what} is not a Wasm artifact, but {shown}")));
    }
    let WithMediaType { media_type } = read(what, body)?;
    match (media_type, header) {
        (Some(body), Some(header)) if body != header && header != "application/json" => {
            let words = format!("the media type of {what} is {body}, but its header has {header}");
            Err(Error::new(Code::MediaTypeConflict, words))
        }
        (Some(body), _) => Ok(body),
        (None, header) => Ok(header.unwrap_or_default()),
    }
}
