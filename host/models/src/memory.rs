//! The memory of replies, which a host bounds.

/// The memory that a host grants to one reply.
pub trait ReplyMemory: std::fmt::Debug + Send + Sync {
    /// Reserves memory, so that the reply has at least this many bytes. They are returned once this
    /// value is dropped. Must not block.
    ///
    /// # Errors
    /// Returns the reason, for people, if they are not free. Earlier reservations stay.
    fn reserve(&self, bytes: u64) -> Result<(), String>;
}

/// Memory without a bound, for a caller that bounds it in another way.
impl ReplyMemory for () {
    fn reserve(&self, _: u64) -> Result<(), String> {
        Ok(())
    }
}
