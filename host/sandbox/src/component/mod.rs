//! A loaded component: its description, and its tools to call.
//!
//! Invariants: each call has its own store and instance, dropped when the call ends, however it
//! ends. A guest never causes a host error. Everything that depends on the component and can fail
//! (parsing, type-checking, linking) happened when its bytes were first loaded.

mod code;
mod result_reader;

use crate::admission::Slot;
use crate::attempt::{Attempt, CallContext};
use crate::blocking::{loading, offload};
use crate::component_places::ComponentPlaces;
use crate::description::OmittedFunction;
use crate::error::Refusal;
use crate::grants::Grants;
use crate::grants::Import;
use crate::instance::Instance;
use crate::limits::Limits;
use crate::load::{self, DescriptionShare, Identity, LoadedCode, Origin};
use crate::plain::{self, Docs};
use crate::redact::SecretRedactor;
use crate::shared::Shared as Host;
use crate::termination::{CallBounds, Termination};
use crate::v0_1_0::{self, ChargedOutcome, ToolPre};
use crate::watchdog::CallDeadline;
use code::{Code as Linkage, Entry};
use result_reader::{ResultReader, ReturnedValue};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tollgate_agent::code::Code;
use tollgate_agent::content::ContentPart;
use tollgate_agent::descriptor::ComponentDescriptor;
use tollgate_agent::limit_places::LimitPlaces;
use tollgate_agent::outcome::{Fault, Outcome, Usage};
use tollgate_agent::proposal::Arguments;
use wasmtime::Store;

/// The time limit for a question that needs no power, such as the component's description.
pub const DESCRIBE_TIME: Duration = Duration::from_secs(10);
/// The fuel for a question that needs no power.
pub const DESCRIBE_FUEL: u64 = 100_000_000;

/// A loaded component. Cloning is cheap; calls keep the version on which they began until they
/// end.
#[derive(Clone)]
pub struct Component {
    linked: Arc<LinkedComponent>,
    descriptor: Arc<ComponentDescriptor>,
    left_out: Option<Arc<[OmittedFunction]>>,
    /// The memory of the description.
    _memory: Arc<DescriptionShare>,
    /// The memory of the compiled patterns of its schemas; `None` if they have none.
    _patterns: Option<Arc<DescriptionShare>>,
}

/// A component of which nothing has run yet.
pub(crate) struct LinkedComponent {
    host: Arc<Host>,
    origin: Origin,
    imports: Vec<Import>,
    places: ComponentPlaces,
    /// Loaded when first needed: a host with many tools calls few of them.
    code: OnceCell<Linkage>,
}

/// The description of a component, given by itself or derived from its type.
pub(crate) struct ComponentDescription {
    pub(crate) descriptor: ComponentDescriptor,
    /// For a plain component, the functions that are not tools.
    pub(crate) left_out: Option<Vec<OmittedFunction>>,
    /// Its memory, held for as long as it is.
    pub(crate) memory: DescriptionShare,
}

/// The reason why a component has no description.
pub(crate) enum MissingDescription {
    /// Its description is refused, now and later; continues a sentence that begins with the
    /// component's name.
    Invalid(String),
    /// It did not answer, or there is no room.
    Refused(Refusal),
}

impl From<Refusal> for MissingDescription {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Component {
    /// Returns its name in messages: the file's path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.linked.origin.name
    }

