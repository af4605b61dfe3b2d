//! Authentication of requests, and the rights of their senders.

mod principal;

pub use principal::{Principal, Scope};
