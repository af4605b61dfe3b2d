//! What is large is made where it stays.

/// Boxes what is made, in its place. [`Box::new`] is given what was made already, and
/// copies it: of a future, all the room that it may ever need.
pub(crate) fn boxed<T>(make: impl FnOnce() -> T) -> Box<T> {
    Box::write(Box::new_uninit(), make())
}
