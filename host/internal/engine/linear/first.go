package linear

import "github.com/wfhost/wfhost/abi"

// First is the memory of an instance that has no image yet, because the image is made of it, or because its module cannot have
// one. It is not on the Go heap: there, 64 MiB that a guest grows to would be copied several times, and stay as garbage until the
// next collection, which they put off.
type First struct{ base []byte }

// NewFirst reserves the address space of the largest memory. nil if the system has no room, or cannot.
func NewFirst() *First {
	if base := reserve(); base != nil {
		return &First{base: base}
	}
	return nil
}

// Reallocate returns the memory with a new size, nil if that is more than a guest may have. It does not move.
func (f *First) Reallocate(size uint64) []byte {
	if size > abi.MaxMemoryBytes {
		return nil
	}
	return f.base[:size:size]
}

// Free gives the memory back to the system. Calling it again does nothing.
func (f *First) Free() {
	if f.base != nil {
		release(f.base)
		f.base = nil
	}
}
