package tool

import "unsafe"

// The memory layout of values that pass between host and guest: the canonical ABI of
// the component model. Fields follow each other, each at a multiple of its alignment;
// text and lists are a pointer and a length.

type reader struct{ at uintptr }

func (r *reader) align(to uintptr) { r.at = (r.at + to - 1) &^ (to - 1) }

func (r *reader) word() uint32 {
	r.align(4)
	value := *(*uint32)(unsafe.Pointer(r.at))
	r.at += 4
	return value
}

func (r *reader) long() uint64 {
	r.align(8)
	value := *(*uint64)(unsafe.Pointer(r.at))
	r.at += 8
	return value
}

// tag reads the byte that indicates whether an option has a value, which follows at
// the alignment.
func (r *reader) tag(align uintptr) bool {
	r.align(align)
	value := *(*byte)(unsafe.Pointer(r.at))
	r.at += align
	return value != 0
}

func (r *reader) option() string {
	if r.tag(4) {
		return r.text()
	}
	r.at += 8
	return ""
}

func (r *reader) list(size uintptr, each func(*reader)) {
	first, count := uintptr(r.word()), uintptr(r.word())
	for at := range count {
		each(&reader{first + at*size})
	}
}

func (r *reader) text() string {
	first, length := r.word(), r.word()
	return unsafe.String((*byte)(unsafe.Pointer(uintptr(first))), length)
}

// writer lays out a record; lists and text are stored elsewhere and kept alive.
type writer struct{ bytes []byte }

func (w *writer) align(to int) {
	for len(w.bytes)%to != 0 {
		w.bytes = append(w.bytes, 0)
	}
}

func (w *writer) byte(value byte) { w.bytes = append(w.bytes, value) }

func (w *writer) bool(value bool) {
	if value {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

func (w *writer) word(value uint32) {
	w.align(4)
	w.bytes = append(w.bytes, byte(value), byte(value>>8), byte(value>>16), byte(value>>24))
}

func (w *writer) text(value string) {
	room := cabiRealloc(nil, 0, 1, uint32(len(value)))
	copy(unsafe.Slice((*byte)(room), len(value)), value)
	w.word(uint32(uintptr(room)))
	w.word(uint32(len(value)))
}

// option writes text as an option, absent if empty.
func (w *writer) option(value string) {
	w.align(4)
	w.bool(value != "")
	w.text(value)
}

func (w *writer) optionalWord(has bool, value uint32) {
	w.align(4)
	w.bool(has)
	w.word(value)
}

func (w *writer) list(count int, each func(at int, element *writer)) {
	var elements writer
	for at := range count {
		each(at, &elements)
	}
	w.word(uint32(uintptr(elements.done())))
	w.word(uint32(count))
}

// done moves the record to memory that the host may read.
func (w *writer) done() unsafe.Pointer {
	room := cabiRealloc(nil, 0, 8, uint32(len(w.bytes)))
	copy(unsafe.Slice((*byte)(room), len(w.bytes)), w.bytes)
	return room
}