    /// Returns the hexadecimal SHA-256 of its bytes.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.linked.origin.identity.digest
    }

    /// Returns the interfaces that it imports, sorted.
    #[must_use]
    pub fn imports(&self) -> &[Import] {
        &self.linked.imports
    }

    /// Returns its descriptor. It is parsed and bounded here and judged by the catalog.
    #[must_use]
    pub fn descriptor(&self) -> &ComponentDescriptor {
        &self.descriptor
    }

    /// Returns the exported functions of a plain component that are not tools, with reasons.
    /// `None` for a component that implements the contract.
    #[must_use]
    pub fn left_out(&self) -> Option<&[OmittedFunction]> {
        self.left_out.as_deref()
    }

    /// Reserves memory of the host for the compiled patterns of its schemas, for as long as the component exists.
    ///
    /// # Errors
    /// There is no room for them.
    pub async fn with_patterns(self, pattern_bytes: usize) -> Result<Self, Refusal> {
        if pattern_bytes == 0 {
            return Ok(self);
        }
        let reserved = self.linked.host.code_memory.reserve_for_patterns(pattern_bytes as u64).await;
        let memory = reserved.map_err(|why| why.refusal(self.name()))?;
        Ok(Self { _patterns: Some(Arc::new(memory)), ..self })
    }

    /// Returns the places where an operator changes limits.
    #[must_use]
    pub fn limit_places(&self) -> &'static LimitPlaces {
        self.linked.host.config.limit_places
    }

    /// Checks that a component can be called and links it.
    pub(crate) fn link(
        host: Arc<Host>,
        origin: Origin,
        code: LoadedCode,
    ) -> Result<Arc<LinkedComponent>, Refusal> {
        let name = &origin.name;
        let exports = load::read_exports(&host.engine, name, &code.component)?;
        let imports = load::read_imports(&host.engine, name, &code.component)?;
        let code = Linkage::link(&host, name, code, &exports)?;
        Ok(Arc::new(LinkedComponent::new(host, origin, imports, OnceCell::new_with(Some(code)))))
    }

    /// Restores a component that was linked and described before from the same bytes.
    pub(crate) fn known(
        host: Arc<Host>,
        origin: Origin,
        imports: Vec<Import>,
        described: ComponentDescription,
    ) -> Result<Self, Refusal> {
        Arc::new(LinkedComponent::new(host, origin, imports, OnceCell::new())).described(described)
    }

    /// Loads the code, which the first call would otherwise do.
    ///
    /// # Errors
    /// Fails if the cache has lost the code and it cannot be compiled again.
    pub async fn prepare(&self) -> Result<(), Refusal> {
        self.linked.code().await.map(drop)
    }

    /// Runs a permitted call once, in a fresh instance, with the grants of its component. Limits
    /// and timeout are clamped to the sandbox's ceilings. Run it as a task of a multi-threaded runtime: see
    /// [`runtime`](crate::runtime).
    ///
    /// Dropping the future ends the call at once.
    pub async fn call(&self, call: CallContext<'_>, limits: &Limits, grants: &Grants) -> Attempt {
        let host = &self.linked.host;
        let in_replay = call.replay.map(|_| grants.files_alone());
        let grants = in_replay.as_ref().unwrap_or(grants);
        let limits = limits.clone().at_most(&host.config.ceiling);
        let timeout = call.timeout.min(host.config.timeout_ceiling);
        let tool = &call.permit.tool().descriptor.name;
        let under = CallBounds { limits: &limits, timeout, host: &host.config };
        let ready = match self.linked.ready_at_once(limits.memory_bytes) {
            Some(ready) => Ok(ready),
            // Boxed so that calls that need not wait, which is most of them, reserve no space for
            // it.
            None => Box::pin(self.linked.ready(limits.memory_bytes, timeout, call.cancel)).await,
        };
        let (code, slot) = match ready {
            Ok((code, slot)) => (code, Arc::new(slot.under(&limits))),
            Err(ending) => return Attempt::unstarted(ending.fault(tool, &under)),
        };
        let _ticking = host.ticker.keep_ticking();
        let began = Instant::now();
        // A replay is not held to the call's timeout, but the guest still sees that timeout.
        let patience = if call.replay.is_some() { host.config.timeout_ceiling } else { timeout };
        let term = CallDeadline::new(began, patience, call.cancel).using_files(!grants.files().is_empty());
        let store = host.store(Instance::serving(&call, &limits, grants, &term, &slot), &limits);
        let (mut attempt, lifted, (content, content_bytes)) = match store {
            Ok(mut store) => {
                let returned = term.attend(pin!(self.linked.execute(code, &mut store, &call, timeout))).await;
                let reading = ResultReader::of(&call, &limits, grants, &store, &slot);
                let attempt = attempt(&store, &limits);
                let attached = store.data_mut().serves.as_mut().map(|serves| serves.attachments.take());
                // Free the guest's memory before parsing its result.
                drop(store);
                let lifted = match returned {
                    Ok(returned) => reading.read(&code.entry, returned, &term).await,
                    Err(ending) => Err(ending),
                };
                (attempt, lifted, attached.unwrap_or_default())
            }
            Err(ending) => return Attempt::unstarted(ending.fault(tool, &under)),
        };
        let redacted = SecretRedactor::for_grants(grants);
        let finished = match lifted {
            Ok(ChargedOutcome { outcome, bytes }) => {
                let (outcome, bytes) = (with_content(outcome, content), bytes + content_bytes);
                redacted.outcome(outcome, bytes, &slot, &term).await.map(|outcome| (outcome, bytes))
            }
            Err(ending) => Err(ending),
        };
        match finished {
            Ok((outcome, bytes)) => {
                attempt.outcome = outcome;
                attempt.memory = slot.hand_over(bytes).map(Arc::new);
            }
            Err(ending) => {
                // The attempt was cut short, so its usage is a lower bound.
                let cut =
                    matches!(ending, Termination::Deadline | Termination::Cancelled | Termination::Host(_));
                attempt.usage.at_least = cut;
                attempt.outcome = Outcome::Faulted(ending.fault(tool, &under));
            }
        }
        redacted.rest(&mut attempt);
        attempt.usage.wall_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        attempt
    }

    /// Asks the component about constraints on arguments that the schema cannot express. The call
    /// is sealed: every power refuses, and the limits are small.
    ///
    /// # Errors
    /// Fails with `invalid_arguments` and the tool's message. A trap or a reached limit has its
    /// own code.
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

