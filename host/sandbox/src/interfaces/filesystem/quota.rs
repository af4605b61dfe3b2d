//! How much a call may write: counted before it is written, against the call's own
//! limit and against what is left of the directory's quota.

use crate::grants::FileGrant;
use crate::ledger::Ledger;
use bytes::Bytes;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};

/// What a new file or directory counts as, in bytes: what it takes of a disk.
pub(super) const ENTRY_BYTES: u64 = 4 * 1024;

/// What a call may still write, and to which directory each of its descriptors
/// belongs.
pub(crate) struct Quota {
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
    pub(crate) fn new(limit: u64, ledger: Arc<Ledger>) -> Self {
        Self { limit, ledger, owners: HashMap::new() }
    }

    /// Says to which directory a descriptor belongs.
    pub(super) fn own(&mut self, descriptor: &Resource<Descriptor>, grant: Arc<FileGrant>) {
        self.owners.insert(descriptor.rep(), grant);
    }

    /// The directory to which a descriptor belongs.
    pub(super) fn owner(&self, descriptor: &Resource<Descriptor>) -> Option<Arc<FileGrant>> {
        self.owners.get(&descriptor.rep()).map(Arc::clone)
    }

    /// The room that writes to this descriptor take from.
    pub(super) fn room(&self, descriptor: &Resource<Descriptor>) -> Option<Room> {
        let (limit, ledger) = (self.limit, Arc::clone(&self.ledger));
        self.owner(descriptor).map(|grant| Room { limit, ledger, grant })
    }
}

impl Room {
    /// Takes so many bytes of it; false, and noted, where they do not fit.
    pub(super) fn take(&self, bytes: u64) -> bool {
        if !self.ledger.write(bytes, self.limit) {
            self.ledger.deny("files: more bytes than the limit written_bytes lets a call write");
            return false;
        }
        if !take(self.grant.left_bytes(), bytes) {
            self.ledger.unwrite(bytes);
            let path = self.grant.guest_path();
            self.ledger.deny(&format!("files: more bytes than are left of the quota_bytes of {path}"));
            return false;
        }
        true
    }
}

fn take(left: &AtomicU64, bytes: u64) -> bool {
    left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
}

/// A stream into a file that ends where the room does.
pub(super) struct Metered {
    pub(super) inner: DynOutputStream,
    pub(super) room: Room,
}

impl Metered {
    fn take(&self, bytes: usize) -> StreamResult<()> {
        match self.room.take(bytes as u64) {
            true => Ok(()),
            // As if the disk were full.
            false => Err(StreamError::LastOperationFailed(io::Error::from(Errno::NOSPC).into())),
        }
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Metered {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for Metered {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(bytes.len())?;
        self.inner.write(bytes)
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(bytes.len())?;
        self.inner.blocking_write_and_flush(bytes).await
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.inner.check_write()
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}
