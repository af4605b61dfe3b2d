//! The version of WASI.

/// The latest version of WASI that wasmtime, and so this host, provides. The linker accepts it for
/// older ones.
pub(crate) const WASI_VERSION: &str = "0.2.12";
