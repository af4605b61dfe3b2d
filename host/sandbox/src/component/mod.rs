//! A loaded component: what it says about itself, and its tools to call.
//!
//! Invariants: each call has a store and an instance of its own, dropped when it
//! ends, whatever way it ends; nothing that a guest does is an error of the host;
//! and whatever a call needs that could fail for the component's sake (parsing,
//! type-checking, linking) was done when these bytes were loaded first.

mod code;
mod reading;

pub(crate) use reading::{LARGE_BYTES, aside};

use crate::admission::Slot;
use crate::attempt::{Attempt, Call};
use crate::component_places::ComponentPlaces;
use crate::error::Refusal;
use crate::granted_imports::Import;
use crate::grants::Power;
use crate::instance::Instance;
use crate::limits::Limits;
use crate::load::{self, Identity, LoadedCode};
use crate::plain::{self, Docs, LeftOut};
use crate::redact::Redacted;
use crate::sandbox::{Shared as Host, blocking};
use crate::termination::{Termination, Under};
use crate::v0_1_0::{self, Lifted, ToolPre};
use crate::watchdog::CallDeadline;
use code::{Code as Linkage, Entry};
use reading::{Reading, Returned};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::ComponentDescriptor;
use tollgate_agent::outcome::{Fault, Outcome, Usage};
use tollgate_agent::proposal::Arguments;
use wasmtime::Store;

/// How long what a component is asked without power may take, such as what it is.
pub const DESCRIBE_TIME: Duration = Duration::from_secs(10);
/// The fuel of what it is asked without power.
pub const DESCRIBE_FUEL: u64 = 100_000_000;

/// A component that was loaded. Cloning is cheap; calls keep the version on which
/// they began for as long as they run.
#[derive(Clone)]
pub struct Component {
    linked: Arc<Linked>,
    descriptor: Arc<ComponentDescriptor>,
    left_out: Option<Arc<[LeftOut]>>,
}

/// A component of which nothing has run yet.
pub(crate) struct Linked {
    host: Arc<Host>,
    origin: Origin,
    imports: Vec<Import>,
    places: ComponentPlaces,
    /// Loaded when it is first needed: a host with many tools calls few of them.
    code: OnceCell<Linkage>,
}

/// Which bytes a component is made of, and from where.
#[derive(Clone)]
pub(crate) struct Origin {
    /// What stands for it in messages.
    pub(crate) name: String,
    /// Its bytes, told from others.
    pub(crate) identity: Identity,
    /// The file; none where it was loaded from bytes.
    pub(crate) file: Option<PathBuf>,
}

/// What a component is, by its own words or by its type.
pub(crate) struct Described {
    pub(crate) descriptor: ComponentDescriptor,
    /// The functions that are no tools, where it is a plain component.
    pub(crate) left_out: Option<Vec<LeftOut>>,
}

