//! The rest of a call's limits for its directories: open files, bytes to write, lists, and work
//! beside the guest.

pub(crate) mod background;
pub(crate) mod open;
pub(crate) mod quota;

use crate::descriptors::Descriptors;
use crate::grants::{FileGrant, UsedGrant};
use crate::ledger::Ledger;
use crate::limits::Limits;
use background::Background;
use open::OpenFiles;
use quota::Quota;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// One call's limits for its directories.
pub(crate) struct Files {
    pub(crate) quota: Quota,
    /// The listings that may still be opened.
    pub(crate) listings: Arc<Semaphore>,
    pub(crate) open: OpenFiles,
    pub(crate) background: Background,
    _used: Vec<UsedGrant>,
}

impl Files {
    /// Creates the limits with nothing used; the ledger counts written bytes.
    pub(crate) fn new(limits: &Limits, ledger: Arc<Ledger>, granted: &[Arc<FileGrant>]) -> Self {
        Self {
            quota: Quota::new(limits.written_bytes, ledger),
            listings: Arc::new(Semaphore::new(limits.listings as usize)),
            open: OpenFiles::new(limits.open_files, Descriptors::of_process().clone()),
            background: Background::new(),
            _used: granted.iter().map(FileGrant::begin_use).collect(),
        }
    }
}
