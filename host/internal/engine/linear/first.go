package linear

import "github.com/wfhost/wfhost/abi"

// First is the memory of an instance without an image: the image is made from it, or the module cannot have one. It
// is outside of the Go heap, where growing to 64 MiB would copy the memory several times, and leave garbage that also
// delays the next collection.
type First struct{ base []byte }

// NewFirst reserves the address space of the largest memory. It returns nil if the system cannot do that or has no
// room.
func NewFirst() *First {
	if base := reserve(); base != nil {
		return &First{base: base}
	}
	return nil
}

// Reallocate returns the memory with a new size, or nil if that is over a guest's limit. The memory does not move.
func (f *First) Reallocate(size uint64) []byte {
	if size > abi.MaxMemoryBytes {
		return nil
	}
	return f.base[:size:size]
}

// Free returns the memory to the system. It is idempotent.
func (f *First) Free() {
	if f.base != nil {
		release(f.base)
		f.base = nil
	}
}
