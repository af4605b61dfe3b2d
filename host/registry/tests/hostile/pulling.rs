//! Pulls: content decides, and neither headers, tags nor configurations do.

use crate::artifact::{CONFIG, INDEX, MANIFEST, Parts, WASM, blob_path, descriptor, manifest_path, path};
use crate::server::{Answer, Server};
use crate::{client, pull, pull_with, set_index};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use tollgate_registry::{Code, Digest, FetchOptions, Interfaces, Settings, Source, TrustedRoot, fetch};

#[tokio::test]
async fn a_digest_in_a_header_is_not_believed() {
    let mut parts = Parts::new();
    let content = parts.manifest_bytes();
    let answer = Answer::ok(MANIFEST, content.clone())
        .with("docker-content-digest", &format!("sha256:{}", "0".repeat(64)));
    parts.answers.insert(manifest_path(), answer);
    let server = Server::with(parts.publish()).await;
    assert_eq!(pull(&server).await.unwrap().artifact.digest, Digest::of(&content));
}

#[tokio::test]
async fn a_pinned_digest_decides_and_the_tag_does_not() {
    let mut parts = Parts::new();
    let digest = Digest::of(&parts.manifest_bytes());
    parts.answers.insert(manifest_path(), Answer::ok(MANIFEST, "{}"));
    let answers = parts.publish();
    let server = Server::with(answers.clone()).await;
    let reference = format!("{}/acme/weather:1@{digest}", server.host);
    assert_eq!(pull_with(Settings::default(), &reference).await.unwrap().wasm, WASM);
    let other = path(&format!("manifests/{digest}"));
    let answers =
        answers.into_iter().chain([(other, Answer::ok(MANIFEST, Parts::new().manifest.to_string()))]);
    let server = Server::with(answers.collect()).await;
    let reference = format!("{}/acme/weather@{digest}", server.host);
    assert_eq!(pull_with(Settings::default(), &reference).await.unwrap_err().code, Code::DigestMismatch);
}

#[tokio::test]
async fn a_component_comes_from_a_redirect() {
    let elsewhere =
        Server::with(BTreeMap::from([("/there".to_owned(), Answer::ok("application/wasm", WASM))])).await;
    let mut parts = Parts::new();
    parts.answers.insert(blob_path(WASM), Answer::redirect(&format!("http://{}/there", elsewhere.host)));
    let server = Server::with(parts.publish()).await;
    assert_eq!(pull(&server).await.unwrap().wasm, WASM);
}

#[tokio::test]
async fn a_tag_that_moves_during_a_pull_changes_nothing() {
    let mut parts = Parts::new();
    let digest = Digest::of(&parts.manifest_bytes());
    let answers = parts.publish();
    let mut other = Parts::new();
    other.manifest["annotations"] =
        json!({ "dev.tollgate.asks": "[asks]\nhttp = [\"https://evil.test/\"]\n" });
    let other = other.publish();
    let count = AtomicU32::new(0);
    let server = Server::start(move |seen| {
        let is_tag = seen.path == manifest_path();
        // The tag leads elsewhere from the second request on.
        let is_moved = is_tag && count.fetch_add(1, Ordering::Relaxed) > 0;
        let answers = if is_moved { &other } else { &answers };
        answers.get(&seen.path).cloned().unwrap_or_else(|| Answer::status(404))
    })
    .await;
    let pulled = pull(&server).await.unwrap();
    assert_eq!((&pulled.artifact.digest, pulled.artifact.asks.as_deref()), (&digest, Some("[asks]\n")));
    assert_eq!(server.seen().iter().filter(|seen| seen.path == manifest_path()).count(), 1);
}

#[tokio::test]
async fn an_index_with_one_component_is_that_component() {
    let mut parts = Parts::new();
    let manifest = parts.manifest_bytes();
    let mut entry = descriptor(MANIFEST, &manifest);
    entry["platform"] = json!({ "architecture": "wasm", "os": "wasip2" });
    set_index(&mut parts, vec![descriptor(MANIFEST, b"an image"), entry]);
    let server = Server::with(parts.publish()).await;
    let pulled = pull(&server).await.unwrap();
    assert_eq!((pulled.artifact.digest, pulled.wasm.as_slice()), (Digest::of(&manifest), WASM));
}

#[tokio::test]
async fn content_may_be_named_by_its_sha512() {
    let hash = ring::digest::digest(&ring::digest::SHA512, WASM);
    let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    for content in [WASM.to_vec(), vec![b'x'; WASM.len()]] {
        let mut parts = Parts::new();
        let digest = format!("sha512:{hex}");
        parts.manifest["layers"][0]["digest"] = json!(digest);
        parts.config["layerDigests"] = json!([digest]);
        let is_right = content == WASM;
        parts.answers.insert(path(&format!("blobs/{digest}")), Answer::ok("application/wasm", content));
        let server = Server::with(parts.publish()).await;
        match pull(&server).await {
            Ok(pulled) => assert!(is_right && pulled.wasm == WASM),
            Err(error) => assert!(!is_right && error.code == Code::DigestMismatch, "{error}"),
        }
    }
}

