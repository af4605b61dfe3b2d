//! Patterns of names, for events and state keys.

/// A pattern of wanted names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    Exactly(String),
    Prefix(String),
}

impl Pattern {
    pub(super) fn new(pattern: &str) -> Self {
        match pattern.strip_suffix('*') {
            Some(prefix) => Pattern::Prefix(prefix.to_owned()),
            None => Pattern::Exactly(pattern.to_owned()),
        }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        match self {
            Pattern::Exactly(wanted) => wanted == name,
            Pattern::Prefix(prefix) => name.starts_with(prefix.as_str()),
        }
    }
}
