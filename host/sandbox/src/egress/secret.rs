//! A secret that is added to requests after they leave the guest.

use crate::error::SandboxError;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use tollgate_agent::egress::{Origin, Target};
use tollgate_agent::redact::{MAX_SECRET_BYTES, MIN_SECRET_BYTES};

/// A secret, bound to one host and one header. Its `Debug` output is a placeholder.
#[derive(Clone)]
pub struct Secret {
    to: Origin,
    header: HeaderName,
    /// The header value: the prefix and the secret.
    value: HeaderValue,
    text: String,
}

impl Secret {
    /// Binds a secret. `prefix` precedes it in the header, such as `Bearer `.
    ///
    /// # Errors
    /// Fails if the header name is invalid or is a framing header, or if the secret is too short
    /// to be redacted, too long, or not valid in a header.
    pub fn new(to: Origin, header: &str, prefix: &str, text: &str) -> Result<Self, SandboxError> {
        let name: HeaderName =
            header.parse().ok().filter(|name| !super::headers::frames(name)).ok_or_else(|| {
                SandboxError::new(format!("\"{header}\" is not a header that can carry a secret"))
            })?;
        let text = text.trim_end_matches(['\r', '\n']);
        if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&text.len()) {
            return Err(SandboxError::new(format!(
                "its value has {} bytes; a secret has {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES}, \
                 or it could not be kept out of what tools read",
                text.len()
            )));
        }
        let mut value = HeaderValue::from_str(&format!("{prefix}{text}")).map_err(|_| {
            SandboxError::new("its value has a character that a header cannot carry, such as a line break")
        })?;
        value.set_sensitive(true);
        Ok(Self { to, header: name, value, text: text.to_owned() })
    }

    /// Adds the secret to a request for its host, replacing the guest's value. Returns whether it
    /// did.
    pub(super) fn join(&self, target: &Target, headers: &mut HeaderMap) -> bool {
        let goes_there = self.to.is_of(target);
        if goes_there {
            headers.insert(self.header.clone(), self.value.clone());
        }
        goes_there
    }

    pub(crate) fn expose(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[secret in {} for {}]", self.header, self.to)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn secret(header: &str, text: &str) -> Result<Secret, SandboxError> {
        Secret::new("https://api.example.com".parse().unwrap(), header, "Bearer ", text)
    }

    #[test]
    fn a_secret_joins_requests_to_its_host_alone() {
        let secret = secret("authorization", "0123456789\n").unwrap();
        let mut headers = HeaderMap::new();
        for elsewhere in ["https://example.com", "http://api.example.com", "https://api.example.com:444"] {
            let (scheme, authority) = elsewhere.split_once("://").unwrap();
            let target = Target::parse("GET", scheme, authority, "/").unwrap();
            assert!(!secret.join(&target, &mut headers), "{elsewhere}");
        }
        assert!(headers.is_empty());
        let target = Target::parse("GET", "https", "API.example.com", "/").unwrap();
        assert!(secret.join(&target, &mut headers));
        assert_eq!(headers["authorization"], "Bearer 0123456789");
    }

    #[test]
    fn a_secret_never_shows_itself() {
        let secret = secret("x-api-key", "0123456789").unwrap();
        assert_eq!(format!("{secret:?}"), "[secret in x-api-key for https://api.example.com]");
        assert!(!format!("{:?}", secret.value).contains("0123"));
    }

    #[test]
    fn what_could_not_be_blanked_or_sent_is_refused() {
        assert!(secret("authorization", "short").is_err());
        assert!(secret("authorization", "with\nan end of line").is_err());
        assert!(secret("host", "0123456789").is_err());
        assert!(secret("no header", "0123456789").is_err());
    }
}
