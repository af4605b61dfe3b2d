//! Failures, each with a code of its own.

use std::fmt;
use tollgate_agent::text::clean;

/// The longest message, in bytes.
const MAX_MESSAGE_BYTES: usize = 2_000;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The kind of a failure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The code as machine-readable output spells it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }
        }
    };
}

codes! {
    /// A source or destination that cannot be meant.
    InvalidReference = "invalid_reference",
    /// The registry has no such repository, tag or digest.
    NotFound = "not_found",
    /// The registry refused the request.
    AccessDenied = "access_denied",
    /// The registry asks for credentials, and there are none for it.
    CredentialsMissing = "credentials_missing",
    /// The registry wants credentials sent to another host, which is not configured.
    CredentialsWithheld = "credentials_withheld",
    /// The stored credentials cannot be read.
    InvalidCredentials = "invalid_credentials",
    /// The registry asks for authentication in a way that is not supported.
    UnsupportedChallenge = "unsupported_challenge",
    /// The token server did not send a token.
    InvalidToken = "invalid_token",
    /// No connection, or it broke.
    Unreachable = "unreachable",
    /// It took longer than the deadline.
    TimedOut = "timed_out",
    /// More redirects than are followed.
    TooManyRedirects = "too_many_redirects",
    /// A redirect to where none is followed.
    RedirectRefused = "redirect_refused",
    /// An address that is not global, on a host that is not configured.
    AddressRefused = "address_refused",
    /// The registry asks to wait for too long or too often.
    RateLimited = "rate_limited",
    /// The registry failed.
    RegistryFailed = "registry_failed",
    /// A status that has no meaning here.
    UnexpectedStatus = "unexpected_status",
    /// A response that is longer than its limit.
    TooLarge = "too_large",
    /// A body that is compressed although that was not asked for.
    EncodedResponse = "encoded_response",
    /// A manifest, index, configuration or reply that is not valid JSON of its kind.
    InvalidJson = "invalid_json",
    /// The body and its header name different media types.
    MediaTypeConflict = "media_type_conflict",
    /// The artifact is not a Wasm component.
    NotWasm = "not_wasm",
    /// The artifact has several layers.
    SeveralLayers = "several_layers",
    /// The index has several Wasm manifests.
    SeveralManifests = "several_manifests",
    /// A layer that is stored on other servers.
    ForeignLayer = "foreign_layer",
    /// A digest by an algorithm that is not supported, or that is malformed.
    UnsupportedDigest = "unsupported_digest",
    /// The bytes do not have the digest that names them.
    DigestMismatch = "digest_mismatch",
    /// The bytes do not have the size that was declared.
    SizeMismatch = "size_mismatch",
    /// The configuration does not list the layer.
    UnlistedLayer = "unlisted_layer",
    /// The configuration lists other imports than the component has.
    ImportsMismatch = "imports_mismatch",
    /// The manifest of asks is too long.
    AsksTooLarge = "asks_too_large",
    /// More referrers than are read.
    TooManyReferrers = "too_many_referrers",
    /// A referrer that is not a signature of this artifact.
    InvalidReferrer = "invalid_referrer",
    /// A bundle that cannot be read.
    InvalidBundle = "invalid_bundle",
    /// A bundle that uses something that is not supported.
    UnsupportedBundle = "unsupported_bundle",
    /// Signatures in the format of cosign 2 and older.
    OldSignature = "old_signature",
    /// The signature was made with a key that is not configured.
    UnknownKey = "unknown_key",
    /// The signature does not verify.
    InvalidSignature = "invalid_signature",
    /// The statement is about another artifact.
    OtherSubject = "other_subject",
    /// The certificate was refused.
    InvalidCertificate = "invalid_certificate",
    /// The transparency log's evidence was refused, or is missing.
    InvalidLogEntry = "invalid_log_entry",
    /// The signing time cannot be proven.
    InvalidTimestamp = "invalid_timestamp",
    /// There is no signature, and one is required.
    Unsigned = "unsigned",
    /// The signer is not the expected one.
    UnexpectedSigner = "unexpected_signer",
    /// A key, trusted root or rule of the policy cannot be used.
    InvalidTrust = "invalid_trust",
    /// The lock file cannot be read.
    InvalidLock = "invalid_lock",
    /// Files and lock file disagree.
    LockMismatch = "lock_mismatch",
    /// The name or id belongs to another component.
    NameTaken = "name_taken",
    /// A file exists at the target path and is not replaced.
    TargetRefused = "target_refused",
    /// The tag exists and points elsewhere.
    TagExists = "tag_exists",
    /// A file cannot be read or written.
    Io = "io",
}

/// A failure: a sentence for a person, and a code for programs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind of failure.
    pub code: Code,
    message: String,
}

impl Error {
    /// A failure with this message, which is cleaned and cut.
    pub fn new(code: Code, message: impl fmt::Display) -> Self {
        Self { code, message: clean(&message.to_string(), MAX_MESSAGE_BYTES) }
    }

    /// Returns a function that makes I/O errors of what was attempted.
    pub(crate) fn io<'a>(what: &'a str, path: &'a std::path::Path) -> impl Fn(std::io::Error) -> Self + 'a {
        move |why| Self::new(Code::Io, format!("{} cannot be {what}: {why}", path.display()))
    }
}

/// The result of everything that can fail here.
pub(crate) type Result<T> = std::result::Result<T, Error>;
