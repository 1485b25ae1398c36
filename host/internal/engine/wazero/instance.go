package wazero

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/linear"
	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

type instance struct {
	m         *module
	mod       api.Module
	memory    *memory // nil: the instance is not reused
	globals   []api.MutableGlobal
	fuel      api.MutableGlobal // nil: the module counts no fuel
	functions map[string]function
	heap      []growing // tables and references
	stacks    []growing // of the functions
	kept      int64     // estimate of what it takes while idle
	forkable  bool      // Fork is allowed in the current or next call
	forked    bool      // since it was taken
	broken    bool      // it did not end by a suspension or a return
	act       activation
	stack     [1]uint64
}

// function is an export that was looked up. It has its own stack.
type function struct {
	api.Function
	results int
}

// findGlobals looks up the exported mutable globals. The fuel counter is the last one.
func (in *instance) findGlobals() {
	for _, g := range in.m.rewritten.Globals {
		mg, _ := in.mod.ExportedGlobal(g.Export).(api.MutableGlobal)
		in.globals = append(in.globals, mg)
	}
	if name := in.m.rewritten.Fuel; name != "" {
		in.fuel, _ = in.mod.ExportedGlobal(name).(api.MutableGlobal)
		in.globals = append(in.globals, in.fuel)
	}
}

func (in *instance) Size() int64 { return int64(in.mod.Memory().Size()) }

func (in *instance) Fuel() int64 {
	if in.fuel == nil {
		return 0
	}
	return int64(in.fuel.Get()) / instrument.Ticks
}

func (in *instance) Resident() int64 { return in.onHeap() + in.ownMemory() }

// ownMemory returns the bytes of the linear memory that are not shared.
func (in *instance) ownMemory() int64 {
	switch {
	case in.mod.IsClosed():
		return 0
	case in.memory == nil:
		return int64(in.mod.Memory().Size())
	}
	return in.memory.Resident()
}

func (in *instance) restoreGlobals() {
	for i, g := range in.globals {
		g.Set(in.memory.image.globals[i])
	}
}

// Release resets the instance and puts it into the pool, or closes it. The reset asks the kernel for the written
// pages, so it also tells what the instance held.
func (in *instance) Release(ctx context.Context) (held int64) {
	held = in.onHeap()
	in.act.fork = nil
	in.kept = in.onHeap()
	most := in.m.Overhead() + linear.MaxSpareBytes
	if in.forked || in.kept > most { // each fork leaves its stack larger than before, and so does a deep call
		clear(in.functions)
		in.stacks = nil
		in.kept = in.onHeap()
	}
	in.act, in.forkable, in.forked = activation{}, false, false
	if in.memory == nil || in.broken || in.mod.IsClosed() || in.kept > most {
		held += in.ownMemory()
		in.close(ctx)
		return held
	}
	reset := in.reset()
	held += in.memory.ResidentAtRestore() // before another goroutine takes it
	in.kept += in.memory.Kept()
	if !reset || !in.keep(ctx) {
		in.close(ctx)
	}
	return held
}

// keep puts the instance into the pool. It returns false if the caller must close it.
func (in *instance) keep(ctx context.Context) bool {
	m := in.m
	if m.closed.Load() {
		return false
	}
	over, kept := m.machine.pool.Put(m, in, in.kept)
	m.machine.closeAll(ctx, over)
	if m.closed.Load() { // closed meanwhile
		m.machine.closeAll(ctx, m.machine.pool.Drop(m))
	}
	return kept
}

func (in *instance) close(ctx context.Context) {
	_ = in.mod.Close(context.WithoutCancel(ctx)) // the instance buffers nothing
}

// reset makes memory and globals equal to the image. Modules whose tables change have no image.
func (in *instance) reset() bool {
	if !in.resize(in.memory.image.memory.Size(), in.memory.Restore()) {
		return false
	}
	in.restoreGlobals()
	return true
}

// resize sets the size of the memory to one that it had before, and tells the compiled code its address if it has
// moved. wazero cannot shrink a memory, but accepts any memory that Reallocate returns for a grow, and that is where
// it is cut.
func (in *instance) resize(size int, moved bool) bool {
	if !moved && int(in.mod.Memory().Size()) == size {
		return true
	}
	in.memory.cut = size
	_, ok := in.mod.Memory().Grow(1)
	in.memory.cut = 0
	return ok && int(in.mod.Memory().Size()) == size
}

// Memory returns the linear memory, not a copy, valid until the guest runs again. Tests use it.
func (in *instance) Memory() []byte {
	mem := in.mod.Memory()
	b, _ := mem.Read(0, mem.Size())
	return b
}

func (in *instance) Hash() [32]byte {
	globals := make([]uint64, 0, len(in.globals))
	for _, g := range in.globals {
		if g != in.fuel { // a thawed guest has used some more
			globals = append(globals, g.Get())
		}
	}
	return engine.Hash(in.Memory(), globals)
}

func (in *instance) function(export string) (function, error) {
	fn, ok := in.functions[export]
	if !ok {
		f := in.mod.ExportedFunction(export)
		if f == nil {
			return fn, fmt.Errorf("the module does not export %s", export)
		}
		fn = function{f, len(f.Definition().ResultTypes())}
		in.stacks = append(in.stacks, stackOf(f))
		in.functions[export] = fn
	}
	return fn, nil
}

func (in *instance) Call(ctx context.Context, export string, h engine.Host) (int32, error) {
	fn, err := in.function(export)
	if err != nil {
		return 0, err
	}
	a := &in.act
	*a = activation{Context: ctx, in: in, host: h}
	in.broken = true // until it has ended properly
	// One slot for the result. wazero writes it through a bare pointer, so it must outlive the call.
	in.stack[0] = 0
	var call context.Context = a
	if in.forkable {
		call = experimental.WithSnapshotter(a)
	}
	err = fn.CallWithStack(call, in.stack[:])
	runtime.KeepAlive(in)
	if err != nil {
		in.broken, a.frozen = a.stop == nil, false
		exit := &engine.Exit{}
		if a.stop != nil && errors.As(a.stop, &exit) {
			if exit.Code != 0 && a.denied {
				return int32(exit.Code), &engine.Trap{Kind: engine.TrapMemory, Message: a.outOfMemory(exit.Error())}
			}
			return int32(exit.Code), nil
		}
		return 0, a.explain(ctx, err, engine.TrapGuest)
	}
	in.broken = false
	if a.frozen {
		return 0, engine.ErrFreeze
	}
	if fn.results == 0 {
		return 0, nil
	}
	return int32(uint32(in.stack[0])), nil
}
