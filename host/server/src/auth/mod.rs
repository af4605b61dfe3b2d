//! Keys, sessions, and the principals that make requests with them.

pub mod audit;
mod database;
mod database_file;
mod middleware;
mod principal;
mod records;
mod secret;
pub(crate) mod sign_in;
mod watch;

pub(crate) use audit::end_session;
pub use database::AccessDatabase;
pub use middleware::{COOKIE_PATHS, authenticate};
pub use principal::{InvalidName, Principal, Scope, check_name};
pub use records::{AccessError, BegunSession, Credential, KeyRequest, KeySummary, SessionSummary};
pub use secret::{SecretDigest, digest};
pub(crate) use watch::look_for_changes;
