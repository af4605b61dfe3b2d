//! Conversions from the SDK's types to the contract's.

use super::bindings::tollgate::tool::{call, types as wit};
use crate::descriptor::{ComponentDescriptor, ExecutionPolicy, ToolDescriptor};
use crate::error::ToolError;
use crate::key::{Reducer, Scope, StateAccess, StateKey};
use crate::output::{Action, Mutation, ToolOutput};
use crate::report::{Level, ProgressStatus};
use crate::result::{Status, ToolResult};
use crate::ticket::{ResumeMode, Ticket};

impl From<ComponentDescriptor> for wit::ComponentDescriptor {
    fn from(component: ComponentDescriptor) -> Self {
        Self {
            id: component.id,
            version: component.version,
            tools: component.tools.into_iter().map(Into::into).collect(),
            state: component.state.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<ToolDescriptor> for wit::ToolDescriptor {
    fn from(tool: ToolDescriptor) -> Self {
        Self {
            id: tool.id,
            name: tool.name,
            description: tool.description,
            parameters: tool.parameters.to_string(),
            category: tool.category,
            execution: tool.execution.into(),
        }
    }
}

impl From<ExecutionPolicy> for wit::ExecutionPolicy {
    fn from(policy: ExecutionPolicy) -> Self {
        Self {
            timeout_ms: policy.timeout_ms,
            max_retries: policy.max_retries,
            idempotent: policy.idempotent,
            validates: policy.validates,
        }
    }
}

impl From<StateAccess> for wit::StateAccess {
    fn from(access: StateAccess) -> Self {
        Self {
            key: access.key,
            read: access.read,
            write: access.write,
            defines: access.defines.map(Into::into),
        }
    }
}

impl From<StateKey> for wit::StateKey {
    fn from(key: StateKey) -> Self {
        Self {
            initial: key.initial.to_string(),
            schema: key.schema.map(|schema| schema.to_string()),
            reducer: key.reducer.into(),
            scope: key.scope.into(),
            persistent: key.persistent,
        }
    }
}

impl From<Reducer> for wit::Reducer {
    fn from(reducer: Reducer) -> Self {
        match reducer {
            Reducer::Replace => Self::Replace,
            Reducer::MergePatch => Self::MergePatch,
            Reducer::Append => Self::Append,
            Reducer::Add => Self::Add,
            Reducer::Union => Self::Union,
            Reducer::Max => Self::Max,
        }
    }
}

impl From<Scope> for wit::KeyScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Run => Self::Run,
            Scope::Thread => Self::Thread,
        }
    }
}

impl From<ToolOutput> for wit::ToolOutput {
    fn from(output: ToolOutput) -> Self {
        Self {
            result: output.result.into(),
            mutations: output.mutations.into_iter().map(Into::into).collect(),
            actions: output.actions.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<ToolResult> for wit::ToolResult {
    fn from(result: ToolResult) -> Self {
        let (status, data, message) = result.into_parts();
        Self { status: status.into(), data, message }
    }
}

impl From<Status> for wit::ToolStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Success => Self::Success,
            Status::Pending(ticket) => Self::Pending(ticket.map(Into::into)),
            Status::Error => Self::Error,
        }
    }
}

impl From<Ticket> for wit::SuspendTicket {
    fn from(ticket: Ticket) -> Self {
        Self {
            action: ticket.action,
            message: ticket.message,
            parameters: ticket.parameters.to_string(),
            response_schema: ticket.response_schema.map(|schema| schema.to_string()),
            resume_mode: ticket.resume_mode.into(),
        }
    }
}

impl From<ResumeMode> for wit::ResumeMode {
    fn from(mode: ResumeMode) -> Self {
        match mode {
            ResumeMode::ReplayToolCall => Self::ReplayToolCall,
            ResumeMode::UseDecisionAsToolResult => Self::UseDecisionAsToolResult,
            ResumeMode::PassDecisionToTool => Self::PassDecisionToTool,
        }
    }
}

impl From<Mutation> for wit::Mutation {
    fn from(mutation: Mutation) -> Self {
        let (key, update) = mutation.into_parts();
        Self { key, update }
    }
}

impl From<Action> for wit::Action {
    fn from(action: Action) -> Self {
        match action {
            Action::TransferToAgent(agent) => Self::TransferToAgent(agent),
            Action::Escalate => Self::Escalate,
            Action::AddContext(note) => Self::AddContext(note),
        }
    }
}

impl From<ToolError> for wit::ToolError {
    fn from(error: ToolError) -> Self {
        match error {
            ToolError::InvalidArguments(message) => Self::InvalidArguments(message),
            ToolError::ExecutionFailed(message) => Self::ExecutionFailed(message),
            ToolError::Denied(message) => Self::Denied(message),
            ToolError::NotFound(message) => Self::NotFound(message),
            ToolError::Internal(message) => Self::Internal(message),
        }
    }
}

impl From<ProgressStatus> for call::ProgressStatus {
    fn from(status: ProgressStatus) -> Self {
        match status {
            ProgressStatus::Pending => Self::Pending,
            ProgressStatus::Running => Self::Running,
            ProgressStatus::Done => Self::Done,
            ProgressStatus::Failed => Self::Failed,
            ProgressStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl From<Level> for call::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Trace => Self::Trace,
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
        }
    }
}
