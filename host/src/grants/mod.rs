//! What a component asks for, what a person gave it, and what it gets: both.
//!
//! A manifest beside the component says what it [asks for](RequestedGrants). A person answers with
//! grants in the configuration. [`open`] makes of the two what its calls run with,
//! and [`Approvals`] remember what a person has looked at, so that a new version
//! that asks for more does not quietly take the old one's place.

mod approvals;
mod manifest;
mod open;
mod own;
mod requests;

pub use approvals::{Approvals, Approved, Decision};
pub(crate) use manifest::read_manifest_with_digest;
pub use manifest::{MAX_MANIFEST_BYTES, manifest_of, parse_manifest, read_manifest};
pub use open::open;
pub use own::{check_files, check_sources};
pub use requests::{FileAsk, MissingGrant, RequestedGrants};
