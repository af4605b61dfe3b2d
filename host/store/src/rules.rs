//! The rules that every store follows, for a store outside of this crate.
//!
//! They decide which commits are moved behind others, what a list of runs shows, what a checksum
//! covers, and how a commit is serialized, so that the same run is recorded alike in every store.

pub use super::charges::{RecordedCharges, begins_direct, charges};
pub use super::checksum::{CHECKSUM_BYTES, EventRow, checksum, first_damage};
pub use super::commit_rows::{CommitRows, LARGE_BYTES, MovedRows, aside, serialize};
pub use super::joined_change::JoinedChange;
pub use super::rebase::{WrittenKeys, moved, sizes_fit};
pub use super::run_store::spec_of;
pub use super::runs::{label, last_call_failed, status_after};
pub use super::state_store::{is_generated, thread_within};
