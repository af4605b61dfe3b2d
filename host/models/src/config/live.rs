//! A model that calls a provider: its key, its address and its limits, checked.

use super::{ModelConfig, ModelConfigError, invalid};
use crate::http_client::is_loopback;
use crate::provider::Provider;
use crate::providers::{HttpModel, Limits, Options};
use crate::{ApiKey, ModelFault, Probe};
use reqwest::Url;
use std::time::Duration;

impl ModelConfig {
    /// Asks the provider for its models, for at most this long; no model is called. Returns `None` for a
    /// recording, and for a model that cannot be created.
    ///
    /// # Errors
    /// The provider cannot be reached, or refuses the request.
    pub async fn probe(
        &self,
        env: impl Fn(&str) -> Option<String>,
        limit: Duration,
    ) -> Option<Result<Probe, ModelFault>> {
        let model = self.live(self.live_provider()?, env).ok()?;
        Some(model.probe(limit).await)
    }

    /// Creates a model that calls a provider.
    pub(super) fn live(
        &self,
        provider: Provider,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<HttpModel, ModelConfigError> {
        if self.file.is_some() {
            return Err(invalid("`file` is for `provider = \"recorded\"`. Remove it.".to_owned()));
        }
        let model = match self.model.as_deref().map(str::trim) {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => {
                return Err(invalid(
                    "`model` is missing. Add the name of one: `model = \"...\"`.".to_owned(),
                ));
            }
        };
        let api_key = self.api_key(provider, &model, env)?;
        let base_url = self.base_url(provider, api_key.is_some())?;
        HttpModel::new(Options {
            provider,
            model,
            base_url,
            api_key,
            key_variable: self.variable_of(provider).map(str::to_owned),
            max_output_tokens: positive("max_output_tokens", self.max_output_tokens.map(u64::from))?
                .map(|_| self.max_output_tokens.unwrap_or(u32::MAX)),
            temperature: self.checked_temperature()?,
            reasoning_effort: self.reasoning_effort,
            images: self.images.unwrap_or(self.base_url.is_none() && provider != Provider::Ollama),
            limits: self.limits()?,
        })
        .map_err(invalid)
    }

    fn api_key(
        &self,
        provider: Provider,
        model: &str,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<ApiKey>, ModelConfigError> {
        let Some(variable) = self.variable_of(provider) else {
            return match provider.is_useless_without_key() {
                false => Ok(None),
                true => Err(invalid(
                    "with `base_url`, name the variable that holds the key for that server: `api_key_env = \"...\"`.".to_owned(),
                )),
            };
        };
        let missing =
            |what| ModelConfigError::ApiKey { model: model.to_owned(), variable: variable.to_owned(), what };
        let text = env(variable).ok_or_else(|| missing("is not set"))?;
        match ApiKey::new(&text) {
            Some(key) => Ok(Some(key)),
            None => Err(missing("is empty, or contains characters that are invalid in a key")),
        }
    }

    fn base_url(&self, provider: Provider, has_key: bool) -> Result<Url, ModelConfigError> {
        let text = self.base_url.as_deref().unwrap_or(provider.base_url());
        let wrong = |why: &str| {
            invalid(format!("`base_url` {why}. Write it as `base_url = \"{}\"`.", provider.base_url()))
        };
        let mut url = Url::parse(text).map_err(|e| wrong(&format!("is not a URL ({e})")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong("is neither http:// nor https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("holds a user or password; a key comes from `api_key_env`"));
        }
        if url.fragment().is_some() || (url.query().is_some() && provider != Provider::Openai) {
            return Err(wrong("has a query or fragment"));
        }
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        if has_key && url.scheme() == "http" && !is_loopback(&url) {
            tracing::warn!(
                host = url.host_str(),
                "the API key is sent without encryption; use https:// in model.base_url"
            );
        }
        Ok(url)
    }

    fn checked_temperature(&self) -> Result<Option<f64>, ModelConfigError> {
        match self.temperature {
            Some(t) if !(0.0..=2.0).contains(&t) => {
                Err(invalid(format!("`temperature` is {t}, and must be between 0 and 2.")))
            }
            t => Ok(t),
        }
    }

    fn limits(&self) -> Result<Limits, ModelConfigError> {
        let ms =
            |key, value, default| positive(key, value).map(|ms| Duration::from_millis(ms.unwrap_or(default)));
        Ok(Limits {
            connect: ms("connect_timeout_ms", self.connect_timeout_ms, 10_000)?,
            first_byte: ms("first_byte_timeout_ms", self.first_byte_timeout_ms, 120_000)?,
            idle: ms("idle_timeout_ms", self.idle_timeout_ms, 60_000)?,
            reply: ms("reply_timeout_ms", self.reply_timeout_ms, 900_000)?,
        })
    }
}

fn positive(key: &str, value: Option<u64>) -> Result<Option<u64>, ModelConfigError> {
    match value {
        Some(0) => Err(invalid(format!("`{key}` is 0, and must be at least 1."))),
        value => Ok(value),
    }
}
