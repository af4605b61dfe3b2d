//! The parts of the server that the operator can leave out.

use std::collections::BTreeSet;
use std::str::FromStr;

/// A part of the server that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The console for the browser.
    Console,
    /// The endpoints of OpenAI's clients.
    OpenAi,
    /// The stream of the AI SDK.
    AiSdk,
    /// The Agent-User Interaction protocol.
    AgUi,
    /// The Agent2Agent protocol.
    A2a,
    /// The Model Context Protocol.
    Mcp,
}

impl Part {
    /// Every part.
    pub const ALL: [Part; 6] = [Part::Console, Part::OpenAi, Part::AiSdk, Part::AgUi, Part::A2a, Part::Mcp];

    /// Returns the part's name on the command line and in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Console => "console",
            Part::OpenAi => "openai",
            Part::AiSdk => "ai-sdk",
            Part::AgUi => "ag-ui",
            Part::A2a => "a2a",
            Part::Mcp => "mcp",
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        Part::ALL.into_iter().find(|part| part.as_str() == typed).ok_or_else(|| {
            format!("there is no part `{typed}`; known: {}", Part::ALL.map(Part::as_str).join(", "))
        })
    }
}

/// The parts that a server offers in addition to the native API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts(BTreeSet<Part>);

impl Parts {
    /// All parts.
    #[must_use]
    pub fn all() -> Self {
        Self(Part::ALL.into_iter().collect())
    }

    /// Leaves out some of them.
    #[must_use]
    pub fn without(mut self, parts: impl IntoIterator<Item = Part>) -> Self {
        for part in parts {
            self.0.remove(&part);
        }
        self
    }

    /// Returns whether the server offers a part.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        self.0.contains(&part)
    }
}