impl LinkedComponent {
    fn new(host: Arc<Host>, origin: Origin, imports: Vec<Import>, code: OnceCell<Linkage>) -> Self {
        let places = ComponentPlaces::new(host.config.component_calls(), host.config.waiting_calls);
        Self { host, origin, imports, places, code }
    }

    /// Asks the component to describe itself. A plain component is described from its type and
    /// does not run.
    pub(crate) async fn describe(self: Arc<Self>, docs: Docs) -> Result<Component, MissingDescription> {
        let (read, left_out) = match &self.code().await?.entry {
            Entry::Plain(plain) => {
                let (plain, id) = (Arc::clone(plain), self.id_of_file()?);
                let left_out = plain.left_out().to_vec();
                (offload(move || plain.descriptor(id, &docs)).await, Some(left_out))
            }
            Entry::Contract(_) => (self.own_descriptor().await?, None),
        };
        let (descriptor, parsed_bytes) =
            read.map_err(|why| MissingDescription::Invalid(format!("has an invalid descriptor: {why}")))?;
        let memory = self.host.description_memory(&self.origin.name, parsed_bytes).await?;
        Ok(self.described(ComponentDescription { descriptor, left_out, memory })?)
    }

    /// Asks the component for its descriptor. Returns also the bytes that it takes; the inner error
    /// says why it is refused.
    async fn own_descriptor(&self) -> Result<Result<(ComponentDescriptor, u64), String>, Refusal> {
        let ask = async |store: &mut Store<Instance>, tool: &ToolPre<Instance>| {
            store.data_mut().fix_inputs();
            let tool = tool.instantiate_async(&mut *store).await?;
            tool.tollgate_tool_tool().call_describe(store).await
        };
        let read = self.sealed_and_read(ask, async |given, slot| v0_1_0::read_descriptor(given, slot).await);
        read.await.map_err(|ending| {
            let (name, code) = (&self.origin.name, ending.code());
            let fault = self.sealed_fault(ending, "describe");
            let detail = fault.detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
            Refusal::new(format!("{name} does not describe itself ({code}): {}{detail}", fault.message))
        })
    }

    /// Attaches a description. The id of a plain component is not in its bytes.
    pub(crate) fn described(self: Arc<Self>, described: ComponentDescription) -> Result<Component, Refusal> {
        let ComponentDescription { mut descriptor, left_out, memory } = described;
        if left_out.is_some() {
            descriptor.id = self.id_of_file()?;
        }
        let left_out = left_out.map(Arc::from);
        let (descriptor, memory) = (Arc::new(descriptor), Arc::new(memory));
        Ok(Component { linked: self, descriptor, left_out, _memory: memory, _patterns: None })
    }

    fn id_of_file(&self) -> Result<String, Refusal> {
        let name = &self.origin.name;
        plain::id_of(name).map_err(|why| Refusal::new(format!("{name} {why}")))
    }

    /// Returns its name in messages.
    pub(crate) fn name(&self) -> &str {
        &self.origin.name
    }

