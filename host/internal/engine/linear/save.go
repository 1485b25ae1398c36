package linear

import (
	"bytes"
	"sync"
)

// Saved is an earlier state of a memory: the parts that differed from the image, in ascending order.
type Saved struct {
	parts []part
	all   *[]byte // from savePool; nil if the parts are not
	freed bool
}

// part is a piece of a memory.
type part struct {
	at    int
	bytes []byte
}

func (p *part) end() int { return p.at + len(p.bytes) }

// Bytes returns the size of the parts.
func (s *Saved) Bytes() (n int64) {
	for _, p := range s.parts {
		n += int64(len(p.bytes))
	}
	return n
}

// Free makes the buffer of s available to later calls of Save. s must not be loaded afterwards.
func (s *Saved) Free() {
	if s.all != nil && cap(*s.all) <= maxSpareSave {
		savePool.Put(s.all)
	}
	s.parts, s.all, s.freed = nil, nil, true
}

// savePool holds buffers for Save, since one body often follows another.
var savePool = sync.Pool{New: func() any { return new([]byte) }}

// maxSpareSave is the size of the largest buffer that is pooled. Most guests write some hundred kilobytes.
const maxSpareSave = 1 << 20

// CanSave reports whether Save is worthwhile: if it must copy a whole large memory, a copy of the run may be cheaper.
func (m *Memory) CanSave() bool { return m.mapped || len(m.im.bytes) <= maxSave }

// maxSave bounds the bytes that Save copies and the written pages that Diff compares.
const maxSave = 4 << 20

// Save saves a memory of the given size, or returns nil if that is too much.
func (m *Memory) Save(size int) *Saved {
	if m.mapped {
		if s, ok := m.saveMapped(); ok {
			return s
		}
	}
	if size > maxSave {
		return nil
	}
	return &Saved{parts: []part{{0, bytes.Clone(m.base[:size])}}}
}

// Load restores the saved state of the memory. The caller sets its size.
func (m *Memory) Load(s *Saved) {
	if s.freed {
		panic("linear: Load after Free")
	}
	switch {
	case m.mapped && s.all != nil && m.loadMapped(s):
		return
	case m.mapped:
		m.restoreMapped()
	default:
		m.undo(0, m.high)
	}
	for _, p := range s.parts {
		copy(m.base[p.at:], p.bytes)
	}
}

// undo resets a part of the memory to the image, or to zero beyond the image.
func (m *Memory) undo(from, to int) {
	end := min(max(from, len(m.im.bytes)), to) // end of the image's part
	copy(m.base[from:end], m.im.bytes[min(from, len(m.im.bytes)):])
	clear(m.base[end:to])
}

// undoTo restores the given dirty pages to the saved state, and reports whether they include all of it.
func (m *Memory) undoTo(s *Saved, dirty []region) bool {
	parts, loaded := s.parts, 0
	for _, r := range dirty {
		for at, end := int(r.start), int(r.end); at < end; { //nolint:gosec // within the memory
			for len(parts) > 0 && parts[0].end() <= at {
				parts = parts[1:]
			}
			next := end // start of the saved part
			if len(parts) > 0 {
				next = min(parts[0].at, end)
			}
			if at < next {
				m.undo(at, next)
				at = next
				continue
			}
			n := copy(m.base[at:end], parts[0].bytes[at-parts[0].at:])
			at, loaded = at+n, loaded+n
		}
	}
	return int64(loaded) == s.Bytes()
}
