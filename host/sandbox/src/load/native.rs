//! Makes machine code callable, and calls the system where no safe form exists. This is the only
//! place with unsafe code in this project.
//!
//! An [`Artifact`] holds the output of this host's own compiler, or bytes that the cache
//! authenticated with a key that only this installation's user can read. It cannot be created in
//! any other way, and nothing else is ever loaded.
#![allow(
    unsafe_code,
    reason = "neither loading machine code nor system calls without a safe form can be checked by the compiler"
)]

use super::images;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Machine code of known origin.
pub(crate) struct Artifact {
    bytes: Vec<u8>,
    /// The start of the code; the bytes before it belong to the cache.
    begins: usize,
    images: u32,
    metadata_bytes: u64,
}

impl Artifact {
    /// Wraps the output of this host's compiler, in this process or in a child of it.
    pub(crate) fn compiled(bytes: Vec<u8>, images: u32, metadata_bytes: u64) -> Self {
        Self { bytes, begins: 0, images, metadata_bytes }
    }

    /// Wraps the part of a cache entry from `begins` on. Only the cache calls this, with bytes in
    /// memory whose authentication succeeded.
    pub(super) fn authenticated(entry: Vec<u8>, begins: usize, images: u32, metadata_bytes: u64) -> Self {
        let begins = begins.min(entry.len());
        Self { bytes: entry, begins, images, metadata_bytes }
    }

    /// Returns the code.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.begins..]
    }

    /// Returns the maximum number of descriptors that the images of its memories take.
    pub(crate) fn images(&self) -> u32 {
        self.images
    }

    /// Returns the host's memory for its types and names once they are loaded, in bytes.
    pub(crate) fn metadata_bytes(&self) -> u64 {
        self.metadata_bytes
    }

    /// Makes the code callable. It must be from an engine with the same compatibility hash, which
    /// wasmtime checks again.
    pub(super) fn load(&self, engine: &Engine) -> wasmtime::Result<Component> {
        // SAFETY: `deserialize` requires the unmodified output of `precompile_component`. The
        // bytes come from this host's own compiler through a pipe or a return value, or they were
        // authenticated after they were read into private memory; the file is not read again.
        // Wasmtime copies them before it examines them.
        #[allow(clippy::disallowed_methods, reason = "the origin of these bytes is known")]
        let component = unsafe { Component::deserialize(engine, self.bytes()) }?;
        images::make(&component);
        Ok(component)
    }
}

/// Bounds the freed memory that the C allocator keeps, so that a process returns to its size after
/// calls that needed much. By default it keeps eight arenas per core, each as large as it ever was,
/// and up to 32 MiB of each large block that was freed. This leaves as many arenas as the
/// [`runtime`](crate::runtime()) has worker threads: with fewer, threads wait for each other. Every
/// ten seconds until the process ends, a thread gives back what the arenas do not use. Programs call this
/// once, when they start. Does nothing with other C libraries than glibc.
pub fn return_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// A block of this size or more has a mapping of its own, which ends when it is freed.
        const OWN_MAPPING_BYTES: i32 = 128 * 1024;
        let arenas = i32::try_from(crate::runtime::threads()).unwrap_or(i32::MAX);
        for (parameter, value) in [(libc::M_ARENA_MAX, arenas), (libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES)] {
            // SAFETY: the arguments are numbers. If a value is refused, nothing changes.
            unsafe { libc::mallopt(parameter, value) };
        }
        let give_back = || loop {
            std::thread::sleep(std::time::Duration::from_secs(10));
            // SAFETY: the argument is a number. Memory in use is not touched.
            unsafe { libc::malloc_trim(0) };
        };
        // Without this thread, the process only stays larger.
        let _ = std::thread::Builder::new().name("tollgate-memory".to_owned()).spawn(give_back);
    }
}

/// System calls on this process that no existing dependency wraps safely. Each returns whether it
/// succeeded.
#[cfg(target_os = "linux")]
pub(crate) mod own_process {
    /// The version of the interface that has 64 capabilities.
    const CAPABILITIES_V3: u32 = 0x2008_0522;

    /// Closes all descriptors beyond the standard streams. The caller has opened none, or no
    /// longer uses them.
    pub(crate) fn close_descriptors() -> bool {
        let (first, last, flags) = (3_u32, u32::MAX, 0_u32);
        // SAFETY: the arguments are numbers. Nothing in the compiler process owns a descriptor
        // beyond the standard streams when it starts.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) == 0 }
    }

    /// Moves this thread, the only one, to new namespaces.
    pub(crate) fn unshare(flags: i32) -> bool {
        // SAFETY: the argument is a number, and no memory is involved.
        unsafe { libc::unshare(flags) == 0 }
    }

    /// Drops all capabilities, including those that programs it starts could gain.
    pub(crate) fn drop_capabilities() -> bool {
        for capability in 0..64_u64 {
            // SAFETY: the arguments are numbers. If the call is not permitted, or the system
            // lacks this capability, nothing changes.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0_u64, 0_u64, 0_u64) };
        }
        // Version and process (0 is this one); then effective, permitted and inheritable, twice,
        // for 64 bits each.
        let (header, none) = ([CAPABILITIES_V3, 0], [0_u32; 6]);
        // SAFETY: both point to as much memory as version 3 of the interface reads. It lives
        // until the call returns and is not written to, because the version is a known one.
        unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) == 0 }
    }
}
