//! Memory and panics of a guest that judges one call: memory is never freed, and a
//! panic ends the instance, which denies the call.
#![allow(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32;
use core::cell::Cell;
use core::ptr;

const PAGE_BYTES: usize = 64 * 1024;

#[global_allocator]
static MEMORY: Bump = Bump { next: Cell::new(0) };

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    wasm32::unreachable()
}

/// Allocates memory for the values that the host passes.
///
/// # Safety
/// The host calls this as the component model specifies: with a block that was
/// allocated here with this size and alignment, or with none.
#[unsafe(no_mangle)]
unsafe extern "C" fn cabi_realloc(block: *mut u8, old_bytes: usize, align: usize, bytes: usize) -> *mut u8 {
    // SAFETY: as above; an alignment is a power of two.
    let moved = unsafe {
        match (old_bytes, bytes) {
            (0, 0) => return align as *mut u8,
            (0, _) => MEMORY.alloc(Layout::from_size_align_unchecked(bytes, align)),
            (_, _) => MEMORY.realloc(block, Layout::from_size_align_unchecked(old_bytes, align), bytes),
        }
    };
    if moved.is_null() { wasm32::unreachable() } else { moved }
}

/// An allocator that takes memory from behind the guest's own data.
struct Bump {
    /// The first free address; 0 before the first allocation.
    next: Cell<usize>,
}

// SAFETY: the guest has one thread.
unsafe impl Sync for Bump {}

// Comparing and copying bytes comes from the C library. These parts import nothing as
// long as nothing else of the library is used.
#[link(name = "c")]
unsafe extern "C" {
    /// The end of the linker's own data.
    static __heap_base: u8;
}

impl Bump {
    /// Takes `bytes` bytes at or after `start`, growing memory if needed; `None` if
    /// memory cannot grow.
    fn take(&self, start: usize, bytes: usize) -> Option<usize> {
        let end = start.checked_add(bytes)?;
        let memory_bytes = wasm32::memory_size(0) * PAGE_BYTES;
        if end > memory_bytes {
            let pages = (end - memory_bytes).div_ceil(PAGE_BYTES);
            (wasm32::memory_grow(0, pages) != usize::MAX).then_some(())?;
        }
        self.next.set(end);
        Some(start)
    }
}

// SAFETY: each block is handed out once, aligned as requested, within memory that
// exists or was grown.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let next = match self.next.get() {
            0 => &raw const __heap_base as usize,
            next => next,
        };
        match self.take(next.next_multiple_of(layout.align()), layout.size()) {
            Some(start) => start as *mut u8,
            None => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}

    /// Grows the last block in place, so that a text is not copied each time something is
    /// appended.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let start = block as usize;
        if start + layout.size() == self.next.get() {
            return self.take(start, bytes).map_or(ptr::null_mut(), |start| start as *mut u8);
        }
        // SAFETY: the caller guarantees that `layout` belongs to the block.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(bytes));
            }
            moved
        }
    }
}
