// Package linear manages the memory of one instance, and resets it to the image of its module: it finds and undoes
// what the guest wrote, without copying the rest.
package linear

import "github.com/wfhost/wfhost/abi"

// Memory is the memory of one instance. The guest's view of it is a prefix of base.
type Memory struct {
	im     *Image
	base   []byte
	mapped bool  // base is a mapping of the image
	high   int   // the largest size since the last reset
	held   int64 // unshared bytes when it was restored
	kept   int64 // unshared bytes that it keeps between activations
	// restored says that the memory equals the image already.
	restored bool
}

// New maps or copies the image. The image must not be closed yet; the memory uses it until Free.
func New(im *Image) *Memory {
	im.users.Add(1)
	m := &Memory{im: im, base: im.mapped()}
	m.mapped = m.base != nil
	if !m.mapped {
		m.base = append(make([]byte, 0, len(im.bytes)+len(im.bytes)/4), im.bytes...)
	}
	m.high = len(im.bytes)
	return m
}

// Resize returns the memory with a new size, larger or smaller, for the guest to use, or nil if that is over a
// guest's limit. The memory may have moved.
func (m *Memory) Resize(n int) []byte {
	if n > abi.MaxMemoryBytes {
		return nil
	}
	if m.mapped {
		m.high = max(m.high, n)
		return m.base[:n:n]
	}
	if n > cap(m.base) {
		m.base = append(make([]byte, 0, min(2*n, abi.MaxMemoryBytes)), m.base...)
	}
	if n > len(m.base) {
		m.base = m.base[:n] // zero: it is cleared when it is cut
	}
	m.high = max(m.high, n)
	return m.base[:n:n]
}

// Mapped reports whether the memory is a mapping of the image, not a copy.
func (m *Memory) Mapped() bool { return m.mapped }

// Resident returns the bytes that are not shared with the image.
func (m *Memory) Resident() int64 {
	if m.mapped {
		return m.residentMapped()
	}
	return int64(cap(m.base))
}

// ResidentAtRestore returns the unshared bytes that the memory had when it was restored.
func (m *Memory) ResidentAtRestore() int64 { return m.held }

// Kept returns the unshared bytes that the memory keeps between activations.
func (m *Memory) Kept() int64 { return m.kept }

// Free returns the memory to the system. It is idempotent.
func (m *Memory) Free() {
	if m.base == nil {
		return
	}
	if m.mapped {
		m.unmap()
	}
	m.base = nil
	m.im.leave()
}

// MaxSpareBytes is how much more than the image a memory may keep between activations, so that a peak does not last.
const MaxSpareBytes = 1 << 20

// Restore makes the memory equal to the image, and reports whether it has moved. The caller sets its size.
func (m *Memory) Restore() (moved bool) {
	if m.mapped {
		m.restoreMapped()
		m.high = len(m.im.bytes)
		return false
	}
	m.held = m.Resident()
	m.undo(0, m.high)
	n := min(m.high, len(m.im.bytes))
	m.base, m.high = m.base[:n], n
	moved = cap(m.base) > n+n/4+MaxSpareBytes
	if moved {
		m.base = append(make([]byte, 0, n+n/4), m.im.bytes...)
	}
	m.kept = int64(cap(m.base))
	return moved
}
