//! Strings that the message parser reads as JSON of their own: those of keys with which `serde_json`
//! marks its own special values. No other program has a use for such keys.

use tollgate_agent::json::is_reserved_key;

/// The maximum length of the beginning of such a key in bytes, if each of its characters is escaped.
const KEY_BYTES: usize = 96;

/// Finds such keys in a message as it arrives. After the first one, each byte of a string counts as a
/// value.
#[derive(Default)]
pub(super) struct ReservedKeys {
    /// The beginning of the last string.
    last: Vec<u8>,
    were_found: bool,
}

impl ReservedKeys {
    /// Begins a message.
    pub(super) fn begin_message(&mut self) {
        self.were_found = false;
    }

    /// Begins a string.
    pub(super) fn begin_string(&mut self) {
        self.last.clear();
    }

    /// Reads bytes of a string. Returns how many values they may hold.
    pub(super) fn read(&mut self, bytes: &[u8]) -> usize {
        let missing = KEY_BYTES.saturating_sub(self.last.len()).min(bytes.len());
        self.last.extend_from_slice(&bytes[..missing]);
        if self.were_found { bytes.len() } else { 0 }
    }

    /// Ends a string, which may be such a key.
    pub(super) fn end_string(&mut self) {
        self.were_found |= is_reserved_key(&self.last);
    }
}
