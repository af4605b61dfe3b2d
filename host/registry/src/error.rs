//! Failures, each with a code of its own.

use std::fmt;
use tollgate_agent::text::one_line;

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

            /// Returns the code as it appears in machine-readable output.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }
        }
    };
}

codes! {
    /// The source or destination is malformed.
    InvalidReference = "invalid_reference",
    /// The registry has no such repository, tag or digest.
    NotFound = "not_found",
    /// The registry refused the request.
    AccessDenied = "access_denied",
    /// The registry requires credentials, and none are stored for it.
    CredentialsMissing = "credentials_missing",
    /// The registry redirects authentication to another host, which is not configured to get
    /// credentials.
    CredentialsWithheld = "credentials_withheld",
    /// The stored credentials cannot be read.
    InvalidCredentials = "invalid_credentials",
    /// The registry requires an unsupported method of authentication.
    UnsupportedChallenge = "unsupported_challenge",
    /// The token server did not return a token.
    InvalidToken = "invalid_token",
    /// The connection failed or broke.
    Unreachable = "unreachable",
    /// The deadline passed.
    TimedOut = "timed_out",
    /// There were too many redirects.
    TooManyRedirects = "too_many_redirects",
    /// A redirect leads to a place that is not allowed.
    RedirectRefused = "redirect_refused",
    /// The address is not global, and its host is not configured.
    AddressRefused = "address_refused",
    /// The registry demands too long a wait, or too many.
    RateLimited = "rate_limited",
    /// The registry reported an internal failure.
    RegistryFailed = "registry_failed",
    /// The response has an unexpected status.
    UnexpectedStatus = "unexpected_status",
    /// The response exceeds its limit.
    TooLarge = "too_large",
    /// The body is compressed although the request did not allow that.
    EncodedResponse = "encoded_response",
    /// A manifest, index, configuration or reply is not valid JSON, or has the wrong structure.
    InvalidJson = "invalid_json",
    /// The body and its header name different media types.
    MediaTypeConflict = "media_type_conflict",
    /// The artifact is not a Wasm component.
    NotWasm = "not_wasm",
    /// The artifact has several layers.
    SeveralLayers = "several_layers",
    /// The index has several Wasm manifests.
    SeveralManifests = "several_manifests",
    /// A layer is stored on other servers.
    ForeignLayer = "foreign_layer",
    /// A digest is malformed or has an unsupported algorithm.
    UnsupportedDigest = "unsupported_digest",
    /// The content does not match its digest.
    DigestMismatch = "digest_mismatch",
    /// The content does not have the declared size.
    SizeMismatch = "size_mismatch",
    /// The configuration does not list the layer.
    UnlistedLayer = "unlisted_layer",
    /// The imports in the configuration differ from those of the component.
    ImportsMismatch = "imports_mismatch",
    /// The manifest of asks is too long.
    AsksTooLarge = "asks_too_large",
    /// There are more referrers than the limit.
    TooManyReferrers = "too_many_referrers",
    /// A referrer is not a signature of this artifact.
    InvalidReferrer = "invalid_referrer",
    /// The bundle cannot be read.
    InvalidBundle = "invalid_bundle",
    /// The bundle uses an unsupported feature.
    UnsupportedBundle = "unsupported_bundle",
    /// The signatures have the format of cosign 2 or older.
    OldSignature = "old_signature",
    /// The signature was made with a key that is not configured.
    UnknownKey = "unknown_key",
    /// The signature does not verify.
    InvalidSignature = "invalid_signature",
    /// The statement is about another artifact.
    OtherSubject = "other_subject",
    /// The certificate was refused.
    InvalidCertificate = "invalid_certificate",
    /// The transparency log's evidence is missing or was refused.
    InvalidLogEntry = "invalid_log_entry",
    /// The time of signing cannot be proven.
    InvalidTimestamp = "invalid_timestamp",
    /// A signature is required, and there is none.
    Unsigned = "unsigned",
    /// The signer differs from the expected one.
    UnexpectedSigner = "unexpected_signer",
    /// A key, trusted root or rule of the policy cannot be used.
    InvalidTrust = "invalid_trust",
    /// The lock file cannot be read.
    InvalidLock = "invalid_lock",
    /// The files do not match the lock file.
    LockMismatch = "lock_mismatch",
    /// The name or id belongs to another component.
    NameTaken = "name_taken",
    /// A file exists at the target path and is not replaced.
    TargetRefused = "target_refused",
    /// The tag exists and points to something else.
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
    /// Makes a failure with this message, which becomes one clean line of bounded length.
    pub fn new(code: Code, message: impl fmt::Display) -> Self {
        Self { code, message: one_line(&message.to_string(), MAX_MESSAGE_BYTES) }
    }

    /// Returns a function that turns I/O errors into failures; `what` is the attempted action.
    pub(crate) fn io<'a>(what: &'a str, path: &'a std::path::Path) -> impl Fn(std::io::Error) -> Self + 'a {
        move |why| Self::new(Code::Io, format!("{} cannot be {what}: {why}", path.display()))
    }
}

/// The result of this crate's fallible functions.
pub(crate) type Result<T> = std::result::Result<T, Error>;
