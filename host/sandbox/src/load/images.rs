//! The images of a component's memories, of which each instance begins as a copy.
//!
//! The system seals an image, so that nobody can change it, and refuses that while it has
//! one of its pages in hand itself, to move it say. That passes; a guest of many megabytes
//! meets it now and then on a busy machine.

use std::io::{Error, ErrorKind};
use wasmtime::component::Component;

/// How often an image is tried to be made. The system waits for a sixth of a second each
/// time before it refuses.
const TRIES: usize = 4;

/// Makes them here and now, on a thread that may wait, instead of in the first call.
///
/// What cannot be made now is tried once more by that call, which ends as the host's failure
/// where it cannot be made then either.
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
