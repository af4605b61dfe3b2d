//! The limits of one attempt of a tool, and the place from which each comes.

use crate::operator::CallLimits;
use crate::state::ServerState;
use serde::Serialize;
use tollgate::DIRECT_AGENT;
use tollgate::config::LimitSource;
use tollgate_agent::catalog::Tool;
use tollgate_agent::run::RunLimits;
use utoipa::ToSchema;

/// The place from which a limit comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LimitOrigin {
    /// The program's default.
    Default,
    /// `[limits]` of the configuration.
    Limits,
    /// `[tools.NAME.limits]` of the configuration.
    ToolLimits,
    /// The tool's own request.
    Tool,
    /// The ceiling, because more was asked for.
    Ceiling,
}

impl From<LimitSource> for LimitOrigin {
    fn from(source: LimitSource) -> Self {
        match source {
            LimitSource::Default => Self::Default,
            LimitSource::AllTools => Self::Limits,
            LimitSource::Tool => Self::ToolLimits,
        }
    }
}

impl LimitOrigin {
    /// Returns the place in words, for a person.
    pub(crate) fn in_words(self, tool_name: &str) -> String {
        match self {
            Self::Default => "by default".to_owned(),
            Self::Limits => "[limits]".to_owned(),
            Self::ToolLimits => format!("[tools.{tool_name}.limits]"),
            Self::Tool => "asked for by the tool".to_owned(),
            Self::Ceiling => "timeout_ceiling_ms of [limits]".to_owned(),
        }
    }
}

impl ServerState {
    /// Returns the maximum wall time of an attempt of a direct call in milliseconds, and where it
    /// comes from.
    pub(crate) fn timeout_of(&self, tool: &Tool, limits: Option<&CallLimits>) -> (u32, LimitOrigin) {
        let direct = self.host.agents().find(|agent| agent.spec.view.id == DIRECT_AGENT);
        let usual = RunLimits::default();
        let run = direct.map_or(&usual, |agent| &agent.limits);
        let policy = &tool.descriptor.execution;
        let asked = policy.timeout_ms.filter(|ms| *ms > 0);
        let timeout_ms = run.attempt_timeout_ms(policy);
        let origin = match asked {
            _ if asked.unwrap_or(run.timeout_ms) > timeout_ms => LimitOrigin::Ceiling,
            Some(_) if limits.is_some_and(|limits| limits.has_own_timeout) => LimitOrigin::ToolLimits,
            Some(_) => LimitOrigin::Tool,
            None if run.timeout_ms != usual.timeout_ms => LimitOrigin::Limits,
            None => LimitOrigin::Default,
        };
        (timeout_ms, origin)
    }
}
