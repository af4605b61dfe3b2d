//! The filters of a list, which are the query of its page's address.

use super::failure::Failure;
use crate::Problem;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::collections::BTreeMap;
use tollgate_agent::text::clean;

/// The values of filters by name, without surrounding spaces. An absent filter is empty.
#[derive(Debug, Default)]
pub(super) struct Filters(BTreeMap<String, String>);

impl<S: Sync> FromRequestParts<S> for Filters {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        let mut filters = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()) {
            if filters.contains_key(&*name) {
                return Err(wrong(format!("the filter `{}` occurs twice; send it once", clean(&name, 60))));
            }
            filters.insert(name.into_owned(), value.trim().to_owned());
        }
        Ok(Self(filters))
    }
}

impl Filters {
    /// Creates filters from the query of a live stream, which has other members too.
    pub(super) fn of<'a>(query: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        Self(query.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// Checks the names.
    ///
    /// # Errors
    /// The list has no filter of this name.
    pub(super) fn only(self, known: &[&str]) -> Result<Self, Failure> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(wrong(format!(
                "there is no filter `{}`; this list has {}",
                clean(name, 60),
                known.join(", ")
            ))),
            None => Ok(self),
        }
    }

    /// Returns the value of a filter; an empty text if it is absent.
    pub(super) fn word(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Returns the value of a filter that is empty or one of these.
    ///
    /// # Errors
    /// It is another one.
    pub(super) fn choice(&self, name: &str, choices: &[&str]) -> Result<&str, Failure> {
        let value = self.word(name);
        if value.is_empty() || choices.contains(&value) {
            return Ok(value);
        }
        let (value, choices) = (clean(value, 60), choices.join(", "));
        Err(wrong(format!("`{name}` cannot be `{value}`; choose one of {choices}")))
    }

    /// Returns the number of the page, from 1.
    ///
    /// # Errors
    /// It is not a number from 1 to `last`.
    pub(super) fn page(&self, last: usize) -> Result<usize, Failure> {
        let value = self.word("page");
        if value.is_empty() {
            return Ok(1);
        }
        let page = value.parse().ok().filter(|page| (1..=last).contains(page));
        page.ok_or_else(|| {
            wrong(format!("`page` is `{}`; pages have the numbers 1 to {last}", clean(value, 20)))
        })
    }
}

fn wrong(detail: String) -> Failure {
    Problem::bad_request(detail).into()
}
