//! The `[model]` table of `tollgate.toml`, and how it becomes a model.

#[cfg(feature = "providers")]
mod live;

use super::provider::{Provider, ReasoningEffort};
use super::{Model, RecordingError, RetryPolicy, RetryingModel, ScriptedModel, TextCalls};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The settings of a model and its timeouts.
///
/// ```toml
/// [model]
/// provider = "openai"          # or anthropic, gemini, ollama, recorded
/// model = "gpt-5-mini"
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The protocol. `openai` covers every chat-completions server.
    pub provider: ProviderName,
    /// The model's name, as the provider spells it. Required, except for `recorded`.
    pub model: Option<String>,
    /// For `recorded`: the file with the turns, relative to the configuration.
    pub file: Option<PathBuf>,
    /// The base URL of the API, with its version: `https://api.openai.com/v1`. Defaults to the
    /// provider's own.
    pub base_url: Option<String>,
    /// The environment variable that holds the key. Without it and `base_url`, the provider's
    /// customary variable is used. A key is never sent to a server it was not configured for.
    pub api_key_env: Option<String>,
    /// The maximum number of tokens of one reply.
    pub max_output_tokens: Option<u32>,
    /// The sampling temperature, from 0 to 2.
    pub temperature: Option<f64>,
    /// The effort of a reasoning model. Gemini returns its reasoning only if this is set.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Whether the model sees the images that tools return. By default, models of OpenAI,
    /// Anthropic and Google do unless `base_url` is set, and others read a line about each.
    pub images: Option<bool>,
    /// How the model calls tools: `native`, or `text` for a model without tool calls of its own.
    #[serde(default)]
    pub tool_calls: ToolCalls,
    /// The timeout for establishing a connection, in milliseconds (default 10,000).
    pub connect_timeout_ms: Option<u64>,
    /// The timeout until the response begins, including the connection, in milliseconds (default
    /// 120,000).
    pub first_byte_timeout_ms: Option<u64>,
    /// The longest silence in mid-reply, in milliseconds (default 60,000).
    pub idle_timeout_ms: Option<u64>,
    /// The timeout for a whole reply, in milliseconds (default 900,000).
    pub reply_timeout_ms: Option<u64>,
    /// How requests are retried after a transient fault.
    #[serde(default)]
    pub retry: RetryPolicy,
}

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderName {
    /// A file of turns.
    Recorded,
    /// `/chat/completions`, of OpenAI or any compatible server.
    Openai,
    /// Anthropic's Messages API.
    Anthropic,
    /// Google's `streamGenerateContent`.
    Gemini,
    /// Ollama's `/api/chat`.
    Ollama,
}

/// The way in which a model calls tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolCalls {
    /// By the provider's protocol.
    #[default]
    Native,
    /// In the text of its reply; see [`TextCalls`].
    Text,
}

/// The reason why a model could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ModelConfigError {
    /// The recording cannot be played.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A key is missing, or a key is set that has no meaning here.
    #[error("the table [model] cannot be used: {0}")]
    Invalid(String),
    /// The environment variable with the API key is missing or unusable.
    #[error(
        "the model `{model}` needs an API key, and the environment variable {variable} {what}; type `export {variable}=...`, or name another variable: `api_key_env = \"...\"` in [model]"
    )]
    ApiKey {
        /// The model that needs it.
        model: String,
        /// The name of the variable.
        variable: String,
        /// The problem with the variable.
        what: &'static str,
    },
    /// This program has no clients of providers.
    #[error(
        "this program was built without clients of model providers; build it with the feature `providers`, or use `provider = \"recorded\"`"
    )]
    WithoutProviders,
}

impl ModelConfig {
    /// Creates the settings of a model by its name, with every limit at its default.
    #[must_use]
    pub fn new(provider: ProviderName, model: impl Into<String>) -> Self {
        Self {
            provider,
            model: Some(model.into()),
            file: None,
            base_url: None,
            api_key_env: None,
            max_output_tokens: None,
            temperature: None,
            reasoning_effort: None,
            images: None,
            tool_calls: ToolCalls::default(),
            connect_timeout_ms: None,
            first_byte_timeout_ms: None,
            idle_timeout_ms: None,
            reply_timeout_ms: None,
            retry: RetryPolicy::default(),
        }
    }

