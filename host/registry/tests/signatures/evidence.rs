//! The evidence of logs, certificates and timestamps: what is required, what is wrong with it, and what
//! verifying it costs.

use crate::{PACKAGE, PERSON, STAGING_ROOT, WORKFLOW, changed, root, staging_root, verify_with};
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tollgate_registry::{Code, Evidence, PublicKey, RawTrust, Trust, TrustedRoot, Verdict};

const LOGGED: &str = include_str!("../fixtures/logged-key.sigstore.json");
const LOGGED_OTHER: &str = include_str!("../fixtures/logged-key-other.sigstore.json");
const LOGGED_KEY: &str = include_str!("../fixtures/logged-key.pub");
const LOGGED_ROOT: &str = include_str!("../fixtures/logged-key-root.json");
const MATERIAL: &str = "verificationMaterial";

fn entries_of(bundle: &str) -> Value {
    serde_json::from_str::<Value>(bundle).unwrap()[MATERIAL]["tlogEntries"].clone()
}

#[test]
fn a_rule_may_require_that_a_log_has_the_signature_of_a_key() {
    let keys = [PublicKey::from_pem(LOGGED_KEY).unwrap()];
    let log = TrustedRoot::from_json(LOGGED_ROOT).unwrap();
    let logged = verify_with(LOGGED, PACKAGE, &keys, &log).unwrap();
    assert!(logged.is_logged);
    let unlogged = changed(LOGGED, |b| b[MATERIAL]["tlogEntries"] = json!([]));
    let unlogged = verify_with(&unlogged, PACKAGE, &keys, &log).unwrap();
    assert!(!unlogged.is_logged);

    let raw = |log: bool| -> RawTrust {
        let rule = "[[signers]]\nfrom = [\"file:package.wasm\"]\nkey = \"logged-key.pub\"\n";
        toml::from_str(&format!("{rule}log = {log}")).unwrap()
    };
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let judge = |log, proof| {
        let evidence = Evidence { proofs: vec![proof], faults: Vec::new() };
        Trust::new(&raw(log), &fixtures).unwrap().judge("file:package.wasm", &evidence, None, None)
    };
    assert!(matches!(judge(true, logged), Ok(Verdict::Accepted { vouched: true, .. })));
    assert!(matches!(judge(false, unlogged.clone()), Ok(Verdict::Accepted { vouched: true, .. })));
    let error = judge(true, unlogged).unwrap_err();
    assert_eq!(error.code, Code::UnexpectedSigner);
    assert!(error.to_string().contains("with an entry of the transparency log"), "{error}");

    // An entry about another artifact is refused, and so is an entry of another log.
    let other = changed(LOGGED, |b| b[MATERIAL]["tlogEntries"] = entries_of(LOGGED_OTHER));
    let error = verify_with(&other, PACKAGE, &keys, &log).unwrap_err();
    assert_eq!(error.code, Code::InvalidLogEntry, "{error}");
    let error = verify_with(LOGGED, PACKAGE, &keys, &root()).unwrap_err();
    assert_eq!(error.code, Code::InvalidLogEntry, "{error}");
}

#[test]
fn each_kind_of_wrong_evidence_has_its_code() {
    let expired = changed(STAGING_ROOT, |root| {
        for authority in root["certificateAuthorities"].as_array_mut().unwrap() {
            authority["validFor"] = json!({ "start": "2022-04-14T21:38:40Z", "end": "2023-01-01T00:00:00Z" });
        }
    });
    let expired = TrustedRoot::from_json(&expired).unwrap();
    let without_time = changed(PERSON, |b| b[MATERIAL]["timestampVerificationData"] = json!({}));
    let without_log = changed(PERSON, |b| b[MATERIAL]["tlogEntries"] = json!([]));
    let earlier =
        changed(WORKFLOW, |b| b[MATERIAL]["tlogEntries"][0]["integratedTime"] = json!("1756728838"));
    let certificate = serde_json::from_str::<Value>(PERSON).unwrap()[MATERIAL]["certificate"].clone();
    let certificate = changed(WORKFLOW, |b| b[MATERIAL]["certificate"] = certificate.clone());
    for (what, bundle, root, code) in [
        ("an authority that was no longer valid", PERSON, &expired, Code::InvalidCertificate),
        ("a certificate of another authority", &certificate, &root(), Code::InvalidCertificate),
        ("no proof of the time", &without_time, &staging_root(), Code::InvalidTimestamp),
        ("no entry of the log", &without_log, &staging_root(), Code::InvalidLogEntry),
        ("another time than the log promised", &earlier, &root(), Code::InvalidLogEntry),
    ] {
        let error = verify_with(bundle, PACKAGE, &[], root).expect_err(what);
        assert_eq!(error.code, code, "{what}: {error}");
    }
}

/// A signature by a key of its own, and how to check it.
fn check_of(
    signing: &'static signature::EcdsaSigningAlgorithm,
    checking: &'static dyn signature::VerificationAlgorithm,
) -> impl Fn() + use<> {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(signing, pkcs8.as_ref(), &random).unwrap();
    let message = vec![0x55; 1_000];
    let signed = pair.sign(&random, &message).unwrap();
    let public = UnparsedPublicKey::new(checking, pair.public_key().as_ref().to_vec());
    move || public.verify(&message, signed.as_ref()).unwrap()
}

#[test]
#[ignore = "measures time"]
fn verifying_a_certificate_costs_hardly_more_than_its_signature_checks() {
    let p256 = check_of(&signature::ECDSA_P256_SHA256_ASN1_SIGNING, &signature::ECDSA_P256_SHA256_ASN1);
    let p384 = check_of(&signature::ECDSA_P384_SHA384_ASN1_SIGNING, &signature::ECDSA_P384_SHA384_ASN1);
    let root = root();
    let whole = || drop(verify_with(WORKFLOW, PACKAGE, &[], &root).unwrap());
    // The envelope, the certificate's own log, the log's promise and its checkpoint; and two certificates.
    let checks = || {
        (0..4).for_each(|_| p256());
        (0..2).for_each(|_| p384());
    };
    let took = |work: &dyn Fn()| {
        let begun = Instant::now();
        (0..20).for_each(|_| work());
        begun.elapsed()
    };
    // The least disturbed of several runs that take turns.
    let (mut with, mut alone) = (Duration::MAX, Duration::MAX);
    for _ in 0..15 {
        with = with.min(took(&whole));
        alone = alone.min(took(&checks));
    }
    let ratio = with.as_secs_f64() / alone.as_secs_f64();
    println!(
        "verifying a certificate's signature: {with:?} for 20, its signature checks alone {alone:?}: {ratio:.2}"
    );
    assert!(ratio < 1.2, "{ratio}");
}
