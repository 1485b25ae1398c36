package linear

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
)

// Delta is how a memory differs from its image, or from its model: the first memory of that image that was compared.
// Guests often wait at the same place as the model, so most of what differs from the image is equal in all of them.
type Delta struct {
	from *model
	// parts repeats: the number of equal granules, the number of differing granules, and the bytes of the differing
	// granules. The numbers are unsigned LEB128.
	parts []byte
}

// Bytes returns the size of the delta.
func (d Delta) Bytes() int64 { return int64(cap(d.parts)) }

// model is the memory that the other memories of an image are compared with.
type model struct {
	parts []byte // how it differs from the image
	pages map[int]*modelPage
	order []int // the offsets of the pages, ascending
}

// modelPage is a page that differs from the image.
type modelPage struct {
	bytes [pageBytes]byte
	mask  uint64 // a bit for each block that differs
}

const (
	// granule is the resolution of the comparison: a finer one would cost more for positions than it saves.
	granule = 16
	// block and stretch are compared at once. They are larger than a granule, since most of a page is unchanged.
	block   = 64
	stretch = 512
	// pageBytes is the smallest page size of a system, and has as many blocks as a mask has bits.
	pageBytes = 64 * block
	// maxModelPages bounds the model, which stays in memory with the image.
	maxModelPages = 128
)

// Diff returns how a memory of that size differs, and undoes what was written in the same pass. The caller must call
// Restore before the memory is written to: Restore does not look for written pages a second time. Diff returns false
// and changes nothing if the system does not report written pages, or if too much was written.
func (m *Memory) Diff(size int) (Delta, bool) {
	dirty, done, ok := m.dirty(size)
	if !ok {
		return Delta{}, false
	}
	defer done()
	if written(dirty) > maxSave {
		return Delta{}, false
	}
	from := m.im.model.Load()
	d := differ{m: m, size: size, model: from, parts: partsPool.Get().(*[]byte)} //nolint:forcetypeassert // it holds nothing else
	d.compare(dirty)
	parts := bytes.Clone(*d.parts)
	*d.parts = (*d.parts)[:0]
	partsPool.Put(d.parts)
	m.held, m.restored = int64(written(dirty)), true
	if from == nil {
		m.im.model.CompareAndSwap(nil, m.im.newModel(parts))
	}
	return Delta{from, parts}, true
}

// partsPool holds buffers for the parts of a delta.
var partsPool = sync.Pool{New: func() any { return new([]byte) }}

// written returns the number of bytes of the pages.
func written(dirty []region) (n uint64) {
	for _, r := range dirty {
		n += r.end - r.start
	}
	return n
}

// differ collects how a memory differs.
type differ struct {
	m        *Memory
	size     int
	model    *model // nil: the image
	parts    *[]byte
	end      int // of the newest part
	from, to int // the part in progress
}

// zeros is the initial content of memory beyond the image.
var zeros [pageBytes]byte

// compare compares the written pages, and the pages where the model differs from the image.
func (d *differ) compare(dirty []region) {
	var others []int
	if d.model != nil {
		others = d.model.order
	}
	for _, r := range dirty {
		for at := int(r.start); at < int(r.end); at += pageBytes {
			for len(others) > 0 && others[0] < at {
				d.page(others[0], false)
				others = others[1:]
			}
			if len(others) > 0 && others[0] == at {
				others = others[1:]
			}
			d.page(at, true)
		}
	}
	for _, at := range others {
		if at < d.size {
			d.page(at, false)
		}
	}
}

// page compares a page, and resets it to the image if it was written.
func (d *differ) page(at int, written bool) {
	var ref *modelPage
	if d.model != nil {
		ref = d.model.pages[at]
	}
	changed := uint64(0)
	if ref != nil {
		changed = ref.mask
	}
	first := d.m.im.page(at)
	is, was := (*[pageBytes]byte)(d.m.base[at:]), first
	if ref != nil {
		was = &ref.bytes
	}
	for i := 0; i < pageBytes; i += stretch {
		if *(*[stretch]byte)(is[i:]) != *(*[stretch]byte)(was[i:]) {
			changed |= d.stretch(at, i, is, was)
		}
	}
	d.flush()
	for ; written && changed != 0; changed &= changed - 1 {
		i := bits.TrailingZeros64(changed) * block
		*(*[block]byte)(is[i:]) = *(*[block]byte)(first[i:])
	}
}

// stretch adds the differing granules of a stretch of the page at an offset, and returns the mask of differing
// blocks.
func (d *differ) stretch(at, from int, is, was *[pageBytes]byte) (changed uint64) {
	for b := from; b < from+stretch; b += block {
		if *(*[block]byte)(is[b:]) == *(*[block]byte)(was[b:]) {
			continue
		}
		changed |= 1 << (b / block)
		for i := b; i < b+block; i += granule {
			if *(*[granule]byte)(is[i:]) != *(*[granule]byte)(was[i:]) {
				d.add(at + i)
			}
		}
	}
	return changed
}

// page returns a page of the initial memory.
func (im *Image) page(at int) *[pageBytes]byte {
	if at < len(im.bytes) {
		return (*[pageBytes]byte)(im.bytes[at:])
	}
	return &zeros
}

// add adds a granule.
func (d *differ) add(at int) {
	if at != d.to {
		d.flush()
		d.from = at
	}
	d.to = at + granule
}

// flush writes the part in progress.
func (d *differ) flush() {
	if d.from == d.to {
		return
	}
	p := binary.AppendUvarint(*d.parts, uint64(d.from-d.end)/granule)
	p = binary.AppendUvarint(p, uint64(d.to-d.from)/granule)
	*d.parts = append(p, d.m.base[d.from:d.to]...)
	d.end, d.from = d.to, d.to
}

// newModel returns the model with the given differences from the image, or nil if they span too many pages.
func (im *Image) newModel(parts []byte) *model {
	mo := &model{parts: parts, pages: map[int]*modelPage{}}
	tooMany := false
	walk(parts, func(at int, part []byte) {
		for i := 0; i < len(part); i += granule {
			start := (at + i) / pageBytes * pageBytes
			p := mo.pages[start]
			if p == nil && len(mo.pages) == maxModelPages {
				tooMany = true
				return
			}
			if p == nil {
				p = &modelPage{bytes: *im.page(start)}
				mo.pages[start] = p
				mo.order = append(mo.order, start)
			}
			copy(p.bytes[at+i-start:], part[i:i+granule])
			p.mask |= 1 << ((at + i - start) / block)
		}
	})
	if tooMany {
		return nil
	}
	slices.Sort(mo.order)
	return mo
}

// walk calls visit for the parts of a delta.
func walk(parts []byte, visit func(at int, part []byte)) {
	at := 0
	for len(parts) > 0 {
		same, n := binary.Uvarint(parts)
		parts = parts[n:]
		differ, n := binary.Uvarint(parts)
		parts = parts[n:]
		at += int(same) * granule
		part := parts[:differ*granule]
		visit(at, part)
		at += len(part)
		parts = parts[len(part):]
	}
}

// Patch applies a delta of a memory of that size. The memory must equal the image, have that size, and be Mapped.
func (m *Memory) Patch(d Delta, size int) {
	m.restored = false
	write := func(at int, part []byte) {
		if at < size { // the model may be larger
			copy(m.base[at:size], part)
		}
	}
	if d.from != nil {
		walk(d.from.parts, write)
	}
	walk(d.parts, write)
}
