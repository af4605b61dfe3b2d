//! Whose protocol is spoken, and what is customary there.

use genai::adapter::AdapterKind;

/// The four protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// `/chat/completions`, at OpenAI or anywhere else.
    Openai,
    /// Anthropic's messages.
    Anthropic,
    /// Google's `streamGenerateContent`.
    Gemini,
    /// Ollama's `/api/chat`.
    Ollama,
}

impl Provider {
    /// Where its own API begins.
    #[must_use]
    pub fn base_url(self) -> &'static str {
        match self {
            Self::Openai => "https://api.openai.com/v1/",
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
            Self::Ollama => "http://localhost:11434/",
        }
    }

    /// The environment variable in which people keep its key.
    #[must_use]
    pub fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Openai => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama => None,
        }
    }

    /// Whether no server that speaks it works without a key.
    #[must_use]
    pub fn is_useless_without_key(self) -> bool {
        matches!(self, Self::Anthropic | Self::Gemini)
    }

    /// The word under which what it wants to see again is kept.
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
