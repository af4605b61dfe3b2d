//! Fuzzes the output of a tool as bytes in its memory: the host reads them by the ABI, as JSON,
//! as mutations and actions, and turns them into an answer for the model.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate_agent::catalog::{Catalog, CatalogGrants, Owner, OwnerKind};
use tollgate_agent::code::Code;
use tollgate_agent::context::{AgentView, RunIdentity};
use tollgate_agent::gate::{GateVerdict, Permit, Resolution, Verdict, resolve};
use tollgate_agent::json::{self, LazyJson};
use tollgate_agent::outcome::{Outcome, ToolOutput};
use tollgate_agent::proposal::{Arguments, Proposal};
use tollgate_agent::run::answer::answer;
use tollgate_agent::run::{CallEnd, granted_actions};
use tollgate_agent::state::State;
use tollgate_agent::state::change::propose;
use tollgate_artifacts::{Expectation, Guest};
use tollgate_sandbox::{CallContext, Component, Grants, Limits};

/// The size of the guest's buffer.
const MAX_BYTES: usize = 32 << 10;
const TIMEOUT: Duration = Duration::from_secs(60);

/// A guest that returns the bytes of its arguments.
const RELAY: Guest = Guest {
    name: "relay",
    attack: "Returns the bytes of its arguments.",
    limit: "",
    expects: Expectation::Succeeds,
    source: include_str!("relay.wat"),
};

pub(crate) fn run(bytes: &[u8]) {
    let Relay { component, catalog } = relay();
    let permit = permit(catalog, &bytes[..bytes.len().min(MAX_BYTES)]);
    let state = State::default();
    let (limits, grants) = (Limits::default(), Grants::default());
    let call = CallContext {
        permit: &permit,
        identity: &RunIdentity::default(),
        agent: &AgentView::default(),
        snapshot: &state.snapshot(),
        keys: catalog.keys(),
        attempt: 1,
        resume: None,
        timeout: TIMEOUT,
        replay: None,
        children: Arc::new(()),
        reports: Arc::new(()),
        cancel: &CancellationToken::new(),
    };
    match crate::runtime().block_on(component.call(call, &limits, &grants)).outcome {
        Outcome::Returned(output) => settle(catalog, &permit, state, output),
        Outcome::Faulted(fault) => assert_ne!(fault.code, Code::HostFailed, "{fault:?}"),
    }
}

/// Handles a result as the host does.
fn settle(catalog: &Catalog, permit: &Permit, mut state: State, output: ToolOutput) {
    if granted_actions(permit.tool(), &output.actions).is_err() {
        return;
    }
    let access = &permit.tool().access;
    if let Ok(Some(change)) = propose(catalog.keys(), access, &state.snapshot(), &output.mutations) {
        state.apply(&change);
        assert_eq!(state.revision(), 1);
        for definition in catalog.keys().iter() {
            let value = state.get(&definition.name).unwrap_or(&definition.initial);
            assert!(definition.reducer.accepts(value), "{} is {value} now", definition.name);
        }
    }
    stays_what_it_says(&output.result.data.text());
    let answer = answer("call", "relay", &CallEnd::Result(output.result));
    assert!(answer.content.len() <= 512 << 10, "an answer of {} bytes", answer.content.len());
}

/// Checks that JSON that is kept as text equals the host's own serialization of its value.
pub(crate) fn stays_what_it_says(text: &str) {
    let read = json::parse(text);
    let Ok(kept) = LazyJson::from_text(text.to_owned()) else { return assert!(read.is_err(), "{text}") };
    let value = read.unwrap();
    assert_eq!(kept.text(), value.to_string());
    assert_eq!(serde_json::to_value(&kept).unwrap(), value);
    let record = serde_json::to_string(&kept).unwrap();
    assert_eq!(json::from_record::<LazyJson>(&record).unwrap(), kept);
    assert_eq!(kept.into_value(), value);
}

struct Relay {
    component: Component,
    catalog: Catalog,
}

fn relay() -> &'static Relay {
    static RELAY_LOADED: OnceLock<Relay> = OnceLock::new();
    RELAY_LOADED.get_or_init(|| {
        let loading = crate::loader::sandbox().load_bytes(RELAY.name, RELAY.bytes());
        let component = crate::runtime().block_on(loading).unwrap();
        let owner = Owner {
            id: RELAY.name.into(),
            kind: OwnerKind::Component,
            origin: RELAY.name.to_owned(),
            version: component.digest().into(),
        };
        let mut catalog = Catalog::default();
        catalog.add(owner, component.descriptor().clone(), &CatalogGrants::default()).unwrap();
        Relay { component, catalog }
    })
}

fn permit(catalog: &Catalog, bytes: &[u8]) -> Permit {
    let digits = bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    });
    let arguments = Arguments::read(format!(r#"{{"h":"{digits}"}}"#)).unwrap();
    let proposal = Proposal::check(catalog, |_| true, "call", RELAY.name, &arguments).unwrap();
    match resolve(&[GateVerdict::new("fuzz", Verdict::Allow)], &[]) {
        Resolution::Allowed(clearance) => clearance.permit(proposal),
        _ => unreachable!("the gate allows everything"),
    }
}
