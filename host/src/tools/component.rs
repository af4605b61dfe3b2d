//! Tools of a WebAssembly component: the sandbox runs them, under the limits and
//! grants that the operator gave.

use super::{Attempt, AttemptRequest, Runner};
use crate::config::ToolLimits;
use async_trait::async_trait;
use std::collections::BTreeMap;
use tollgate_agent::catalog::Tool;
use tollgate_agent::outcome::Fault;
use tollgate_agent::proposal::Arguments;
use tollgate_sandbox::{Call, Component, Grants, Limits};

/// Runs the tools of one component.
pub(super) struct ComponentRunner {
    component: Component,
    grants: Grants,
    limits: BTreeMap<String, Limits>,
}

impl ComponentRunner {
    /// `limits` are those of each of its tools, by name.
    pub(super) fn new(component: Component, grants: Grants, limits: &BTreeMap<String, ToolLimits>) -> Self {
        let limits = limits.iter().map(|(name, limits)| (name.clone(), limits.call.clone())).collect();
        Self { component, grants, limits }
    }
}

#[async_trait]
impl Runner for ComponentRunner {
    async fn run(&self, attempt: AttemptRequest<'_>) -> Attempt {
        let name = &attempt.permit.tool().descriptor.name;
        let defaults = Limits::default();
        let call = Call {
            permit: attempt.permit,
            identity: attempt.identity,
            agent: attempt.agent,
            snapshot: attempt.snapshot,
            keys: attempt.keys,
            attempt: attempt.attempt,
            resume: attempt.resume,
            limits: self.limits.get(name).unwrap_or(&defaults),
            timeout: attempt.timeout,
            grants: &self.grants,
            reports: attempt.reports,
            cancel: attempt.cancel.clone(),
        };
        self.component.call(call).await
    }

    async fn validate(&self, tool: &Tool, arguments: &Arguments) -> Result<(), Fault> {
        self.component.validate_args(&tool.descriptor.name, arguments).await
    }
}
