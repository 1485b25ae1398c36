package linear

import "bytes"

// Saved is how a memory was: the parts of it that differed from the image.
type Saved []part

// part is a piece of a memory.
type part struct {
	at    int
	bytes []byte
}

// Bytes returns what it takes.
func (s Saved) Bytes() (n int64) {
	for _, p := range s {
		n += int64(len(p.bytes))
	}
	return n
}

// CanSave tells whether Save is worth while: where the whole memory is copied, a copy of the run may be cheaper.
func (m *Memory) CanSave() bool { return m.mapped || len(m.im.bytes) <= maxSave }

// maxSave bounds what is copied of a memory whose pages that were written are not known.
const maxSave = 4 << 20

// Save keeps what differs from the image in a memory of a size, nil if it is too much.
func (m *Memory) Save(size int) Saved {
	if m.mapped {
		if parts, ok := m.saveMapped(); ok {
			return parts
		}
	}
	if size > maxSave {
		return nil
	}
	return Saved{{0, bytes.Clone(m.base[:size])}}
}

// Load makes the memory what it was when it was saved. Its size is for the caller to set.
func (m *Memory) Load(s Saved) {
	if m.mapped {
		m.restoreMapped()
	} else {
		n := copy(m.base[:m.high], m.im.bytes)
		clear(m.base[n:m.high])
	}
	for _, p := range s {
		copy(m.base[p.at:], p.bytes)
	}
}
