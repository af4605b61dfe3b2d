//! Common parts of the sandbox's tests: a sandbox, a permitted call, and its result.

#![allow(dead_code, reason = "each test file uses only a part of it")]

use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate_agent::catalog::{Catalog, CatalogGrants, Owner, OwnerKind};
use tollgate_agent::context::{AgentView, Resumption, RunIdentity};
use tollgate_agent::gate::{GateVerdict, Permit, Resolution, Verdict, resolve};
use tollgate_agent::outcome::{Fault, Outcome, ToolOutput};
use tollgate_agent::proposal::{Arguments, Proposal};
use tollgate_agent::recorded_inputs::RecordedInputs;
use tollgate_agent::state::State;
use tollgate_artifacts::{Expectation, Guest};
use tollgate_sandbox::{
    Attempt, CallContext, ChildRunner, Component, Grants, Limits, Refusal, Report, ReportSink, Sandbox,
    SandboxConfig,
};

/// Additional time beyond the guarantees, to allow for a busy machine.
pub(crate) const SLACK: Duration = Duration::from_secs(5);

/// Creates a sandbox that is large enough for a test.
pub(crate) fn sandbox() -> Sandbox {
    Sandbox::new(SandboxConfig { concurrent_calls: 16, ..SandboxConfig::default() }).unwrap()
}

/// A loaded tool, and the inputs of its calls.
pub(crate) struct Bench {
    pub(crate) component: Component,
    pub(crate) catalog: Catalog,
    pub(crate) state: State,
    pub(crate) limits: Limits,
    pub(crate) timeout: Duration,
    pub(crate) grants: Grants,
    pub(crate) cancel: CancellationToken,
    pub(crate) reports: Arc<Kept>,
    pub(crate) children: Arc<dyn ChildRunner>,
    pub(crate) resume: Option<Resumption>,
    pub(crate) replay: Option<Arc<RecordedInputs>>,
}

/// Keeps the reports.
#[derive(Default)]
pub(crate) struct Kept(pub(crate) Mutex<Vec<Report>>);

impl ReportSink for Kept {
    fn offer(&self, report: Report) -> bool {
        self.0.lock().unwrap().push(report);
        true
    }
}

impl Bench {
    /// Loads a guest as a catalog would.
    pub(crate) async fn load(sandbox: &Sandbox, guest: &Guest) -> Result<Self, String> {
        Self::load_bytes(sandbox, guest.name, guest.bytes()).await
    }

    /// Loads a component from bytes as a catalog would.
    pub(crate) async fn load_bytes(sandbox: &Sandbox, name: &str, bytes: Vec<u8>) -> Result<Self, String> {
        let component = sandbox.load_bytes(name, bytes).await.map_err(|e: Refusal| e.to_string())?;
        let mut catalog = Catalog::default();
        let owner = Owner {
            id: component.descriptor().id.clone().into(),
            kind: OwnerKind::Component,
            origin: name.to_owned(),
            version: component.digest().into(),
        };
        catalog
            .add(owner, component.descriptor().clone(), &CatalogGrants::default())
            .map_err(|e| e.to_string())?;
        Ok(Self {
            component,
            catalog,
            state: State::default(),
            limits: Limits::default(),
            timeout: Duration::from_secs(15),
            grants: Grants::default(),
            cancel: CancellationToken::new(),
            reports: Arc::default(),
            children: Arc::new(()),
            resume: None,
            replay: None,
        })
    }

    /// Returns the name of its first tool.
    pub(crate) fn tool(&self) -> &str {
        &self.component.descriptor().tools[0].name
    }

    /// Returns permission to call its first tool.
    pub(crate) fn permit(&self, arguments: Value) -> Permit {
        self.judged(arguments).unwrap()
    }

