//! Gates as components. A gate decides whether a call may run. Each question uses a fresh
//! instance, which sees the call and can do nothing but answer.

use crate::admission::Slot;
use crate::budget::Reservation;
use crate::error::Refusal;
use crate::instance::Instance;
use crate::limits::Limits;
use crate::load::{self, CodeShare, LoadedCode};
use crate::meter::Stop;
use crate::shared::Shared as Host;
use crate::termination::{CallBounds, Termination};
use crate::v0_1_0::{self, GateCallView, GatePre};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tollgate_agent::gate::{GateDescriptor, ProposedCall, Verdict};
use tollgate_agent::outcome::Fault;
use tollgate_agent::state::Access;
use tollgate_agent::text::{clean, sentence};
use wasmtime::Store;
use wasmtime::component::Linker;

/// How long a question may wait for a slot among the running calls.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum length in bytes of a gate's message about its settings.
const MAX_COMPLAINT_BYTES: usize = 1_000;

/// The limits of one question to a gate. A gate that exceeds them denies the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GateLimits {
    /// Units of wasm fuel, instantiation included.
    pub fuel: u64,
    /// Bytes of all linear memories together.
    pub memory_bytes: u64,
    /// Milliseconds of elapsed time.
    pub timeout_ms: u32,
}

impl Default for GateLimits {
    fn default() -> Self {
        Self { fuel: 100_000_000, memory_bytes: 64 << 20, timeout_ms: 1_000 }
    }
}

impl GateLimits {
    fn timeout(self) -> Duration {
        Duration::from_millis(u64::from(self.timeout_ms))
    }

    fn of_call(self) -> Limits {
        Limits { fuel: self.fuel, memory_bytes: self.memory_bytes, ..Limits::default() }
    }
}

/// A loaded gate. Cloning is cheap.
#[derive(Clone)]
pub struct GateComponent {
    linked: Arc<LinkedGate>,
    descriptor: Arc<GateDescriptor>,
    access: Arc<Access>,
    settings: Arc<str>,
    limits: GateLimits,
}

/// A gate that is linked, and has not described itself yet.
pub(crate) struct LinkedGate {
    host: Arc<Host>,
    name: String,
    digest: String,
    pre: GatePre<Instance>,
    /// The memory of its code.
    _share: CodeShare,
}

impl GateComponent {
    /// Returns its name in messages: the file's path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.linked.name
    }

    /// Returns the hexadecimal SHA-256 of its bytes.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.linked.digest
    }

    /// Returns its descriptor, checked and sanitized.
    #[must_use]
    pub fn descriptor(&self) -> &GateDescriptor {
        &self.descriptor
    }

    /// Returns the operator's settings for it, as JSON text.
    #[must_use]
    pub fn settings(&self) -> &str {
        &self.settings
    }

    /// Returns the limits of one question.
    #[must_use]
    pub fn limits(&self) -> GateLimits {
        self.limits
    }

    /// Returns the gate with these limits and settings, if it accepts the settings.
    ///
    /// # Errors
    /// Fails with the gate's message about the settings, or if the gate does not answer.
    pub async fn configured(mut self, settings: &Value, limits: GateLimits) -> Result<Self, Refusal> {
        self.limits = limits;
        let text = settings.to_string();
        let checked = self
            .linked
            .ask(
                limits,
                || text.len() as u64,
                async |store, gate| {
                    let gate = gate.instantiate_async(&mut *store).await?;
                    gate.tollgate_tool_gate().call_check_settings(store, &text).await
                },
            )
            .await;
        let (name, id) = (&self.linked.name, &self.descriptor.id);
        match checked {
            Ok(Ok(())) => Ok(Self { settings: Arc::from(text), ..self }),
            Ok(Err(why)) => Err(Refusal::new(format!(
                "{name} does not accept its settings: {}",
                sentence(&clean(&why, MAX_COMPLAINT_BYTES))
            ))),
            Err(ending) => {
                let fault = self.linked.fault(ending, id, limits);
                Err(Refusal::new(format!("{name} does not answer about its settings: {}", fault.message)))
            }
        }
    }

    /// Asks the gate about one call, in a fresh instance.
    ///
    /// # Errors
    /// Fails if the gate gave no valid answer. The call must not run.
    pub async fn judge(&self, call: &ProposedCall<'_>) -> Result<Verdict, Fault> {
        self.answer(call).await.map(|(verdict, _)| verdict)
    }

    /// Asks like [`judge`](Self::judge). A large verdict comes with a reservation of the host
    /// memory that it takes, to be held as long as the verdict.
    ///
    /// # Errors
    /// The same as [`judge`](Self::judge).
    pub async fn answer(
        &self,
        call: &ProposedCall<'_>,
    ) -> Result<(Verdict, Option<Arc<Reservation>>), Fault> {
        let id = &self.descriptor.id;
        let most_bytes = self.limits.of_call().crossing_bytes;
        let answer = self
            .linked
            .ask_and_read(
                self.limits,
                || v0_1_0::shown_bytes(call, &self.access, &self.settings, most_bytes),
                async |store, gate| {
                    let shown = GateCallView::of(call, &self.access, &self.settings);
                    let (entries, delegates) = (shown.entries(), shown.delegates());
                    let call = shown.to_wit(&entries, &delegates);
                    let gate = gate.instantiate_async(&mut *store).await?;
                    gate.tollgate_tool_gate().call_judge(store, call).await
                },
                async |verdict, slot| v0_1_0::read_verdict(id, verdict, slot).await,
            )
            .await;
        match answer {
            Ok(verdict) => verdict,
            Err(ending) => Err(self.linked.fault(ending, id, self.limits)),
        }
    }

    /// Checks that a component is a gate without imports, and links it with an empty linker.
    pub(crate) fn link(
        host: Arc<Host>,
        name: String,
        digest: String,
        code: LoadedCode,
    ) -> Result<LinkedGate, Refusal> {
        let LoadedCode { component, share } = code;
        load::check_gate_exports(&host.engine, &name, &component)?;
        load::refuse_imports(&host.engine, &name, &component)?;
        let empty_linker = Linker::<Instance>::new(&host.engine);
        let pre = empty_linker.instantiate_pre(&component).and_then(GatePre::new).map_err(|why| {
            let why = clean(&format!("{why:#}"), 1_000);
            Refusal::new(format!("{name} does not match the interfaces that it names: {why}"))
        })?;
        Ok(LinkedGate { host, name, digest, pre, _share: share })
    }
}

