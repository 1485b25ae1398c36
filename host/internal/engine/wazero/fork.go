package wazero

import (
	"slices"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/internal/engine/linear"
)

// fork is the state of an instance when a host function was called, to which undo returns it.
type fork struct {
	host    engine.Host // answers the guest after undo
	call    call
	args    []uint64
	stack   experimental.Snapshot
	copied  int64  // bytes of the stack
	size    uint32 // of the memory
	memory  *linear.Saved
	globals []uint64
	denied  bool
}

// call is a call of a host function in progress.
type call struct {
	fn  calls.Func
	mod api.Module
	st  []uint64 // arguments
}

// AllowFork allows Fork within the next Call. It does nothing with the interpreter: wazero's interpreter recurses for
// each call of the guest, so it cannot return to frames that are gone, and with a snapshot it continues at the wrong
// instruction.
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

// undo returns the instance to its state at the fork and repeats the host call that it was in, which may get another
// answer now. The guest continues after that call.
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
