//! Parsing of bundles in Sigstore's format, as far as this program needs it.
//!
//! A bundle comes from a registry that is not trusted. Parsing checks its form only; `super` verifies the
//! signature in it.

use crate::error::{Code, Error, Result};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde_json::Value;
use tollgate_agent::text::clean;

/// The longest bundle, in bytes.
pub const MAX_BUNDLE_BYTES: usize = 1 << 20;

/// Base64 with or without padding: writers of bundles differ.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// The type of statements in an envelope.
pub(super) const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// A parsed bundle, not yet verified.
#[derive(Debug)]
pub(super) struct Bundle<'a> {
    text: &'a str,
    material: RawMaterial,
    content: ReadContent,
}

#[derive(Debug)]
enum ReadContent {
    Envelope(Envelope),
    Message(Vec<u8>),
}

/// The signed content of a bundle.
pub(super) enum Content<'a> {
    /// A statement about digests, in an envelope.
    Envelope(&'a Envelope),
    /// A signature over the bytes themselves.
    Message,
}

/// An envelope with one signature.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) payload: Vec<u8>,
    payload_type: String,
    pub(super) signature: Vec<u8>,
}

impl Envelope {
    /// Returns the bytes that are signed.
    pub(super) fn signed_bytes(&self) -> Vec<u8> {
        signed_bytes(&self.payload_type, &self.payload)
    }
}

/// Returns the signed bytes of an envelope: DSSE's "pre-authentication encoding".
pub(super) fn signed_bytes(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBundle {
    media_type: String,
    verification_material: RawMaterial,
    dsse_envelope: Option<RawEnvelope>,
    message_signature: Option<RawMessage>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMaterial {
    public_key: Option<RawKey>,
    certificate: Option<Value>,
    x509_certificate_chain: Option<Value>,
    #[serde(default)]
    tlog_entries: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct RawKey {
    #[serde(default)]
    hint: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEnvelope {
    payload: String,
    payload_type: String,
    signatures: Vec<RawSignature>,
}

#[derive(Debug, Deserialize)]
struct RawSignature {
    sig: String,
}

#[derive(Debug, Deserialize)]
struct RawMessage {
    signature: String,
}

impl<'a> Bundle<'a> {
    /// Parses a bundle of at most [`MAX_BUNDLE_BYTES`].
    ///
    /// # Errors
    /// It is malformed ([`Code::InvalidBundle`]), or uses something that this program does not
    /// support ([`Code::UnsupportedBundle`]).
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self> {
        let invalid =
            |why: &str| Error::new(Code::InvalidBundle, format!("the bundle cannot be read: {why}"));
        if bytes.len() > MAX_BUNDLE_BYTES {
            return Err(invalid(&format!("it is larger than {MAX_BUNDLE_BYTES} bytes")));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| invalid("it is not text"))?;
        let raw: RawBundle = serde_json::from_str(text).map_err(|e| invalid(&e.to_string()))?;
        let is_known = raw.media_type.starts_with("application/vnd.dev.sigstore.bundle");
        if !is_known {
            return Err(unsupported(&format!("it has the type {}", clean(&raw.media_type, 100))));
        }
        let decode = |what: &str, text: &str| {
            BASE64.decode(text).map_err(|_| invalid(&format!("its {what} is not base64")))
        };
        let content = match (raw.dsse_envelope, raw.message_signature) {
            (Some(envelope), None) => {
                let [RawSignature { sig }] = envelope.signatures.as_slice() else {
                    return Err(invalid("its envelope does not have exactly one signature"));
                };
                if envelope.payload_type != PAYLOAD_TYPE {
                    return Err(unsupported(&format!("it holds {}", clean(&envelope.payload_type, 100))));
                }
                ReadContent::Envelope(Envelope {
                    payload: decode("payload", &envelope.payload)?,
                    payload_type: envelope.payload_type,
                    signature: decode("signature", sig)?,
                })
            }
            (None, Some(message)) => ReadContent::Message(decode("signature", &message.signature)?),
            _ => return Err(invalid("it does not hold exactly one signature")),
        };
        let material = raw.verification_material;
        let certificates = [&material.certificate, &material.x509_certificate_chain];
        let certificates = certificates.into_iter().flatten().count();
        if certificates + usize::from(material.public_key.is_some()) != 1 {
            return Err(invalid("it does not name exactly one key or certificate"));
        }
        Ok(Self { text, material, content })
    }

    /// Returns the signed content.
    pub(super) fn content(&self) -> Content<'_> {
        match &self.content {
            ReadContent::Envelope(envelope) => Content::Envelope(envelope),
            ReadContent::Message(_) => Content::Message,
        }
    }

    /// Returns the signature over the bytes themselves; empty if the bundle holds an envelope.
    pub(super) fn message_signature(&self) -> &[u8] {
        match &self.content {
            ReadContent::Message(signature) => signature,
            ReadContent::Envelope(_) => &[],
        }
    }

    /// Returns the bundle as it was read, for Sigstore's own parser and for its digest.
    pub(super) fn text(&self) -> &str {
        self.text
    }

    /// Returns whether a key made the signature, as opposed to a certificate.
    pub(super) fn is_by_key(&self) -> bool {
        self.material.public_key.is_some()
    }

    /// Returns the name that the signer gave to the key; `None` if there is none.
    pub(super) fn key_hint(&self) -> Option<&str> {
        self.material.public_key.as_ref().map(|key| key.hint.as_str()).filter(|hint| !hint.is_empty())
    }

    /// Returns whether the bundle contains an entry of the transparency log.
    pub(super) fn has_log_entry(&self) -> bool {
        self.material.tlog_entries.as_ref().is_some_and(|entries| !entries.is_empty())
    }
}

/// Returns the error for a bundle that uses something which is not supported.
pub(super) fn unsupported(why: &str) -> Error {
    Error::new(Code::UnsupportedBundle, format!("the bundle is not supported: {why}"))
}
