//! Constructs large values directly on the heap.

/// Constructs a value in its box. [`Box::new`] receives a finished value and copies it. A future is
/// copied with all the space that it may ever need.
pub(crate) fn boxed<T>(make: impl FnOnce() -> T) -> Box<T> {
    Box::write(Box::new_uninit(), make())
}
