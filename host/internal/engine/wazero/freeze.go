package wazero

import (
	"crypto/sha256"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/linear"
)

// frozen is how a guest without a stack differs from the image of its module: a few thousand bytes in some dozens of
// pages for a waiting Go guest.
type frozen struct {
	image   [sha256.Size]byte // the image that it differs from
	size    int               // of the memory
	globals []uint64          // of the instance
	memory  linear.Delta
}

// frozenBytes is the size of a frozen guest without its memory and globals.
const frozenBytes = 128

func (f *frozen) Bytes() int64 { return frozenBytes + f.memory.Bytes() + 8*int64(len(f.globals)) }

// errNotFrozen stops a guest that continued although it was told to return.
var errNotFrozen error = &engine.Trap{Kind: engine.TrapGuest,
	Message: "the workflow was frozen by wait_event, and called the host before it returned from its entry point"}

// Freezes notes that the guest must return.
func (a *activation) Freezes() bool {
	a.frozen = a.in != nil
	return a.frozen
}

// Freeze compares the written pages with the image, and resets them to it in the same pass.
func (in *instance) Freeze() (engine.Frozen, bool) {
	if in.memory == nil || !in.act.frozen || in.broken {
		return nil, false
	}
	size := int(in.mod.Memory().Size())
	delta, ok := in.memory.Diff(size)
	if !ok {
		return nil, false
	}
	f := &frozen{image: in.memory.image.id, size: size, globals: make([]uint64, len(in.globals)), memory: delta}
	for i, g := range in.globals {
		f.globals[i] = g.Get()
	}
	return f, true
}

// Thaw applies the differences to the instance.
func (in *instance) Thaw(fz engine.Frozen) bool {
	f, ok := fz.(*frozen)
	if !ok || in.memory == nil || f.image != in.memory.image.id || !in.memory.Mapped() || !in.resize(f.size, false) {
		return false
	}
	in.memory.Patch(f.memory, f.size)
	for i, g := range in.globals {
		g.Set(f.globals[i])
	}
	return true
}