    /// Returns the identity of its bytes.
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
            // The time to compare types grows with the component's number of types.
            loading(move || {
                let exports = load::read_exports(&host.engine, &name, &code.component)?;
                Linkage::link(&host, &name, code, &exports)
            })
            .await
        };
        // Boxed so that later calls, which return above, reserve no space for it.
        Box::pin(self.code.get_or_try_init(load)).await
    }

    /// Returns the code and a slot to run if neither requires waiting.
    fn ready_at_once(&self, memory_bytes: u64) -> Option<(&Linkage, Slot)> {
        let code = self.code.get()?;
        Some((code, self.host.admission.take_at_once(Some(&self.places), memory_bytes)?))
    }

    /// Returns the code and a slot to run, waiting up to `timeout` for the slot.
    async fn ready(
        &self,
        memory_bytes: u64,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<(&Linkage, Slot), Termination> {
        let ready = async {
            let code = self.code().await.map_err(Termination::of_refusal)?;
            let slot = self.host.admission.take(Some(&self.places), memory_bytes, timeout).await;
            Ok((code, slot.map_err(|_| Termination::NoSlot)?))
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
        call: &CallContext<'_>,
        timeout: Duration,
    ) -> wasmtime::Result<ReturnedValue> {
        match &code.entry {
            Entry::Contract(tool) => tool.execute(store, call, timeout).await.map(ReturnedValue::Contract),
            Entry::Plain(plain) => {
                let (tool, arguments) = (call.permit.tool(), call.permit.arguments());
                plain.call(store, &tool.descriptor.name, arguments.value()).await.map(ReturnedValue::Plain)
            }
        }
    }

    /// Runs one function of the component sealed.
    async fn sealed<T>(
        &self,
        work: impl AsyncFnOnce(&mut Store<Instance>, &ToolPre<Instance>) -> wasmtime::Result<T>,
    ) -> Result<T, Termination> {
        self.sealed_and_read(work, async |answer, _| Ok(answer)).await
    }

    /// Runs one function of the component sealed, and reads the answer.
    async fn sealed_and_read<T, R>(
        &self,
        work: impl AsyncFnOnce(&mut Store<Instance>, &ToolPre<Instance>) -> wasmtime::Result<T>,
        read: impl AsyncFnOnce(T, &Arc<Slot>) -> wasmtime::Result<R>,
    ) -> Result<R, Termination> {
        let code = self.code().await.map_err(Termination::of_refusal)?;
        let sealed = code.sealed(&self.host)?;
        let work = async |store: &mut Store<Instance>, _: &Arc<Slot>| work(store, sealed).await;
        let places = Some(&self.places);
        let times = (DESCRIBE_TIME, DESCRIBE_TIME);
        self.host.run_sealed(places, &sealed_limits(), times, work, read).await
    }

    fn sealed_fault(&self, ending: Termination, what: &str) -> Fault {
        let limits = sealed_limits();
        ending.fault(what, &CallBounds { limits: &limits, timeout: DESCRIBE_TIME, host: &self.host.config })
    }
}

/// Returns the limits of an instance without powers.
fn sealed_limits() -> Limits {
    Limits { fuel: DESCRIBE_FUEL, ..Limits::default() }
}

/// Adds what the call attached to its result. A call that waits for a person has none yet.
fn with_content(outcome: Outcome, content: Vec<ContentPart>) -> Outcome {
    match outcome {
        Outcome::Returned(mut output) if !content.is_empty() && !output.result.is_pending() => {
            Arc::make_mut(&mut output.result).content = content;
            Outcome::Returned(output)
        }
        outcome => outcome,
    }
}

/// Builds an attempt; its outcome and duration are filled in later.
fn attempt(store: &Store<Instance>, limits: &Limits) -> Attempt {
    let instance = store.data();
    let usage = Usage {
        // Fuel is always enabled, so the value is always available.
        fuel: limits.fuel.saturating_sub(store.get_fuel().unwrap_or(0)),
        memory_bytes: instance.meter.peak_memory_bytes(),
        attempts: 1,
        ..Usage::default()
    };
    let ledger = instance.boundary.ledger();
    Attempt {
        outcome: Outcome::Faulted(Fault::new(Code::HostFailed, "The host did not read what it returned.")),
        usage,
        taken: instance.recorded_inputs(),
        console: instance.console(),
        dropped_reports: instance.dropped_reports(),
        http_requests: ledger.sent(),
        denied: ledger.denied(),
        memory: None,
    }
}
