//! The data of one instance: its limits, its handles, and its view of the call. It is part of the
//! instance's store and is dropped with it.

pub(crate) mod files;
pub(crate) mod http;

use self::http::Egress;
use crate::admission::{Charge, Slot};
use crate::attempt::{CallContext, ChildRunner, Console};
use crate::console::Capture;
use crate::deadline::Deadline;
use crate::egress::CallEgress;
use crate::grants::{Grants, Power};
use crate::limits::Limits;
use crate::meter::{Boundary, Meter, Stop};
use crate::nondeterminism::{Nondeterminism, clocks, random};
use crate::redact::SecretRedactor;
use crate::report::ReportSink;
use crate::watchdog::{CallDeadline, GRACE};
use files::Files;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate_agent::content::{ContentError, ContentPart, check_size};
use tollgate_agent::recorded_inputs::{RecordedInputs, Seed};
use tollgate_agent::state::{Access, KeySet, Snapshot};
use wasmtime::component::ResourceTable;
use wasmtime::{Store, StoreContextMut, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

/// The latest version of WASI that wasmtime, and so this host, provides. The linker accepts it for
/// older ones.
pub(crate) const WASI_VERSION: &str = "0.2.12";

/// The store of an instance, as a host function borrows it.
pub(crate) type GuestStore<'a> = StoreContextMut<'a, Instance>;

/// The data of one instance's store.
pub(crate) struct Instance {
    pub(crate) meter: Meter,
    pub(crate) boundary: Boundary,
    pub(crate) table: ResourceTable,
    /// The moment at which it must end.
    pub(crate) deadline: Deadline,
    /// Ends it early.
    pub(crate) cancel: CancellationToken,
    /// The call that it serves; `None` in a sealed instance.
    pub(crate) serves: Option<InstanceCall>,
    /// The memory of the last value that was passed on to the guest.
    pub(crate) passed_on: Option<Charge>,
    wasi: Option<Box<Wasi>>,
    /// Separate from WASI: a guest that only seeds its hash maps needs nothing else.
    world: Option<Nondeterminism>,
    /// The recorded inputs to play back in a replay.
    replay: Option<Arc<RecordedInputs>>,
    crossing_bytes: u64,
    console_bytes: u64,
    random_bytes: u64,
    http_requests: u32,
}

/// The part of the call that an instance can see and report to.
pub(crate) struct InstanceCall {
    pub(crate) snapshot: Snapshot,
    pub(crate) keys: KeySet,
    pub(crate) access: Arc<Access>,
    pub(crate) grants: Grants,
    pub(crate) files: Files,
    outbound: Option<CallEgress>,
    pub(crate) reports: Reports,
    pub(crate) attachments: Attachments,
    pub(crate) children: Arc<dyn ChildRunner>,
    pub(crate) slot: Arc<Slot>,
}

/// The sink for reports, and the number of remaining reports.
pub(crate) struct Reports {
    pub(crate) sink: Arc<dyn ReportSink>,
    pub(crate) left: u32,
    pub(crate) bytes_left: u64,
    pub(crate) each_bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) redactor: SecretRedactor,
}

/// The WASI context of a guest. Created at first use, which most calls never reach.
struct Wasi {
    ctx: WasiCtx,
    http: WasiHttpCtx,
    egress: Egress,
    capture: Capture,
}

impl Instance {
    /// Creates an instance in which every power refuses.
    pub(crate) fn sealed(limits: &Limits, term: &CallDeadline<'_>) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles as usize);
        Self {
            meter: Meter::new(limits),
            boundary: Boundary::new(limits, Arc::default()),
            table,
            deadline: term.deadline().clone(),
            cancel: term.cancel().clone(),
            serves: None,
            passed_on: None,
            wasi: None,
            world: None,
            replay: None,
            crossing_bytes: limits.crossing_bytes,
            console_bytes: limits.console_bytes,
            random_bytes: limits.random_bytes,
            http_requests: limits.http_requests,
        }
    }

    /// Creates an instance that serves a call until its deadline.
    pub(crate) fn serving(
        call: &CallContext<'_>,
        limits: &Limits,
        grants: &Grants,
        term: &CallDeadline<'_>,
        slot: &Arc<Slot>,
    ) -> Self {
        let mut instance = Self::sealed(limits, term);
        instance.meter.charging(Arc::clone(slot));
        let ledger = Arc::clone(instance.boundary.ledger());
        let outbound = grants.http().map(|grant| {
            let (grant, ledger) = (Arc::clone(grant), Arc::clone(&ledger));
            CallEgress::new(grant, limits, instance.boundary.clone(), term.deadline().clone(), ledger)
                .charging(slot)
        });
        instance.serves = Some(InstanceCall {
            snapshot: call.snapshot.clone(),
            keys: call.keys.clone(),
            access: Arc::clone(&call.permit.tool().access),
            grants: grants.clone(),
            files: Files::new(limits, ledger, grants.files()),
            outbound,
            reports: Reports {
                sink: Arc::clone(&call.reports),
                left: limits.reports,
                bytes_left: limits.reports_bytes,
                each_bytes: limits.report_bytes,
                dropped: 0,
                redactor: SecretRedactor::for_grants(grants),
            },
            attachments: Attachments::default(),
            children: Arc::clone(&call.children),
            slot: Arc::clone(slot),
        });
        instance.replay = call.replay.cloned();
        instance
    }

    /// Counts the bytes of the initial arguments.
    pub(crate) fn enter(&self, bytes: u64) -> Result<(), Stop> {
        if bytes > self.crossing_bytes {
            return Err(Stop::Crossing);
        }
        self.boundary.enter(bytes)
    }