impl Component {
    /// What stands for it in messages: the file's path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.linked.origin.name
    }

    /// The SHA-256 of its bytes, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.linked.origin.identity.digest
    }

    /// The interfaces that it imports, sorted.
    #[must_use]
    pub fn imports(&self) -> &[Import] {
        &self.linked.imports
    }

    /// What it says about itself: parsed and bounded here, judged by the catalog.
    #[must_use]
    pub fn descriptor(&self) -> &ComponentDescriptor {
        &self.descriptor
    }

    /// Of a plain component, one that knows nothing of the contract: the functions that
    /// it exports and that are no tools, with the reason. None for any other component.
    #[must_use]
    pub fn left_out(&self) -> Option<&[LeftOut]> {
        self.left_out.as_deref()
    }

    /// Checks that a component can be called and links it.
    pub(crate) fn link(host: Arc<Host>, origin: Origin, code: LoadedCode) -> Result<Linked, Refusal> {
        let name = &origin.name;
        let exports = load::read_exports(&host.engine, name, &code.component)?;
        let imports = load::read_imports(&host.engine, name, &code.component)?;
        let code = Linkage::link(&host, name, code, &exports)?;
        Ok(Linked::new(host, origin, imports, OnceCell::new_with(Some(code))))
    }

    /// A component that was linked and described before, in these very bytes.
    pub(crate) fn known(
        host: Arc<Host>,
        origin: Origin,
        imports: Vec<Import>,
        described: Described,
    ) -> Result<Self, Refusal> {
        Linked::new(host, origin, imports, OnceCell::new()).described(described)
    }

    /// Loads its code, which a call does otherwise that needs it first.
    ///
    /// # Errors
    /// The cache has lost it, and it cannot be compiled again.
    pub async fn prepare(&self) -> Result<(), Refusal> {
        self.linked.code().await.map(drop)
    }

    /// Runs a permitted call once, in a fresh instance. Limits and timeout are held
    /// to the sandbox's ceilings. Run it as a task of a multi-threaded runtime: see
    /// [`runtime`](crate::runtime).
    ///
    /// Dropping the future ends the call at once.
    pub async fn call(&self, call: Call<'_>) -> Attempt {
        let host = &self.linked.host;
        let in_replay = call.replay.map(|_| call.grants.files_alone());
        let call = Call { grants: in_replay.as_ref().unwrap_or(call.grants), ..call };
        let limits = call.limits.clone().at_most(&host.config.ceiling);
        let timeout = call.timeout.min(host.config.timeout_ceiling);
        let tool = &call.permit.tool().descriptor.name;
        let under = Under { limits: &limits, timeout, host: &host.config };
        let ready = match self.linked.ready_at_once(limits.memory_bytes) {
            Some(ready) => Ok(ready),
            // Boxed, so that calls, most of which need not wait, have no room for it.
            None => Box::pin(self.linked.ready(limits.memory_bytes, timeout, call.cancel)).await,
        };
        let (code, turn) = match ready {
            Ok((code, turn)) => (code, Arc::new(turn.under(&limits))),
            Err(ending) => return Attempt::unstarted(ending.fault(tool, &under)),
        };
        let _ticking = host.ticker.keep_ticking();
        let began = Instant::now();
        // A replay takes no notice of how long things took; a guest is told the same.
        let patience = if call.replay.is_some() { host.config.timeout_ceiling } else { timeout };
        let term =
            CallDeadline::new(began, patience, call.cancel).using_files(!call.grants.files().is_empty());
        let store = host.store(Instance::serving(&call, &limits, &term, &turn), &limits);
        let (mut attempt, lifted) = match store {
            Ok(mut store) => {
                let returned = term.attend(pin!(self.linked.execute(code, &mut store, &call, timeout))).await;
                let reading = Reading::of(&call, &limits, &store, &turn);
                let attempt = attempt(&store, &limits);
                // The guest's memory makes room for what it returned.
                drop(store);
                let lifted = match returned {
                    Ok(returned) => reading.read(&code.entry, returned, &term).await,
                    Err(ending) => Err(ending),
                };
                (attempt, lifted)
            }
            Err(ending) => return Attempt::unstarted(ending.fault(tool, &under)),
        };
        match lifted {
            Ok(Lifted { outcome, bytes }) => {
                attempt.outcome = outcome;
                attempt.memory = turn.hand_over(bytes).map(Arc::new);
            }
            Err(ending) => {
                // It was not counted to its end.
                let cut =
                    matches!(ending, Termination::Deadline | Termination::Cancelled | Termination::Host(_));
                attempt.usage.at_least = cut;
                attempt.outcome = Outcome::Faulted(ending.fault(tool, &under));
            }
        }
        attempt.usage.wall_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        Redacted::for_grants(call.grants).attempt(&mut attempt);
        attempt
    }

    /// Asks the component what the schema cannot say about arguments, sealed: every
    /// power refuses, with a small budget.
    ///
    /// # Errors
    /// `invalid_arguments` with the tool's words; a trap or a limit met has its own
    /// code.
    pub async fn validate_args(&self, tool_name: &str, arguments: &Arguments) -> Result<(), Fault> {
        let checked = self
            .linked
            .sealed(async |store, tool: &ToolPre<Instance>| {
                let tool = tool.instantiate_async(&mut *store).await?;
                tool.tollgate_tool_tool().call_validate_args(store, tool_name, arguments.text()).await
            })
            .await;
        match checked {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(v0_1_0::lift_rejection(tool_name, &error)),
            Err(ending) => Err(self.linked.sealed_fault(ending, tool_name)),
        }
    }
}

impl Linked {
    fn new(host: Arc<Host>, origin: Origin, imports: Vec<Import>, code: OnceCell<Linkage>) -> Self {
        let places = ComponentPlaces::new(host.config.component_calls(), host.config.waiting_calls);
        Self { host, origin, imports, places, code }
    }

    /// Lets it describe itself; a plain component is described by its type, and nothing
    /// of it runs.
    pub(crate) async fn describe(self, docs: &Docs) -> Result<Component, Refusal> {
        if let Entry::Plain(plain) = &self.code().await?.entry {
            let id = self.id_of_file()?;
            let left_out = Some(plain.left_out().to_vec());
            let descriptor = plain.descriptor(id, docs);
            return self.described(Described { descriptor, left_out });
        }
        let described = self
            .sealed(async |store, tool: &ToolPre<Instance>| {
                let tool = tool.instantiate_async(&mut *store).await?;
                tool.tollgate_tool_tool().call_describe(store).await
            })
            .await;
        let name = self.origin.name.clone();
        let given = described.map_err(|ending| {
            let code = ending.code();
            let fault = self.sealed_fault(ending, "describe");
            let detail = fault.detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
            Refusal::new(format!("{name} does not describe itself ({code}): {}{detail}", fault.message))
        })?;
        let descriptor = v0_1_0::lift_descriptor(given)
            .map_err(|why| Refusal::new(format!("{name} describes itself wrongly: {why}")))?;
        self.described(Described { descriptor, left_out: None })
    }

    /// With what these bytes were found to be. Of a plain component the id is not in its
    /// bytes.
    pub(crate) fn described(self, described: Described) -> Result<Component, Refusal> {
        let Described { mut descriptor, left_out } = described;
        if left_out.is_some() {
            descriptor.id = self.id_of_file()?;
        }
        let left_out = left_out.map(Arc::from);
        Ok(Component { linked: Arc::new(self), descriptor: Arc::new(descriptor), left_out })
    }

