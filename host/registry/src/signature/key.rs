//! Keys: verification and signing with ring alone.

use super::bundle::{BASE64, PAYLOAD_TYPE, signed_bytes};
use super::statement;
use crate::digest::Digest;
use crate::error::{Code, Error, Result};
use base64::Engine as _;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{
    self, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey, VerificationAlgorithm,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde_json::json;
use spki::der::Decode as _;
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef};
use std::fmt;

/// The largest key file, in bytes.
pub(crate) const MAX_KEY_BYTES: u64 = 64 << 10;

const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// The kinds of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyKind {
    P256,
    P384,
    Ed25519,
    Rsa,
}

impl KeyKind {
    /// Returns the signature algorithms of this kind of key.
    fn algorithms(self) -> Vec<&'static dyn VerificationAlgorithm> {
        match self {
            Self::P256 => vec![&signature::ECDSA_P256_SHA256_ASN1],
            Self::P384 => vec![&signature::ECDSA_P384_SHA384_ASN1, &signature::ECDSA_P384_SHA256_ASN1],
            Self::Ed25519 => vec![&signature::ED25519],
            Self::Rsa => vec![&signature::RSA_PKCS1_2048_8192_SHA256, &signature::RSA_PSS_2048_8192_SHA256],
        }
    }
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    der: Vec<u8>,
    id: Digest,
    kind: KeyKind,
    raw: Vec<u8>,
}

impl PublicKey {
    /// Reads a public key in PEM.
    ///
    /// # Errors
    /// The text is not a public key of a supported kind.
    pub fn from_pem(pem: &str) -> Result<Self> {
        let invalid =
            |why: &str| Error::new(Code::InvalidTrust, format!("the public key cannot be used: {why}"));
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| {
                let why = "it is not PEM with BEGIN PUBLIC KEY; write that of a signing key with: openssl pkey -in \
                           signing.key -pubout -out signing.pub";
                invalid(why)
            })?;
        Self::from_der(der.as_ref())
    }

    fn from_der(der: &[u8]) -> Result<Self> {
        let invalid =
            |why: &str| Error::new(Code::InvalidTrust, format!("the public key cannot be used: {why}"));
        let unsupported = || invalid("use P-256, P-384, Ed25519, or RSA with 2048 to 8192 bits");
        let info = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| invalid("it is malformed"))?;
        let curve = || info.algorithm.parameters_oid().ok();
        let kind = match info.algorithm.oid {
            EC if curve() == Some(P256) => KeyKind::P256,
            EC if curve() == Some(P384) => KeyKind::P384,
            ED25519 => KeyKind::Ed25519,
            RSA => KeyKind::Rsa,
            _ => return Err(unsupported()),
        };
        let raw = info.subject_public_key.as_bytes().ok_or_else(|| invalid("it is malformed"))?.to_vec();
        // An RSA key below 2048 bits cannot verify anything, so it is refused at once.
        if kind == KeyKind::Rsa && raw.len() < 256 {
            return Err(unsupported());
        }
        Ok(Self { der: der.to_vec(), id: Digest::of(der), kind, raw })
    }

    /// Returns the SHA-256 of the key.
    #[must_use]
    pub fn id(&self) -> &Digest {
        &self.id
    }

    /// Returns the key in PEM.
    #[must_use]
    pub fn to_pem(&self) -> String {
        let text = BASE64.encode(&self.der);
        let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
    }

    pub(super) fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns whether the bundle's hint names this key.
    pub(super) fn is_hinted_by(&self, hint: &str) -> bool {
        hint == self.hint() || hint == self.id.hex() || hint == self.id.as_str()
    }

    fn hint(&self) -> String {
        let hash = ring::digest::digest(&ring::digest::SHA256, &self.der);
        BASE64.encode(hash.as_ref())
    }

    /// Returns whether this key signed the bytes.
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = |algorithm| UnparsedPublicKey::new(algorithm, &self.raw);
        self.kind.algorithms().into_iter().any(|algorithm| key(algorithm).verify(message, signature).is_ok())
    }
}

enum PrivateKey {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// A private key for signing.
pub struct SigningKey {
    private: PrivateKey,
    public: PublicKey,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(self.public.id()).finish()
    }
}