    /// Returns the maximum number of bytes in one crossing.
    pub(crate) fn crossing_bytes(&self) -> u64 {
        self.crossing_bytes
    }

    /// Returns how many requests its call may send.
    pub(crate) fn http_requests(&self) -> u32 {
        self.http_requests
    }

    /// Returns the settings that it may read.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&String, &String)> {
        self.serves.iter().flat_map(|serves| serves.grants.settings())
    }

    /// Records an operation that was not granted.
    pub(crate) fn deny(&self, power: Power, what: &str) {
        self.boundary.ledger().deny(&format!("{}: {what}", power.as_str()));
    }

    /// Returns the guest's standard output and standard error.
    pub(crate) fn console(&self) -> Console {
        self.wasi.as_ref().map(|wasi| wasi.capture.finish()).unwrap_or_default()
    }

    /// Gives the guest the same clocks and random numbers in every instance, and ends its waits at
    /// once. A component that describes itself must say the same each time.
    pub(crate) fn fix_inputs(&mut self) {
        let seed = Some(Seed([0; 32]));
        self.replay = Some(Arc::new(RecordedInputs { seed, ..RecordedInputs::default() }));
    }

    /// Returns whether it plays back an earlier attempt's inputs.
    pub(crate) fn is_replay(&self) -> bool {
        self.replay.is_some()
    }

    /// Returns the guest's source of nondeterministic inputs.
    pub(crate) fn world(&mut self) -> &Nondeterminism {
        self.world.get_or_insert_with(|| Nondeterminism::new(self.replay.clone()))
    }

    /// Returns the recorded nondeterministic inputs; `None` if the guest read none.
    pub(crate) fn recorded_inputs(&self) -> Option<Arc<RecordedInputs>> {
        let taken = self.world.as_ref()?.recorded_inputs();
        (!taken.is_nothing()).then(|| Arc::new(taken))
    }

    /// Returns how many of its reports were lost.
    pub(crate) fn dropped_reports(&self) -> u64 {
        self.serves.as_ref().map_or(0, |serves| serves.reports.dropped)
    }

    /// Returns its HTTP egress.
    pub(crate) fn egress(&mut self) -> &Egress {
        &self.parts().0.egress
    }

    fn parts(&mut self) -> (&mut Wasi, &mut ResourceTable) {
        let wasi = self.wasi.take().unwrap_or_else(|| {
            let (world, serves) = (self.world().clone(), self.serves.as_mut());
            Box::new(Wasi::new(&world, self.console_bytes, self.random_bytes, &self.boundary, serves))
        });
        (self.wasi.insert(wasi), &mut self.table)
    }
}

impl Wasi {
    fn new(
        world: &Nondeterminism,
        console_bytes: u64,
        random_bytes: u64,
        boundary: &Boundary,
        serves: Option<&mut InstanceCall>,
    ) -> Self {
        let capture = Capture::new(console_bytes, boundary.clone());
        // The builder's defaults are no arguments, environment, directories or network.
        let mut builder = WasiCtxBuilder::new();
        if let Some(serves) = &serves {
            for (name, value) in serves.grants.environment() {
                builder.env(name, value);
            }
        }
        let ctx = builder
            .stdout(capture.clone())
            .stderr(capture.clone())
            .wall_clock(clocks::WallClock(world.clone()))
            .monotonic_clock(clocks::MonotonicClock(world.clone()))
            .secure_random(random::stream(world, random::SECURE))
            .insecure_random(random::stream(world, random::INSECURE))
            .max_random_size(random_bytes)
            .build();
        let ledger = Arc::clone(boundary.ledger());
        let outbound = serves.and_then(|serves| serves.outbound.take());
        let egress = Egress { outbound, ledger, world: world.clone() };
        Self { ctx, http: http::context(), egress, capture }
    }
}

impl WasiView for Instance {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let (wasi, table) = self.parts();
        WasiCtxView { ctx: &mut wasi.ctx, table }
    }
}

impl WasiHttpView for Instance {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let (wasi, table) = self.parts();
        WasiHttpCtxView { hooks: &mut wasi.egress, table, ctx: &mut wasi.http }
    }
}

/// The parts that a call has attached so far.
#[derive(Default)]
pub(crate) struct Attachments {
    parts: Vec<ContentPart>,
    charged_bytes: u64,
}

impl Attachments {
    /// Returns the parts, and the bytes that were charged to the call's slot for them.
    pub(crate) fn take(&mut self) -> (Vec<ContentPart>, u64) {
        (std::mem::take(&mut self.parts), std::mem::take(&mut self.charged_bytes))
    }

    /// Adds a part that takes this much memory.
    ///
    /// # Errors
    /// All parts together would be too many or too large.
    pub(crate) fn add(&mut self, part: ContentPart, charged_bytes: u64) -> Result<(), ContentError> {
        self.parts.push(part);
        check_size(&self.parts).inspect_err(|_| {
            self.parts.pop();
        })?;
        self.charged_bytes += charged_bytes;
        Ok(())
    }
}

/// Interrupts the guest of this store at each tick except the first, before which it ran for less
/// than a full interval. At a tick the guest ends or yields.
pub(crate) fn interrupt(store: &mut Store<Instance>) {
    let mut cancelled_at = None;
    store.epoch_deadline_callback(move |store| {
        let Instance { deadline, cancel, .. } = store.data();
        if deadline.has_passed() {
            return Err(Stop::Deadline.into());
        }
        if cancel.is_cancelled() && cancelled_at.get_or_insert_with(Instant::now).elapsed() >= GRACE {
            return Err(Stop::Cancelled.into());
        }
        Ok(UpdateDeadline::Yield(1))
    });
    store.set_epoch_deadline(2);
}
