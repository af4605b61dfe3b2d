//! From a file that nobody trusts to a component that may be called.
//!
//! Each step is one function and refuses with a sentence: the file is opened once
//! and read ([`file`]), its bytes are told from others ([`identity`]), checked
//! ([`bytes`]), counted ([`census`]) and compiled ([`compile`](crate::compile)) or their code is taken from the
//! cache ([`cache`]), the code is made callable ([`native`]), its imports are compared
//! with what this host knows ([`imports`]), and it is asked to describe itself, sealed.
//! Every step works on the bytes that were read; the file is never opened again.

mod cache;
mod census;
mod file;
mod identity;
mod images;
mod imports;
mod loaded;
mod native;
mod private_dir;
mod rewrite;
mod validate;

pub(crate) use cache::{Cache, Words};
pub use census::{
    IMAGE_SLACK_BYTES, MAX_COMPONENT_ITEMS, MAX_COMPONENTS, MAX_CORE_MODULES, MAX_IMAGES, MAX_NESTING,
};
pub(crate) use file::Opened;
pub use file::{open_regular, read};
pub use identity::digest;
pub(crate) use identity::{Fingerprint, Identity};
pub(crate) use imports::{
    Exports, check_gate_exports, exports_a_gate, known_imports, read_exports, read_imports, refuse_imports,
};
pub use loaded::LOADED_CODE_BYTES;
pub(crate) use loaded::{CodeMemory, CodeShare, LoadedCode};
pub(crate) use native::Artifact;
#[cfg(target_os = "linux")]
pub(crate) use native::own_process;
pub(crate) use validate::{ValidatedBytes, check};

/// The largest component that is read, in bytes.
pub const MAX_COMPONENT_BYTES: u64 = 64 << 20;
/// The most bytes of custom sections (names, debug information) that reach the compiler;
/// beyond that they are left out.
pub const MAX_CUSTOM_BYTES: u64 = 1 << 20;
