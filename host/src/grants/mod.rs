//! Requests of components, grants of the operator, and the resulting powers: what is both
//! requested and granted.
//!
//! A manifest beside the component lists its [`RequestedGrants`]. A person answers with grants
//! in the configuration. Loading a component combines the two into the powers of its calls.
//! [`Approvals`] record the decisions, so that a new version that asks for more does not
//! silently replace the old one.

mod approvals;
mod host_files;
mod manifest;
mod open;
mod requests;

pub use approvals::{Approvals, ApprovalsError, ComponentApproval, Decision};
pub use host_files::{ChangeableSource, HostFileGrant, check_files, check_sources};
pub(crate) use manifest::read_manifest_with_digest;
pub use manifest::{MAX_MANIFEST_BYTES, manifest_of, parse_manifest, read_manifest};
pub(crate) use open::open;
pub use requests::{ManifestError, MissingGrant, RequestedGrants};
