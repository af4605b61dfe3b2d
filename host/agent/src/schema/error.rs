//! The reason why a schema is rejected.

/// The reason why a schema is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(pub(super) String);
