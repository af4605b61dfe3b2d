//! Parameters of the path and the query of requests.

use crate::problem::Problem;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Query parameters; wrong ones are a problem document.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct QueryParameters<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(read)) => Ok(Self(read)),
            Err(why) => {
                let shown = tollgate_agent::text::clean(&why.body_text(), 300);
                Err(Problem::bad_request(format!("the query cannot be read: {shown}")))
            }
        }
    }
}

/// The parameters of a path; wrong ones are a problem document.
#[derive(Debug, Clone)]
pub(crate) struct PathParameters<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(read)) => Ok(Self(read)),
            Err(_) => {
                Err(Problem::bad_request("the path cannot be read; encode it as UTF-8 with percent signs"))
            }
        }
    }
}
