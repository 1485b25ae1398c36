package wazero

import (
	"slices"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wfhost/wfhost/host/internal/engine"
)

// fork is an instance as it was when a host function was called: what the guest does from then on can be undone.
type fork struct {
	host    engine.Host // who answers the guest when it is undone
	call    call
	args    []uint64
	stack   experimental.Snapshot
	size    uint32 // of the memory
	memory  []saved
	globals []uint64
}

// call is a call of a host function that goes on.
type call struct {
	fn  hostFunc
	mod api.Module
	st  []uint64 // arguments
}

// saved is a part of the memory that differs from the image.
type saved struct {
	at    int
	bytes []byte
}

// AllowFork makes the next Call one within which Fork may be called.
func (in *instance) AllowFork() { in.forkable = in.linear != nil && in.linear.canSave() }

func (in *instance) Fork(h engine.Host) bool {
	a := &in.act
	if !in.forkable || a.fork != nil || a.ctx == nil {
		return false
	}
	f := &fork{host: a.host, call: a.call, args: slices.Clone(a.call.st), size: in.mod.Memory().Size()}
	if f.memory = in.linear.save(int(f.size)); f.memory == nil {
		return false
	}
	for _, g := range in.globals {
		f.globals = append(f.globals, g.Get())
	}
	f.stack = experimental.GetSnapshotter(a.ctx).Snapshot()
	a.fork, a.host, in.forked = f, h, true
	return true
}

// undo makes the instance what it was when it was forked, and repeats the call of the host in which that was, which
// may have another answer now. The guest goes on behind it.
func (a *activation) undo() {
	f, in := a.fork, a.in
	if !in.resize(int(f.size), func() { in.linear.load(f.memory) }) {
		a.halt(errCannotUndo)
	}
	for i, g := range in.globals {
		g.Set(f.globals[i])
	}
	a.host, a.call = f.host, f.call
	a.call.st = slices.Clone(f.args)
	v := f.call.fn(&frame{a: a, h: f.host, mem: f.call.mod.Memory(), st: a.call.st})
	a.fork = nil
	f.stack.Restore([]uint64{v})
}
