//! Signatures: real bundles, tampered bundles, keys of each kind, and the policy.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod evidence;
mod formats;
mod policy;

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tollgate_registry::{
    Code, Coverage, Digest, Error, Proof, PublicKey, SignerEvidence, SigningKey, Subjects, TrustedRoot,
    verify,
};

const WORKFLOW: &str = include_str!("../fixtures/github-workflow.sigstore.json");
const PERSON: &str = include_str!("../fixtures/person-rekor2.sigstore.json");
const PACKAGE: &[u8] = include_bytes!("../fixtures/signed-package.conda");
const STAGING_ROOT: &str = include_str!("../fixtures/staging-root.json");
const OTHER_ROOT: &str = include_str!("../fixtures/other-root.json");

fn root() -> TrustedRoot {
    TrustedRoot::embedded().unwrap()
}

/// The root of the Sigstore instance that logged the person's signature.
fn staging_root() -> TrustedRoot {
    TrustedRoot::from_json(STAGING_ROOT).unwrap()
}

/// Verifies a bundle about a component that does not come from a registry.
fn verify_about(bundle: &str, component: &[u8], keys: &[PublicKey]) -> Result<Proof, Error> {
    verify_with(bundle, component, keys, &root())
}

fn verify_with(
    bundle: &str,
    component: &[u8],
    keys: &[PublicKey],
    root: &TrustedRoot,
) -> Result<Proof, Error> {
    let component = Digest::of(component);
    verify(bundle.as_bytes(), Subjects { manifest: None, component: &component }, keys, root)
}

fn changed(bundle: &str, change: impl Fn(&mut Value)) -> String {
    let mut value = serde_json::from_str(bundle).unwrap();
    change(&mut value);
    value.to_string()
}

#[test]
fn a_workflow_of_github_is_recognised() {
    let proof = verify_about(WORKFLOW, PACKAGE, &[]).unwrap();
    assert_eq!(proof.covers, Coverage::Component);
    let SignerEvidence::Github { repository, repository_id, workflow, git_ref, commit, at, bundle } =
        &proof.signed
    else {
        panic!("{:?}", proof.signed)
    };
    assert_eq!(repository, "prefix-dev/sigstore-example");
    assert_eq!(repository_id, "1048392115");
    assert_eq!(workflow, ".github/workflows/action.yaml");
    assert_eq!(git_ref, "refs/heads/main");
    assert_eq!(commit, "193b5bd7d3985809503963ae400594ea16df31cf");
    assert!(at.starts_with("2025-"), "{at}");
    assert_eq!(bundle, &Digest::of(WORKFLOW.as_bytes()));
    let words =
        "repository prefix-dev/sigstore-example, workflow action.yaml, branch main, commit 193b5bd7d398";
    assert_eq!(proof.signed.to_string(), words);
}

#[test]
fn a_person_is_recognised_with_a_timestamp_of_the_second_log() {
    let proof = verify_with(PERSON, PACKAGE, &[], &staging_root()).unwrap();
    let SignerEvidence::Identity { identity, issuer, .. } = &proof.signed else {
        panic!("{:?}", proof.signed)
    };
    assert_eq!((identity.as_str(), issuer.as_str()), ("jku@goto.fi", "https://github.com/login/oauth"));
}

#[test]
fn a_bundle_that_was_changed_does_not_count() {
    let payload = |about: &[u8]| {
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1", "predicateType": "x", "predicate": {},
            "subject": [{ "name": "x", "digest": { "sha256": Digest::of(about).hex() } }],
        });
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, statement.to_string())
    };
    let other: Value = serde_json::from_str(PERSON).unwrap();
    let log_of_other = other["verificationMaterial"]["tlogEntries"].clone();
    let certificate_of_other = other["verificationMaterial"]["certificate"].clone();
    let material = "verificationMaterial";
    for (bundle, root) in [(WORKFLOW, root()), (PERSON, staging_root())] {
        assert!(verify_with(bundle, PACKAGE, &[], &root).is_ok());
        let log = if bundle == PERSON {
            serde_json::from_str::<Value>(WORKFLOW).unwrap()[material]["tlogEntries"].clone()
        } else {
            log_of_other.clone()
        };
        let certificate = if bundle == PERSON {
            serde_json::from_str::<Value>(WORKFLOW).unwrap()[material]["certificate"].clone()
        } else {
            certificate_of_other.clone()
        };
        for (what, changed) in [
            ("another payload", changed(bundle, |b| b["dsseEnvelope"]["payload"] = json!(payload(PACKAGE)))),
            (
                "another payload about this",
                changed(bundle, |b| b["dsseEnvelope"]["payload"] = json!(payload(b"x"))),
            ),
            ("another log entry", changed(bundle, |b| b[material]["tlogEntries"] = log.clone())),
            ("another certificate", changed(bundle, |b| b[material]["certificate"] = certificate.clone())),
            ("no log entry", changed(bundle, |b| b[material]["tlogEntries"] = json!([]))),
            (
                "another signature",
                changed(bundle, |b| {
                    b["dsseEnvelope"]["signatures"][0]["sig"] =
                        json!("MEUCIQDpN8d6dDI3ATwqbFc0tTx1q1h0oaqMf0wTLkFmUQIgfw==");
                }),
            ),
            (
                "an older log entry",
                changed(bundle, |b| {
                    b[material]["tlogEntries"][0]["integratedTime"] = json!("1500000000");
                }),
            ),
        ] {
            // The timestamp authority vouches for the time of the second log.
            if what == "an older log entry" && bundle == PERSON {
                continue;
            }
            let about: &[u8] = if what == "another payload about this" { b"x" } else { PACKAGE };
            let error = verify_with(&changed, about, &[], &root).expect_err(what);
            assert_ne!(error.code, Code::UnknownKey, "{what}");
        }
        assert_eq!(
            verify_with(bundle, b"another component", &[], &root).unwrap_err().code,
            Code::OtherSubject
        );
    }
}

