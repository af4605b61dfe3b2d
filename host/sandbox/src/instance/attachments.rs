//! The images, sounds, files and links that a call has attached to its result.

use tollgate_agent::content::{ContentError, ContentPart, check_size};

/// The parts that a call has attached so far.
#[derive(Default)]
pub(crate) struct Attachments {
    parts: Vec<ContentPart>,
    charged_bytes: u64,
}

impl Attachments {
    /// Returns the parts, and the bytes that were charged to the call's slot for them.
    pub(crate) fn take(&mut self) -> (Vec<ContentPart>, u64) {
        (std::mem::take(&mut self.parts), std::mem::take(&mut self.charged_bytes))
    }

    /// Adds a part that takes this much memory.
    ///
    /// # Errors
    /// All parts together would be too many or too large.
    pub(crate) fn add(&mut self, part: ContentPart, charged_bytes: u64) -> Result<(), ContentError> {
        self.parts.push(part);
        check_size(&self.parts).inspect_err(|_| {
            self.parts.pop();
        })?;
        self.charged_bytes += charged_bytes;
        Ok(())
    }
}
