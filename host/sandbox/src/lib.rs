//! Runs untrusted agent tools as WebAssembly components. This is the only crate of the host that
//! depends on wasmtime.
//!
//! A [`Sandbox`] is created once. It loads a [`Component`] from a file, with the component's
//! description and imports. A [call](CallContext) of one of its tools runs under [`Limits`] and with
//! [`Grants`] and always produces an [`Attempt`]: a guest cannot cause an `Err`.
//!
//! ```no_run
//! # async fn load() -> Result<(), Box<dyn std::error::Error>> {
//! use tollgate_sandbox::{Sandbox, SandboxConfig};
//!
//! let sandbox = Sandbox::new(SandboxConfig::default())?;
//! let component = sandbox.load("tools/word-count.wasm").await?;
//! for tool in &component.descriptor().tools {
//!     println!("{}: {}", tool.name, tool.description);
//! }
//! # Ok(())
//! # }
//! ```

mod admission;
mod attempt;
mod blocking;
mod budget;
mod call_limit;
mod charge;
mod compile;
mod component;
mod component_places;
mod config;
mod console;
mod deadline;
mod description;
mod descriptors;
mod egress;
mod engine;
mod error;
mod gate;
mod grants;
mod instance;
mod interfaces;
mod ledger;
mod limits;
mod load;
mod meter;
mod nondeterminism;
mod plain;
mod redact;
mod report;
mod runtime;
mod sandbox;
mod share;
mod shared;
mod termination;
mod ticker;
mod v0_1_0;
mod watchdog;

pub use admission::Occupancy;
pub use attempt::{Attempt, CallContext, ChildRunner, Console};
pub use budget::{MemoryBudget, MemoryExhausted, Reservation};
pub use call_limit::{CallLimit, CallPermit};
pub use compile::{COMPILED_AT_ONCE, COMPILED_BYTES_PER_BYTE, compile_child};
pub use component::{Component, DESCRIBE_FUEL, DESCRIBE_TIME};
pub use config::{
    Allocation, COMPILE_CPU, COMPILE_MEMORY_BYTES, COMPILE_WALL, COMPILED_BYTES, Compiler, LOADED_CODE_BYTES,
    SandboxConfig,
};
pub use deadline::{ClockPause, Deadline};
pub use description::OmittedFunction;
pub use descriptors::raise_open_files_limit;
pub use egress::{
    HttpGrant, LOOKUP_TIME, MAX_HEAD_BYTES, MAX_LOOKUPS, MAX_LOOKUPS_OF_CALL, MAX_LOOKUPS_OF_COMPONENT,
    Resolve, Secret, SystemResolver,
};
pub use engine::IMAGE_SLACK_BYTES;
pub use error::{Refusal, SandboxError};
pub use gate::{GateComponent, GateLimits};
pub use grants::{DEFAULT_QUOTA_BYTES, FileAccess, FileGrant, Grants, Import, MAX_MOVED, Power};
pub use instance::files::quota::MAX_MOVED_AT_ONCE;
pub use limits::{LimitOverrides, Limits};
pub use load::{
    MAX_COMPONENT_BYTES, MAX_COMPONENT_ITEMS, MAX_COMPONENTS, MAX_CORE_MODULES, MAX_CUSTOM_BYTES,
    MAX_DECLARATION_BYTES, MAX_IMAGES, MAX_INSTANCE_BYTES, MAX_LOADING_BYTES, MAX_NESTING, is_mostly_holes,
    open_regular, read as read_file, return_freed_memory,
};
pub use report::{Level, ProgressStatus, Report, ReportSink};
pub use runtime::runtime;
pub use sandbox::{Guest, Sandbox};
pub use watchdog::cancelled_and_grace;
