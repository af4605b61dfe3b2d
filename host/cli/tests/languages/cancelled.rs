//! Tests that a cancelled call ends. Before that, the guest is notified and may end by itself.

use crate::bounded::endless;
use crate::built::{LANGUAGES, Language, compiled, limits_of_each, load, serve};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tollgate::CallRequest;
use tollgate::run::{LiveContent, LiveUpdate, RunUpdate};
use tollgate_agent::catalog::{Catalog, CatalogGrants, Owner, OwnerKind};
use tollgate_agent::context::{AgentView, RunIdentity};
use tollgate_agent::gate::{GateVerdict, Permit, Resolution, Verdict, resolve};
use tollgate_agent::outcome::Outcome;
use tollgate_agent::proposal::{Arguments, Proposal};
use tollgate_agent::run::RunStatus;
use tollgate_agent::state::State;
use tollgate_sandbox::{CallContext, Component, Grants, Limits, Report, ReportSink};

fn is_report(told: &RunUpdate) -> bool {
    matches!(told, RunUpdate::Live(LiveUpdate { piece: LiveContent::CallReport { .. }, .. }))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_ends_when_it_is_cancelled() {
    let tools = compiled();
    // Nothing else ends the call before the limit below.
    let limits = limits_of_each(|_| "timeout_ms = 60_000\nfuel = 1_000_000_000_000".to_owned());
    let host = serve(tools.path(), &limits).await;
    for language in &LANGUAGES {
        let mut call = host.start_call(CallRequest::from_json(language.tool(), endless())).await.unwrap();
        // It reports the call that it belongs to, and begins to compute.
        while !is_report(&call.events.next().await.unwrap()) {}
        tokio::time::sleep(Duration::from_millis(200)).await;
        let began = Instant::now();
        call.cancel();
        let status = call.wait().await.unwrap().status;
        assert!(matches!(status, Some(RunStatus::Cancelled { .. })), "{}: {status:?}", language.name);
        // The guarantee is about 100 ms; the rest allows for a busy machine.
        assert!(began.elapsed() < Duration::from_secs(5), "{}: {:?}", language.name, began.elapsed());
    }
}

/// A report sink that notifies of the first report.
#[derive(Default)]
struct Began(Notify);

impl ReportSink for Began {
    fn offer(&self, _report: Report) -> bool {
        self.0.notify_one();
        true
    }
}

/// Returns a permit for a call of a component's tool, without a gate.
fn permit(catalog: &Catalog, language: &Language) -> Permit {
    let arguments = Arguments::read(endless()).unwrap();
    let proposal = Proposal::check(catalog, |_| true, "call-1", &language.tool(), &arguments).unwrap();
    match resolve(&[GateVerdict::new("test", Verdict::Allow)], &[]) {
        Resolution::Allowed(clearance) => clearance.permit(proposal),
        _ => panic!("the gate allows everything"),
    }
}

/// Returns the guest's own result if it is cancelled while it computes, or the fault that stopped
/// it. This is observed below the host, which drops the results of cancelled calls.
async fn returned(component: Arc<Component>, language: &'static Language) -> Outcome {
    let descriptor = component.descriptor().clone();
    let owner = Owner {
        id: descriptor.id.as_str().into(),
        kind: OwnerKind::Component,
        origin: component.name().to_owned(),
        version: component.digest().into(),
    };
    let mut catalog = Catalog::default();
    catalog.add(owner, descriptor, &CatalogGrants::default()).unwrap();
    let (began, cancel) = (Arc::new(Began::default()), CancellationToken::new());
    let (reports, cancelled) = (Arc::clone(&began), cancel.clone());
    let call = tokio::spawn(async move {
        let limits = Limits { fuel: 1_000_000_000_000, ..Limits::default() };
        let call = CallContext {
            permit: &permit(&catalog, language),
            identity: &RunIdentity::default(),
            agent: &AgentView::default(),
            snapshot: &State::default().snapshot(),
            keys: catalog.keys(),
            attempt: 1,
            resume: None,
            timeout: Duration::from_secs(60),
            replay: None,
            children: Arc::new(()),
            reports,
            cancel: &cancelled,
        };
        component.call(call, &limits, &Grants::default()).await.outcome
    });
    began.0.notified().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    cancel.cancel();
    call.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn every_language_sees_that_it_is_cancelled_and_ends_by_itself() {
    let tools = compiled();
    let (_, sandbox) = load(tools.path(), "").await;
    for language in &LANGUAGES {
        let file = language.tool().replace('_', "-");
        let file = tools.path().join("tools").join(file).with_extension("wasm");
        let component = Arc::new(sandbox.load(&file).await.unwrap());
        // On a busy machine, a guest may notice too late and be stopped: that is not an answer.
        let mut outcome = None;
        for _ in 0..3 {
            match returned(Arc::clone(&component), language).await {
                Outcome::Returned(output) => {
                    outcome = Some(output.result.data.to_string());
                    break;
                }
                Outcome::Faulted(fault) => assert_eq!(fault.code.as_str(), "cancelled", "{}", language.name),
            }
        }
        let said = json!({"error": {"code": "cancelled", "message": "The run was cancelled."}});
        assert_eq!(outcome, Some(said.to_string()), "{}", language.name);
    }
}