#[test]
fn another_root_does_not_vouch() {
    let root = TrustedRoot::from_json(OTHER_ROOT).unwrap();
    let component = Digest::of(PACKAGE);
    for bundle in [WORKFLOW, PERSON] {
        let subjects = Subjects { manifest: None, component: &component };
        assert!(verify(bundle.as_bytes(), subjects, &[], &root).is_err());
    }
    assert_eq!(TrustedRoot::from_json("{}").unwrap_err().code, Code::InvalidTrust);
}

#[test]
fn a_root_without_newer_keys_is_old_after_a_year() {
    let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    let other = TrustedRoot::from_json(&OTHER_ROOT.replace("\"start\"", "\"none\""))
        .map(|root| root.is_old(at("2100-01-01T00:00:00Z")));
    assert_ne!(other.ok(), Some(true), "a root without dates is not judged");
    for root in [root(), staging_root()] {
        assert!(!root.is_old(at("2022-01-01T00:00:00Z")) && root.is_old(at("2100-01-01T00:00:00Z")));
    }
}

#[test]
fn what_is_no_bundle_is_refused() {
    let large = " ".repeat(2 << 20);
    for (text, code) in [
        ("", Code::InvalidBundle),
        ("{}", Code::InvalidBundle),
        ("<html>", Code::InvalidBundle),
        (&large, Code::InvalidBundle),
        (&changed(WORKFLOW, |b| b["mediaType"] = json!("application/json")), Code::UnsupportedBundle),
        (
            &changed(WORKFLOW, |b| b["dsseEnvelope"]["payloadType"] = json!("text/plain")),
            Code::UnsupportedBundle,
        ),
        (&changed(WORKFLOW, |b| b["dsseEnvelope"]["signatures"] = json!([])), Code::InvalidBundle),
        (
            &changed(WORKFLOW, |b| b["verificationMaterial"]["publicKey"] = json!({ "hint": "x" })),
            Code::InvalidBundle,
        ),
    ] {
        assert_eq!(
            verify_about(text, PACKAGE, &[]).unwrap_err().code,
            code,
            "{}",
            &text[..text.len().min(60)]
        );
    }
}

/// Runs openssl, an independent implementation. Returns `None` if it is not installed; CI has it.
fn openssl(arguments: &[&str]) -> Option<()> {
    match Command::new("openssl").args(arguments).output() {
        Ok(output) => {
            assert!(
                output.status.success(),
                "openssl {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            Some(())
        }
        Err(_) if std::env::var_os("CI").is_none() => {
            eprintln!("NOT TESTED: openssl is not installed; apt-get install openssl");
            None
        }
        Err(e) => panic!("openssl cannot be run: {e}; apt-get install openssl"),
    }
}

/// The supported kinds of keys, made by openssl, and the digest it uses.
const KINDS: [(&str, &[&str], &str); 4] = [
    ("p256", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], "-sha256"),
    ("p384", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"], "-sha384"),
    ("ed25519", &["-algorithm", "ED25519"], ""),
    ("rsa", &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], "-sha256"),
];

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

