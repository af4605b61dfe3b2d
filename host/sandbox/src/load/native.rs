//! Machine code becomes callable: the one place with unsafe code in this project.
//!
//! An [`Artefact`] is made of what this host's own compiler wrote, or of what the
//! cache authenticated with a key that only this installation's user can read. There is
//! no other way to one, and nothing else is ever loaded.
#![allow(unsafe_code, reason = "loading machine code cannot be checked by the compiler; see load()")]

use super::images;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Machine code of which it is known who made it.
pub(crate) struct Artefact {
    bytes: Vec<u8>,
    /// Where the code begins; what precedes it is the cache's.
    begins: usize,
}

impl Artefact {
    /// What the compiler of this host wrote, in this process or in a child of it.
    pub(crate) fn compiled(bytes: Vec<u8>) -> Self {
        Self { bytes, begins: 0 }
    }

    /// The part of a cache entry from `begins` on. Only the cache calls this, with
    /// bytes in memory whose authentication succeeded.
    pub(super) fn authenticated(entry: Vec<u8>, begins: usize) -> Self {
        let begins = begins.min(entry.len());
        Self { bytes: entry, begins }
    }

    /// The code.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.begins..]
    }

    /// Makes the code callable. It must be of an engine with the same compatibility
    /// hash, which wasmtime checks once more.
    pub(crate) fn load(&self, engine: &Engine) -> wasmtime::Result<Component> {
        // SAFETY: `deserialize` asks that the bytes are what `precompile_component` wrote,
        // unmodified. They come from this host's own compiler by a pipe or a return value,
        // or they were authenticated after they were read into memory that is ours alone;
        // the file is not read again. Wasmtime copies them before it looks at them.
        #[allow(clippy::disallowed_methods, reason = "the origin of these bytes is known")]
        let component = unsafe { Component::deserialize(engine, self.bytes()) }?;
        images::make(&component);
        Ok(component)
    }
}
