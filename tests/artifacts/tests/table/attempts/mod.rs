//! The attempts of other parties than guests.

mod local;
mod mcp;
mod remote;

/// An attempt, and the test that plays it.
pub(crate) struct Attempt {
    /// The party that makes it.
    pub(crate) party: &'static str,
    /// The attempt, in a sentence.
    pub(crate) does: &'static str,
    /// How it ends.
    pub(crate) outcome: &'static str,
    /// The limit that stops it, or the setting that changes it.
    pub(crate) limit: &'static str,
    /// The file of its test.
    pub(crate) file: &'static str,
    /// The name of its test.
    pub(crate) test: &'static str,
}

/// All of them.
pub(crate) fn attempts() -> impl Iterator<Item = &'static Attempt> {
    mcp::ATTEMPTS.iter().chain(remote::ATTEMPTS).chain(local::ATTEMPTS)
}
