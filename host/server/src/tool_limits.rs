//! The limits of one attempt of a tool, and the place from which each comes.

use crate::operator::CallLimits;
use crate::state::ServerState;
use serde::Serialize;
use tollgate::DIRECT_AGENT;
use tollgate::config::LimitSource;
use tollgate_agent::catalog::{OwnerKind, Tool};
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
    /// `[agents.direct.limits]` of the configuration.
    AgentLimits,
    /// `[mcp.NAME]` of the configuration.
    Server,
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
            LimitSource::Agent => Self::AgentLimits,
            LimitSource::Tool => Self::ToolLimits,
        }
    }
}

impl LimitOrigin {
    /// Returns the place in words, for a person.
    pub(crate) fn in_words(self, tool: &Tool) -> String {
        match self {
            Self::Default => "by default".to_owned(),
            Self::Limits => "[limits]".to_owned(),
            Self::ToolLimits => format!("[tools.{}.limits]", tool.descriptor.name),
            Self::AgentLimits => format!("[agents.{DIRECT_AGENT}.limits]"),
            Self::Server => format!("[mcp.{}]", tool.owner.id),
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
        let timeout_ms = run.attempt_timeout_ms(policy);
        let (wanted_ms, origin) = match (policy.timeout_ms.filter(|ms| *ms > 0), run.timeout_ms) {
            (Some(own_ms), _) => (own_ms, own_origin(tool, limits)),
            (None, 0) => (usual.timeout_ms, LimitOrigin::Default),
            (None, run_ms) => {
                let source = self.operator.as_ref().map(|operator| operator.direct_timeout());
                (run_ms, source.unwrap_or_default().into())
            }
        };
        (timeout_ms, if wanted_ms > timeout_ms { LimitOrigin::Ceiling } else { origin })
    }
}

/// Returns where the timeout of a tool that has its own comes from.
fn own_origin(tool: &Tool, limits: Option<&CallLimits>) -> LimitOrigin {
    match (tool.owner.kind, limits.map(|limits| limits.timeout_source)) {
        (OwnerKind::Mcp, _) => LimitOrigin::Server,
        (_, Some(LimitSource::Tool)) => LimitOrigin::ToolLimits,
        _ => LimitOrigin::Tool,
    }
}
