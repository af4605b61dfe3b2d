//! The parts of a tool's result besides its data: images, sounds, files and links.
//!
//! A client of the Model Context Protocol receives them as they are. A model reads a line about
//! each, the text of text files, and the images themselves if it can see.

use crate::text::{clean, one_line};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most parts of one result.
pub const MAX_PARTS: usize = 64;
/// The most bytes of all parts of one result, as they are stored: binary data as base64.
pub const MAX_CONTENT_BYTES: usize = 3 * 1024 * 1024;
/// The longest URI of a file or link, in bytes.
pub const MAX_URI_BYTES: usize = 2 * 1024;
/// The longest name, title or description of a link, in bytes; a longer one is cut.
const MAX_LABEL_BYTES: usize = 1024;
/// The longest media type, in bytes.
const MAX_TYPE_BYTES: usize = 128;
/// The stored bytes of an image for which a conversation's length counts one byte: a provider counts
/// an image by its size in pixels, which is far less than its bytes would be as text.
const IMAGE_BYTES_PER_COUNTED: usize = 8;

/// One part of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// An image.
    Image {
        /// Its media type, such as `image/png`.
        mime_type: String,
        /// Its bytes as base64.
        data: Arc<str>,
    },
    /// A sound.
    Audio {
        /// Its media type, such as `audio/wav`.
        mime_type: String,
        /// Its bytes as base64.
        data: Arc<str>,
    },
    /// A file whose contents are text.
    TextFile {
        /// Its URI.
        uri: String,
        /// Its media type, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// Its contents.
        text: Arc<str>,
    },
    /// A file with other contents.
    BinaryFile {
        /// Its URI.
        uri: String,
        /// Its media type, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// Its bytes as base64.
        data: Arc<str>,
    },
    /// A link to something that the client may fetch itself.
    Link {
        /// The address.
        uri: String,
        /// The name of what is linked.
        name: String,
        /// A title for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// A description for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Its media type, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// Its size in bytes, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
}

/// The reason why attachments of a result are refused, as a clause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// A media type is not one.
    #[error("\"{0}\" is not a media type")]
    NotAMediaType(String),
    /// The media type is of another kind than the part.
    #[error("\"{mime_type}\" does not begin with {begins}")]
    OtherMediaType {
        /// The media type.
        mime_type: String,
        /// The beginning of the media types of such parts.
        begins: &'static str,
    },
    /// A URI is not one, or too long.
    #[error("\"{0}\" is not a URI of at most {MAX_URI_BYTES} bytes")]
    NotAUri(String),
    /// The data has another encoding.
    #[error("its data is not base64")]
    NotBase64,
    /// The result has this many parts.
    #[error("{0} parts; a result has at most {MAX_PARTS}")]
    TooManyParts(usize),
    /// The parts of the result have this many bytes.
    #[error("{0} bytes in its parts; a result has at most {MAX_CONTENT_BYTES}")]
    TooLarge(usize),
}

impl ContentPart {
    /// Checks the media type, the URI and the encoding, and sanitizes the texts that people and
    /// models read.
    ///
    /// # Errors
    /// The media type or the URI is invalid, the media type is of another kind than the part, or the
    /// data is not base64.
    pub fn checked(mut self) -> Result<Self, ContentError> {
        match &mut self {
            Self::Image { mime_type, data } => {
                check_type_of("image/", mime_type)?;
                check_base64(data)?;
            }
            Self::Audio { mime_type, data } => {
                check_type_of("audio/", mime_type)?;
                check_base64(data)?;
            }
            Self::TextFile { uri, mime_type, text } => {
                check_uri(uri)?;
                check_known_type(mime_type)?;
                *text = clean(text, MAX_CONTENT_BYTES).into();
            }
            Self::BinaryFile { uri, mime_type, data } => {
                check_uri(uri)?;
                check_known_type(mime_type)?;
                check_base64(data)?;
            }
            Self::Link { uri, name, title, description, mime_type, size: _ } => {
                check_uri(uri)?;
                check_known_type(mime_type)?;
                *name = one_line(name, MAX_LABEL_BYTES);
                for text in [title, description].into_iter().flatten() {
                    *text = clean(text, MAX_LABEL_BYTES);
                }
            }
        }
        Ok(self)
    }

