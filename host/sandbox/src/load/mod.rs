//! Loads a component from an untrusted file.
//!
//! Each step is one function that refuses with a sentence. The file is opened once and read
//! ([`file`]). Its bytes are identified ([`identity`]), checked ([`validate`]), counted ([`census`])
//! and compiled ([`compile`](crate::compile)), or their code is taken from the cache ([`cache`]).
//! The code is made callable ([`native`]) and its imports are compared with those that this host
//! provides ([`imports`]). Finally the component is asked to describe itself, sealed. Every step
//! uses the bytes that were read; the file is never opened again.

mod cache;
pub(crate) mod census;
mod file;
mod identity;
mod images;
mod imports;
mod loaded;
mod native;
mod private_dir;
mod rewrite;
mod validate;

pub(crate) use cache::{Cache, CachedDescription};
pub use census::{
    MAX_COMPONENT_ITEMS, MAX_COMPONENTS, MAX_CORE_MODULES, MAX_DECLARATION_BYTES, MAX_IMAGES,
    MAX_INSTANCE_BYTES, MAX_NESTING,
};
pub(crate) use file::OpenedFile;
pub use file::{is_mostly_holes, open_regular, read};
pub(crate) use identity::{Fingerprint, Identity, Origin};
pub(crate) use imports::{
    Exports, check_gate_exports, exports_a_gate, known_imports, read_exports, read_imports, refuse_imports,
};
pub(crate) use loaded::{CodeMemory, CodeShare, DescriptionShare, FileShare, LoadedCode};
pub(crate) use native::Artifact;
#[cfg(target_os = "linux")]
pub(crate) use native::own_process;
pub use native::return_freed_memory;
pub(crate) use validate::{ValidatedBytes, check};

/// The maximum size of a component in bytes.
pub const MAX_COMPONENT_BYTES: u64 = 64 << 20;
/// The maximum size of all files that are being checked and compiled, in bytes: as much as one may have.
pub const MAX_LOADING_BYTES: u64 = MAX_COMPONENT_BYTES;
/// The maximum number of bytes of custom sections (names, debug information) that reach the
/// compiler; the rest is left out.
pub const MAX_CUSTOM_BYTES: u64 = 1 << 20;
