//! A sandbox with one component, called as the host calls it: checked, judged, run, and with its
//! mutations applied to the state.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tollgate_agent::catalog::{Catalog, CatalogGrants, Owner, OwnerKind, Tool};
use tollgate_agent::code::Code;
use tollgate_agent::context::{AgentView, RunIdentity};
use tollgate_agent::gate::{CallsBefore, GateVerdict, Permit, ProposedCall, Resolution, Verdict, resolve};
use tollgate_agent::outcome::{Fault, Outcome, ToolOutput, ToolStatus};
use tollgate_agent::proposal::{Arguments, Proposal};
use tollgate_agent::run::granted_actions;
use tollgate_agent::schema::{Schema, SchemaError};
use tollgate_agent::state::change::propose;
use tollgate_agent::state::{Snapshot, State};
use tollgate_artifacts::Guest;
use tollgate_sandbox::{
    Attempt, CallContext, Component, GateComponent, GateLimits, Grants, Limits, Refusal, Report, ReportSink,
    Reservation, Sandbox, SandboxConfig, runtime,
};

use crate::powers::Place;

/// A sandbox and its runtime, which is part of the sandbox's promise.
pub struct Rig {
    runtime: Runtime,
    sandbox: Sandbox,
    place: Place,
}

/// A component that was loaded and accepted by its own catalog.
pub struct Loaded {
    component: Component,
    catalog: Catalog,
    grants: Grants,
}

/// Returns the state of a new thread.
fn empty() -> Snapshot {
    State::default().snapshot()
}

/// A call for a gate to judge.
pub struct GateQuestion {
    pub arguments: String,
    pub calls_before: u32,
    /// The thread's state.
    pub state: State,
}

impl Default for GateQuestion {
    fn default() -> Self {
        Self { arguments: "{}".to_owned(), calls_before: 0, state: State::default() }
    }
}

/// The outcome of a call after all of the host's checks.
pub struct Ended {
    pub attempt: Option<Attempt>,
    pub result: Result<ToolOutput, Fault>,
    /// The called tool as the model sees it.
    pub tool: Arc<Tool>,
    pub told: Arc<KeptReports>,
}

/// Receives every report and counts the reports and their bytes.
#[derive(Default)]
pub struct KeptReports {
    pub reports: AtomicU64,
    pub bytes: AtomicU64,
}

impl ReportSink for KeptReports {
    fn offer(&self, report: Report) -> bool {
        let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let bytes = match &report {
            Report::Activity { kind, content } => kind.len() + content.len(),
            Report::ActivityDelta { kind, patch } => kind.len() + patch.to_string().len(),
            Report::Progress { message, .. } => optional(message),
            Report::ChildError { agent_id, message } => agent_id.len() + message.len(),
            Report::Output(text) | Report::Log { message: text, .. } => text.len(),
        };
        self.reports.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
        true
    }
}

impl Ended {
    pub fn code(&self) -> Option<Code> {
        self.result.as_ref().err().map(|fault| fault.code)
    }
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(SandboxConfig::default())
    }

    pub fn with(config: SandboxConfig) -> Rig {
        let runtime = runtime().unwrap();
        let sandbox = Sandbox::new(config).unwrap();
        Rig { runtime, sandbox, place: Place::new() }
    }

    /// Loads the guest like the host does; the error is the host's reason.
    pub fn load(&self, guest: &Guest) -> Result<Loaded, String> {
        Ok(self.load_bytes(guest.name, guest.bytes())?.with(self.grants(guest)))
    }

    /// Returns the grants that the guest needs for its attack.
    pub fn grants(&self, guest: &Guest) -> Grants {
        self.place.grants(guest)
    }

    pub fn load_bytes(&self, name: &str, bytes: Vec<u8>) -> Result<Loaded, String> {
        self.runtime.block_on(Loaded::load(&self.sandbox, name, bytes))
    }

    /// Returns the runtime of the calls.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    pub fn load_file(&self, path: &Path) -> Result<Loaded, String> {
        Loaded::accept(self.runtime.block_on(self.sandbox.load(path)))
    }

    /// Loads a gate like the host does; the error is the host's reason.
    pub fn load_gate(&self, name: &str, bytes: Vec<u8>) -> Result<GateComponent, String> {
        self.runtime.block_on(self.sandbox.load_gate_bytes(name, bytes)).map_err(|why| why.to_string())
    }

    /// Applies settings and limits to a gate.
    pub fn configure(
        &self,
        gate: GateComponent,
        settings: &Value,
        limits: GateLimits,
    ) -> Result<GateComponent, String> {
        self.runtime.block_on(gate.configured(settings, limits)).map_err(|why| why.to_string())
    }

    /// Has a gate judge a call of the tool `echo`.
    pub fn judge(&self, gate: &GateComponent, asked: &GateQuestion) -> Result<Verdict, Fault> {
        self.answer(gate, asked).map(|(verdict, _)| verdict)
    }

    /// Like `judge`, with the memory that a large verdict takes.
    pub fn answer(
        &self,
        gate: &GateComponent,
        asked: &GateQuestion,
    ) -> Result<(Verdict, Option<Arc<Reservation>>), Fault> {
        let echo = self.load(&tollgate_artifacts::good::ECHO).unwrap();
        let value = serde_json::from_str(&asked.arguments).unwrap();
        let call = ProposedCall {
            call_id: "call-1",
            tool: echo.catalog.tools().next().unwrap(),
            arguments: &Arguments::from_value(value),
            identity: &RunIdentity::default(),
            agent: &AgentView::default(),
            snapshot: &asked.state.snapshot(),
            keys: echo.catalog.keys(),
            calls_before: CallsBefore { of_tool: asked.calls_before, in_run: asked.calls_before },
            now_ms: 0,
            decided: None,
        };
        self.runtime.block_on(gate.answer(&call))
    }

    /// Calls the component's first tool.
    pub fn call(&self, loaded: &Loaded, arguments: &str, limits: &Limits, timeout: Duration) -> Ended {
        self.runtime.block_on(loaded.call(arguments, limits, timeout))
    }
}

