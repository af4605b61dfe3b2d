//! A component's description: the functions that it leaves out, and its memory, which is added up
//! before anything is parsed.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_agent::descriptor::MAX_PARSED_BYTES;
use tollgate_agent::json;

/// The most copies of a description that the host holds while its component is loaded: the schemas of
/// its tools as they were given, as they were checked, and as people review them.
const HELD_TIMES: u64 = 3;

/// A function that a plain component exports and that is not a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmittedFunction {
    /// Its name with that of its interface, sanitized.
    pub function: String,
    /// The reason why it cannot be a tool.
    pub reason: String,
}

/// The size of the parts of one description.
#[derive(Debug, Default)]
pub(crate) struct DescriptionSize {
    bytes: u64,
}

impl DescriptionSize {
    /// Adds a text that stays text.
    pub(crate) fn add_text(&mut self, text: &str) {
        self.bytes += text.len() as u64;
    }

    /// Adds a JSON text that will be parsed.
    pub(crate) fn add_json(&mut self, text: &str) {
        self.bytes += json::measure(text.as_bytes()).parsed_bytes;
    }

    /// Adds a value.
    pub(crate) fn add_value(&mut self, value: &Value) {
        self.bytes += json::Measure::of(value).parsed_bytes;
    }

    /// Returns the bytes that all parts take once parsed.
    ///
    /// # Errors
    /// They are more than [`MAX_PARSED_BYTES`].
    pub(crate) fn checked(&self) -> Result<u64, String> {
        if self.bytes > MAX_PARSED_BYTES {
            return Err(format!(
                "its names, schemas and initial values take {} bytes of memory once parsed; at most \
                 {MAX_PARSED_BYTES} are accepted. Shorten the schemas and the initial values, or offer the tools \
                 in several components",
                self.bytes
            ));
        }
        Ok(self.bytes)
    }
}

/// Returns the bytes that the host holds for a description of this size while its component is
/// loaded.
pub(crate) fn held_bytes(parsed_bytes: u64) -> u64 {
    parsed_bytes.saturating_mul(HELD_TIMES)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn z3_all_parts_of_a_description_are_bounded_together() {
        let value = format!("[{}0]", "{\"\":0},".repeat(4_000));
        let mut size = DescriptionSize::default();
        size.add_json(&value);
        size.add_text("a.b");
        let one = size.checked().unwrap();
        assert!(one > 1 << 20, "{one}");
        for _ in 0..MAX_PARSED_BYTES / one {
            size.add_json(&value);
        }
        let why = size.checked().unwrap_err();
        assert!(why.contains("at most 8388608 are accepted"), "{why}");
    }
}
