//! The formats of other signers, in files that they made: signatures of bytes by cosign 3, provenance of npm,
//! attestations of GitHub, and the statement of `cosign sign`.

use crate::{changed, root};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tollgate_registry::{
    Code, Coverage, Digest, Error, Proof, PublicKey, SignerEvidence, Subjects, TrustedRoot, verify,
};

const COSIGN: &str = include_str!("../fixtures/cosign-blob.sigstore.json");
const COSIGN_BYTES: &[u8] = include_bytes!("../fixtures/cosign-blob.txt");
const BY_KEY: &str = include_str!("../fixtures/key-blob.sigstore.json");
const BY_KEY_BYTES: &[u8] = include_bytes!("../fixtures/key-blob.txt");
const BY_KEY_KEY: &str = include_str!("../fixtures/key-blob.pub");
const NPM: &str = include_str!("../fixtures/npm-provenance.sigstore.json");
const PRIVATE: &str = include_str!("../fixtures/github-private.sigstore.json");
const MATERIAL: &str = "verificationMaterial";

/// Verifies a bundle about the manifest of an artifact.
fn of_manifest(
    bundle: &str,
    manifest: &[u8],
    keys: &[PublicKey],
    root: &TrustedRoot,
) -> Result<Proof, Error> {
    let component = Digest::of(b"a component");
    verify(bundle.as_bytes(), Subjects { manifest: Some(manifest), component: &component }, keys, root)
}

fn of_component(bundle: &str, component: &Digest, keys: &[PublicKey]) -> Result<Proof, Error> {
    verify(bundle.as_bytes(), Subjects { manifest: None, component }, keys, &root())
}

fn with_signature(bundle: &str, signature: &str) -> String {
    changed(bundle, |bundle| bundle["messageSignature"]["signature"] = json!(signature))
}

#[test]
fn a_signature_of_bytes_by_a_certificate_counts_for_the_manifest() {
    let proof = of_manifest(COSIGN, COSIGN_BYTES, &[], &root()).unwrap();
    assert_eq!((proof.covers, proof.is_logged), (Coverage::Manifest, true));
    let SignerEvidence::Identity { issuer, .. } = &proof.signed else { panic!("{:?}", proof.signed) };
    assert_eq!(issuer, "https://github.com/login/oauth");

    let other = serde_json::from_str::<Value>(BY_KEY).unwrap();
    let other_signature = other["messageSignature"]["signature"].as_str().unwrap();
    let without_log = changed(COSIGN, |bundle| bundle[MATERIAL]["tlogEntries"] = json!([]));
    let other_log =
        changed(COSIGN, |bundle| bundle[MATERIAL]["tlogEntries"] = other[MATERIAL]["tlogEntries"].clone());
    for (what, bundle, manifest, codes) in [
        (
            "another manifest",
            COSIGN,
            &b"another manifest"[..],
            &[Code::OtherSubject, Code::InvalidSignature][..],
        ),
        (
            "another signature",
            &with_signature(COSIGN, other_signature),
            COSIGN_BYTES,
            &[Code::InvalidTimestamp, Code::InvalidSignature],
        ),
        ("no entry of the log", &without_log, COSIGN_BYTES, &[Code::InvalidLogEntry]),
        // Its time is later than the certificate allows.
        ("another entry of the log", &other_log, COSIGN_BYTES, &[Code::InvalidCertificate]),
    ] {
        let error = of_manifest(bundle, manifest, &[], &root()).expect_err(what);
        assert!(codes.contains(&error.code), "{what}: {:?} {error}", error.code);
    }
    // A component without a manifest has no bytes that such a signature could be about.
    let error = of_component(COSIGN, &Digest::of(COSIGN_BYTES), &[]).unwrap_err();
    assert_eq!(error.code, Code::UnsupportedBundle, "{error}");
    assert!(error.to_string().contains("counts only for the manifest"), "{error}");
}

