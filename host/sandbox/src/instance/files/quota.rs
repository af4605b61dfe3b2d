//! Limits on writing. Each write is counted before it happens, against the call's own limit and
//! the rest of the directory's quota.
//!
//! The quota measures growth on disk. Each write costs its length or the growth of the file,
//! whichever is larger, in whole blocks. Removing or truncating files returns nothing: creating
//! and removing a file a thousand times wears the disk as well.

use crate::grants::{FileGrant, MAX_MOVED};
use crate::ledger::Ledger;
use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::filesystem::Descriptor;

/// The maximum number of files and directories in one move to another granted directory.
pub const MAX_MOVED_AT_ONCE: usize = 10_000;
/// The maximum nesting depth in one move.
pub(crate) const MAX_DEPTH: usize = 64;
/// The unit of accounting in bytes: the block size of a disk.
const BLOCK_BYTES: u64 = 4 * 1024;
/// The cost of a new file or directory, in bytes.
pub(crate) const ENTRY_BYTES: u64 = BLOCK_BYTES;

/// Returns the cost of writing `length` bytes that extend the file by `growth`.
pub(crate) fn cost(length: u64, growth: u64) -> u64 {
    // A cost that overflows exceeds every quota.
    length.max(growth).checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX)
}

/// The bytes that a call may still write, and the directory of each of its descriptors.
pub(crate) struct Quota {
    limit: u64,
    ledger: Arc<Ledger>,
    /// Keyed by descriptor number; reused numbers are overwritten.
    owners: HashMap<u32, Arc<FileGrant>>,
}

/// The room for writes of one call in one directory.
#[derive(Clone)]
pub(crate) struct Room {
    limit: u64,
    ledger: Arc<Ledger>,
    grant: Arc<FileGrant>,
}

impl Quota {
    /// Limits a call to writing this many bytes. The ledger counts them and records refusals.
    pub(crate) fn new(limit: u64, ledger: Arc<Ledger>) -> Self {
        Self { limit, ledger, owners: HashMap::new() }
    }

    /// Records the directory of a descriptor.
    pub(crate) fn record_directory(&mut self, descriptor: &Resource<Descriptor>, grant: Arc<FileGrant>) {
        self.owners.insert(descriptor.rep(), grant);
    }

    /// Returns the directory to which a descriptor belonged when it was opened.
    pub(crate) fn first_owner(&self, descriptor: &Resource<Descriptor>) -> Option<Arc<FileGrant>> {
        self.owners.get(&descriptor.rep()).map(Arc::clone)
    }

    /// Returns the directory to which a descriptor belongs now; its target may have been moved.
    pub(crate) fn owner(
        &self,
        table: &ResourceTable,
        descriptor: &Resource<Descriptor>,
    ) -> Option<Arc<FileGrant>> {
        let first = self.first_owner(descriptor)?;
        Some(match table.get(descriptor) {
            Ok(Descriptor::Dir(directory)) => first.now_of(&directory.dir),
            // For a file, the current directory is determined at each write.
            Ok(Descriptor::File(_)) | Err(_) => first,
        })
    }

    /// Returns the room that writes to this descriptor use.
    pub(crate) fn room(&self, table: &ResourceTable, descriptor: &Resource<Descriptor>) -> Option<Room> {
        self.owner(table, descriptor).map(|grant| self.room_in(grant))
    }

    /// Returns the room in this directory.
    pub(crate) fn room_in(&self, grant: Arc<FileGrant>) -> Room {
        Room { limit: self.limit, ledger: Arc::clone(&self.ledger), grant }
    }
}

impl Room {
    /// Returns the room for writes to this file. For a file that was moved while open, that is
    /// the room of its current directory.
    pub(crate) fn of_file(&self, found: &Metadata) -> Self {
        let grant = self.grant.now_of_id((found.dev(), found.ino()));
        Self { grant, ..self.clone() }
    }

    /// Takes this many bytes. Returns `false` and records the refusal if they do not fit.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        if !self.ledger.write(bytes, self.limit) {
            self.ledger.deny("files: more bytes than the limit written_bytes lets a call write");
            return false;
        }
        if !self.take_of_quota(bytes) {
            self.ledger.unwrite(bytes);
            return false;
        }
        true
    }

    /// Gives back bytes that were taken for an operation that did not happen.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.ledger.unwrite(bytes);
        self.give_back_to_quota(bytes);
    }

    /// Takes bytes from the directory's quota only, for content that is already on disk.
    pub(crate) fn take_of_quota(&self, bytes: u64) -> bool {
        let fits = take(self.grant.left_bytes(), bytes);
        if !fits {
            let path = self.grant.guest_path();
            self.ledger.deny(&format!("files: more bytes than are left of the quota_bytes of {path}"));
        }
        fits
    }

    /// Records that a directory holds more than may be moved at once.
    pub(crate) fn refuse_large_move(&self) {
        self.ledger.deny(&format!(
            "files: move more than {MAX_MOVED_AT_ONCE} files and directories, or more than {MAX_DEPTH} levels of \
             them, at once"
        ));
    }

    /// Records that too many files were already moved out of a directory.
    pub(crate) fn refuse_move(&self, from: &FileGrant) {
        let path = from.guest_path();
        self.ledger.deny(&format!(
            "files: more than {MAX_MOVED} files and directories moved out of {path} while calls use it"
        ));
    }

    /// Gives back bytes that were taken by [`take_of_quota`](Self::take_of_quota).
    pub(crate) fn give_back_to_quota(&self, bytes: u64) {
        self.grant.left_bytes().fetch_add(bytes, Relaxed);
    }
}

fn take(left: &AtomicU64, bytes: u64) -> bool {
    left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z7_a_write_costs_its_length_or_its_growth_in_whole_blocks() {
        for (length, growth, price) in [
            (0, 0, 0),
            (1, 0, 4096),
            (1, 1, 4096),
            (4096, 4096, 4096),
            (4097, 0, 8192),
            (1, (1 << 40) + 1, (1 << 40) + 4096),
            (1, u64::MAX, u64::MAX),
        ] {
            assert_eq!(cost(length, growth), price, "{length} bytes, {growth} longer");
        }
    }
}