#[tokio::test]
async fn the_formats_of_other_publishers_are_read() {
    let empty = ("application/vnd.oci.empty.v1+json", "application/wasm");
    let other = ("application/vnd.wasm.config.v1+json", "application/vnd.wasm.content.layer.v1+wasm");
    for (config, layer) in [empty, other] {
        let mut parts = Parts::new();
        let content = if config == empty.0 { "{}".to_owned() } else { parts.config.to_string() };
        parts.manifest["config"] = descriptor(config, content.as_bytes());
        parts.manifest["layers"][0]["mediaType"] = json!(layer);
        let server = Server::with(parts.publish()).await;
        let pulled = pull(&server).await.unwrap();
        assert_eq!(pulled.wasm, WASM, "{config}");
        assert_eq!(pulled.artifact.imports.is_none(), config == empty.0);
    }
    // The types of one layout belong together.
    for (config, layer) in [(empty.0, other.1), (other.0, empty.1), (CONFIG, other.1)] {
        let mut parts = Parts::new();
        parts.manifest["config"] = descriptor(config, b"{}");
        parts.manifest["layers"][0]["mediaType"] = json!(layer);
        let server = Server::with(parts.publish()).await;
        assert_eq!(pull(&server).await.unwrap_err().code, Code::NotWasm, "{config} {layer}");
    }
}

#[tokio::test]
async fn a_component_with_other_imports_than_the_configuration_lists_is_refused() {
    // A component without imports and exports.
    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
    for (imports, code) in [(json!([]), None), (json!(["wasi:sockets/tcp"]), Some(Code::ImportsMismatch))] {
        let mut parts = Parts::new();
        let layer = descriptor("application/wasm", COMPONENT);
        parts.config["layerDigests"] = json!([layer["digest"]]);
        parts.config["component"]["imports"] = imports;
        parts.manifest["layers"] = json!([layer]);
        parts.answers.insert(blob_path(COMPONENT), Answer::ok("application/wasm", COMPONENT));
        let server = Server::with(parts.publish()).await;
        let source: Source = format!("{}/acme/weather:1", server.host).parse().unwrap();
        let root = TrustedRoot::embedded().unwrap();
        let fetched = fetch(&client(Settings::default()), &source, FetchOptions::default(), &root).await;
        assert_eq!(fetched.err().map(|error| error.code), code);
    }
}

#[tokio::test]
async fn signatures_of_both_lists_count_once_each() {
    let mut parts = Parts::new();
    let digest = Digest::of(&parts.manifest_bytes());
    let (list, tag) = (path(&format!("referrers/{digest}")), digest.as_str().replace(':', "-"));
    parts.refer(b"{\"a\":\"signature\"}", None);
    let first = parts.answers.remove(&list).unwrap();
    parts.refer(b"{\"another\":\"signature\"}", None);
    let second = parts.answers.remove(&list).unwrap();
    let of = |first: &Answer, second: &Answer| {
        let mut answers = parts.answers.clone();
        answers.insert(list.clone(), first.clone());
        answers.insert(path(&format!("manifests/{tag}")), second.clone());
        answers
    };
    for (listed, under_tag, found) in [(&first, &second, 2), (&first, &first, 1)] {
        let mut other = Parts::new();
        other.answers = of(listed, under_tag);
        let server = Server::with(other.publish()).await;
        assert_eq!(pull(&server).await.unwrap().referrers.bundles.len(), found);
    }
}

#[tokio::test]
async fn a_referrer_in_the_format_of_cosign_2_is_named() {
    let mut parts = Parts::new();
    let digest = Digest::of(&parts.manifest_bytes());
    let mut old = descriptor(MANIFEST, b"a signature of cosign 2");
    old["artifactType"] = json!("application/vnd.dev.cosign.artifact.sig.v1+json");
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [old] }).to_string();
    parts.answers.insert(path(&format!("referrers/{digest}")), Answer::ok(INDEX, index));
    let server = Server::with(parts.publish()).await;
    assert_eq!(pull(&server).await.unwrap().referrers.faults[0].code, Code::OldSignature);
}

#[tokio::test]
async fn a_configuration_may_list_no_imports_and_never_wrong_ones() {
    let clock = "wasi:clocks/wall-clock@0.2.3".to_owned();
    let found = Interfaces { imports: vec![clock.clone()], exports: Vec::new() };
    for (listed, is_right) in [
        (json!({ "imports": [clock], "exports": [] }), true),
        (json!({ "imports": [], "exports": [] }), false),
    ] {
        let mut parts = Parts::new();
        parts.config["component"] = listed;
        let server = Server::with(parts.publish()).await;
        let checked = pull(&server).await.unwrap().artifact.check_imports(&found);
        match checked {
            Ok(()) => assert!(is_right),
            Err(error) => {
                assert!(!is_right && error.code == Code::ImportsMismatch);
                assert!(error.to_string().contains(&format!("not listed: {clock}")), "{error}");
            }
        }
    }
    let mut parts = Parts::new();
    parts.config["component"] = json!(null);
    parts.manifest["config"] = descriptor(CONFIG, parts.config.to_string().as_bytes());
    let server = Server::with(parts.publish()).await;
    assert!(pull(&server).await.unwrap().artifact.check_imports(&found).is_ok());
}
