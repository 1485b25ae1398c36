package wazero

import (
	"bytes"
	"fmt"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/wfhost/wfhost/abi"
)

// Reset says how the memory of an instance that is used again becomes that of the image.
type Reset uint8

// The ways, from the cheapest. Each falls back to the next where the system does not know it.
const (
	ResetAuto Reset = iota // the first that works
	ResetScan              // ask the kernel which pages were written (PAGEMAP_SCAN, Linux 6.7), copy these
	ResetDrop              // give all written pages back to the kernel, which shows the image again (Linux)
	ResetCopy              // copy the whole image
	ResetNone              // never use an instance again
)

var resetNames = [...]string{ResetAuto: "auto", ResetScan: "scan", ResetDrop: "drop", ResetCopy: "copy", ResetNone: "none"}

// ParseReset reads a name: auto, scan, drop, copy or none. The empty one is auto.
func ParseReset(name string) (Reset, error) {
	if name == "" {
		return ResetAuto, nil
	}
	for r, n := range resetNames {
		if n == name {
			return Reset(r), nil
		}
	}
	return 0, fmt.Errorf("a reset is one of %q, got %q", resetNames, name)
}

// linear is the memory of one instance. The guest's view of it is a prefix of base.
type linear struct {
	im     *image
	base   []byte
	mapped bool  // base is a mapping of the image
	high   int   // bytes that the guest has had since the last reset
	cut    int   // if not 0: the next Reallocate cuts the memory to this size
	kept   int64 // bytes of memory that it keeps between activations
}

// newLinear maps the image, or copies it.
func newLinear(im *image) *linear {
	l := &linear{im: im, base: im.mapped()}
	if l.mapped = l.base != nil; !l.mapped {
		l.base = append(make([]byte, 0, len(im.memory)+len(im.memory)/4), im.memory...)
	}
	l.high = len(im.memory)
	return l
}

// Allocate makes the memory the one of an instance that is being instantiated.
func (l *linear) Allocate(uint64, uint64) experimental.LinearMemory { return l }

// Reallocate gives the memory with a new size: at instantiation that of the image, whatever the module declares,
// and later what a memory.grow asks for. While cut is set, that is the size: wazero
// takes the length of what it is given, and hands it to the compiled code.
func (l *linear) Reallocate(size uint64) []byte {
	n := int(min(size, abi.MaxMemoryBytes+1))
	if n = max(n, len(l.im.memory)); l.cut > 0 {
		n = l.cut
	}
	if n > abi.MaxMemoryBytes {
		return nil
	}
	if l.mapped {
		l.high = max(l.high, n)
		return l.base[:n:n]
	}
	if n > cap(l.base) {
		l.base = append(make([]byte, 0, min(2*n, abi.MaxMemoryBytes)), l.base...)
	}
	if n > len(l.base) {
		l.base = l.base[:n] // zero: it is cleared when it is cut
	}
	l.high = max(l.high, n)
	return l.base[:n:n]
}

// resident gives the bytes that are not shared with the image.
func (l *linear) resident() int64 {
	if l.mapped {
		return l.residentMapped()
	}
	return int64(cap(l.base))
}

// Free gives the memory back to the system.
func (l *linear) Free() {
	if l.mapped {
		l.unmap()
	}
	l.base = nil
}

// maxSpareBytes is how much more than the image a memory may hold on to between activations. A guest that once
// needed much does not keep it.
const maxSpareBytes = 1 << 20

// restore makes the memory that of the image again. It may move.
func (l *linear) restore() {
	if l.mapped {
		l.restoreMapped()
		l.high = len(l.im.memory)
		return
	}
	n := copy(l.base[:l.high], l.im.memory)
	clear(l.base[n:l.high])
	l.base, l.high, l.kept = l.base[:n], n, int64(cap(l.base))
	if cap(l.base) <= n+n/4+maxSpareBytes {
		return
	}
	l.base = append(make([]byte, 0, n+n/4), l.im.memory...)
}

// canSave tells whether save is worth while: where the whole memory is copied, a copy of the run may be cheaper.
func (l *linear) canSave() bool { return l.mapped || len(l.im.memory) <= maxSave }

// maxSave bounds what is copied of a memory whose pages that were written are not known.
const maxSave = 4 << 20

// save keeps what differs from the image in a memory of a size, nil if it is too much.
func (l *linear) save(size int) []saved {
	if l.mapped {
		if parts, ok := l.saveMapped(); ok {
			return parts
		}
	}
	if size > maxSave {
		return nil
	}
	return []saved{{0, bytes.Clone(l.base[:size])}}
}

// load makes the memory what it was when it was saved.
func (l *linear) load(parts []saved) {
	if l.mapped {
		l.restoreMapped()
	} else {
		n := copy(l.base[:l.high], l.im.memory)
		clear(l.base[n:l.high])
	}
	for _, p := range parts {
		copy(l.base[p.at:], p.bytes)
	}
}