    fn id_of_file(&self) -> Result<String, Refusal> {
        let name = &self.origin.name;
        plain::id_of(name).map_err(|why| Refusal::new(format!("{name} {why}")))
    }

    /// Its bytes, told from others.
    pub(crate) fn identity(&self) -> &Identity {
        &self.origin.identity
    }

    async fn code(&self) -> Result<&Linkage, Refusal> {
        if let Some(code) = self.code.get() {
            return Ok(code);
        }
        let load = async || {
            let code = self.host.code_of(&self.origin).await?;
            let (host, name) = (Arc::clone(&self.host), self.origin.name.clone());
            // Comparing types takes as long as the component has types.
            blocking(move || {
                let exports = load::read_exports(&host.engine, &name, &code.component)?;
                Linkage::link(&host, &name, code, &exports)
            })
            .await
        };
        // Boxed, so that calls, of which all but the first end above, have no room for it.
        Box::pin(self.code.get_or_try_init(load)).await
    }

    /// Its code and leave to run, where nothing has to be waited for.
    fn ready_at_once(&self, memory_bytes: u64) -> Option<(&Linkage, Slot)> {
        let code = self.code.get()?;
        Some((code, self.host.turns.take_at_once(Some(&self.places), memory_bytes)?))
    }

    /// The same, with a wait of so long for leave.
    async fn ready(
        &self,
        memory_bytes: u64,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<(&Linkage, Slot), Termination> {
        let ready = async {
            let code = self.code().await.map_err(Termination::of_refusal)?;
            let turn = self.host.turns.take(Some(&self.places), memory_bytes, timeout).await;
            Ok((code, turn.map_err(|_| Termination::NoSlot)?))
        };
        tokio::select! {
            biased;
            ready = ready => ready,
            () = cancel.cancelled() => Err(Termination::Cancelled),
        }
    }

    async fn execute(
        &self,
        code: &Linkage,
        store: &mut Store<Instance>,
        call: &Call<'_>,
        timeout: Duration,
    ) -> wasmtime::Result<Returned> {
        for power in self.unrecorded(call) {
            store.data_mut().world().used(power);
        }
        match &code.entry {
            Entry::Contract(tool) => tool.execute(store, call, timeout).await.map(Returned::Contract),
            Entry::Plain(plain) => {
                let (tool, arguments) = (call.permit.tool(), call.permit.arguments());
                plain.call(store, &tool.descriptor.name, arguments.value()).await.map(Returned::Plain)
            }
        }
    }

    /// The powers that the call has and whose answers no record holds. Files note for
    /// themselves whether they were used.
    fn unrecorded<'a>(&'a self, call: &'a Call<'_>) -> impl Iterator<Item = Power> + 'a {
        self.imports.iter().filter_map(|import| import.power).filter(|power| match power {
            Power::Files => false,
            Power::Delegates => !call.agent.delegates.is_empty(),
            Power::Http | Power::Sockets | Power::Settings => call.grants.has(*power),
        })
    }

    /// Runs one function of the component sealed.
    async fn sealed<T>(
        &self,
        work: impl AsyncFnOnce(&mut Store<Instance>, &ToolPre<Instance>) -> wasmtime::Result<T>,
    ) -> Result<T, Termination> {
        let code = self.code().await.map_err(Termination::of_refusal)?;
        let sealed = code.sealed(&self.host)?;
        let work = async |store: &mut Store<Instance>| work(store, sealed).await;
        let places = Some(&self.places);
        let times = (DESCRIBE_TIME, DESCRIBE_TIME);
        self.host.run_sealed(places, &sealed_limits(), times, work, async |answer, _| Ok(answer)).await
    }

    fn sealed_fault(&self, ending: Termination, what: &str) -> Fault {
        let limits = sealed_limits();
        ending.fault(what, &Under { limits: &limits, timeout: DESCRIBE_TIME, host: &self.host.config })
    }
}

/// Limits of an instance that answers without power.
fn sealed_limits() -> Limits {
    Limits { fuel: DESCRIBE_FUEL, ..Limits::default() }
}

/// An attempt whose outcome and duration are still to be found.
fn attempt(store: &Store<Instance>, limits: &Limits) -> Attempt {
    let instance = store.data();
    let usage = Usage {
        // Fuel is always on, so there is always an answer.
        fuel: limits.fuel.saturating_sub(store.get_fuel().unwrap_or(0)),
        memory_bytes: instance.meter.peak_memory_bytes(),
        attempts: 1,
        ..Usage::default()
    };
    let ledger = instance.boundary.ledger();
    Attempt {
        outcome: Outcome::Faulted(Fault::new(Code::HostFailed, "The host did not read what it returned.")),
        usage,
        taken: instance.taken(),
        console: instance.console(),
        dropped_reports: instance.dropped_reports(),
        http_requests: ledger.sent(),
        denied: ledger.denied(),
        memory: None,
    }
}
