//! Each algorithm, with a signature that openssl made.
#![allow(clippy::unwrap_used)]

use super::PublicKey;
use super::bundle::BASE64;
use super::ring_provider::{Ring, with_bytes};
use base64::Engine as _;
use serde::Deserialize;
use sigstore_verify::crypto::{CryptoProvider as _, SigningScheme};
use spki::SubjectPublicKeyInfoRef;
use spki::der::Decode as _;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Vectors {
    message: String,
    keys: BTreeMap<String, String>,
    signatures: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    algorithm: String,
    key: String,
    signature: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../tests/fixtures/signature-vectors.json")).unwrap()
}

fn scheme(algorithm: &str) -> SigningScheme {
    match algorithm {
        "ecdsa-p256-sha256" => SigningScheme::EcdsaP256Sha256,
        "ecdsa-p256-sha384" => SigningScheme::EcdsaP256Sha384,
        "ecdsa-p384-sha256" => SigningScheme::EcdsaP384Sha256,
        "ecdsa-p384-sha384" => SigningScheme::EcdsaP384Sha384,
        "ed25519" => SigningScheme::Ed25519,
        "rsa-pss-sha256" => SigningScheme::RsaPssSha256,
        "rsa-pss-sha384" => SigningScheme::RsaPssSha384,
        "rsa-pss-sha512" => SigningScheme::RsaPssSha512,
        "rsa-pkcs1-sha256" => SigningScheme::RsaPkcs1Sha256,
        "rsa-pkcs1-sha384" => SigningScheme::RsaPkcs1Sha384,
        _ => SigningScheme::RsaPkcs1Sha512,
    }
}

#[test]
fn each_algorithm_of_a_certificate_verifies_its_signature_and_no_other() {
    let vectors = vectors();
    assert_eq!(vectors.signatures.len(), 11);
    let message = vectors.message.as_bytes();
    for Vector { algorithm, key, signature } in &vectors.signatures {
        let public = PublicKey::from_pem(&vectors.keys[key]).unwrap();
        let raw = SubjectPublicKeyInfoRef::from_der(public.der()).unwrap().subject_public_key.raw_bytes();
        let signature = BASE64.decode(signature).unwrap();
        let scheme = scheme(algorithm);
        let verify = |message, signature: &[u8]| Ring.verify_raw(scheme, raw, message, signature);
        assert!(verify(message, &signature).is_ok(), "{algorithm}");
        assert!(verify(b"another message", &signature).is_err(), "{algorithm}");
        for other in vectors.signatures.iter().filter(|other| other.algorithm != *algorithm) {
            assert!(verify(message, &BASE64.decode(&other.signature).unwrap()).is_err(), "{algorithm}");
        }
        // Over a digest, only if it is that of the bytes.
        let Some(hash) = scheme.hash_algorithm() else { continue };
        let digest = |message: &[u8]| {
            let mut hash = Ring.hash(hash).unwrap();
            hash.update(message);
            hash.finalize()
        };
        let digest = digest(message);
        let prehashed = || Ring.verify_prehashed(scheme, raw, &digest, &signature);
        assert!(with_bytes(message, prehashed).is_ok(), "{algorithm}");
        assert!(with_bytes(b"another message", prehashed).is_err() && prehashed().is_err(), "{algorithm}");
    }
    for unsupported in [SigningScheme::MlDsa44, SigningScheme::MlDsa65, SigningScheme::MlDsa87] {
        let refused = Ring.verify_raw(unsupported, &[], b"", b"").unwrap_err().to_string();
        assert!(refused.contains("is not supported"), "{refused}");
    }
}

#[test]
fn a_key_verifies_signatures_of_its_own_algorithms() {
    let vectors = vectors();
    let verified = vectors.signatures.iter().filter(|vector| {
        let public = PublicKey::from_pem(&vectors.keys[&vector.key]).unwrap();
        public.verify(vectors.message.as_bytes(), &BASE64.decode(&vector.signature).unwrap())
    });
    let verified: Vec<_> = verified.map(|vector| vector.algorithm.as_str()).collect();
    let expected = [
        "ecdsa-p256-sha256",
        "ecdsa-p384-sha256",
        "ecdsa-p384-sha384",
        "ed25519",
        "rsa-pkcs1-sha256",
        "rsa-pss-sha256",
    ];
    assert_eq!(verified, expected);
}
