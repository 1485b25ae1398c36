package wazero

import (
	"slices"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/internal/engine/linear"
)

// fork is an instance as it was when a host function was called: what the guest does from then on can be undone.
type fork struct {
	host    engine.Host // who answers the guest when it is undone
	call    call
	args    []uint64
	stack   experimental.Snapshot
	copied  int64  // bytes of the stack
	size    uint32 // of the memory
	memory  *linear.Saved
	globals []uint64
	denied  bool
}

// call is a call of a host function that goes on.
type call struct {
	fn  calls.Func
	mod api.Module
	st  []uint64 // arguments
}

// AllowFork makes the next Call one within which Fork may be called. wazero's interpreter calls itself for each call of the
// guest: it cannot go back to functions that have returned since, and with a snapshot it goes on at the wrong instruction.
func (in *instance) AllowFork() {
	in.forkable = !in.m.machine.cfg.Interpreter && in.memory != nil && in.memory.CanSave()
}

func (in *instance) Fork(h engine.Host) bool {
	a := &in.act
	if !in.forkable || a.fork != nil || a.ctx == nil {
		return false
	}
	f := &fork{host: a.host, call: a.call, args: slices.Clone(a.call.st), size: in.mod.Memory().Size(), copied: sum(in.stacks),
		denied: a.denied}
	f.memory = in.memory.Save(int(f.size))
	if f.memory == nil {
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
	in.memory.Load(f.memory)
	f.memory.Free()
	if !in.resize(int(f.size), false) {
		a.Halt(errCannotUndo)
	}
	for i, g := range in.globals {
		g.Set(f.globals[i])
	}
	a.host, a.call, a.denied = f.host, f.call, f.denied
	a.call.st = slices.Clone(f.args)
	v := f.call.fn(&calls.Frame{Guest: a, Host: f.host, Memory: f.call.mod.Memory(), Stack: a.call.st})
	a.fork = nil
	f.stack.Restore([]uint64{v})
}
