//! The images of a component's memories. Each instance starts as a copy of them.
//!
//! The system seals an image so that it cannot be changed, and refuses to do so while it is using
//! one of the image's pages itself, for example to move it. This is temporary; large guests
//! encounter it occasionally on a busy machine.

use std::io::{Error, ErrorKind};
use wasmtime::component::Component;

/// The number of attempts to create an image. The system waits for a sixth of a second before
/// each refusal.
const TRIES: usize = 4;

/// Creates the images now, on a thread that may block, instead of in the first call.
///
/// If this fails, the first call retries it. If that fails too, the call ends with a host fault.
pub(super) fn make(component: &Component) {
    let _ = until_not_busy(|| component.initialize_copy_on_write_image());
}

fn until_not_busy(mut make: impl FnMut() -> wasmtime::Result<()>) -> wasmtime::Result<()> {
    for _ in 1..TRIES {
        match make() {
            Err(error) if is_busy(&error) => {}
            made => return made,
        }
    }
    make()
}

fn is_busy(error: &wasmtime::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<Error>())
        .any(|e| e.kind() == ErrorKind::ResourceBusy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_after(refusals: &[ErrorKind]) -> (usize, bool) {
        let mut tries = 0;
        let made = until_not_busy(|| {
            tries += 1;
            match refusals.get(tries - 1) {
                Some(kind) => Err(wasmtime::Error::from(Error::from(*kind)).context("sealing it")),
                None => Ok(()),
            }
        });
        (tries, made.is_ok())
    }

    #[test]
    fn what_is_busy_is_tried_again_and_nothing_else() {
        let busy = ErrorKind::ResourceBusy;
        assert_eq!(made_after(&[]), (1, true));
        assert_eq!(made_after(&[busy, busy]), (3, true));
        assert_eq!(made_after(&[busy, ErrorKind::OutOfMemory]), (2, false));
        assert_eq!(made_after(&[busy; TRIES]), (TRIES, false));
    }
}
