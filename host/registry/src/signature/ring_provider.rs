//! ring as the cryptography provider of Sigstore's crates.
//!
//! ring verifies signatures over bytes only, and these crates verify a signature of the bytes themselves over
//! their digest. [`with_bytes`] lends them the bytes: a digest of these bytes is verified by them.

use ring::digest::{Context, SHA256, SHA384, SHA512};
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use sigstore_verify::crypto::{
    CryptoProvider, Error, HashContext, Result, SigningScheme, install_default_provider, try_default_provider,
};
use sigstore_verify::types::HashAlgorithm;
use std::cell::RefCell;

thread_local! {
    /// The bytes whose digest may be verified on this thread.
    static SIGNED_BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs a verification on this thread that may verify signatures over a digest of these bytes.
pub(super) fn with_bytes<T>(bytes: &[u8], verification: impl FnOnce() -> T) -> T {
    SIGNED_BYTES.set(bytes.to_vec());
    let verified = verification();
    SIGNED_BYTES.take();
    verified
}

/// Verifies signatures with ring. It does not sign.
#[derive(Debug)]
pub(super) struct Ring;

struct Hash(Context);

impl HashContext for Hash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

impl CryptoProvider for Ring {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>> {
        let algorithm = match algorithm {
            HashAlgorithm::Sha2256 => &SHA256,
            HashAlgorithm::Sha2384 => &SHA384,
            HashAlgorithm::Sha2512 => &SHA512,
            other => return Err(Error::UnsupportedAlgorithm(format!("{other} is not supported"))),
        };
        Ok(Box::new(Hash(Context::new(algorithm))))
    }

    fn verify_raw(&self, scheme: SigningScheme, key: &[u8], data: &[u8], signature: &[u8]) -> Result<()> {
        let key = UnparsedPublicKey::new(algorithm(scheme)?, key);
        key.verify(data, signature)
            .map_err(|_| Error::Verification(format!("{} does not verify", scheme.name())))
    }

    /// Fails unless it is the digest of the bytes of [`with_bytes`]: ring verifies bytes, not digests.
    fn verify_prehashed(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        digest: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        let unsupported =
            || Error::UnsupportedAlgorithm(format!("{} over a digest is not supported", scheme.name()));
        SIGNED_BYTES.with_borrow(|bytes| {
            let algorithm = scheme.hash_algorithm().ok_or_else(unsupported)?;
            let mut hash = self.hash(algorithm)?;
            hash.update(bytes);
            if hash.finalize() != digest {
                return Err(unsupported());
            }
            self.verify_raw(scheme, key, bytes, signature)
        })
    }
}

fn algorithm(scheme: SigningScheme) -> Result<&'static dyn VerificationAlgorithm> {
    Ok(match scheme {
        SigningScheme::EcdsaP256Sha256 => &signature::ECDSA_P256_SHA256_ASN1,
        SigningScheme::EcdsaP256Sha384 => &signature::ECDSA_P256_SHA384_ASN1,
        SigningScheme::EcdsaP384Sha256 => &signature::ECDSA_P384_SHA256_ASN1,
        SigningScheme::EcdsaP384Sha384 => &signature::ECDSA_P384_SHA384_ASN1,
        SigningScheme::Ed25519 => &signature::ED25519,
        SigningScheme::RsaPssSha256 => &signature::RSA_PSS_2048_8192_SHA256,
        SigningScheme::RsaPssSha384 => &signature::RSA_PSS_2048_8192_SHA384,
        SigningScheme::RsaPssSha512 => &signature::RSA_PSS_2048_8192_SHA512,
        SigningScheme::RsaPkcs1Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        SigningScheme::RsaPkcs1Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        SigningScheme::RsaPkcs1Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        other => return Err(Error::UnsupportedAlgorithm(format!("{} is not supported", other.name()))),
    })
}

/// Installs ring for this process, unless the program has installed another provider. Without a
/// provider, Sigstore's crates panic.
pub(super) fn install() {
    if try_default_provider().is_none() {
        // Another thread may have installed the same provider first.
        let _ = install_default_provider(&Ring);
    }
}
