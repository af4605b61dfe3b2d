//! Keys, sessions, and the principals that make requests with them.

mod database;
mod database_file;
mod principal;
mod records;
mod secret;

pub use database::AccessDatabase;
pub use principal::{InvalidName, Principal, check_name};
pub use records::{AccessError, Credential, KeyRequest, KeySummary, NewSession, SessionSummary};
pub use secret::{SecretDigest, digest};