#[test]
fn a_signature_of_bytes_by_a_key_counts_with_its_entry_of_the_log() {
    let keys = [PublicKey::from_pem(BY_KEY_KEY).unwrap()];
    let proof = of_manifest(BY_KEY, BY_KEY_BYTES, &keys, &root()).unwrap();
    assert!(matches!(proof.signed, SignerEvidence::Key { .. }) && proof.is_logged, "{proof:?}");
    let unlogged = changed(BY_KEY, |bundle| bundle[MATERIAL]["tlogEntries"] = json!([]));
    assert!(!of_manifest(&unlogged, BY_KEY_BYTES, &keys, &root()).unwrap().is_logged);
    let entries = serde_json::from_str::<Value>(COSIGN).unwrap()[MATERIAL]["tlogEntries"].clone();
    let other = changed(BY_KEY, |bundle| bundle[MATERIAL]["tlogEntries"] = entries.clone());
    assert!(of_manifest(&other, BY_KEY_BYTES, &keys, &root()).is_err(), "an entry about something else");
    let error = of_manifest(BY_KEY, b"another manifest", &keys, &root()).unwrap_err();
    assert!(matches!(error.code, Code::UnknownKey | Code::InvalidSignature), "{error}");
}

#[test]
fn provenance_of_npm_is_verified_and_is_about_its_own_package() {
    let package = "46d4e2f74c4877316640000a6fdf8a8b59f1e0847667973e9859f774dd31b8f1e0937813b777fb66a2ac67d50540fe34640966eee9fc2ccca387082b4c85cd3c";
    let package: Digest = format!("sha512:{package}").parse().unwrap();
    let proof = of_component(NPM, &package, &[]).unwrap();
    let SignerEvidence::Github { repository, workflow, .. } = &proof.signed else {
        panic!("{:?}", proof.signed)
    };
    assert_eq!(
        (repository.as_str(), workflow.as_str()),
        ("sigstore/sigstore-js", ".github/workflows/release.yml")
    );
    let error = of_component(NPM, &Digest::of(b"a component"), &[]).unwrap_err();
    assert_eq!(error.code, Code::OtherSubject, "{error}");
}

#[test]
fn an_attestation_of_a_private_repository_is_refused_by_name() {
    let archive = "76f1fe8593bf227cca2c089e3c16dc95014a8d3e89c5dd220530469ca043c428";
    let error = of_component(PRIVATE, &Digest::from_sha256_hex(archive).unwrap(), &[]).unwrap_err();
    assert_eq!(error.code, Code::InvalidLogEntry, "{error}");
    assert!(error.to_string().contains("private repositories"), "{error}");
}

/// A key, and the text of its public part.
fn key() -> (Ed25519KeyPair, String) {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
    let head: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
    let public = encoded(&[&head[..], pair.public_key().as_ref()].concat());
    (pair, format!("-----BEGIN PUBLIC KEY-----\n{public}\n-----END PUBLIC KEY-----\n"))
}

fn encoded(bytes: &[u8]) -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes)
}

/// A bundle with a signature of a statement of this type about a manifest, and the key that made it.
fn signed_statement(kind: &str, manifest: &[u8]) -> (String, PublicKey) {
    let (pair, public) = key();
    // As `cosign sign` writes it: the subject has no name.
    let statement = json!({
        "_type": kind,
        "subject": [{"digest": {"sha256": Digest::of(manifest).hex()}, "annotations": {}}],
        "predicateType": "https://sigstore.dev/cosign/sign/v1",
        "predicate": {},
    });
    let payload = statement.to_string();
    let kind = "application/vnd.in-toto+json";
    let signed = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
    let bundle = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        MATERIAL: {"publicKey": {"hint": ""}, "tlogEntries": [], "timestampVerificationData": null},
        "dsseEnvelope": {
            "payload": encoded(payload.as_bytes()),
            "payloadType": kind,
            "signatures": [{"sig": encoded(pair.sign(signed.as_bytes()).as_ref()), "keyid": ""}],
        },
    });
    (bundle.to_string(), PublicKey::from_pem(&public).unwrap())
}

#[test]
fn the_statement_of_cosign_3_counts_in_both_versions_of_its_format() {
    let manifest = b"{\"schemaVersion\":2}";
    for kind in ["https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"] {
        let (bundle, key) = signed_statement(kind, manifest);
        let proof = of_manifest(&bundle, manifest, &[key], &root()).unwrap();
        assert_eq!((proof.covers, proof.is_logged), (Coverage::Manifest, false));
    }
    let (bundle, key) = signed_statement("https://in-toto.io/Statement/v9", manifest);
    assert_eq!(of_manifest(&bundle, manifest, &[key], &root()).unwrap_err().code, Code::InvalidBundle);
}
