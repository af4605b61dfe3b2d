//! Images, files and links that belong to a call's result.

/// An image, a file or a link that a call attached to its result, as a test sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attachment {
    /// An image, a sound or a file.
    Data {
        /// Its media type; empty if it was not given.
        mime_type: String,
        /// Its bytes.
        data: Vec<u8>,
        /// The URI of a file; `None` for an image or a sound.
        uri: Option<String>,
    },
    /// A link.
    Link {
        /// The address.
        uri: String,
        /// The name of what is linked.
        name: String,
        /// A description for the model.
        description: Option<String>,
    },
}
