//! The reasons for which guests end. This is the only place that classifies wasmtime's errors and
//! our own, and assigns their codes.
//!
//! If wasmtime has a type for a reason, the type is matched. Some reasons are only in the
//! message; those messages are constants here, and a test for each provokes it.

use crate::config::SandboxConfig;
use crate::descriptors::Descriptors;
use crate::error::Refusal;
use crate::limits::Limits;
use crate::meter::Stop;
use std::fmt::{self, Write as _};
use std::time::Duration;
use tollgate_agent::code::Code;
use tollgate_agent::limit_places::LimitScope;
use tollgate_agent::outcome::Fault;
use tollgate_agent::text::{clean, seconds};
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

const HOSTCALL_FUEL: &str = "fuel allocated for hostcalls has been exhausted";
const HANDLES: &str = "store handle limit exceeded";
const LENDS: &str = "too many active lends";
const INSTANCES: &str = "instance count too high";
const MEMORIES: &str = "memory count too high";
const TABLES: &str = "table count too high";
/// The guest's own allocator returned an invalid result while the host passed it a value.
const REALLOC: &str = "realloc return: ";

const MAX_DETAIL_BYTES: usize = 2 * 1024;

/// The reason why a guest ended before it returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Termination {
    Fuel,
    Deadline,
    Cancelled,
    Memory,
    TableElements,
    Instances,
    Memories,
    Tables,
    Handles,
    Listings,
    OpenFiles,
    /// Other calls hold all descriptors available for guests.
    Descriptors,
    Stack,
    Crossing,
    Boundary,
    /// Its output violates the contract.
    Malformed(String),
    Trapped(TrapReport),
    Exited(i32),
    /// The pool has no slot: other calls hold them all.
    NoSlot,
    /// There is no room for its code: the code of other components takes all of it.
    NoRoomForCode(String),
    /// The guest and the host's memory for it exceed the call's limit.
    HostMemory,
    /// Other calls hold the memory that the host may spend.
    Budget,
    /// A host function panicked, or something else in the host broke.
    Host(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrapReport {
    what: String,
    frames: String,
}

impl Termination {
    /// Classifies an error that ended a guest.
    pub(crate) fn of(error: &wasmtime::Error) -> Self {
        if let Some(stop) = error.downcast_ref::<Stop>() {
            return Self::of_stop(*stop);
        }
        if let Some(I32Exit(status)) = error.downcast_ref() {
            return Termination::Exited(*status);
        }
        if let Some(trap) = error.downcast_ref::<Trap>() {
            return Self::of_trap(*trap, error);
        }
        if error.is::<PoolConcurrencyLimitError>() {
            return Termination::NoSlot;
        }
        if let Some(ResourceTableError::Full) = error.downcast_ref() {
            return Termination::Handles;
        }
        // The system refused the host something, such as a mapping; the guest did not cause it.
        if error.chain().any(|cause| cause.is::<std::io::Error>() || cause.is::<rustix::io::Errno>()) {
            return Termination::Host(clean(&format!("{error:#}"), MAX_DETAIL_BYTES));
        }
        Self::of_message(error)
    }

    /// Classifies why the code of a served component cannot be loaded.
    pub(crate) fn of_refusal(refusal: Refusal) -> Self {
        match refusal.is_for_want_of_room() {
            true => Termination::NoRoomForCode(refusal.to_string()),
            false => Termination::Host(refusal.to_string()),
        }
    }

    fn of_stop(stop: Stop) -> Self {
        match stop {
            Stop::Memory => Termination::Memory,
            Stop::TableElements => Termination::TableElements,
            Stop::Listings => Termination::Listings,
            Stop::OpenFiles => Termination::OpenFiles,
            Stop::Descriptors => Termination::Descriptors,
            Stop::Crossing => Termination::Crossing,
            Stop::Boundary => Termination::Boundary,
            Stop::Fuel => Termination::Fuel,
            Stop::Deadline => Termination::Deadline,
            Stop::Cancelled => Termination::Cancelled,
            Stop::HostMemory => Termination::HostMemory,
            Stop::Budget => Termination::Budget,
        }
    }

    fn of_trap(trap: Trap, error: &wasmtime::Error) -> Self {
        match trap {
            Trap::OutOfFuel => Termination::Fuel,
            Trap::StackOverflow => Termination::Stack,
            Trap::UnreachableCodeReached => {
                Termination::Trapped(TrapReport::new("it aborted (wasm `unreachable` instruction)", error))
            }
            _ => Termination::Trapped(TrapReport::new(
                trap.to_string().trim_start_matches("wasm trap: "),
                error,
            )),
        }
    }

    fn of_message(error: &wasmtime::Error) -> Self {
        let root = error.root_cause().to_string();
        let known = [
            (HOSTCALL_FUEL, Termination::Crossing),
            (HANDLES, Termination::Handles),
            (LENDS, Termination::Handles),
            (INSTANCES, Termination::Instances),
            (MEMORIES, Termination::Memories),
            (TABLES, Termination::Tables),
        ];
        if let Some((_, ending)) = known.into_iter().find(|(message, _)| root.contains(message)) {
            return ending;
        }
        // An error within the guest, or within a function that it called, has guest frames.
        // Without them the guest had returned, and its answer could not be read.
        if error.is::<WasmBacktrace>() || root.contains(REALLOC) {
            Termination::Trapped(TrapReport::new(&root, error))
        } else {
            Termination::Malformed(clean(&root, MAX_DETAIL_BYTES))
        }
    }

    /// Returns the code of this ending.
    pub(crate) fn code(&self) -> Code {
        match self {
            Termination::Fuel => Code::OutOfFuel,
            Termination::Deadline => Code::TimedOut,
            Termination::Cancelled => Code::Cancelled,
            Termination::Memory | Termination::HostMemory => Code::OutOfMemory,
            Termination::TableElements
            | Termination::Instances
            | Termination::Memories
            | Termination::Tables
            | Termination::Handles
            | Termination::Listings
            | Termination::OpenFiles => Code::OutOfResources,
            Termination::Stack => Code::StackOverflow,
            Termination::Crossing | Termination::Boundary => Code::TooLarge,
            Termination::Malformed(_) => Code::MalformedOutput,
            Termination::Trapped(_) => Code::Trapped,
            Termination::Exited(_) => Code::Exited,
            Termination::NoSlot
            | Termination::NoRoomForCode(_)
            | Termination::Budget
            | Termination::Descriptors => Code::Overloaded,
            Termination::Host(_) => Code::HostFailed,
        }
    }

    /// Returns the fault that ends the call. Its sentence names the limit that was reached, its
    /// value, and the place where an operator changes it.
    pub(crate) fn fault(self, tool: &str, under: &CallBounds<'_>) -> Fault {
        self.fault_of(&GuestName::Tool(tool), under)
    }

    /// Returns the fault that ends a gate's question.
    pub(crate) fn fault_of_gate(self, gate: &str, under: &CallBounds<'_>) -> Fault {
        self.fault_of(&GuestName::Gate(gate), under)
    }

    fn fault_of(self, guest: &GuestName<'_>, under: &CallBounds<'_>) -> Fault {
        let code = self.code();
        let limits = under.limits;
        let place = under.host.limit_places.of(guest.scope());
        let met = |limit, value, what| met_limit(guest, limit, value, what, &place);
        let (message, detail) = match self {
            Termination::Fuel => (met("fuel", limits.fuel, "used up its fuel"), None),
            Termination::Memory => {
                (met("memory_bytes", limits.memory_bytes, "asked for more memory than it may have"), None)
            }
            Termination::TableElements => {
                (met("table_elements", limits.table_elements, "grew its tables too large"), None)
            }
            Termination::Instances => {
                (met("instances", limits.instances.into(), "has too many instances"), None)
            }
            Termination::Memories => (met("memories", limits.memories.into(), "has too many memories"), None),
            Termination::Tables => (met("tables", limits.tables.into(), "has too many tables"), None),
            Termination::Handles => (met("handles", limits.handles.into(), "holds too many handles"), None),
            Termination::Listings => {
                (met("listings", limits.listings.into(), "has too many listings open"), None)
            }
            Termination::OpenFiles => {
                (met("open_files", limits.open_files.into(), "has too many files open"), None)
            }
            Termination::Descriptors => (
                format!("Other calls have too many files open for {guest} to open one. Try again later."),
                Some(all_descriptors(under.host)),
            ),
            Termination::Crossing => {
                (met("crossing_bytes", limits.crossing_bytes, "passed too much at once"), None)
            }
            Termination::Boundary => {
                (met("boundary_bytes", limits.boundary_bytes, "passed too much in all"), None)
            }
            Termination::Deadline => (timed_out(guest, under.timeout), None),
            Termination::Cancelled => (format!("{guest} was cancelled."), None),
            Termination::Stack => (recursed_too_deep(guest, under.host), None),
            Termination::Malformed(why) => {
                (format!("{guest} returned a value that violates the contract: {why}."), None)
            }
            Termination::Trapped(trapped) => {
                (format!("{guest} trapped: {}.", trapped.what), Some(trapped.frames))
            }
            Termination::Exited(status) => {
                (format!("{guest} ended itself with the exit status {status} instead of returning."), None)
            }
            Termination::NoSlot => (
                format!("There is no room to run {guest} now: too many calls run or wait. Try again later."),
                Some(room(under.host)),
            ),
            Termination::NoRoomForCode(why) => {
                (format!("There is no room for the code of {guest}. Try again later."), Some(why))
            }
            Termination::HostMemory => {
                let what = "needs more host memory, in addition to its memory_bytes, than it may use";
                (met("host_memory_bytes", limits.host_memory_bytes, what), None)
            }
            Termination::Budget => (
                format!("{guest} needs more host memory than is free now. Try again later."),
                Some(room(under.host)),
            ),
            Termination::Host(why) => {
                (format!("The host failed while it ran {guest}. This is not the guest's fault."), Some(why))
            }
        };
        Fault { code, message, detail: detail.filter(|text| !text.is_empty()) }
    }
}

fn met_limit(guest: &GuestName<'_>, limit: &str, value: u64, what: &str, place: &str) -> String {
    format!("{guest} {what}: its limit is {limit} = {value}. An operator can raise it{place}.")
}

fn recursed_too_deep(guest: &GuestName<'_>, host: &SandboxConfig) -> String {
    format!(
        "{guest} recursed too deep: its limit is stack_bytes = {} for all calls. An operator can raise it{}.",
        host.stack_bytes,
        host.limit_places.of(LimitScope::Host)
    )
}

/// Describes the total number of descriptors for calls, for the operator.
fn all_descriptors(host: &SandboxConfig) -> String {
    format!(
        "all calls together may have {} files and connections open, a quarter of the process's limit (ulimit -n); \
         raise that limit, or lower open_files{}",
        Descriptors::of_process().max(),
        host.limit_places.of(LimitScope::Host)
    )
}

/// The guest that ended, as the sentence names it.
enum GuestName<'a> {
    Tool(&'a str),
    Gate(&'a str),
}

impl GuestName<'_> {
    fn scope(&self) -> LimitScope<'_> {
        match self {
            GuestName::Tool(name) => LimitScope::Attempt(name),
            GuestName::Gate(id) => LimitScope::Gate(id),
        }
    }
}

