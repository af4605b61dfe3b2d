package tool

import "unsafe"

// Memory for values that pass between host and guest.

// kept protects it from the garbage collector; an instance serves one call, so
// nothing is ever released.
var kept [][]uint64

// running is false until Go's runtime has started. The runtime itself calls the host
// while starting and needs memory for that.
var running bool

func init() { running = true }

//go:linkname sbrk runtime.sbrk
func sbrk(size uintptr) unsafe.Pointer

// A garbage collection reads the clock, but the component model forbids calling the
// host from within cabi_realloc: meanwhile the adapter returns the last reading.
//
//go:wasmimport wasi_snapshot_preview1 adapter_monotonic_clock_set_paused
func pauseClock(paused bool)

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, _, newSize uint32) unsafe.Pointer {
	if newSize == 0 {
		return unsafe.Pointer(uintptr(8))
	}
	room := allocate(newSize)
	if oldSize > 0 {
		copy(unsafe.Slice((*byte)(room), newSize), unsafe.Slice((*byte)(old), oldSize))
	}
	return room
}

func allocate(size uint32) unsafe.Pointer {
	size = (size + 7) &^ 7
	if !running {
		return unsafe.Pointer((uintptr(sbrk(uintptr(size)+8)) + 7) &^ 7)
	}
	pauseClock(true)
	words := make([]uint64, size/8)
	kept = append(kept, words)
	pauseClock(false)
	return unsafe.Pointer(&words[0])
}
