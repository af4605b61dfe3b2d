//! The open files, directories and listings of one call. Each is a descriptor of the host's
//! process.

use crate::descriptors::{DescriptorPermit, Descriptors};
use crate::meter::Stop;
use std::fs::File;
use std::sync::{Arc, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The open files of one call.
pub(crate) struct OpenFiles {
    places: Arc<Semaphore>,
    all: Descriptors,
    /// A stream keeps its file open after the guest has dropped the descriptor, so the place
    /// belongs to the file.
    open: Vec<(Weak<File>, OpenFilePermit)>,
}

/// The place of one open file, returned on drop.
pub(crate) struct OpenFilePermit {
    _of_call: OwnedSemaphorePermit,
    _of_process: DescriptorPermit,
}

impl OpenFiles {
    pub(crate) fn new(most: u32, all: Descriptors) -> Self {
        Self { places: Arc::new(Semaphore::new(most as usize)), all, open: Vec::new() }
    }

    /// Takes a place before a file is opened.
    pub(crate) fn take(&mut self) -> Result<OpenFilePermit, Stop> {
        self.open.retain(|(file, _)| file.strong_count() > 0);
        let of_call = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Stop::OpenFiles)?;
        let of_process = self.take_of_process(1)?;
        Ok(OpenFilePermit { _of_call: of_call, _of_process: of_process })
    }

    /// Takes descriptors that are open only while the host works.
    pub(crate) fn take_of_process(&self, count: u32) -> Result<DescriptorPermit, Stop> {
        self.all.for_call(count).ok_or(Stop::Descriptors)
    }

    /// Holds a place for as long as this file is open.
    pub(crate) fn hold(&mut self, file: &Arc<File>, place: OpenFilePermit) {
        self.open.push((Arc::downgrade(file), place));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn opened(files: &mut OpenFiles) -> Result<Arc<File>, Stop> {
        let place = files.take()?;
        let file = Arc::new(File::open("/dev/null").unwrap());
        files.hold(&file, place);
        Ok(file)
    }

    #[test]
    fn z5_a_file_has_its_place_until_the_last_stream_of_it_is_closed() {
        let mut files = OpenFiles::new(2, Descriptors::within(400));
        let (first, _second) = (opened(&mut files).unwrap(), opened(&mut files).unwrap());
        let stream = Arc::clone(&first);
        drop(first);
        assert_eq!(opened(&mut files).err(), Some(Stop::OpenFiles));
        drop(stream);
        assert!(opened(&mut files).is_ok());
    }

    #[test]
    fn z5_all_calls_together_leave_the_host_its_descriptors() {
        let all = Descriptors::within(16);
        let mut calls: Vec<_> = (0..2).map(|_| OpenFiles::new(64, all.clone())).collect();
        let held: Vec<_> = (0..4).map(|at| opened(&mut calls[at % 2]).unwrap()).collect();
        assert_eq!(opened(&mut calls[0]).err(), Some(Stop::Descriptors));
        drop(held);
        assert!(opened(&mut calls[0]).is_ok() && calls[1].take().is_ok());
    }
}
