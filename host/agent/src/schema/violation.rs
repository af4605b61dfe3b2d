//! A way in which a value does not fit a schema.

/// The most violations that are reported for one value.
pub const MAX_VIOLATIONS: usize = 20;

/// One way in which a value does not fit a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer (RFC 6901) to the position in the value; empty for the whole value.
    pub pointer: String,
    /// The problem at that position.
    pub problem: String,
}