impl SigningKey {
    /// Reads a private key in PEM, as `openssl genpkey` writes it.
    ///
    /// # Errors
    /// The text is not a private key of a supported kind, or is encrypted.
    pub fn from_pem(pem: &str) -> Result<Self> {
        let invalid = |why: &str| {
            let what = format!(
                "the signing key cannot be used: {why}; make one with: openssl genpkey -algorithm EC -pkeyopt \
                 ec_paramgen_curve:P-256 -out signing.key"
            );
            Error::new(Code::InvalidTrust, what)
        };
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| invalid("it is not PEM with BEGIN PRIVATE KEY"))?;
        let der = der.secret_pkcs8_der();
        let random = SystemRandom::new();
        let ecdsa = |algorithm| EcdsaKeyPair::from_pkcs8(algorithm, der, &random).ok();
        if let Some(pair) = ecdsa(&signature::ECDSA_P256_SHA256_ASN1_SIGNING) {
            let public = encoded(EC, Some(P256), pair.public_key().as_ref());
            return Ok(Self { public: PublicKey::from_der(&public)?, private: PrivateKey::Ecdsa(pair) });
        }
        if let Some(pair) = ecdsa(&signature::ECDSA_P384_SHA384_ASN1_SIGNING) {
            let public = encoded(EC, Some(P384), pair.public_key().as_ref());
            return Ok(Self { public: PublicKey::from_der(&public)?, private: PrivateKey::Ecdsa(pair) });
        }
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            let public = encoded(ED25519, None, pair.public_key().as_ref());
            return Ok(Self { public: PublicKey::from_der(&public)?, private: PrivateKey::Ed25519(pair) });
        }
        if let Ok(pair) = RsaKeyPair::from_pkcs8(der) {
            let public = encoded(RSA, None, pair.public().as_ref());
            return Ok(Self { public: PublicKey::from_der(&public)?, private: PrivateKey::Rsa(pair) });
        }
        Err(invalid("use P-256, P-384, Ed25519, or RSA with at least 2048 bits"))
    }

    /// Returns the public key.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a statement about a digest and returns the bundle.
    ///
    /// # Errors
    /// The key cannot be used to sign.
    pub fn sign(&self, name: &str, digest: &Digest) -> Result<Vec<u8>> {
        let payload = statement::about(name, digest)?;
        let signature = self.signature(&signed_bytes(PAYLOAD_TYPE, &payload))?;
        let bundle = json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": { "publicKey": { "hint": self.public.hint() } },
            "dsseEnvelope": {
                "payload": BASE64.encode(&payload),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [{ "sig": BASE64.encode(signature), "keyid": "" }],
            },
        });
        serde_json::to_vec(&bundle)
            .map_err(|e| Error::new(Code::Io, format!("a bundle cannot be written: {e}")))
    }

    fn signature(&self, message: &[u8]) -> Result<Vec<u8>> {
        let failed = |_| Error::new(Code::InvalidTrust, "the signing key cannot sign");
        let random = SystemRandom::new();
        match &self.private {
            PrivateKey::Ecdsa(pair) => Ok(pair.sign(&random, message).map_err(failed)?.as_ref().to_vec()),
            PrivateKey::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            PrivateKey::Rsa(pair) => {
                let mut signed = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signed).map_err(failed)?;
                Ok(signed)
            }
        }
    }
}

/// Encodes a public key as DER, the content of PEM files.
fn encoded(algorithm: ObjectIdentifier, curve: Option<ObjectIdentifier>, raw: &[u8]) -> Vec<u8> {
    let mut identifier = element(0x06, algorithm.as_bytes());
    match curve {
        Some(curve) => identifier.extend(element(0x06, curve.as_bytes())),
        None if algorithm == RSA => identifier.extend([0x05, 0x00]),
        None => {}
    }
    let bits = [&[0][..], raw].concat();
    element(0x30, &[element(0x30, &identifier), element(0x03, &bits)].concat())
}

/// Encodes a DER element.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().position(|byte| *byte != 0).unwrap_or(length.len() - 1)..];
    let mut element = vec![tag];
    if content.len() >= 0x80 {
        element.push(0x80 | u8::try_from(length.len()).unwrap_or(u8::MAX));
    }
    element.extend_from_slice(length);
    element.extend_from_slice(content);
    element
}