    /// Creates the model. `base_dir` is the directory of the configuration; `env` reads an
    /// environment variable.
    ///
    /// # Errors
    /// A key is missing, out of bounds, or has no meaning for this provider; the API key's
    /// variable is not set; the recording cannot be played; or the program was built without
    /// clients of providers.
    pub fn build(
        &self,
        base_dir: &Path,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Arc<dyn Model>, ModelConfigError> {
        let model: Arc<dyn Model> = match self.live_provider() {
            None => Arc::new(RetryingModel::new(self.recorded(base_dir)?, self.retry)),
            Some(provider) => Arc::new(RetryingModel::new(self.live(provider, env)?, self.retry)),
        };
        Ok(match self.tool_calls {
            ToolCalls::Native => model,
            ToolCalls::Text => Arc::new(TextCalls::new(model)),
        })
    }

    /// Creates the model in this process's environment: keys are read from its variables, and
    /// files are relative to its working directory.
    ///
    /// ```no_run
    /// use tollgate_models::{ModelConfig, ProviderName};
    ///
    /// # fn model() -> Result<(), tollgate_models::ModelConfigError> {
    /// let model = ModelConfig::new(ProviderName::Anthropic, "claude-sonnet-4-5").connect()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`build`](Self::build).
    pub fn connect(&self) -> Result<Arc<dyn Model>, ModelConfigError> {
        self.build(Path::new("."), |name| std::env::var(name).ok())
    }

    fn live_provider(&self) -> Option<Provider> {
        match self.provider {
            ProviderName::Recorded => None,
            ProviderName::Openai => Some(Provider::Openai),
            ProviderName::Anthropic => Some(Provider::Anthropic),
            ProviderName::Gemini => Some(Provider::Gemini),
            ProviderName::Ollama => Some(Provider::Ollama),
        }
    }

    fn recorded(&self, base_dir: &Path) -> Result<ScriptedModel, ModelConfigError> {
        let meaningless = [
            ("model", self.model.is_some()),
            ("base_url", self.base_url.is_some()),
            ("api_key_env", self.api_key_env.is_some()),
            ("max_output_tokens", self.max_output_tokens.is_some()),
            ("temperature", self.temperature.is_some()),
            ("reasoning_effort", self.reasoning_effort.is_some()),
            ("images", self.images.is_some()),
            ("connect_timeout_ms", self.connect_timeout_ms.is_some()),
            ("first_byte_timeout_ms", self.first_byte_timeout_ms.is_some()),
            ("idle_timeout_ms", self.idle_timeout_ms.is_some()),
            ("reply_timeout_ms", self.reply_timeout_ms.is_some()),
        ];
        if let Some((key, _)) = meaningless.iter().find(|(_, is_set)| *is_set) {
            return Err(invalid(format!("`{key}` has no meaning for `recorded`. Remove it.")));
        }
        let file = self.file.as_ref().ok_or_else(|| {
            invalid("`recorded` needs the file with the turns: `file = \"turns.toml\"`.".to_owned())
        })?;
        Ok(ScriptedModel::open(&base_dir.join(file))?)
    }

    /// Refuses every provider, because this build has no clients of them.
    #[cfg(not(feature = "providers"))]
    fn live(
        &self,
        _: Provider,
        _: impl Fn(&str) -> Option<String>,
    ) -> Result<Arc<dyn Model>, ModelConfigError> {
        Err(ModelConfigError::WithoutProviders)
    }

    /// Returns the environment variable that holds its key, if it has one.
    #[must_use]
    pub fn key_variable(&self) -> Option<&str> {
        match self.live_provider() {
            Some(provider) => self.variable_of(provider),
            None => self.api_key_env.as_deref(),
        }
    }

    fn variable_of(&self, provider: Provider) -> Option<&str> {
        let customary = provider.key_variable().filter(|_| self.base_url.is_none());
        self.api_key_env.as_deref().or(customary)
    }
}

fn invalid(why: String) -> ModelConfigError {
    ModelConfigError::Invalid(why)
}

#[cfg(test)]
mod tests;
