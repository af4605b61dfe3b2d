//! One request that costs nothing: whether a provider answers, and which models it has.

use super::{HttpModel, Options, errors};
use crate::ModelFault;
use crate::http_client::http_client;
use crate::provider::Provider;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::Value;
use std::time::Duration;
use tollgate_agent::text::one_line;

/// The maximum number of bytes of a list of models.
const MAX_LIST_BYTES: usize = 4 << 20;
/// The maximum number of other models that are named.
const MAX_NAMED: usize = 5;
/// The maximum number of bytes shown of a model's name.
const MAX_NAME_BYTES: usize = 100;
/// The version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A provider's answer to the question which models it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// It has the model.
    Ready,
    /// It answers, but does not list its models.
    Unlisted,
    /// It lists other models, of which these are some.
    Lacks(Vec<String>),
}

impl HttpModel {
    /// Asks the provider for its models, for at most this long.
    pub(crate) async fn probe(&self, limit: Duration) -> Result<Probe, ModelFault> {
        let late = || {
            let words = format!("{} within {} s", errors::UNREACHABLE, limit.as_secs());
            ModelFault::transient(&words, None)
        };
        let asked = tokio::time::timeout(limit, self.ask_for_models(limit)).await;
        asked.unwrap_or_else(|_| Err(late())).map_err(|fault| self.redacted(self.located(fault)))
    }

    async fn ask_for_models(&self, limit: Duration) -> Result<Probe, ModelFault> {
        let mut response = self.list_request(limit)?.send().await.map_err(errors::of_connection)?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND
            && let Some(advice) = self.options.path_advice()
        {
            return Err(ModelFault::permanent(&format!(
                "The provider has no list of models there. {advice}"
            )));
        }
        if matches!(status.as_u16(), 404 | 405 | 501) {
            return Ok(Probe::Unlisted);
        }
        if !status.is_success() {
            return Err(ModelFault::permanent(&format!("The provider answered {status}")));
        }
        let list = body(&mut response).await?;
        Ok(self.options.found_in(&list))
    }

    fn list_request(&self, limit: Duration) -> Result<RequestBuilder, ModelFault> {
        let Options { provider, base_url, api_key, .. } = &self.options;
        let client = http_client(base_url, limit).map_err(|why| ModelFault::permanent(&why.to_string()))?;
        let (path, query) = match provider {
            Provider::Openai => ("models", base_url.query()),
            Provider::Anthropic => ("models", Some("limit=1000")),
            Provider::Gemini => ("models", Some("pageSize=1000")),
            Provider::Ollama => ("api/tags", None),
        };
        let mut url = base_url.join(path).map_err(|e| ModelFault::permanent(&format!("`base_url`: {e}.")))?;
        url.set_query(query);
        let request = client.get(url);
        let Some(key) = api_key.as_ref().map(crate::ApiKey::expose) else { return Ok(request) };
        Ok(match provider {
            Provider::Openai | Provider::Ollama => request.bearer_auth(key),
            Provider::Anthropic => {
                request.header("x-api-key", key).header("anthropic-version", ANTHROPIC_VERSION)
            }
            Provider::Gemini => request.header("x-goog-api-key", key),
        })
    }
}

impl Options {
    /// Looks for the model in a list. A listed name may be more exact: `qwen3:latest`, or one with a date.
    fn found_in(&self, list: &[u8]) -> Probe {
        let Ok(list) = serde_json::from_slice::<Value>(list) else { return Probe::Unlisted };
        let (rows, key) = match self.provider {
            Provider::Openai | Provider::Anthropic => (&list["data"], "id"),
            Provider::Gemini | Provider::Ollama => (&list["models"], "name"),
        };
        let Some(rows) = rows.as_array().filter(|rows| !rows.is_empty()) else { return Probe::Unlisted };
        let names = rows.iter().filter_map(|row| row[key].as_str());
        let names: Vec<&str> = names.map(|name| name.strip_prefix("models/").unwrap_or(name)).collect();
        let wanted = self.model.strip_suffix("-latest").unwrap_or(&self.model);
        match names.iter().any(|name| name.starts_with(wanted)) {
            true => Probe::Ready,
            false => Probe::Lacks(
                names.iter().take(MAX_NAMED).map(|name| one_line(name, MAX_NAME_BYTES)).collect(),
            ),
        }
    }
}

/// Reads a list; one that is too long counts as none.
async fn body(response: &mut Response) -> Result<Vec<u8>, ModelFault> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(errors::of_connection)? {
        if body.len() + chunk.len() > MAX_LIST_BYTES {
            return Ok(Vec::new());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