#[test]
fn keys_of_each_kind_sign_and_verify_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    for (name, kind, hash) in KINDS {
        let at = |end: &str| path(folder.path(), &format!("{name}.{end}"));
        let Some(()) = openssl(&[&["genpkey"], kind, &["-out", &at("key")]].concat()) else { return };
        openssl(&["pkey", "-in", &at("key"), "-pubout", "-out", &at("pub")]);
        let key = SigningKey::from_pem(&std::fs::read_to_string(at("key")).unwrap()).unwrap();
        let public = PublicKey::from_pem(&std::fs::read_to_string(at("pub")).unwrap()).unwrap();
        assert_eq!(key.public(), &public, "{name}");
        assert_eq!(PublicKey::from_pem(&public.to_pem()).unwrap(), public);

        let bundle = String::from_utf8(key.sign("weather", &Digest::of(PACKAGE)).unwrap()).unwrap();
        let proof = verify_about(&bundle, PACKAGE, std::slice::from_ref(&public)).unwrap();
        let SignerEvidence::Key { key: id, .. } = &proof.signed else { panic!("{:?}", proof.signed) };
        assert_eq!(id, public.id());
        assert!(!proof.is_logged);

        // openssl verifies signatures made by this crate, and vice versa.
        let value: Value = serde_json::from_str(&bundle).unwrap();
        let decode = |text: &Value| {
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text.as_str().unwrap())
                .unwrap()
        };
        let payload = decode(&value["dsseEnvelope"]["payload"]);
        let head = format!("DSSEv1 28 application/vnd.in-toto+json {} ", payload.len());
        std::fs::write(at("bytes"), [head.as_bytes(), &payload].concat()).unwrap();
        std::fs::write(at("sig"), decode(&value["dsseEnvelope"]["signatures"][0]["sig"])).unwrap();
        let raw = ["pkeyutl", "-rawin"];
        let digest = if hash.is_empty() { vec![] } else { vec!["-digest", &hash[1..]] };
        let verifying =
            ["-verify", "-pubin", "-inkey", &at("pub"), "-in", &at("bytes"), "-sigfile", &at("sig")];
        openssl(&[&raw[..], &verifying, &digest].concat());
        let signing = ["-sign", "-inkey", &at("key"), "-in", &at("bytes"), "-out", &at("sig")];
        openssl(&[&raw[..], &signing, &digest].concat());
        let theirs = base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD,
            std::fs::read(at("sig")).unwrap(),
        );
        let theirs = changed(&bundle, |b| b["dsseEnvelope"]["signatures"][0]["sig"] = json!(theirs));
        verify_about(&theirs, PACKAGE, &[public]).unwrap();
    }
}

#[test]
fn keys_that_are_weak_or_of_another_kind_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, kind) in [
        ("rsa", &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"][..]),
        ("p521", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"]),
        ("x25519", &["-algorithm", "X25519"]),
    ] {
        let at = |end: &str| path(folder.path(), &format!("{name}.{end}"));
        let Some(()) = openssl(&[&["genpkey"], kind, &["-out", &at("key")]].concat()) else { return };
        openssl(&["pkey", "-in", &at("key"), "-pubout", "-out", &at("pub")]);
        let key = SigningKey::from_pem(&std::fs::read_to_string(at("key")).unwrap());
        assert_eq!(key.unwrap_err().code, Code::InvalidTrust, "{name}");
        let public = PublicKey::from_pem(&std::fs::read_to_string(at("pub")).unwrap());
        assert_eq!(public.unwrap_err().code, Code::InvalidTrust, "{name}");
    }
    assert!(PublicKey::from_pem("no key").is_err() && SigningKey::from_pem("no key").is_err());
}

/// Makes a signing key.
fn key() -> SigningKey {
    let pkcs8 = ring::signature::Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pkcs8.as_ref());
    SigningKey::from_pem(&format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"))
        .unwrap()
}

#[test]
fn a_signature_by_another_key_or_about_something_else_does_not_count() {
    let (ours, theirs) = (key(), key());
    let about = |key: &SigningKey, bytes: &[u8]| {
        String::from_utf8(key.sign("weather", &Digest::of(bytes)).unwrap()).unwrap()
    };
    let keys = [ours.public().clone()];
    assert_eq!(verify_about(&about(&theirs, PACKAGE), PACKAGE, &keys).unwrap_err().code, Code::UnknownKey);
    assert_eq!(verify_about(&about(&ours, b"x"), PACKAGE, &keys).unwrap_err().code, Code::OtherSubject);
    let exchanged = changed(&about(&ours, b"x"), |b| {
        let other: Value = serde_json::from_str(&about(&ours, PACKAGE)).unwrap();
        b["dsseEnvelope"]["payload"] = other["dsseEnvelope"]["payload"].clone();
    });
    assert_eq!(verify_about(&exchanged, PACKAGE, &keys).unwrap_err().code, Code::InvalidSignature);
}

#[test]
fn a_signature_of_the_manifest_covers_more_than_one_of_the_component() {
    let key = key();
    let (manifest, component) = (b"{}", Digest::of(PACKAGE));
    let subjects = Subjects { manifest: Some(manifest), component: &component };
    let keys = [key.public().clone()];
    for (digest, covers) in
        [(Digest::of(manifest), Coverage::Manifest), (component.clone(), Coverage::Component)]
    {
        let bundle = key.sign("weather", &digest).unwrap();
        assert_eq!(verify(&bundle, subjects, &keys, &root()).unwrap().covers, covers);
    }
}