impl fmt::Display for GuestName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuestName::Tool(name) => write!(f, "Tool '{name}'"),
            GuestName::Gate(id) => write!(f, "Gate '{id}'"),
        }
    }
}

/// The limits of a call, for the sentence about a reached limit.
pub(crate) struct CallBounds<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) timeout: Duration,
    pub(crate) host: &'a SandboxConfig,
}

/// Describes how much room there is for calls, and where to change it.
fn room(host: &SandboxConfig) -> String {
    format!(
        "the limits are concurrent_calls = {}, waiting_calls = {} and memory_budget_bytes = {}, of all calls \
         together, and component_calls = {}, of one component; an operator can raise them{}",
        host.concurrent_calls,
        host.waiting_calls,
        host.memory_budget_bytes,
        host.component_calls(),
        host.limit_places.of(LimitScope::Host)
    )
}

fn timed_out(guest: &GuestName<'_>, timeout: Duration) -> String {
    format!("{guest} timed out after {}", seconds(timeout))
}

impl TrapReport {
    fn new(what: &str, error: &wasmtime::Error) -> Self {
        Self { what: clean(what, MAX_DETAIL_BYTES), frames: frames(error) }
    }
}

/// Returns the functions in which it trapped, innermost first, by the component's names for them.
/// They are not demangled, which would be unbounded work.
fn frames(error: &wasmtime::Error) -> String {
    let mut text = String::new();
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else {
        return text;
    };
    for frame in backtrace.frames() {
        let name = frame
            .func_name()
            .map_or_else(|| format!("function {}", frame.func_index()), |name| clean(name, 120));
        if text.len() + name.len() > MAX_DETAIL_BYTES {
            break;
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{}{name}", if text.is_empty() { "in " } else { ", called by " });
    }
    text
}

#[cfg(test)]
mod tests;