impl Loaded {
    pub fn component(&self) -> &Component {
        &self.component
    }

    pub async fn load(sandbox: &Sandbox, name: &str, bytes: Vec<u8>) -> Result<Loaded, String> {
        let loaded = sandbox.load_bytes(name, bytes).await;
        tokio::task::block_in_place(|| Loaded::accept(loaded))
    }

    fn accept(loaded: Result<Component, Refusal>) -> Result<Loaded, String> {
        let component = loaded.map_err(|refusal| refusal.to_string())?;
        let descriptor = component.descriptor().clone();
        let owner = Owner {
            id: descriptor.id.clone().into(),
            kind: OwnerKind::Component,
            origin: component.name().to_owned(),
            version: component.digest().into(),
        };
        let mut catalog = Catalog::default();
        catalog.add(owner, descriptor, &CatalogGrants::default()).map_err(|why| why.to_string())?;
        Ok(Loaded { component, catalog, grants: Grants::default() })
    }

    /// Returns the component with these grants.
    pub fn with(self, grants: Grants) -> Loaded {
        Loaded { grants, ..self }
    }

    /// Calls the component's first tool.
    pub async fn call(&self, arguments: &str, limits: &Limits, timeout: Duration) -> Ended {
        let tool = Arc::clone(self.catalog.tools().next().unwrap());
        let told: Arc<KeptReports> = Arc::default();
        match self.permit(arguments).await {
            Err(fault) => Ended { attempt: None, result: Err(fault), tool, told },
            Ok(permit) => {
                let attempt = self.attempt(&permit, limits, timeout, Arc::clone(&told)).await;
                // As in the host: not on a thread that other calls wait for.
                let result = tokio::task::block_in_place(|| self.settle(&permit, &attempt));
                Ended { attempt: Some(attempt), result, tool, told }
            }
        }
    }

    async fn permit(&self, arguments: &str) -> Result<Permit, Fault> {
        let arguments = Arguments::read(arguments)?;
        let tool = &self.catalog.tools().next().unwrap().descriptor;
        let proposal = Proposal::check(&self.catalog, |_| true, "call-1", &tool.name, &arguments)?;
        if tool.execution.validates {
            self.component.validate_args(&tool.name, &arguments).await?;
        }
        match resolve(&[GateVerdict::new("test", Verdict::Allow)], &[]) {
            Resolution::Allowed(clearance) => Ok(clearance.permit(proposal)),
            _ => unreachable!("the gate allows everything"),
        }
    }

    async fn attempt(
        &self,
        permit: &Permit,
        limits: &Limits,
        timeout: Duration,
        told: Arc<KeptReports>,
    ) -> Attempt {
        let call = CallContext {
            permit,
            identity: &RunIdentity::default(),
            agent: &AgentView::default(),
            snapshot: &empty(),
            keys: self.catalog.keys(),
            attempt: 1,
            resume: None,
            timeout,
            replay: None,
            children: Arc::new(()),
            reports: told,
            cancel: &CancellationToken::new(),
        };
        self.component.call(call, limits, &self.grants).await
    }

    /// Handles the outcome of a call as the host does.
    fn settle(&self, permit: &Permit, attempt: &Attempt) -> Result<ToolOutput, Fault> {
        match &attempt.outcome {
            Outcome::Faulted(fault) => Err(fault.clone()),
            Outcome::Returned(output) => {
                granted_actions(permit.tool(), &output.actions)?;
                let access = &permit.tool().access;
                propose(self.catalog.keys(), access, &empty(), &output.mutations)?;
                if let ToolStatus::Pending(Some(ticket)) = &output.result.status
                    && let Some(schema) = &ticket.response_schema
                {
                    let refused = |why: SchemaError| Fault::new(Code::MalformedOutput, why.to_string());
                    Schema::compile(schema).map_err(refused)?;
                }
                Ok(output.clone())
            }
        }
    }
}
