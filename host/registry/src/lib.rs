//! Tools from a registry, with proof of origin.
//!
//! A registry is trusted with nothing: every byte that it sends is bounded before it is read,
//! hashed before it is used, and believed only as far as a signature covers it.

mod client;
mod digest;
pub mod directory;
mod error;
mod fetch;
mod install;
mod interfaces;
mod lock;
mod metadata;
mod reference;
mod signature;
mod trust;

pub use client::{
    Artifact, Client, Credentials, FoundBundle, HostSettings, Login, NewArtifact, PublishedArtifact,
    Referrers, Session, Settings, bundle_in, described_by, listed_in,
};
pub use digest::Digest;
pub use error::{Code, Error, Remedy};
pub use fetch::{
    FetchOptions, FetchedComponent, check_bundle, check_statements, fetch, is_current, is_signed,
    read_bundle, recheck,
};
pub use install::{Files, Installation, KeptEvidence, Placement};
pub use interfaces::Interfaces;
pub use lock::{Entry, Lock, LockMode, MAX_LOCK_BYTES};
pub use metadata::{Metadata, Package};
pub use reference::{Reference, Source};
pub use signature::{
    Coverage, MAX_BUNDLE_BYTES, Proof, PublicKey, SignerEvidence, SigningKey, Subjects, TrustedRoot, verify,
};
pub use trust::{Evidence, ExpectedSigner, Github, RawTrust, RecordedVersion, Trust, Verdict, read_key};

/// The longest manifest of a component, as text, in bytes.
pub const MAX_ASKS_BYTES: usize = 64 << 10;
/// The largest component, in bytes.
pub const MAX_COMPONENT_BYTES: u64 = 64 << 20;
