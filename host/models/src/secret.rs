//! An API key that is never displayed.

use std::fmt;

/// The maximum length of a key.
pub(super) const MAX_KEY_BYTES: usize = 4_096;

/// A shorter key is a placeholder for a server that needs none. Removing it would garble the words
/// of errors.
const MIN_REDACTED_BYTES: usize = 4;

/// An API key. It is displayed as a placeholder, and removed from every text that a provider
/// sends back.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Creates a key from the value of an environment variable, trimmed. Returns `None` if it is
    /// empty, too long, or not a valid header value.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_sendable =
            (1..=MAX_KEY_BYTES).contains(&text.len()) && text.bytes().all(|b| (0x21..0x7f).contains(&b));
        is_sendable.then(|| Self(text.to_owned()))
    }

    /// Returns the key itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the text without the key.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        if self.0.len() < MIN_REDACTED_BYTES {
            return text.to_owned();
        }
        text.replace(&self.0, "[api key]")
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[api key]")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_key_never_shows_itself() {
        let key = ApiKey::new(" sk-123\n").unwrap();
        assert_eq!(key.expose(), "sk-123");
        assert_eq!(format!("{key:?}"), "[api key]");
        assert_eq!(key.redact("Incorrect key sk-123."), "Incorrect key [api key].");
        assert_eq!(ApiKey::new("k").unwrap().redact("failed to look up"), "failed to look up");
        assert_eq!(ApiKey::new("  "), None);
        assert_eq!(ApiKey::new("a\nb"), None);
    }
}
