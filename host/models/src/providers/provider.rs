//! The supported protocols and their defaults.

use genai::adapter::AdapterKind;
use serde::Deserialize;

/// The four protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// `/chat/completions`, of OpenAI or any compatible server.
    Openai,
    /// Anthropic's Messages API.
    Anthropic,
    /// Google's `streamGenerateContent`.
    Gemini,
    /// Ollama's `/api/chat`.
    Ollama,
}

/// The effort of a reasoning model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    /// No reasoning.
    None,
    /// Little reasoning.
    Low,
    /// Some reasoning.
    Medium,
    /// As much reasoning as it takes.
    High,
}

impl Provider {
    /// Returns the base URL of the provider's own API.
    #[must_use]
    pub fn base_url(self) -> &'static str {
        match self {
            Self::Openai => "https://api.openai.com/v1/",
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
            Self::Ollama => "http://localhost:11434/",
        }
    }

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

    /// Returns the customary environment variable for its key.
    #[must_use]
    pub fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Openai => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama => None,
        }
    }

    /// Returns whether every server with this protocol requires a key.
    #[must_use]
    pub fn is_useless_without_key(self) -> bool {
        matches!(self, Self::Anthropic | Self::Gemini)
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
