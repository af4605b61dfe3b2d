//! An artifact as a well-behaved registry serves it. Each test breaks a part of it.

use crate::server::Answer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tollgate_registry::Digest;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.wasm.config.v0+json";
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
pub(crate) const WASM: &[u8] = b"the bytes of a component";

/// The parts of an artifact, which a test changes before it publishes them.
pub(crate) struct Parts {
    pub(crate) config: Value,
    pub(crate) manifest: Value,
    pub(crate) manifest_type: String,
    /// Answers that replace the correct ones or add to them.
    pub(crate) answers: BTreeMap<String, Answer>,
}

pub(crate) fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": Digest::of(content).to_string(), "size": content.len() })
}

pub(crate) fn path(rest: &str) -> String {
    format!("/v2/acme/weather/{rest}")
}

pub(crate) fn manifest_path() -> String {
    path("manifests/1")
}

pub(crate) fn blob_path(content: &[u8]) -> String {
    path(&format!("blobs/{}", Digest::of(content)))
}

impl Parts {
    pub(crate) fn new() -> Self {
        let layer = descriptor("application/wasm", WASM);
        let config = json!({
            "created": "1970-01-01T00:00:00Z", "architecture": "wasm", "os": "wasip2",
            "layerDigests": [layer["digest"]], "component": { "exports": [], "imports": [] },
        });
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "layers": [layer],
            "annotations": { "dev.tollgate.asks": "[asks]\n", "org.opencontainers.image.licenses": "MIT" },
        });
        Self { config, manifest, manifest_type: MANIFEST.to_owned(), answers: BTreeMap::new() }
    }

    /// Sets the configuration in the manifest, unless the test has set it.
    pub(crate) fn manifest_bytes(&mut self) -> Vec<u8> {
        let config = self.config.to_string();
        if self.manifest.get("config").is_none() {
            self.manifest["config"] = descriptor(CONFIG, config.as_bytes());
        }
        self.manifest.to_string().into_bytes()
    }

    /// Returns all answers of the registry.
    pub(crate) fn publish(mut self) -> BTreeMap<String, Answer> {
        let config = self.config.to_string().into_bytes();
        let manifest = self.manifest_bytes();
        let by_digest = path(&format!("manifests/{}", Digest::of(&manifest)));
        let octets = "application/octet-stream";
        let mut answers = BTreeMap::from([
            (manifest_path(), Answer::ok(&self.manifest_type, manifest.clone())),
            (by_digest, Answer::ok(&self.manifest_type, manifest)),
            (blob_path(&config), Answer::ok(octets, config)),
            (blob_path(WASM), Answer::ok(octets, WASM)),
        ]);
        answers.extend(self.answers);
        answers
    }

    /// Adds a signature to the list that the registry serves, with this bundle and subject.
    pub(crate) fn refer(&mut self, bundle: &[u8], subject: Option<Value>) {
        let manifest = self.manifest_bytes();
        let digest = Digest::of(&manifest);
        let referrer = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE,
            "config": descriptor("application/vnd.oci.empty.v1+json", b"{}"),
            "layers": [descriptor(BUNDLE, bundle)],
            "subject": subject.unwrap_or_else(|| descriptor(MANIFEST, &manifest)),
        })
        .to_string();
        let mut listed = descriptor(MANIFEST, referrer.as_bytes());
        listed["artifactType"] = json!(BUNDLE);
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [listed] }).to_string();
        self.answers.insert(path(&format!("referrers/{digest}")), Answer::ok(INDEX, index));
        let by_digest = path(&format!("manifests/{}", Digest::of(referrer.as_bytes())));
        self.answers.insert(by_digest, Answer::ok(MANIFEST, referrer));
        self.answers.insert(blob_path(bundle), Answer::ok("application/octet-stream", bundle));
    }
}
