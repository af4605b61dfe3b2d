//! Keys, sessions, and the principals that make requests with them.

mod database;
mod middleware;
mod principal;
mod records;
mod secret;
pub(crate) mod sign_in;
mod watch;

pub use database::AccessDatabase;
pub use middleware::{COOKIE_PATHS, authenticate};
pub use principal::{Principal, Scope, check_name};
pub use records::{AccessError, Credential, KeyRequest, KeySummary, SessionSummary};
pub use secret::{SecretDigest, digest};
pub(crate) use watch::look_for_changes;