    /// Judges a call with arguments that may be invalid.
    pub(crate) fn judged(&self, arguments: Value) -> Result<Permit, Fault> {
        let arguments = Arguments::from_value(arguments);
        let proposal = Proposal::check(&self.catalog, |_| true, "call-1", self.tool(), &arguments)?;
        match resolve(&[GateVerdict::new("test", Verdict::Allow)], &[]) {
            Resolution::Allowed(clearance) => Ok(clearance.permit(proposal)),
            held => panic!("{held:?}"),
        }
    }

    /// Calls its first tool.
    pub(crate) async fn call(&self, arguments: Value) -> Attempt {
        self.call_with(arguments, Arc::clone(&self.reports) as Arc<dyn ReportSink>).await
    }

    /// Calls its first tool with another report sink.
    pub(crate) async fn call_with(&self, arguments: Value, reports: Arc<dyn ReportSink>) -> Attempt {
        let permit = self.permit(arguments);
        let identity = RunIdentity { run_id: "run-1".into(), ..RunIdentity::default() };
        let agent = AgentView { id: "direct".into(), ..AgentView::default() };
        let snapshot = self.state.snapshot();
        let call = CallContext {
            permit: &permit,
            identity: &identity,
            agent: &agent,
            snapshot: &snapshot,
            keys: self.catalog.keys(),
            attempt: 1,
            resume: self.resume.as_ref(),
            timeout: self.timeout,
            replay: self.replay.as_ref(),
            reports,
            children: Arc::clone(&self.children),
            cancel: &self.cancel,
        };
        self.component.call(call, &self.limits, &self.grants).await
    }

    /// Returns the reports so far.
    pub(crate) fn reports(&self) -> Vec<Report> {
        self.reports.0.lock().unwrap().clone()
    }
}

/// Returns the answer of an attempt, which must have one.
pub(crate) fn returned(attempt: Attempt) -> ToolOutput {
    match attempt.outcome {
        Outcome::Returned(output) => output,
        Outcome::Faulted(fault) => panic!("{fault:?}"),
    }
}

/// Returns the fault of an attempt, which must have one.
pub(crate) fn fault(attempt: Attempt) -> Fault {
    match attempt.outcome {
        Outcome::Faulted(fault) => fault,
        Outcome::Returned(output) => panic!("{output:?}"),
    }
}

/// Arguments that any tool without a schema accepts.
pub(crate) fn anything() -> Value {
    json!({"text": "some words"})
}

/// Returns a tool that runs `body` in its first directory, whose handle is `$dir`. The body leaves
/// its answer in `$answer`, a number below 100.
pub(crate) fn does(name: &'static str, import: &str, body: &str) -> Guest {
    let source = format!(
        r#";; Does something in its first directory.
;; imports: wasi:filesystem/types wasi:filesystem/preopens

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
{import}
(data (memory $memory) (i32.const 128) "made")
(data (memory $memory) (i32.const 160) "../outside")
(func $execute (param $call i32) (result i32) (local $dir i32) (local $file i32) (local $answer i32)
  (call $directories (i32.const 16))
  (local.set $dir (i32.load $memory (i32.load $memory (i32.const 16))))
  {body}
  (i32.store8 $memory (i32.const 70) (i32.add (i32.const 48) (i32.div_u (local.get $answer) (i32.const 10))))
  (i32.store8 $memory (i32.const 71) (i32.add (i32.const 48) (i32.rem_u (local.get $answer) (i32.const 10))))
  (if (i32.lt_u (local.get $answer) (i32.const 10))
    (then (call $data (i32.const 71) (i32.const 1)))
    (else (call $data (i32.const 70) (i32.const 2))))
  (global.get $returns))
"#
    );
    Guest { name, attack: "", limit: "", expects: Expectation::Succeeds, source: source.leak() }
}

/// A function's result at address 32: zero, or the error.
pub(crate) const ERROR_OR_ZERO: &str = r"(if (i32.load8_u $memory (i32.const 32))
    (then (local.set $answer (i32.add (i32.const 10) (i32.load8_u $memory (i32.const 33))))))";

/// Returns the number that such a tool returned.
pub(crate) fn number(attempt: Attempt) -> u64 {
    returned(attempt).result.data.as_u64().unwrap()
}