    /// Returns the size of the part in bytes, as it is stored.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self {
            Self::Image { mime_type, data } | Self::Audio { mime_type, data } => mime_type.len() + data.len(),
            Self::TextFile { uri, mime_type, text: data } | Self::BinaryFile { uri, mime_type, data } => {
                uri.len() + length(mime_type) + data.len()
            }
            Self::Link { uri, name, title, description, mime_type, size: _ } => {
                uri.len() + name.len() + length(title) + length(description) + length(mime_type)
            }
        }
    }

    /// Returns the bytes with which the part counts against the length of a conversation, beyond
    /// the text that describes it.
    #[must_use]
    pub fn counted_bytes(&self) -> usize {
        match self {
            Self::Image { data, .. } | Self::BinaryFile { data, .. } if self.is_image() => {
                data.len() / IMAGE_BYTES_PER_COUNTED
            }
            _ => 0,
        }
    }

    /// Returns the text that a model reads in place of the part, or beside it.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::TextFile { text, .. } => format!("{}\n{text}", self.label()),
            _ => self.label(),
        }
    }

    /// Returns one line that describes the part: its kind, media type and size.
    #[must_use]
    pub fn label(&self) -> String {
        let typed =
            |mime_type: &Option<String>| mime_type.as_ref().map_or(String::new(), |of| format!(", {of}"));
        match self {
            Self::Image { mime_type, data } => format!("[an image, {mime_type}, {}]", decoded_size(data)),
            Self::Audio { mime_type, data } => format!("[a sound, {mime_type}, {}]", decoded_size(data)),
            Self::TextFile { uri, mime_type, text } => {
                format!("[the file {uri}{}, {} bytes]", typed(mime_type), text.len())
            }
            Self::BinaryFile { uri, mime_type, data } => {
                format!("[the file {uri}{}, {}]", typed(mime_type), decoded_size(data))
            }
            Self::Link { uri, name, description, .. } => {
                let about = description.as_ref().map_or(String::new(), |about| format!(": {about}"));
                format!("[{name}]({uri}){about}")
            }
        }
    }

    /// Returns whether the part is an image, alone or as a file.
    #[must_use]
    pub fn is_image(&self) -> bool {
        self.image().is_some()
    }

    /// Returns the media type of an image and its bytes as base64.
    #[must_use]
    pub fn image(&self) -> Option<(&str, &Arc<str>)> {
        match self {
            Self::Image { mime_type, data } => Some((mime_type, data)),
            Self::BinaryFile { mime_type: Some(mime_type), data, .. } if mime_type.starts_with("image/") => {
                Some((mime_type, data))
            }
            _ => None,
        }
    }
}

/// Checks the number of a result's parts and their size.
///
/// # Errors
/// They are too many or too large.
pub fn check_size(parts: &[ContentPart]) -> Result<(), ContentError> {
    if parts.len() > MAX_PARTS {
        return Err(ContentError::TooManyParts(parts.len()));
    }
    let bytes: usize = parts.iter().map(ContentPart::bytes).sum();
    match bytes <= MAX_CONTENT_BYTES {
        true => Ok(()),
        false => Err(ContentError::TooLarge(bytes)),
    }
}

/// Returns the size of base64 data once it is decoded, for people.
fn decoded_size(data: &str) -> String {
    let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
    format!("{} bytes", (data.len() / 4 * 3).saturating_sub(padding))
}

