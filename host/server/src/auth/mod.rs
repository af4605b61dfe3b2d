//! Who makes a request, and what they may do.

mod principal;

pub use principal::{Principal, Scope};
