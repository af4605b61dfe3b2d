//! The supported protocols and their defaults.

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
}