impl LinkedGate {
    /// Asks the gate to describe itself.
    pub(crate) async fn describe(self) -> Result<GateComponent, Refusal> {
        let limits = GateLimits::default();
        let described = self
            .ask(
                limits,
                || 0,
                async |store, gate| {
                    let gate = gate.instantiate_async(&mut *store).await?;
                    gate.tollgate_tool_gate().call_describe(store).await
                },
            )
            .await;
        let name = &self.name;
        let unchecked = described.map_err(|ending| {
            let code = ending.code();
            let fault = self.fault(ending, "describe", limits);
            Refusal::new(format!("{name} does not describe itself ({code}): {}", fault.message))
        })?;
        let descriptor = v0_1_0::lift_gate_descriptor(unchecked)
            .map_err(|why| Refusal::new(format!("{name} has an invalid descriptor: {why}")))?;
        Ok(GateComponent {
            access: Arc::new(descriptor.access()),
            descriptor: Arc::new(descriptor),
            linked: Arc::new(self),
            settings: Arc::from("{}"),
            limits,
        })
    }

    /// Runs one of its functions, whose arguments have this many bytes. They are charged before `work`
    /// writes them. The time in which they are measured and written counts as the gate's.
    async fn ask<T>(
        &self,
        limits: GateLimits,
        bytes: impl FnOnce() -> u64,
        work: impl AsyncFnOnce(&mut Store<Instance>, &GatePre<Instance>) -> wasmtime::Result<T>,
    ) -> Result<T, Termination> {
        self.ask_and_read(limits, bytes, work, async |answer, _| Ok(answer)).await
    }

    /// Runs a function like [`ask`](Self::ask), and reads the answer.
    async fn ask_and_read<T, R>(
        &self,
        limits: GateLimits,
        bytes: impl FnOnce() -> u64,
        work: impl AsyncFnOnce(&mut Store<Instance>, &GatePre<Instance>) -> wasmtime::Result<T>,
        read: impl AsyncFnOnce(T, &Arc<Slot>) -> wasmtime::Result<R>,
    ) -> Result<R, Termination> {
        let work = async |store: &mut Store<Instance>, slot: &Arc<Slot>| {
            let bytes = bytes();
            store.data().enter(bytes)?;
            let _held = slot.charge_while(bytes).map_err(Stop::from)?;
            work(store, &self.pre).await
        };
        let times = (PATIENCE, limits.timeout());
        self.host.run_sealed(None, &limits.of_call(), times, work, read).await
    }

    /// Returns the fault of a gate that gave no valid answer.
    fn fault(&self, ending: Termination, id: &str, limits: GateLimits) -> Fault {
        let limits_of_call = limits.of_call();
        let under =
            CallBounds { limits: &limits_of_call, timeout: limits.timeout(), host: &self.host.config };
        ending.fault_of_gate(id, &under)
    }
}
