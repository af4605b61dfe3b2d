//! The value of the header `Authorization`.

use crate::error::{Code, Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderValue;
use std::fmt;

/// The value of the header `Authorization`.
#[derive(Clone)]
pub(super) struct Authorization {
    header: HeaderValue,
    is_login: bool,
}

impl Authorization {
    pub(super) fn new(text: &str, is_login: bool) -> Result<Self> {
        let invalid = |_| Error::new(Code::InvalidToken, "the token cannot be sent: it is not plain text");
        let mut header = HeaderValue::from_str(text).map_err(invalid)?;
        header.set_sensitive(true);
        Ok(Self { header, is_login })
    }

    pub(super) fn basic(user: &str, secret: &str) -> Result<Self> {
        Self::new(&format!("Basic {}", STANDARD.encode(format!("{user}:{secret}"))), true)
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Returns whether it was obtained with the user's credentials.
    pub(super) fn is_login(&self) -> bool {
        self.is_login
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorization")
    }
}
