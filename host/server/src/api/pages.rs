//! Pages of lists. A cursor is opaque to clients, and valid only with the filter of its list.

use crate::problem::Problem;
use axum::Json;
use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

/// The range of `limit`.
const LIMITS: std::ops::RangeInclusive<usize> = 1..=200;
/// The default of `limit`.
pub(super) const DEFAULT_LIMIT: usize = 50;
/// The size at which a page of events, messages or questions ends early, in bytes. A larger event or
/// message is a page of its own; a page of questions ends with the run that exceeds the size.
pub(super) const MAX_PAGE_BYTES: u64 = 1 << 20;
/// The number of characters of a digest in a cursor.
const DIGEST_CHARS: usize = 8;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Page<T: ToSchema> {
    /// The entries.
    pub(super) items: Vec<T>,
    /// The value of `after` for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl<T: Serialize + ToSchema> Page<T> {
    /// Returns the page with a link to the next one.
    pub(super) fn answer(self, uri: &Uri) -> Response {
        let link = self.link(uri);
        linked(Json(self).into_response(), link)
    }

    /// Returns the entries as one JSON text per line, with a link to the next page.
    pub(super) fn lines(self, uri: &Uri, content_type: &'static str) -> Response {
        let line = |item: &T| serde_json::to_string(item).map(|line| line + "\n").unwrap_or_default();
        let lines: String = self.items.iter().map(line).collect();
        linked(([(header::CONTENT_TYPE, content_type)], lines).into_response(), self.link(uri))
    }

    fn link(&self, uri: &Uri) -> Option<HeaderValue> {
        next_link(uri, self.next.as_deref()?)
    }
}

/// Returns the header `Link` that leads to the next page of this list.
pub(super) fn next_link(uri: &Uri, next: &str) -> Option<HeaderValue> {
    let query = uri.query().unwrap_or_default();
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("after="));
    let query: Vec<&str> = kept.collect();
    let query = if query.is_empty() { String::new() } else { format!("{}&", query.join("&")) };
    HeaderValue::from_str(&format!("<{}?{query}after={next}>; rel=\"next\"", uri.path())).ok()
}

/// Adds the link to the next page to an answer.
pub(super) fn linked(mut response: Response, link: Option<HeaderValue>) -> Response {
    if let Some(link) = link {
        response.headers_mut().insert(header::LINK, link);
    }
    response
}

/// Checks the length of a page.
pub(super) fn limit(asked: Option<usize>) -> Result<usize, Problem> {
    let limit = asked.unwrap_or(DEFAULT_LIMIT);
    if LIMITS.contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::bad_request(format!(
        "`limit` is {limit}; it is from {} to {}",
        LIMITS.start(),
        LIMITS.end()
    )))
}

/// The largest number of an event and of a time: clients read numbers as doubles.
pub(super) const MAX_NUMBER: u64 = (1 << 53) - 1;

/// Checks a time.
pub(super) fn time(asked: Option<u64>) -> Result<Option<u64>, Problem> {
    if asked.is_some_and(|time| time > MAX_NUMBER) {
        return Err(Problem::bad_request(format!("a time is at most {MAX_NUMBER} ms after the Unix epoch")));
    }
    Ok(asked)
}

/// Returns a cursor at this place of a list with this filter.
pub(super) fn cursor(filter: &impl std::fmt::Debug, place: &impl Serialize) -> String {
    let place = serde_json::to_string(place).unwrap_or_default();
    let place: String = place.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{}{place}", filter_digest(filter))
}

/// Reads a cursor.
pub(super) fn place<T: DeserializeOwned>(
    filter: &impl std::fmt::Debug,
    cursor: Option<&str>,
) -> Result<Option<T>, Problem> {
    let Some(cursor) = cursor else { return Ok(None) };
    let wrong = || Problem::bad_request("`after` is not from a page of this list; start without it");
    let (digest, place) = cursor.split_at_checked(DIGEST_CHARS).ok_or_else(wrong)?;
    if digest != filter_digest(filter) || place.len() % 2 != 0 || place.len() > 2_000 {
        return Err(wrong());
    }
    let bytes: Option<Vec<u8>> =
        (0..place.len()).step_by(2).map(|at| u8::from_str_radix(place.get(at..at + 2)?, 16).ok()).collect();
    let read = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    read.map(Some).ok_or_else(wrong)
}

fn filter_digest(filter: &impl std::fmt::Debug) -> String {
    let digest = Sha256::digest(format!("{filter:?}").as_bytes());
    digest.iter().take(DIGEST_CHARS / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_cursor_is_valid_with_its_filter() {
        let given = cursor(&"a", &(3_u64, "x"));
        assert_eq!(place::<(u64, String)>(&"a", Some(&given)).unwrap().unwrap(), (3, "x".to_owned()));
        assert!(place::<(u64, String)>(&"b", Some(&given)).is_err());
        for wrong in ["", "zz", "abcdefgh", "0123456789abcdéf", &given[..given.len() - 1]] {
            assert!(place::<(u64, String)>(&"a", Some(wrong)).is_err(), "{wrong}");
        }
        assert!(limit(Some(0)).is_err() && limit(Some(201)).is_err());
        assert_eq!(limit(None).unwrap(), 50);
    }
}