/// Returns whether a text is a media type (RFC 6838), with or without parameters, of a bounded
/// length.
#[must_use]
pub fn is_media_type(mime_type: &str) -> bool {
    let is_token = |token: &str| {
        !token.is_empty()
            && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    // Parameters, such as a character set, follow a semicolon.
    let (essence, parameters) = mime_type.split_once(';').unwrap_or((mime_type, ""));
    let is_type = essence.trim_end().split_once('/').is_some_and(|(of, kind)| is_token(of) && is_token(kind));
    let printable = parameters.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    is_type && printable && mime_type.len() <= MAX_TYPE_BYTES
}

fn check_type(mime_type: &str) -> Result<(), ContentError> {
    match is_media_type(mime_type) {
        true => Ok(()),
        false => Err(ContentError::NotAMediaType(one_line(mime_type, 80))),
    }
}

fn check_known_type(mime_type: &Option<String>) -> Result<(), ContentError> {
    mime_type.as_deref().map_or(Ok(()), check_type)
}

fn check_type_of(begins: &'static str, mime_type: &str) -> Result<(), ContentError> {
    check_type(mime_type)?;
    match mime_type.starts_with(begins) {
        true => Ok(()),
        false => Err(ContentError::OtherMediaType { mime_type: mime_type.to_owned(), begins }),
    }
}

fn check_uri(uri: &str) -> Result<(), ContentError> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let has_scheme = uri.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
    if !has_scheme
        || uri.len() > MAX_URI_BYTES
        || clean(uri, MAX_URI_BYTES) != uri
        || uri.contains(char::is_whitespace)
    {
        return Err(ContentError::NotAUri(one_line(uri, 80)));
    }
    Ok(())
}

fn check_base64(data: &str) -> Result<(), ContentError> {
    let digits = data.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    match data.len().is_multiple_of(4) && data.len() - digits.len() <= 2 && digits.bytes().all(is_digit) {
        true => Ok(()),
        false => Err(ContentError::NotBase64),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn image(mime_type: &str, data: &str) -> ContentPart {
        ContentPart::Image { mime_type: mime_type.to_owned(), data: data.into() }
    }

    #[test]
    fn a_part_is_refused_with_the_reason() {
        assert!(image("image/png", "iVBORw0=").checked().is_ok());
        assert!(image("image/svg+xml; charset=utf-8", "").checked().is_ok());
        for (part, why) in [
            (image("text/html", "aaaa"), "does not begin with image/"),
            (image("image/\u{202e}png", "aaaa"), "is not a media type"),
            (image("image/png", "<svg>"), "is not base64"),
            (image("image/png", "a==="), "is not base64"),
            (
                ContentPart::TextFile { uri: "no uri".to_owned(), mime_type: None, text: "t".into() },
                "is not a URI",
            ),
            (
                ContentPart::TextFile {
                    uri: "file:///a\u{202e}b".to_owned(),
                    mime_type: None,
                    text: "t".into(),
                },
                "is not a URI",
            ),
        ] {
            let refused = part.checked().unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn stacked_marks_of_a_language_are_kept() {
        let word = "\u{5e9}\u{5bc}\u{5c1}\u{5b8}\u{591}\u{5bd}";
        let uri = format!("file:///{word}");
        let part = ContentPart::TextFile { uri, mime_type: None, text: word.into() };
        assert_eq!(part.clone().checked().map_err(|why| why.to_string()), Ok(part));
    }

    #[test]
    fn texts_are_sanitized_and_described() {
        let link = ContentPart::Link {
            uri: "file:///notes.txt".to_owned(),
            name: "no\u{202e}tes\n".to_owned(),
            title: None,
            description: Some("My notes".to_owned()),
            mime_type: None,
            size: Some(3),
        };
        let words = link.checked().unwrap().words();
        assert!(
            words.ends_with("(file:///notes.txt): My notes") && !words.contains(['\u{202e}', '\n']),
            "{words}"
        );
        assert_eq!(image("image/png", "iVBORw0=").words(), "[an image, image/png, 5 bytes]");
    }

    #[test]
    fn parts_are_bounded_in_number_and_size() {
        assert!(check_size(&vec![image("image/png", "aaaa"); MAX_PARTS]).is_ok());
        assert!(
            check_size(&vec![image("image/png", "aaaa"); MAX_PARTS + 1])
                .unwrap_err()
                .to_string()
                .contains("65 parts")
        );
        let large = "a".repeat(MAX_CONTENT_BYTES);
        assert!(
            check_size(&[image("image/png", &large)]).unwrap_err().to_string().contains("bytes in its parts")
        );
    }
}
