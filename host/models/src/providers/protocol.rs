//! The paths of each protocol, and its names in records and in the library.

use crate::provider::Provider;
use genai::adapter::AdapterKind;

impl Provider {
    /// Returns the path with which the addresses of this protocol customarily begin; empty for none.
    pub(super) fn base_path(self) -> &'static str {
        match self {
            Self::Openai | Self::Anthropic => "/v1/",
            Self::Gemini => "/v1beta/",
            Self::Ollama => "",
        }
    }

    /// Returns the path of a request below the base URL.
    pub(super) fn request_path(self, model: &str) -> String {
        match self {
            Self::Openai => "chat/completions".to_owned(),
            Self::Anthropic => "messages".to_owned(),
            Self::Gemini => format!("models/{model}:streamGenerateContent"),
            Self::Ollama => "api/chat".to_owned(),
        }
    }

    /// Returns the key under which data to be sent back to the provider is stored.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    pub(super) fn adapter(self) -> AdapterKind {
        match self {
            Self::Openai => AdapterKind::OpenAI,
            Self::Anthropic => AdapterKind::Anthropic,
            Self::Gemini => AdapterKind::Gemini,
            Self::Ollama => AdapterKind::Ollama,
        }
    }
}
