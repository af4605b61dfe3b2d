//! Keys, sessions, and the principals that make requests with them.

mod database;
mod database_file;
mod principal;
mod records;
mod request_keys;
mod secret;

pub use database::AccessDatabase;
pub use principal::{InvalidName, Principal, check_name};
pub use records::{AccessError, Credential, KeyRequest, KeySummary, NewSession, SessionSummary};
pub(crate) use request_keys::DirectoryKeys;
pub use secret::{SecretDigest, digest};
