//! How much a call may write: counted before it is written, against the call's own
//! limit and against what is left of the directory's quota.
//!
//! What counts is the growth on disk. Each write costs its length or the growth of the
//! file, whichever is larger, in whole blocks. Nothing that is removed or cut short is
//! given back: what a guest makes and removes a thousand times wears the disk as well.

use super::moving::{MAX_DEPTH, MAX_MOVED_AT_ONCE};
use crate::grants::{FileGrant, MAX_MOVED};
use crate::ledger::Ledger;
use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::filesystem::Descriptor;

/// What writes and new files are counted in, in bytes: what they take of a disk.
const BLOCK_BYTES: u64 = 4 * 1024;
/// What a new file or directory costs, in bytes.
pub(super) const ENTRY_BYTES: u64 = BLOCK_BYTES;

/// What writing so many bytes costs that makes the file so much longer.
pub(super) fn cost(length: u64, growth: u64) -> u64 {
    // What is beyond all numbers is beyond every quota.
    length.max(growth).checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX)
}

/// What a call may still write, and to which directory each of its descriptors
/// belongs.
pub(super) struct Quota {
    limit: u64,
    ledger: Arc<Ledger>,
    /// By the descriptor's number; numbers are used again, and then written anew.
    owners: HashMap<u32, Arc<FileGrant>>,
}

/// Room in one directory, for one call.
#[derive(Clone)]
pub(super) struct Room {
    limit: u64,
    ledger: Arc<Ledger>,
    grant: Arc<FileGrant>,
}

impl Quota {
    /// Room for so many bytes; the ledger counts them, and notes what does not fit.
    pub(super) fn new(limit: u64, ledger: Arc<Ledger>) -> Self {
        Self { limit, ledger, owners: HashMap::new() }
    }

    /// Says to which directory a descriptor belongs.
    pub(super) fn own(&mut self, descriptor: &Resource<Descriptor>, grant: Arc<FileGrant>) {
        self.owners.insert(descriptor.rep(), grant);
    }

    /// The directory to which a descriptor belonged when it was opened.
    pub(super) fn first_owner(&self, descriptor: &Resource<Descriptor>) -> Option<Arc<FileGrant>> {
        self.owners.get(&descriptor.rep()).map(Arc::clone)
    }

    /// The directory to which a descriptor belongs: what it opened may have been moved since.
    pub(super) fn owner(
        &self,
        table: &ResourceTable,
        descriptor: &Resource<Descriptor>,
    ) -> Option<Arc<FileGrant>> {
        let first = self.first_owner(descriptor)?;
        Some(match table.get(descriptor) {
            Ok(Descriptor::Dir(directory)) => first.now_of(&directory.dir),
            // Where a file is, is asked when it is written to.
            Ok(Descriptor::File(_)) | Err(_) => first,
        })
    }

    /// The room that writes to this descriptor take from.
    pub(super) fn room(&self, table: &ResourceTable, descriptor: &Resource<Descriptor>) -> Option<Room> {
        self.owner(table, descriptor).map(|grant| self.room_in(grant))
    }

    /// The room in this directory.
    pub(super) fn room_in(&self, grant: Arc<FileGrant>) -> Room {
        Room { limit: self.limit, ledger: Arc::clone(&self.ledger), grant }
    }
}

impl Room {
    /// The room that writes to this file take from: of a file that was moved away while
    /// it was open, that of the directory where it is now.
    pub(super) fn of_file(&self, found: &Metadata) -> Self {
        let grant = self.grant.now_of_id((found.dev(), found.ino()));
        Self { grant, ..self.clone() }
    }

    /// Takes so many bytes of it; false, and noted, where they do not fit.
    pub(super) fn take(&self, bytes: u64) -> bool {
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

    /// Gives back what was taken for something that was not done after all.
    pub(super) fn give_back(&self, bytes: u64) {
        self.ledger.unwrite(bytes);
        self.give_back_to_quota(bytes);
    }

    /// Takes of the directory's quota alone, for what is on the disk already.
    pub(super) fn take_of_quota(&self, bytes: u64) -> bool {
        let fits = take(self.grant.left_bytes(), bytes);
        if !fits {
            let path = self.grant.guest_path();
            self.ledger.deny(&format!("files: more bytes than are left of the quota_bytes of {path}"));
        }
        fits
    }

    /// Notes that more is in a directory than may be moved at once.
    pub(super) fn refuse_large_move(&self) {
        self.ledger.deny(&format!(
            "files: move more than {MAX_MOVED_AT_ONCE} files and directories, or more than {MAX_DEPTH} levels of \
             them, at once"
        ));
    }

    /// Notes that too much was moved out of a directory already.
    pub(super) fn refuse_move(&self, from: &FileGrant) {
        let path = from.guest_path();
        self.ledger.deny(&format!(
            "files: more than {MAX_MOVED} files and directories moved out of {path} while calls use it"
        ));
    }

    /// The opposite of [`take_of_quota`](Self::take_of_quota).
    pub(super) fn give_back_to_quota(&self, bytes: u64) {
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
