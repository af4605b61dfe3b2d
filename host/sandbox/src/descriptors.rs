//! The file descriptors that the host holds for guests. A process has one limit on open files
//! (`ulimit -n`), and a host that reaches it cannot serve any request.
//!
//! All calls together hold at most a quarter of that limit, and so do the memory images of all
//! loaded components. The other half is reserved for the host itself.

use std::sync::{Arc, LazyLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The soft limit is raised to at most this many descriptors.
const MAX_SOFT_LIMIT: u64 = 65_536;

/// The descriptors that guests may hold. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Descriptors {
    of_calls: Arc<Semaphore>,
    of_images: Arc<Semaphore>,
    most: usize,
}

/// Descriptors that may be held until this is dropped.
pub(crate) type DescriptorPermit = OwnedSemaphorePermit;

impl Descriptors {
    /// Returns the descriptors of this process, derived from the limit on open files at first
    /// use.
    pub(crate) fn of_process() -> &'static Self {
        static OF_PROCESS: LazyLock<Descriptors> = LazyLock::new(|| Descriptors::within(open_files_limit()));
        &OF_PROCESS
    }

    /// Creates the guests' descriptors for a process that may open this many files.
    pub(crate) fn within(limit: u64) -> Self {
        let most = usize::try_from(limit / 4).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { of_calls: Arc::new(Semaphore::new(most)), of_images: Arc::new(Semaphore::new(most)), most }
    }

    /// Takes descriptors for a call. Returns `None` if other calls hold too many.
    pub(crate) fn for_call(&self, count: u32) -> Option<DescriptorPermit> {
        Arc::clone(&self.of_calls).try_acquire_many_owned(count).ok()
    }

    /// Takes descriptors for the memory images of a component. Returns `None` if other
    /// components' images hold too many.
    pub(crate) fn for_images(&self, count: u32) -> Option<DescriptorPermit> {
        Arc::clone(&self.of_images).try_acquire_many_owned(count).ok()
    }

    /// Returns the maximum for all calls, which is also the maximum for all images.
    pub(crate) fn max(&self) -> usize {
        self.most
    }
}

#[cfg(unix)]
fn open_files_limit() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(MAX_SOFT_LIMIT)
}

#[cfg(not(unix))]
fn open_files_limit() -> u64 {
    MAX_SOFT_LIMIT
}

/// Raises this process's limit on open files as far as the system allows, to at most 65,536. Call
/// this before creating the first sandbox, which derives the guests' number of descriptors from
/// it.
pub fn raise_open_files_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        let most = limit.maximum.unwrap_or(MAX_SOFT_LIMIT).min(MAX_SOFT_LIMIT);
        if limit.current.is_some_and(|current| current < most) {
            limit.current = Some(most);
            // The lower limit also works: guests then hold fewer descriptors.
            let _ = setrlimit(Resource::Nofile, limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z5_calls_hold_a_quarter_of_the_descriptors_and_leave_the_rest() {
        let descriptors = Descriptors::within(100);
        let held: Vec<_> = (0..25).map(|_| descriptors.for_call(1)).collect();
        assert!(held.iter().all(Option::is_some) && descriptors.for_call(1).is_none());
        let images = descriptors.for_images(25);
        assert!(images.is_some() && descriptors.clone().for_images(1).is_none());
        drop((held, images));
        assert!(descriptors.for_call(25).is_some() && descriptors.for_images(25).is_some());
    }
}
