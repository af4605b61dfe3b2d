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
    /// The component does not load, or would not be served.
    ComponentRefused = "component_refused",
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
    /// No rule of the policy names the signer, and no person accepted the component here.
    NotAccepted = "not_accepted",
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

impl Code {
    /// Returns what fixes such a failure; `None` if each message names that itself.
    #[must_use]
    pub fn fix(self) -> Option<&'static str> {
        Some(match self {
            Self::InvalidToken => "try again; if it persists, tell the operator of the registry",
            Self::Unreachable => {
                "check the host; for a private certificate authority, set `ca` in [registries.\"HOST\"]"
            }
            Self::TimedOut => "try again",
            Self::UnsupportedChallenge => "use another registry",
            Self::TooManyRedirects
            | Self::RedirectRefused
            | Self::UnexpectedStatus
            | Self::EncodedResponse
            | Self::MediaTypeConflict => "tell the operator of the registry",
            Self::InvalidJson | Self::ForeignLayer | Self::UnlistedLayer | Self::ImportsMismatch => {
                "ask the publisher to publish it again"
            }
            Self::NotWasm => "name a component",
            Self::SeveralLayers => "ask the publisher to publish each component by itself",
            Self::DigestMismatch => "do not use what was sent; ask the publisher for the digest",
            Self::TooLarge => "use a smaller one",
            Self::AsksTooLarge => "shorten NAME.toml",
            Self::TooManyReferrers => "ask the publisher to remove old signatures",
            Self::InvalidReferrer | Self::InvalidBundle => "ask the publisher to sign it again",
            Self::UnsupportedBundle => {
                "sign with `cosign sign` (cosign 3) or `actions/attest-build-provenance`"
            }
            Self::InvalidSignature | Self::OtherSubject => "do not use the component; tell the publisher",
            Self::InvalidCertificate => "check `root` in [trust], or ask the publisher to sign it again",
            Self::InvalidLogEntry | Self::InvalidTimestamp => "ask the publisher to sign it again",
            Self::OldSignature => "ask the publisher to sign it again with cosign 3",
            Self::UnknownKey => "add the key to [trust], or name it",
            Self::Unsigned => "ask the publisher to sign it",
            Self::UnexpectedSigner => "if you trust the signer, add it to [trust]",
            _ => return None,
        })
    }

    /// Returns whether the failure is one of a registry, a network or a file. All others refuse an
    /// artifact, a signature or the configuration.
    #[must_use]
    pub fn is_of_the_world(self) -> bool {
        matches!(
            self,
            Self::NotFound
                | Self::AccessDenied
                | Self::CredentialsMissing
                | Self::Unreachable
                | Self::TimedOut
                | Self::TooManyRedirects
                | Self::RateLimited
                | Self::RegistryFailed
                | Self::UnexpectedStatus
                | Self::InvalidToken
                | Self::Io
        )
    }
}

/// A step that resolves a failure. A program with an interface for operators says how the step is
/// taken there, such as by a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// Install the component from a source, and record that.
    Add,
    /// Look at the component of this source, and accept it.
    Accept {
        /// The source.
        source: String,
    },
    /// Record the component again.
    AddAgain {
        /// The component's id.
        id: String,
        /// Its source.
        source: String,
    },
    /// Restore the files of a component, which can be compared with their record before.
    Restore {
        /// The component's id.
        id: String,
    },
    /// Look at the version that its source has now, and take it.
    Update {
        /// The component's id.
        id: String,
    },
    /// Remove the entry of a component.
    Remove {
        /// The component's id.
        id: String,
    },
    /// List the components that are recorded.
    List,
    /// Install the component under another name.
    OtherName,
    /// Move the tag to the new artifact.
    MoveTag,
}

/// A failure: a sentence for a person that ends with what fixes it, a code for programs, and the
/// step that resolves it if the code does not imply it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}{}", code.fix().map_or("", |_| "; "), code.fix().unwrap_or_default())]
pub struct Error {
    /// The kind of failure.
    pub code: Code,
    message: String,
    remedy: Option<Remedy>,
}

impl Error {
    /// Makes a failure with this message, which becomes one clean line of bounded length.
    pub fn new(code: Code, message: impl fmt::Display) -> Self {
        Self { code, message: one_line(&message.to_string(), MAX_MESSAGE_BYTES), remedy: None }
    }

    /// Adds the step that resolves the failure.
    #[must_use]
    pub(crate) fn with_remedy(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Returns the step that resolves the failure; `None` if the code implies it.
    #[must_use]
    pub fn remedy(&self) -> Option<&Remedy> {
        self.remedy.as_ref()
    }

    /// The message without what fixes the failure, to be quoted in another message.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns a function that turns I/O errors into failures; `what` is the attempted action.
    pub(crate) fn io<'a>(what: &'a str, path: &'a std::path::Path) -> impl Fn(std::io::Error) -> Self + 'a {
        move |why| Self::new(Code::Io, format!("{} cannot be {what}: {why}", path.display()))
    }
}

/// The result of this crate's fallible functions.
pub(crate) type Result<T> = std::result::Result<T, Error>;
